"""What the tests of SQS run against: an emulator, and the proxy in front of it that makes mistakes."""

from __future__ import annotations

import asyncio
from email.utils import parsedate_to_datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError, HTTPClientError

from bench.brokers.sqs import queues
from bench.brokers.sqs.emulated import Emulated
from bench.brokers.sqs.faults import Faults
from bench.brokers.sqs.fixtures import NewQueue
from bench.brokers.sqs.serving import Sqs

pytestmark = pytest.mark.integration


async def received(sqs: Any, url: str, most: int = 10, wait: int = 1) -> list[dict[str, Any]]:
    got = await sqs.receive_message(
        QueueUrl=url, MaxNumberOfMessages=most, WaitTimeSeconds=wait, MessageSystemAttributeNames=["All"]
    )
    return list(got.get("Messages", []))


async def test_what_is_sent_is_received_and_gone_once_it_is_taken(sqs: Sqs, queue: NewQueue) -> None:
    url = await queue()
    await queues.send(sqs.url, url, ["1", "2", "3"], attributes={"a": "x", "b": b"\0"})
    taken = await queues.take(sqs.url, url, 10)
    assert sorted(message["Body"] for message in taken) == ["1", "2", "3"]
    assert taken[0]["MessageAttributes"]["b"]["BinaryValue"] == b"\0"
    assert await queues.counts(sqs.url, url) == (0, 0)


async def test_a_queue_with_a_redrive_policy_gives_up_after_so_many_receives(sqs: Sqs, queue: NewQueue) -> None:
    url = await queue(visibility=1, redrive=1)
    await queues.send(sqs.url, url, ["1"])
    async with queues.client(sqs.url) as client:
        assert len(await received(client, url)) == 1
        async with asyncio.timeout(10):
            while not await queues.take(sqs.url, queue.made[0], 1):
                await received(client, url)


async def test_entries_of_a_batch_fail_on_request_and_the_others_are_carried_out(
    sqs: Sqs, queue: NewQueue, sqs_faults: Faults
) -> None:
    url = await queue()
    await queues.send(sqs.url, url, [str(n) for n in range(10)])
    async with queues.client(sqs_faults.url) as client:
        messages = await received(client, url)
        sqs_faults.fail_entries("DeleteMessageBatch", 3, "InternalError")
        entries = [{"Id": str(n), "ReceiptHandle": m["ReceiptHandle"]} for n, m in enumerate(messages)]
        said = await client.delete_message_batch(QueueUrl=url, Entries=entries)
        assert [(each["Id"], each["SenderFault"]) for each in said["Failed"]] == [
            ("0", False),
            ("1", False),
            ("2", False),
        ]
        assert (await queues.counts(sqs.url, url)) == (0, 3)
        said = await client.delete_message_batch(QueueUrl=url, Entries=entries[:3])
        assert "Failed" not in said or not said["Failed"]
    assert (await queues.counts(sqs.url, url)) == (0, 0)
    assert sqs_faults.calls["DeleteMessageBatch"] == 2


async def test_calls_are_refused_reset_and_left_without_an_answer(
    sqs: Sqs, queue: NewQueue, sqs_faults: Faults
) -> None:
    url = await queue()
    async with queues.client(sqs_faults.url) as client:
        sqs_faults.fail_calls("SendMessage", "AccessDeniedException", status=403, times=1)
        with pytest.raises(ClientError) as refused:
            await client.send_message(QueueUrl=url, MessageBody="1")
        assert refused.value.response["Error"]["Code"] == "AccessDeniedException"
        sqs_faults.reset("SendMessage", after=True)
        sqs_faults.reset("SendMessage", after=True)  # the client tries twice
        with pytest.raises(HTTPClientError):
            await client.send_message(QueueUrl=url, MessageBody="2")
        sqs_faults.silent()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await client.send_message(QueueUrl=url, MessageBody="3")
        sqs_faults.speak()
    assert {m["Body"] for m in await queues.take(sqs.url, url, 10)} >= {"2"}


async def test_leases_end_early_and_deliveries_are_doubled_on_request(
    sqs: Sqs, queue: NewQueue, sqs_faults: Faults
) -> None:
    url = await queue(visibility=60)
    await queues.send(sqs.url, url, ["1", "2"])
    async with queues.client(sqs_faults.url) as client:
        first = await received(client, url)
        assert sqs_faults.expire() == 2
        again = await received(client, url)
        assert {m["MessageId"] for m in first} == {m["MessageId"] for m in again}
        assert {m["Attributes"]["ApproximateReceiveCount"] for m in again} == {"2"}
        sqs_faults.expire()
        sqs_faults.duplicate()
        await received(client, url)
        assert len(await received(client, url)) == 2


async def test_the_clock_of_the_answers_can_be_wrong(sqs: Sqs, queue: NewQueue, sqs_faults: Faults) -> None:
    url = await queue()
    sqs_faults.skew = 3600
    async with queues.client(sqs_faults.url) as client:
        said = await client.receive_message(QueueUrl=url)
    date = parsedate_to_datetime(said["ResponseMetadata"]["HTTPHeaders"]["date"])
    async with queues.client(sqs.url) as client:
        said = await client.receive_message(QueueUrl=url)
    assert (date - parsedate_to_datetime(said["ResponseMetadata"]["HTTPHeaders"]["date"])).total_seconds() > 3000


async def test_moto_refuses_a_handle_that_it_never_gave(moto_sqs: Emulated, moto_queue: NewQueue) -> None:
    url = await moto_queue()
    async with queues.client(moto_sqs.url) as client:
        entries = [{"Id": "x", "ReceiptHandle": "nonsense"}]
        said = await client.delete_message_batch(QueueUrl=url, Entries=entries)
    assert [each["Code"] for each in said["Failed"]] == ["ReceiptHandleIsInvalid"]


async def test_one_of_the_tests_own_dies_and_comes_back_empty(own_sqs: Emulated) -> None:
    url = await queues.create(own_sqs.url, "orders")
    await queues.send(own_sqs.url, url, ["1"])
    own_sqs.kill()
    await asyncio.to_thread(own_sqs.start)
    url = await queues.create(own_sqs.url, "orders")
    assert await queues.counts(own_sqs.url, url) == (0, 0)
