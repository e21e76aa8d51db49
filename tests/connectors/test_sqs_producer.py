"""The producer against what speaks the protocol of SQS, with mistakes made on request.

What every connector promises is in tests/contract/connectors.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest
import structlog

from bench.brokers.sqs import queues
from bench.brokers.sqs.faults import Faults
from bench.brokers.sqs.fixtures import NewQueue
from bridge.core.errors import StartRefused
from connectors.sqs import KIND, SqsOptions, SqsProducer
from connectors.sqs.places import queue_of
from tests.contract.connectors.driving import Life, Store
from tests.contract.connectors.promises import FAILED, numbered

pytestmark = pytest.mark.integration

REGION = "eu-central-1"
Begin = Callable[..., Life]


def options_of(queue: str, endpoint: str, **keys: Any) -> SqsOptions:
    return SqsOptions(**{"queue": queue, "endpoint": endpoint, "region": REGION, "wait_time": 1.0, **keys})


@pytest.fixture
async def live() -> AsyncIterator[Begin]:
    lives: list[Life] = []

    def begin(queue: str, faults: Faults, **keys: Any) -> Life:
        lives.append(Life(KIND.build(options_of(queue, faults.url, **keys)), Store()))
        return lives[-1]

    yield begin
    for life in lives:
        await life.close()


def trouble_of(life: Life) -> str:
    return str(cast("SqsProducer", life.producer).report().get("trouble", ""))


async def until(holds: Callable[[], bool], within: float = 15.0) -> None:
    async with asyncio.timeout(within):
        while not holds():  # noqa: ASYNC110  # what it waits for happens at the broker
            await asyncio.sleep(0.02)


# Opening -------------------------------------------------------------------------------------------------------------


async def test_a_missing_queue_is_an_error_at_start(queue: NewQueue, sqs_faults: Faults, live: Begin) -> None:
    there = await queue()
    for written in ("nothing-here", f"{there}-gone"):
        with pytest.raises(StartRefused, match=r"does not exist|no queue"):
            await live(written, sqs_faults).poll()


async def test_a_queue_may_be_a_name_or_an_arn(queue: NewQueue, sqs_faults: Faults, live: Begin) -> None:
    url = await queue()
    name = queue_of(url).name
    for n, written in enumerate((name, f"arn:aws:sqs:{REGION}:000000000000:{name}", url)):
        await queues.send(sqs_faults.target, url, [f"m-{n}"])
        life = live(written, sqs_faults)
        await life.settle(await life.until(f"m-{n}".encode()))
        await life.close()


# Settling ------------------------------------------------------------------------------------------------------------


async def test_entries_that_fail_are_tried_again_alone(queue: NewQueue, sqs_faults: Faults, live: Begin) -> None:
    url = await queue()
    await queues.send(sqs_faults.target, url, [body.decode() for body in numbered(10)])
    life = live(url, sqs_faults)
    found = await life.until(*numbered(10))
    sqs_faults.fail_entries("DeleteMessageBatch", 2, "InternalError")
    assert await life.unsettled(found) == []
    assert sqs_faults.calls["DeleteMessageBatch"] == 2
    assert sqs_faults.entries["DeleteMessageBatch"] == 12
    await life.close()
    assert await queues.counts(sqs_faults.target, url) == (0, 0)


async def test_an_entry_that_is_refused_is_left_to_redelivery(queue: NewQueue, sqs_faults: Faults, live: Begin) -> None:
    url = await queue()
    await queues.send(sqs_faults.target, url, ["a", "b"])
    life = live(url, sqs_faults)
    found = await life.until(b"a", b"b")
    sqs_faults.fail_entries("DeleteMessageBatch", 1, "InvalidAddress", sender_fault=True)
    assert await life.unsettled(found) == [found[0].payload]
    assert sqs_faults.calls["DeleteMessageBatch"] == 1


async def test_a_delete_whose_answer_is_lost_is_repeated(queue: NewQueue, sqs_faults: Faults, live: Begin) -> None:
    url = await queue()
    await queues.send(sqs_faults.target, url, ["a"])
    life = live(url, sqs_faults)
    found = await life.until(b"a")
    sqs_faults.reset("DeleteMessageBatch", after=True)
    assert await life.unsettled(found) == []
    assert sqs_faults.calls["DeleteMessageBatch"] == 2


async def test_a_handle_that_counts_no_more_is_reported_and_not_tried_again(
    moto_queue: NewQueue, moto_faults: Faults, live: Begin
) -> None:
    url = await moto_queue()
    await queues.send(moto_faults.target, url, ["a", "b"])
    life = live(url, moto_faults)
    found = await life.until(b"a", b"b")
    good = found[0].payload.handle
    found[0].payload.handle = "no handle at all"
    assert await life.renew(found) == [found[0].payload]
    assert await life.unsettled(found) == [found[0].payload]
    assert moto_faults.calls["DeleteMessageBatch"] == 1
    found[0].payload.handle = good
    assert await life.unsettled(found) == []


async def test_a_message_that_failed_rests_before_it_comes_again(
    queue: NewQueue, sqs_faults: Faults, live: Begin
) -> None:
    url = await queue()
    await queues.send(sqs_faults.target, url, ["a"])
    life = live(url, sqs_faults)
    found = await life.until(b"a")
    began = time.monotonic()
    await life.settle(found, FAILED)
    (again,) = await life.until(b"a")
    assert time.monotonic() - began >= 0.9
    assert again.payload.deliveries == 2


async def test_ten_groups_of_a_fifo_queue_share_a_call(queue: NewQueue, sqs_faults: Faults, live: Begin) -> None:
    url = await queue(fifo=True)
    sent = numbered(10)
    await queues.send(
        sqs_faults.target, url, [body.decode() for body in sent], groups=[f"g{n}" for n in range(len(sent))]
    )
    life = live(url, sqs_faults)
    found = await life.until(*sent)
    assert {event.lane for event in found} == {f"g{n}" for n in range(10)}
    assert await asyncio.gather(*(life.unsettled([event]) for event in found)) == [[]] * 10
    assert sqs_faults.calls["DeleteMessageBatch"] == 1


# Leases --------------------------------------------------------------------------------------------------------------


async def test_renewing_does_not_wait_behind_long_polls(queue: NewQueue, sqs_faults: Faults, live: Begin) -> None:
    url = await queue()
    await queues.send(sqs_faults.target, url, [body.decode() for body in numbered(40)])
    life = live(url, sqs_faults, receivers=1, wait_time=5.0)
    found = await life.until(*numbered(40))
    life.begin()
    await until(lambda: sqs_faults.calls["ReceiveMessage"] >= 5)  # the only connection for receives waits
    began = time.monotonic()
    assert await life.renew(found) == []
    await life.settle(found)
    assert time.monotonic() - began < 1.5
    assert sqs_faults.calls["ChangeMessageVisibilityBatch"] == 4


async def test_a_second_delivery_has_the_same_key_and_a_handle_of_its_own(
    queue: NewQueue, sqs_faults: Faults, live: Begin
) -> None:
    url = await queue()
    sqs_faults.duplicate()
    await queues.send(sqs_faults.target, url, ["a"])
    life = live(url, sqs_faults)
    first, second = (await life.take(2))[:2]
    assert first.payload.key == second.payload.key
    assert first.payload.handle != second.payload.handle
    sqs_faults.mend()


# What goes wrong, and is over again ----------------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["AccessDeniedException", "ExpiredToken", "InvalidClientTokenId"])
async def test_who_is_let_in_no_more_is_trouble_until_he_is_again(
    code: str, queue: NewQueue, sqs_faults: Faults, live: Begin
) -> None:
    url = await queue()
    life = live(url, sqs_faults)
    life.begin()
    await until(lambda: sqs_faults.calls["ReceiveMessage"] > 0)
    sqs_faults.fail_calls("*", code, status=403)
    await until(lambda: code in trouble_of(life))
    sqs_faults.mend()
    await queues.send(sqs_faults.target, url, ["a"])
    await life.settle(await life.until(b"a"))
    assert trouble_of(life) == ""


async def test_a_queue_that_is_deleted_is_trouble_and_one_that_is_made_again_is_read(
    queue: NewQueue, sqs_faults: Faults, live: Begin
) -> None:
    url = await queue()
    life = live(url, sqs_faults)
    life.begin()
    await until(lambda: sqs_faults.calls["ReceiveMessage"] > 1)
    await queues.delete(sqs_faults.target, url)
    await until(lambda: "QueueDoesNotExist" in trouble_of(life) or "NonExistentQueue" in trouble_of(life))
    await queues.create(sqs_faults.target, queue_of(url).name)
    await queues.send(sqs_faults.target, url, ["a"])
    await life.settle(await life.until(b"a"))
    assert trouble_of(life) == ""


async def test_a_receive_whose_connection_breaks_is_made_again(
    queue: NewQueue, sqs_faults: Faults, live: Begin
) -> None:
    url = await queue()
    sqs_faults.reset("ReceiveMessage")
    await queues.send(sqs_faults.target, url, ["a"])
    life = live(url, sqs_faults)
    await life.settle(await life.until(b"a"))
    assert trouble_of(life) == ""


async def test_empty_answers_that_come_early_do_not_make_it_spin(
    queue: NewQueue, sqs_faults: Faults, live: Begin
) -> None:
    url = await queue()
    sqs_faults.early_empty()
    life = live(url, sqs_faults, wait_time=5.0)
    assert await life.is_silent(2.5)
    assert sqs_faults.calls["ReceiveMessage"] <= 6


async def test_a_clock_that_is_off_is_trouble(queue: NewQueue, sqs_faults: Faults, live: Begin) -> None:
    sqs_faults.skew = 60.0
    life = live(await queue(), sqs_faults)
    life.begin()
    await until(lambda: "behind that of SQS" in trouble_of(life))


async def test_how_long_the_queue_is_is_told_where_we_may_ask(queue: NewQueue, sqs_faults: Faults, live: Begin) -> None:
    url = await queue()
    life = live(url, sqs_faults)
    life.begin()
    report = cast("SqsProducer", life.producer).report
    await until(lambda: "waiting" in report())
    assert report()["queue"] == queue_of(url).name


# The end -------------------------------------------------------------------------------------------------------------


async def test_a_long_poll_under_way_is_never_cut_short_and_what_it_brings_is_given_back(
    queue: NewQueue, sqs_faults: Faults, live: Begin
) -> None:
    url = await queue()
    life = live(url, sqs_faults, wait_time=5.0)
    life.begin()
    await until(lambda: sqs_faults.calls["ReceiveMessage"] > 0)
    closing = asyncio.create_task(life.close())
    await asyncio.sleep(0.2)
    began = time.monotonic()
    await queues.send(sqs_faults.target, url, ["a"])
    await closing
    assert time.monotonic() - began < 2.0
    assert [each["Body"] for each in await queues.take(sqs_faults.target, url, 1)] == ["a"]
    assert time.monotonic() - began < 3.0
    assert sqs_faults.lost == 0


async def test_an_end_that_may_not_wait_leaves_nothing_behind(queue: NewQueue, sqs_faults: Faults) -> None:
    url = await queue()
    before = asyncio.all_tasks()
    producer = KIND.build(options_of(url, sqs_faults.url, wait_time=20.0))
    life = Life(producer, Store())
    life.begin()
    await until(lambda: sqs_faults.calls["ReceiveMessage"] > 0)
    assert await life.is_silent(0.0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await producer.aclose()
    await life.close()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


# Who we are ----------------------------------------------------------------------------------------------------------


async def test_a_role_is_taken_on_with_what_the_chain_finds(
    moto_queue: NewQueue, moto_faults: Faults, live: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = await moto_queue()
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", moto_faults.target)
    await queues.send(moto_faults.target, url, ["a"])
    role = "arn:aws:iam::123456789012:role/reader"
    with structlog.testing.capture_logs() as logs:
        life = live(url, moto_faults, role_arn=role, external_id="us")
        await life.settle(await life.until(b"a"))
    assert [each["source"] for each in logs if each["event"] == "credentials found"] == ["assume-role"]
