"""The connection to Pub/Sub, and the few calls that we make over it.

They carry plain protobuf messages: the layer that Google's client puts around each (proto-plus) costs ten times what a
message costs without it. The channel is made by us and closed by us, so nothing outlives it.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final
from urllib.parse import quote

import grpc
from google.iam.v1 import iam_policy_pb2
from google.protobuf import empty_pb2
from google.pubsub_v1 import types
from grpc.aio import AioRpcError

from bridge.core.errors import IllegalStep, Refused
from connectors.pubsub.credentials import Metadata, Tokens, fetching
from connectors.pubsub.options import PubSubOptions, is_plain, subscription_of, target_of

# Plain protobuf classes; they have no types of their own.
PubsubMessage: Any = types.PubsubMessage.pb()
StreamingPullRequest: Any = types.StreamingPullRequest.pb()
StreamingPullResponse: Any = types.StreamingPullResponse.pb()
AcknowledgeRequest: Any = types.AcknowledgeRequest.pb()
ModifyAckDeadlineRequest: Any = types.ModifyAckDeadlineRequest.pb()
PublishRequest: Any = types.PublishRequest.pb()
PublishResponse: Any = types.PublishResponse.pb()
GetSubscriptionRequest: Any = types.GetSubscriptionRequest.pb()
Subscription: Any = types.Subscription.pb()
GetTopicRequest: Any = types.GetTopicRequest.pb()
Topic: Any = types.Topic.pb()

_SUBSCRIBER: Final = "/google.pubsub.v1.Subscriber/"
_PUBLISHER: Final = "/google.pubsub.v1.Publisher/"
_IAM: Final = "/google.iam.v1.IAMPolicy/"
_CLOSED_WITHIN: Final = 2.0
_MIB: Final = 1024 * 1024

_SETTINGS: Final = (
    ("grpc.max_receive_message_length", 64 * _MIB),  # a response is far smaller; the default of 4 MiB is not enough
    ("grpc.max_send_message_length", 64 * _MIB),
    ("grpc.max_metadata_size", 4 * _MIB),  # what became of 2,500 ack ids is metadata
    ("grpc.keepalive_time_ms", 30_000),  # a connection that died in silence is found out (B40)
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.use_local_subchannel_pool", 1),  # a connection of our own, gone when the channel is closed
    ("grpc.initial_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 20_000),
    ("grpc.primary_user_agent", "headrace"),
)


class Client:
    """Connects at the first call. Calls raise AioRpcError, and CredentialsRefused or Transient before they begin."""

    def __init__(self, options: PubSubOptions) -> None:
        self.subscription = subscription_of(options)
        self._options = options
        self._channel: Any = None
        self._is_closed = False
        self._tokens = None if is_plain(options) else Tokens(fetching(options.credentials_file))
        self._calls: dict[str, Any] = {}

    # Subscribing -----------------------------------------------------------------------------------------------------

    async def stream(self) -> Any:
        """A streaming pull, before its first request."""
        name = f"{_SUBSCRIBER}StreamingPull"
        if name not in self._calls:
            self._calls[name] = self._opened().stream_stream(
                name,
                request_serializer=StreamingPullRequest.SerializeToString,
                response_deserializer=StreamingPullResponse.FromString,
            )
        return self._calls[name](metadata=await self._metadata("subscription", self.subscription))

    async def settle(self, seconds: int | None, ids: list[str], timeout: float) -> None:
        """Acks (`seconds` None), or sets the deadline to so many seconds from now, 0: gives back at once."""
        if seconds is None:
            name, request = "Acknowledge", AcknowledgeRequest(subscription=self.subscription, ack_ids=ids)
        else:
            name = "ModifyAckDeadline"
            request = ModifyAckDeadlineRequest(
                subscription=self.subscription, ack_ids=ids, ack_deadline_seconds=seconds
            )
        await self._call(_SUBSCRIBER + name, request, empty_pb2.Empty, ("subscription", self.subscription), timeout)

    async def described(self) -> Any:
        """The subscription as the service has it."""
        request = GetSubscriptionRequest(subscription=self.subscription)
        about = ("subscription", self.subscription)
        return await self._call(f"{_SUBSCRIBER}GetSubscription", request, Subscription, about)

    # Publishing, and what we may do ----------------------------------------------------------------------------------

    async def publish(self, topic: str, messages: list[Any]) -> list[str]:
        """Their ids, once the service has them."""
        request = PublishRequest(topic=topic, messages=messages)
        answer = await self._call(f"{_PUBLISHER}Publish", request, PublishResponse, ("topic", topic))
        return list(answer.message_ids)

    async def topic(self, name: str) -> Any:
        return await self._call(f"{_PUBLISHER}GetTopic", GetTopicRequest(topic=name), Topic, ("topic", name))

    async def granted(self, resource: str, permissions: list[str]) -> set[str]:
        """Those that we have. UNIMPLEMENTED on emulators."""
        request = iam_policy_pb2.TestIamPermissionsRequest(resource=resource, permissions=permissions)
        answer = iam_policy_pb2.TestIamPermissionsResponse
        said = await self._call(f"{_IAM}TestIamPermissions", request, answer, ("resource", resource))
        return set(said.permissions)

    # The channel -----------------------------------------------------------------------------------------------------

    async def _call(
        self, name: str, request: Any, answer: Any, about: tuple[str, str], timeout: float | None = None
    ) -> Any:
        if name not in self._calls:
            self._calls[name] = self._opened().unary_unary(
                name, request_serializer=type(request).SerializeToString, response_deserializer=answer.FromString
            )
        metadata = await self._metadata(*about)
        try:
            return await self._calls[name](request, timeout=timeout or self._options.request_timeout, metadata=metadata)
        except AioRpcError as error:
            self.heed(error)
            raise

    def heed(self, error: AioRpcError) -> None:
        """A token that was refused is not used again."""
        if self._tokens is not None and error.code() is grpc.StatusCode.UNAUTHENTICATED:
            self._tokens.refused()

    async def _metadata(self, name: str, resource: str) -> Metadata:
        """The service finds the region of a resource by its name."""
        routing = ("x-goog-request-params", f"{name}={quote(resource)}")
        return (routing,) if self._tokens is None else (routing, *await self._tokens.metadata())

    def _opened(self) -> Any:
        if self._is_closed:
            raise IllegalStep("the client is closed")
        if self._channel is None:
            self._channel = channel_of(self._options)
        return self._channel

    async def aclose(self) -> None:
        self._is_closed = True
        channel, self._channel = self._channel, None
        self._calls.clear()
        if channel is not None:
            try:
                async with asyncio.timeout(_CLOSED_WITHIN):
                    await channel.close(None)
            except TimeoutError:
                pass


def channel_of(options: PubSubOptions) -> Any:
    """Raises Refused for certificates that can't be read."""
    if is_plain(options):
        settings = [*_SETTINGS, ("grpc.enable_http_proxy", 0)]  # an emulator is near
        return grpc.aio.insecure_channel(target_of(options), options=settings)
    roots = None
    if options.ca_file is not None:
        try:
            with open(options.ca_file, "rb") as file:
                roots = file.read()
        except OSError as error:
            raise Refused(f"`ca_file` {options.ca_file}: can't be read ({error.strerror})") from error
    credentials = grpc.ssl_channel_credentials(root_certificates=roots)
    return grpc.aio.secure_channel(target_of(options), credentials, options=list(_SETTINGS))
