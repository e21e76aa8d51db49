"""Queues of an SQS for tests: made, filled, looked at and emptied, each as a coroutine.

`apart(coroutine)` of bench/brokers/topics.py runs one from a test without a loop.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiobotocore.config import AioConfig
from aiobotocore.session import get_session

from bench.brokers.sqs.serving import REGION
from bench.brokers.topics import apart as apart

Attributes = Mapping[str, str | bytes]


@asynccontextmanager
async def client(url: str, connections: int = 10) -> AsyncIterator[Any]:
    """A client of aiobotocore, with keys that no emulator looks at."""
    config = AioConfig(max_pool_connections=connections, retries={"total_max_attempts": 2}, connect_timeout=5)
    async with get_session().create_client(
        "sqs", region_name=REGION, endpoint_url=url, aws_access_key_id="tests", aws_secret_access_key="tests",
        config=config,
    ) as made:  # fmt: skip
        yield made


async def create(
    url: str, name: str, *, visibility: float = 30.0, redrive: tuple[str, int] | None = None, **attributes: str
) -> str:
    """The queue's URL. A name that ends with `.fifo` makes a FIFO queue. `redrive`: a dead-letter queue and a count."""
    wanted = {"VisibilityTimeout": str(int(visibility)), **attributes}
    if name.endswith(".fifo"):
        wanted["FifoQueue"] = "true"
    async with client(url) as sqs:
        if redrive is not None:
            arn = (await sqs.get_queue_attributes(QueueUrl=redrive[0], AttributeNames=["QueueArn"]))["Attributes"]
            policy = {"deadLetterTargetArn": arn["QueueArn"], "maxReceiveCount": redrive[1]}
            wanted["RedrivePolicy"] = json.dumps(policy)
        return str((await sqs.create_queue(QueueName=name, Attributes=wanted))["QueueUrl"])


async def delete(url: str, *queues: str) -> None:
    async with client(url) as sqs:
        for queue in queues:
            await sqs.delete_queue(QueueUrl=queue)


async def send(
    url: str,
    queue: str,
    bodies: Sequence[str],
    *,
    group: str | None = None,
    groups: Sequence[str] | None = None,
    attributes: Attributes | None = None,
) -> list[str]:
    """The ids of the messages, in batches of ten, in order. `group`, or one of `groups` for each, on a FIFO queue."""
    ids: list[str] = []
    named = [group] * len(bodies) if groups is None else list(groups)
    async with client(url) as sqs:
        for start in range(0, len(bodies), 10):
            entries = [_entry(n, bodies[n], named[n], attributes) for n in range(start, min(start + 10, len(bodies)))]
            sent = await sqs.send_message_batch(QueueUrl=queue, Entries=entries)
            assert not sent.get("Failed"), sent["Failed"]
            ids += [each["MessageId"] for each in sorted(sent["Successful"], key=lambda each: int(each["Id"]))]
    return ids


def _entry(n: int, body: str, group: str | None, attributes: Attributes | None) -> dict[str, Any]:
    entry: dict[str, Any] = {"Id": str(n), "MessageBody": body}
    if group is not None:
        entry |= {"MessageGroupId": group, "MessageDeduplicationId": f"{n}-{abs(hash((body, group, n)))}"}
    if attributes:
        entry["MessageAttributes"] = {
            name: {"DataType": "Binary", "BinaryValue": value}
            if isinstance(value, bytes)
            else {"DataType": "String", "StringValue": value}
            for name, value in attributes.items()
        }
    return entry


async def counts(url: str, queue: str) -> tuple[int, int]:
    """Messages that are visible, and in flight; delayed ones count as visible."""
    async with client(url) as sqs:
        found = (await sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"]))["Attributes"]
    visible = int(found["ApproximateNumberOfMessages"]) + int(found.get("ApproximateNumberOfMessagesDelayed", 0))
    return visible, int(found["ApproximateNumberOfMessagesNotVisible"])


async def look(url: str, queue: str) -> list[str]:
    """The bodies of all that is visible. It is received for that, and visible again at once, which is a delivery."""
    found: list[dict[str, Any]] = []
    async with client(url) as sqs:
        while True:
            got = await sqs.receive_message(
                QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=0, VisibilityTimeout=60
            )
            if not got.get("Messages"):
                break
            found += got["Messages"]
        for message in found:
            await sqs.change_message_visibility(
                QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
            )
    return [str(message["Body"]) for message in found]


async def take(url: str, queue: str, most: int, wait: int = 1) -> list[dict[str, Any]]:
    """Receives and deletes up to `most` messages, until a receive brings none; each as boto has it."""
    taken: list[dict[str, Any]] = []
    async with client(url) as sqs:
        while len(taken) < most:
            got = await sqs.receive_message(
                QueueUrl=queue, MaxNumberOfMessages=min(10, most - len(taken)), WaitTimeSeconds=wait,
                MessageAttributeNames=["All"], MessageSystemAttributeNames=["All"],
            )  # fmt: skip
            if not got.get("Messages"):
                break
            for message in got["Messages"]:
                await sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
                taken.append(message)
    return taken
