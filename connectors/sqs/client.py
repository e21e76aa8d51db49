"""One client of SQS, with a pool of connections of its own: every call has a deadline, and none is repeated in here.

The client's own repetitions wait for up to minutes, and know neither a newer receipt handle nor a stop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any, Final

from aiobotocore.config import AioConfig
from botocore.exceptions import BotoCoreError

from bridge.core.errors import IllegalStep, Refused
from connectors.sqs.credentials import Found, Session, calm_down
from connectors.sqs.errors import CredentialsRefused, QueueMissing, told, translated
from connectors.sqs.options import SqsOptions
from connectors.sqs.places import Queue, queue_of
from connectors.sqs.skew import Skew

Answer = Mapping[str, Any]

QUICK: Final = 10.0
"""Seconds that any call but a long poll may take."""
_CONNECTED_WITHIN: Final = 5.0
_MARGIN: Final = 8.0
"""Seconds that a long poll may take beyond what it waits, before its connection is given up."""
_CLOSED_WITHIN: Final = 2.0


class Account:
    """What all clients of a stream share: who we are, where SQS is, and how its clock compares."""

    def __init__(self, options: SqsOptions) -> None:
        queue = queue_of(options.queue)
        self.options = options
        self.found = Found(options)
        self.skew = Skew()
        self.region = options.region or queue.region
        self.session = Session(self.found, options.profile)


class Client:
    """See the head of the file. `connections` is how many calls run at once, `waits` how long a receive may wait."""

    def __init__(self, account: Account, connections: int, *, waits: float = 0.0) -> None:
        self._account = account
        self._connections = connections
        self._read_timeout = waits + _MARGIN
        self._stack = AsyncExitStack()
        self._client: Any = None

    async def open(self) -> None:
        """Makes the client, which connects to nothing yet. Raises Refused where it can't be made of the options."""
        calm_down()
        account = self._account
        endpoint = account.options.endpoint
        config = AioConfig(
            connect_timeout=_CONNECTED_WITHIN,
            read_timeout=self._read_timeout,
            max_pool_connections=self._connections,
            retries={"total_max_attempts": 1, "mode": "standard"},
            user_agent_extra="headrace",
        )
        try:
            made = account.session.create_client(
                "sqs",
                region_name=account.region,
                endpoint_url=endpoint,
                verify=False if endpoint is not None and endpoint.startswith("http://") else None,
                config=config,
            )
            self._client = await self._stack.enter_async_context(made)
        except (BotoCoreError, ValueError) as error:
            raise Refused(f"making a client of SQS: {told(error)}") from error

    async def call(self, operation: str, within: float = QUICK, **arguments: Any) -> Answer:
        """`operation` in the client's spelling. Raises Refused or Transient, also when no answer came within so many
        seconds.
        """
        client = self._client
        if client is None:
            raise IllegalStep("the client of SQS is not open")
        sent = time.time()
        try:
            async with asyncio.timeout(within):
                answer: Answer = await getattr(client, operation)(**arguments)
        except Exception as error:
            ours = translated(error, operation)
            if isinstance(ours, CredentialsRefused):
                self._account.found.doubt()
            raise ours from error
        self._account.skew.note(answer, sent)
        return answer

    async def receive(self, wait: float, **arguments: Any) -> Answer:
        """A long poll of `wait` seconds. It must not be cancelled: what it would bring is lent to nobody then."""
        return await self.call("receive_message", wait + _MARGIN, WaitTimeSeconds=int(wait), **arguments)

    async def close(self) -> None:
        """Bounded, and harmless when repeated."""
        self._client = None
        stack, self._stack = self._stack, AsyncExitStack()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSED_WITHIN):
                await stack.aclose()


async def url_of(client: Client, queue: Queue) -> str:
    """Where the queue is. Asks only where no URL was written."""
    if queue.url is not None:
        return queue.url
    whose: dict[str, Any] = {} if queue.account is None else {"QueueOwnerAWSAccountId": queue.account}
    try:
        answer = await client.call("get_queue_url", QueueName=queue.name, **whose)
    except QueueMissing as error:
        raise QueueMissing(f"there is no queue {queue.name!r} that we may see ({error})") from error
    return str(answer["QueueUrl"])
