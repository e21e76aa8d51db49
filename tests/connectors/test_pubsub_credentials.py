"""Access tokens: fetched in time, kept while they are good, and never told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from google.oauth2.credentials import Credentials
from grpc.aio import AioRpcError

from bench.brokers import certificates
from bridge.core.errors import Refused, Transient
from connectors.pubsub import PubSubOptions
from connectors.pubsub.client import Client, GetSubscriptionRequest, Subscription, channel_of
from connectors.pubsub.credentials import Token, Tokens, fetching, in_thread, token_of

NOW = datetime(2026, 12, 1, tzinfo=UTC)


def token(name: str, valid: float = 3600.0) -> Token:
    return Token((("authorization", f"Bearer {name}"),), valid / 2, valid)


class Source:
    """Gives tokens one after the other; an exception among them is raised."""

    def __init__(self, *answers: Token | Exception) -> None:
        self.answers = list(answers)

    def __call__(self) -> Token:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_a_token_is_fetched_once_and_kept() -> None:
    tokens = Tokens(Source(token("one")))
    assert await tokens.metadata() == (("authorization", "Bearer one"),)
    assert await tokens.metadata() == (("authorization", "Bearer one"),)


async def test_a_token_that_was_refused_is_not_used_again() -> None:
    tokens = Tokens(Source(token("one"), token("two")))
    await tokens.metadata()
    tokens.refused()
    assert await tokens.metadata() == (("authorization", "Bearer two"),)


async def test_a_token_that_is_still_good_does_until_there_is_a_new_one() -> None:
    stale = Token((("authorization", "Bearer old"),), 0.0, 3600.0)
    tokens = Tokens(Source(stale, Transient("no route")))
    await tokens.metadata()
    assert await tokens.metadata() == (("authorization", "Bearer old"),)


async def test_no_token_at_all_is_an_error_that_says_why() -> None:
    tokens = Tokens(Source(Refused("there is no account"), Transient("no route")))
    with pytest.raises(Refused, match="there is no account"):
        await tokens.metadata()
    with pytest.raises(Transient, match="no route"):
        await tokens.metadata()


def test_a_token_is_asked_for_again_five_minutes_before_its_end() -> None:
    credentials = Credentials(token="t", expiry=(NOW + timedelta(hours=1)).replace(tzinfo=None))  # type: ignore[no-untyped-call]
    assert token_of(credentials, NOW) == Token((("authorization", "Bearer t"),), 3300.0, 3600.0)


def test_a_short_one_is_asked_for_again_half_way() -> None:
    credentials = Credentials(token="t", expiry=(NOW + timedelta(seconds=60)).replace(tzinfo=None))  # type: ignore[no-untyped-call]
    assert token_of(credentials, NOW)[1:] == (30.0, 60.0)


def test_the_project_that_pays_goes_along() -> None:
    credentials = Credentials(token="t", quota_project_id="payer")  # type: ignore[no-untyped-call]
    assert ("x-goog-user-project", "payer") in token_of(credentials, NOW).metadata


async def test_a_thread_that_hangs_is_not_waited_for() -> None:
    held = threading.Event()
    try:
        with pytest.raises(TimeoutError):
            await in_thread(lambda: held.wait(20), 0.1)
    finally:
        held.set()


# A service account ----------------------------------------------------------------------------------------------------


class TokenServer(HTTPServer):
    """What Google's is to a service account, on 127.0.0.1. `answers` are status and body, one after the other."""

    answers: list[tuple[int, dict[str, object]]]


class _Answer(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        assert isinstance(self.server, TokenServer)
        status, body = self.server.answers.pop(0)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def token_server() -> Iterator[TokenServer]:
    server = TokenServer(("127.0.0.1", 0), _Answer)
    server.answers = []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def key_file(tmp_path: Path, token_server: TokenServer) -> Path:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    path = tmp_path / "key.json"
    path.write_text(
        json.dumps(
            {
                "type": "service_account",
                "client_email": "headrace@acme-prod.iam.gserviceaccount.com",
                "private_key_id": "1",
                "private_key": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
                "token_uri": f"http://127.0.0.1:{token_server.server_port}/token",
            }
        )
    )
    return path


async def test_the_key_of_a_service_account_is_changed_for_a_token(key_file: Path, token_server: TokenServer) -> None:
    token_server.answers = [(200, {"access_token": "fresh", "expires_in": 3600, "token_type": "Bearer"})]
    tokens = Tokens(fetching(str(key_file)))
    assert ("authorization", "Bearer fresh") in await tokens.metadata()


async def test_an_account_that_google_does_not_take_is_for_people(key_file: Path, token_server: TokenServer) -> None:
    token_server.answers = [(400, {"error": "invalid_grant", "error_description": "account not found"})]
    with pytest.raises(Refused, match="invalid_grant"):
        await Tokens(fetching(str(key_file))).metadata()


async def test_a_file_that_holds_no_key_is_told_without_what_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    path.write_text('{"type": "authorized_user", "refresh_token": "secret"}')
    with pytest.raises(Refused, match="holds no key of a service account") as caught:
        await Tokens(fetching(str(path))).metadata()
    assert "secret" not in str(caught.value)


# A regional endpoint --------------------------------------------------------------------------------------------------


@pytest.mark.integration
async def test_an_endpoint_of_google_is_reached_over_tls_with_a_token_and_a_new_one_when_that_is_refused(
    tmp_path: Path, key_file: Path, token_server: TokenServer
) -> None:
    token_server.answers = [
        (200, {"access_token": name, "expires_in": 3600, "token_type": "Bearer"}) for name in ("old", "new")
    ]
    made = certificates.make(tmp_path / "certificates")
    seen: list[str] = []

    async def describe(request: Any, context: Any) -> Any:
        metadata = dict(context.invocation_metadata())
        seen.append(metadata["authorization"])
        assert metadata["x-goog-request-params"] == f"subscription={request.subscription}"
        if len(seen) == 1:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "expired")
        return Subscription(name=request.subscription, topic="t")

    server = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(
        describe, GetSubscriptionRequest.FromString, Subscription.SerializeToString
    )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("google.pubsub.v1.Subscriber", {"GetSubscription": handler}),)
    )
    pem = made.server.read_bytes()
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(pem, pem)]))
    await server.start()
    client = Client(
        PubSubOptions(
            subscription="projects/acme-prod/subscriptions/orders",
            endpoint=f"https://localhost:{port}",
            ca_file=str(made.ca),
            credentials_file=str(key_file),
        )
    )
    try:
        with pytest.raises(AioRpcError, match="UNAUTHENTICATED"):
            await client.described()
        assert (await client.described()).topic == "t"
        await client.described()
    finally:
        await client.aclose()
        await server.stop(None)
    assert seen == ["Bearer old", "Bearer new", "Bearer new"]


@pytest.mark.integration
async def test_a_certificate_that_nobody_knows_is_not_taken(tmp_path: Path) -> None:
    made = certificates.make(tmp_path / "certificates")
    server = grpc.aio.server()
    pem = made.server.read_bytes()
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(pem, pem)]))
    await server.start()
    channel = channel_of(PubSubOptions(subscription="s", endpoint=f"https://localhost:{port}"))
    try:
        with pytest.raises(AioRpcError, match="UNAVAILABLE"):
            await channel.unary_unary("/any/Thing")(b"", timeout=5)
    finally:
        await channel.close()
        await server.stop(None)
