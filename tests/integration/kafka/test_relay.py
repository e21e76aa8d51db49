"""Copies of dead letters on a topic of their own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from aiokafka import ConsumerRecord

from bench.brokers import topics
from bench.brokers.fixtures import NewTopic
from bench.brokers.proxy import Proxy
from bench.brokers.secured import SecuredKafka
from bench.brokers.serving import Broker
from bridge.core.errors import Refused, Transient
from bridge.ports import Letter, Relay
from connectors.kafka.options import DeadLetterTopic, Sasl
from connectors.kafka.relay import relay_of

if TYPE_CHECKING:
    from conftest import Members

pytestmark = pytest.mark.integration

HEADERS = (("trace", b"\x00\xff"), ("trace", None), ("", b""))


def letter(number: int = 1, **changes: Any) -> Letter:
    known: dict[str, Any] = {
        "id": f"letter-{number}", "watcher": "invoices", "stream": "orders-in",
        "identity": f"orders/11/{number}/1700000000123", "position": f"orders[11]@{number}", "body": b"\xff\x00 body",
        "key": b"key", "headers": HEADERS, "timestamp": 1_700_000_000.123, "reason": "max_attempts",
        "error": "ValueError: no", "attempts": 5, "created_at": 1_700_000_001.0,
    }  # fmt: skip
    return Letter(number=number, **{**known, **changes})


class Relays:
    """Makes them on topics, and closes them."""

    def __init__(self, members: Members, stack: AsyncExitStack) -> None:
        self.members = members
        self._stack = stack

    def closed(self, topic: str, *, create: bool = False, partitions: int = 1, **changes: Any) -> Relay:
        place = DeadLetterTopic(topic=topic, create=create, partitions=partitions)
        relay = relay_of(self.members.options("orders", dead_letter=place, **{"request_timeout": 2.0, **changes}))
        assert relay is not None
        self._stack.push_async_callback(relay.aclose)
        return relay

    async def __call__(self, topic: str, **changes: Any) -> Relay:
        relay = self.closed(topic, **changes)
        await relay.open()
        return relay


@pytest.fixture
async def relays(members: Members) -> AsyncIterator[Relays]:
    async with AsyncExitStack() as stack:
        yield Relays(members, stack)


def own(record: ConsumerRecord[bytes, bytes]) -> dict[str, str]:
    """Our headers of a copy."""
    return {name: value.decode() for name, value in record.headers if name.startswith("headrace-")}


async def test_a_copy_has_everything_that_the_message_had_and_what_is_known_of_it(
    kafka: Broker, topic: NewTopic, relays: Relays
) -> None:
    """B19: from partition 11 of one topic to another that has a single one."""
    name = await topic(partitions=1)
    relay = await relays(name)
    assert await relay.send([letter(7)]) == [None]
    [copy] = await topics.read(kafka.bootstrap, name, 1)
    assert (copy.value, copy.key) == (b"\xff\x00 body", b"key")
    assert copy.headers[:3] == HEADERS
    assert own(copy) == {
        "headrace-dead-letter": "letter-7",
        "headrace-stream": "orders-in",
        "headrace-topic": "orders",
        "headrace-partition": "11",
        "headrace-offset": "7",
        "headrace-timestamp": "1700000000123",
        "headrace-watcher": "invoices",
        "headrace-reason": "max_attempts",
        "headrace-attempts": "5",
        "headrace-error": "ValueError: no",
    }


async def test_a_message_without_a_body_without_a_key_stays_that(
    kafka: Broker, topic: NewTopic, relays: Relays
) -> None:
    name = await topic()
    relay = await relays(name)
    letters = [letter(1, body=None), letter(2, key=None), letter(3, body=b"", key=b"")]
    assert await relay.send(letters) == [None, None, None]
    copies = {own(copy)["headrace-dead-letter"]: copy for copy in await topics.read(kafka.bootstrap, name, 3)}
    assert (copies["letter-1"].value, copies["letter-1"].key) == (None, b"key")
    assert copies["letter-2"].key is None
    assert (copies["letter-3"].value, copies["letter-3"].key) == (b"", b"")


async def test_a_topic_that_takes_small_batches_alone_gets_whole_letters(
    kafka: Broker, topic: NewTopic, relays: Relays
) -> None:
    """`max.message.bytes` is one for batches: letters that fit one by one would be refused together."""
    name = await topic(max_message_bytes=2000)
    relay = await relays(name)
    assert await relay.send([letter(n, body=b"x" * 300) for n in range(30)]) == [None] * 30
    assert {copy.value for copy in await topics.read(kafka.bootstrap, name, 30)} == {b"x" * 300}


async def test_a_message_without_body_and_key_is_copied_too(kafka: Broker, topic: NewTopic, relays: Relays) -> None:
    name = await topic()
    relay = await relays(name)
    assert await relay.send([letter(body=None, key=None)]) == [None]
    [copy] = await topics.read(kafka.bootstrap, name, 1)
    assert own(copy)["headrace-dead-letter"] == "letter-1"


async def test_the_same_letter_sent_twice_carries_the_same_id(kafka: Broker, topic: NewTopic, relays: Relays) -> None:
    """B20"""
    name = await topic()
    first = await relays(name)
    await first.send([letter(7)])
    await first.aclose()
    second = await relays(name)
    await second.send([letter(7, failures=1)])
    copies = await topics.read(kafka.bootstrap, name, 2)
    assert [own(copy)["headrace-dead-letter"] for copy in copies] == ["letter-7", "letter-7"]


async def test_copies_spread_over_the_partitions_by_their_key(kafka: Broker, topic: NewTopic, relays: Relays) -> None:
    name = await topic(partitions=3)
    relay = await relays(name)
    letters = [letter(n, key=b"k%d" % (n % 10)) for n in range(100)]
    assert await relay.send(letters) == [None] * 100
    copies = await topics.read(kafka.bootstrap, name, 100)
    assert {copy.partition for copy in copies} == {0, 1, 2}
    assert all(len({c.partition for c in copies if c.key == key}) == 1 for key in {c.key for c in copies})


# The topic -----------------------------------------------------------------------------------------------------------


async def test_a_topic_that_does_not_exist_is_refused(relays: Relays) -> None:
    name = f"missing-{uuid4().hex[:8]}"
    with pytest.raises(Refused, match="create it, or write `create: true`") as caught:
        await relays(name)
    assert name in str(caught.value)


async def test_looking_for_the_topic_does_not_make_it(own_auto_create: Any, relays: Relays) -> None:
    relays.members.bootstrap = own_auto_create.bootstrap
    for _ in range(2):
        with pytest.raises(Refused):
            await relays("misspelt")


async def test_the_topic_is_made_when_that_is_wanted(kafka: Broker, relays: Relays) -> None:
    name = f"made-{uuid4().hex[:8]}"
    relay = await relays(name, create=True, partitions=3)
    assert await relay.send([letter()]) == [None]
    assert await topics.leader(kafka.bootstrap, name, 2) >= 0
    again = await relays(name, create=True, partitions=5)  # it is there: it stays as it is
    assert await again.send([letter()]) == [None]


async def test_two_that_make_it_at_once_both_go_on(relays: Relays) -> None:
    name = f"both-{uuid4().hex[:8]}"
    both = await asyncio.gather(relays(name, create=True), relays(name, create=True))
    for relay in both:
        assert await relay.send([letter()]) == [None]


# Too large -----------------------------------------------------------------------------------------------------------


async def test_what_is_too_large_goes_by_reference(kafka: Broker, topic: NewTopic, relays: Relays) -> None:
    name = await topic(max_message_bytes=2000)
    relay = await relays(name)
    assert await relay.send([letter(1, body=b"x" * 5000), letter(2)]) == [None, None]
    copies = {own(copy)["headrace-dead-letter"]: copy for copy in await topics.read(kafka.bootstrap, name, 2)}
    large = copies["letter-1"]
    assert (large.value, large.key) == (None, None)
    assert own(large)["headrace-by-reference"] == "5000"
    assert own(large)["headrace-topic"] == "orders"
    assert "headrace-by-reference" not in own(copies["letter-2"])


@pytest.mark.parametrize("size", [1_048_000, 1_048_500, 1_048_576])
async def test_about_the_limit_it_arrives_in_one_way_or_the_other(
    kafka: Broker, topic: NewTopic, relays: Relays, size: int
) -> None:
    """The client counts the record, the broker the batch around it."""
    name = await topic()
    relay = await relays(name)
    assert await relay.send([letter(body=b"x" * size)]) == [None]
    [copy] = await topics.read(kafka.bootstrap, name, 1)
    assert len(copy.value or b"") == size or own(copy)["headrace-by-reference"] == str(size)


async def test_a_topic_of_larger_messages_gets_them_whole(kafka: Broker, topic: NewTopic, relays: Relays) -> None:
    name = await topic(max_message_bytes=4_000_000)
    relay = await relays(name)
    assert await relay.send([letter(body=b"x" * 3_000_000)]) == [None]
    [copy] = await topics.read(kafka.bootstrap, name, 1)
    assert len(copy.value or b"") == 3_000_000


async def test_large_headers_and_reasons_never_stand_in_the_way(kafka: Broker, topic: NewTopic, relays: Relays) -> None:
    name = await topic(max_message_bytes=20_000)
    relay = await relays(name)
    large = letter(reason="r" * 50_000, error="e" * 50_000, headers=(("h", b"x" * 50_000),), key=b"k" * 50_000)
    assert await relay.send([large]) == [None]
    [copy] = await topics.read(kafka.bootstrap, name, 1)
    assert own(copy)["headrace-dead-letter"] == "letter-1"
    assert own(copy)["headrace-reason"].startswith("rrr")


async def test_what_can_never_fit_is_refused(topic: NewTopic, relays: Relays) -> None:
    name = await topic(max_message_bytes=100)
    relay = await relays(name)
    [error] = await relay.send([letter()])
    assert isinstance(error, Refused)
    assert "max.message.bytes" in str(error)


# A topic that refuses ------------------------------------------------------------------------------------------------


async def test_a_topic_that_was_deleted_gives_errors_in_time_and_works_when_it_is_back(
    kafka: Broker, topic: NewTopic, relays: Relays
) -> None:
    name = await topic()
    relay = await relays(name, request_timeout=1.0)
    assert await relay.send([letter(n) for n in range(3)]) == [None] * 3
    await topics.delete(kafka.bootstrap, name)
    began = time.monotonic()
    [error] = await relay.send([letter(4)])
    assert time.monotonic() - began < 4.0
    assert isinstance(error, Transient)
    await topics.create(kafka.bootstrap, name)
    await works_again(relay, letter(5))
    copies = await topics.read(kafka.bootstrap, name, 1)
    assert {own(copy)["headrace-dead-letter"] for copy in copies} == {"letter-5"}  # what was given up is forgotten


async def test_brokers_out_of_reach_give_errors_in_time_and_it_works_when_they_are_back(
    topic: NewTopic, proxied_kafka: Proxy, relays: Relays
) -> None:
    name = await topic()
    relays.members.bootstrap = proxied_kafka.bootstrap
    relay = await relays(name, request_timeout=1.0)
    assert await relay.send([letter(1)]) == [None]
    for cut, mend in ((proxied_kafka.cut, proxied_kafka.restore), (proxied_kafka.stall, proxied_kafka.resume)):
        cut()
        began = time.monotonic()
        [error] = await relay.send([letter(2)])
        assert time.monotonic() - began < 4.0
        assert isinstance(error, Transient)
        mend()
        await works_again(relay, letter(3))


async def test_opening_and_closing_are_bounded_when_the_broker_hangs(
    topic: NewTopic, proxied_kafka: Proxy, relays: Relays, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.kafka.relay._CLOSED_WITHIN", 1.0)
    monkeypatch.setattr("connectors.kafka.probing.WITHIN", 1.0)
    before = asyncio.all_tasks()
    name = await topic()
    relays.members.bootstrap = proxied_kafka.bootstrap
    relay = await relays(name)
    proxied_kafka.stall()
    began = time.monotonic()
    await relay.send([letter(1)])  # it is on its way when the relay is closed
    await relay.aclose()
    assert time.monotonic() - began < 6.0
    await until(lambda: asyncio.all_tasks() <= before, 3.0)
    with pytest.raises(Transient):
        await relays.closed(name).open()
    assert time.monotonic() - began < 20.0


async def test_opening_again_and_closing_twice(topic: NewTopic, relays: Relays) -> None:
    name = await topic()
    relay = relays.closed(name)
    await relay.aclose()
    for _ in range(2):
        await relay.open()
        assert await relay.send([letter()]) == [None]
    await relay.aclose()
    await relay.aclose()


# Rights --------------------------------------------------------------------------------------------------------------


async def test_a_topic_that_we_may_not_write_is_told_and_tried_again(
    secured_kafka: SecuredKafka, relays: Relays
) -> None:
    """A right that is missing now may be granted later: no letter is given up for it."""
    name = f"dead-{uuid4().hex[:8]}"
    await topics.create(secured_kafka.bootstrap, name)
    await secured_kafka.allow("reader", topic=name)
    relays.members.bootstrap = secured_kafka.sasl
    sasl = Sasl(mechanism="PLAIN", username="reader", password=secured_kafka.passwords["reader"])
    relay = await relays(name, sasl=sasl)
    [error] = await relay.send([letter(1)])
    assert isinstance(error, Transient)
    assert "grant" in str(error)
    await secured_kafka.allow("reader", "WRITE", topic=name)
    await works_again(relay, letter(2))


async def test_a_topic_that_we_may_not_see_is_refused_at_start(secured_kafka: SecuredKafka, relays: Relays) -> None:
    relays.members.bootstrap = secured_kafka.sasl
    sasl = Sasl(mechanism="PLAIN", username="nobody", password=secured_kafka.passwords["nobody"])
    with pytest.raises(Refused, match="grant"):
        await relays("anything", sasl=sasl)


async def works_again(relay: Relay, one: Letter) -> None:
    """As the runtime does: again after a while, and after opening it anew."""
    async with asyncio.timeout(15):
        while (await relay.send([one]))[0] is not None:
            await relay.open()
