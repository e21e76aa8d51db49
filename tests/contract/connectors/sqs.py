"""SQS behind the door of the contract suite: a standard queue, and a FIFO queue."""

from __future__ import annotations

from collections.abc import Sequence

from bench.brokers.sqs import queues
from bench.brokers.sqs.faults import Faults
from bridge.ports import Producer
from connectors.sqs import KIND, SqsOptions
from tests.contract.connectors.promises import Features, Headers

LEASE = 20.0
_LARGEST = 900 * 1024
"""A batch of SQS is a MiB with everything."""
_TEXT = bytes(range(0x20, 0x7F)) + b"\t\n"
"""SQS carries text in UTF-8, of the characters of XML 1.0; of those beyond ASCII single bytes say nothing."""


class Sqs:
    """`queue` is a URL behind `faults`, which ends leases early."""

    features = Features(
        ordered=False,
        cumulative=False,
        lanes=1,
        releases=True,
        counts_deliveries=True,
        leases=True,
        timestamps=True,
        has_empty=False,
        keeps=_TEXT,
        largest=_LARGEST,
    )

    def __init__(self, url: str, queue: str, faults: Faults) -> None:
        self._url = url
        self._queue = queue
        self._faults = faults
        self._sent: list[bytes] = []

    async def send(
        self, bodies: Sequence[bytes | None], lane: int = 0, *, key: bytes | None = None, headers: Headers = ()
    ) -> None:
        given = [body for body in bodies if body is not None]
        group = f"lane {lane}" if self.features.ordered else None
        await queues.send(self._url, self._queue, [body.decode() for body in given], group=group)
        self._sent += given

    def producer(self) -> Producer:
        options = SqsOptions(
            queue=self._queue, endpoint=self._faults.url, region="eu-central-1", visibility_timeout=LEASE, wait_time=1.0
        )
        assert not KIND.check(options)
        return KIND.build(options)

    async def settled(self) -> list[bytes]:
        """What is left can be looked at only by receiving it; what is not there is settled."""
        await self.expire()
        settled = list(self._sent)
        for body in await self._left():
            settled.remove(body)
        return settled

    async def _left(self) -> list[bytes]:
        """Received, and given back."""
        left: dict[str, dict[str, str]] = {}
        async with queues.client(self._url) as sqs:
            while found := (await sqs.receive_message(
                QueueUrl=self._queue, MaxNumberOfMessages=10, WaitTimeSeconds=1, VisibilityTimeout=60
            )).get("Messages"):  # fmt: skip
                left |= {message["MessageId"]: message for message in found}
            for message in left.values():
                await sqs.change_message_visibility(
                    QueueUrl=self._queue, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
                )
        return [message["Body"].encode() for message in left.values()]

    async def expire(self) -> None:
        self._faults.expire()


class SqsFifo(Sqs):
    """A lane is a message group."""

    features = Features(
        blocks=True,  # fauxqs gives one message of a group in a receive
        ordered=True,
        cumulative=False,
        lanes=4,
        releases=True,
        counts_deliveries=True,
        leases=True,
        timestamps=True,
        has_empty=False,
        keeps=_TEXT,
        largest=_LARGEST,
    )

    async def _left(self) -> list[bytes]:
        """Taken for good: fauxqs shows the next of a group only when the one before it is gone."""
        left = [message["Body"].encode() for message in await queues.take(self._url, self._queue, len(self._sent) + 1)]
        for body in left:
            self._sent.remove(body)
        return left
