"""Every connector behind one door: what it can do, how its broker is filled and looked at, and who drives it.

A new connector adds its own: a class in brokers.py that is a `Broker` (promises.py), and a line in `BROKERS`. What it
lacks is said in its `Features`, and the sentences that ask for it are skipped.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.contract.connectors.brokers import Files, Kafka, Lines, Memory
from tests.contract.connectors.driving import Life, Store
from tests.contract.connectors.promises import MEBIBYTE, Broker
from tests.contract.connectors.pubsub import PubSub, PubSubExactlyOnce, PubSubOrdered
from tests.contract.connectors.servicebus import LOCK, ServiceBusQueue, ServiceBusSessions
from tests.contract.connectors.sqs import LEASE, Sqs, SqsFifo

if TYPE_CHECKING:
    from bench.brokers.fixtures import NewTopic


async def _kafka(request: pytest.FixtureRequest) -> Broker:
    bootstrap: str = request.getfixturevalue("kafka").bootstrap
    topic: NewTopic = request.getfixturevalue("topic")
    return Kafka(bootstrap, await topic(Kafka.features.lanes, max_message_bytes=2 * MEBIBYTE))


class _PubSubControl:
    def __init__(self, control: Any) -> None:
        self._control = control

    async def expire(self, subscription: str) -> None:
        self._control.expire(subscription)

    async def unacked(self, subscription: str) -> list[bytes]:
        return list(self._control.unacked(subscription))


async def _pubsub(request: pytest.FixtureRequest, kind: type[PubSub], **wanted: Any) -> Broker:
    control = _PubSubControl(request.getfixturevalue("pubsub_control"))
    made = await request.getfixturevalue("subscription")(**wanted)
    return kind(request.getfixturevalue("pubsub").address, made.name, made.topic, control)


async def _sqs(request: pytest.FixtureRequest, kind: type[Sqs]) -> Broker:
    queue = await request.getfixturevalue("queue")(fifo=kind.features.ordered, visibility=LEASE)
    return kind(request.getfixturevalue("sqs").url, queue, request.getfixturevalue("sqs_faults"))


async def _servicebus(request: pytest.FixtureRequest, kind: type[ServiceBusQueue]) -> Broker:
    control = request.getfixturevalue("servicebus_control")
    address = request.getfixturevalue("servicebus").connection_string
    path = request.getfixturevalue("entity").queue(sessions=kind.sessions, lock=LOCK, max_delivery=100)
    return kind(address, path, control)


async def _memory(_request: pytest.FixtureRequest) -> Broker:
    return Memory()


async def _files(request: pytest.FixtureRequest) -> Broker:
    return Files(request.getfixturevalue("tmp_path") / "drop")


async def _lines_of_files(request: pytest.FixtureRequest) -> Broker:
    return Lines(request.getfixturevalue("tmp_path") / "drop")


BROKERS: Final[Mapping[str, Callable[[pytest.FixtureRequest], Any]]] = {
    "memory": _memory,
    "directory": _files,
    "directory, lines": _lines_of_files,
    "kafka": _kafka,
    "pubsub": partial(_pubsub, kind=PubSub, attempts=100),
    "pubsub, ordered": partial(_pubsub, kind=PubSubOrdered, ordered=True),
    "pubsub, exactly once": partial(_pubsub, kind=PubSubExactlyOnce, exactly_once=True),
    "servicebus": partial(_servicebus, kind=ServiceBusQueue),
    "servicebus, sessions": partial(_servicebus, kind=ServiceBusSessions),
    "sqs": partial(_sqs, kind=Sqs),
    "sqs, fifo": partial(_sqs, kind=SqsFifo),
}
_IN_PROCESS: Final = ("memory", "directory", "directory, lines")
_PARAMS: Final = [pytest.param(n, marks=() if n in _IN_PROCESS else pytest.mark.integration) for n in BROKERS]


READ_ON: Final = frozenset({
    "test_each_of_two_thousand_messages_is_seen_and_none_is_lost",
    "test_what_was_sent_comes_out_once_and_in_order",
    "test_lanes_come_each_in_its_own_order",
    "test_what_is_sent_while_it_reads_comes_too",
    "test_slices_cut_a_poll_without_gaps_and_each_is_of_one_lane",
    "test_bodies_are_the_bytes_that_were_sent",
    "test_a_body_of_the_largest_size_comes_whole",
    "test_payloads_are_lent_by_a_key_that_is_the_same_in_every_delivery",
    "test_what_is_renewed_can_still_be_settled",
    "test_renewing_what_is_settled_does_no_harm",
    "test_nothing_more_comes_while_nothing_is_asked_for",
    "test_at_the_end_what_was_received_and_never_delivered_is_given_back",
    "test_nothing_is_left_behind",
    "test_making_one_touches_nothing",
    "test_nothing_is_settled_before_advance",
    "test_what_was_advanced_does_not_come_again_to_the_next_life",
    "test_what_was_not_advanced_comes_again_with_the_same_identity",
    "test_equal_bodies_have_identities_of_their_own",
    "test_advancing_a_batch_twice_is_harmless",
    "test_a_batch_may_be_plain_items_of_several_outcomes",
    "test_what_was_rejected_is_settled",
    "test_any_message_is_settled_by_itself",
    "test_a_life_that_settles_nothing_new_unsettles_nothing",
    "test_what_failed_comes_again_with_all_that_is_behind_it_in_order",
    "test_settling_what_was_delivered_before_a_failure_changes_nothing",
    "test_a_failure_holds_its_own_lane_only",
    "test_what_is_given_back_comes_again_at_once",
    "test_what_is_given_back_at_the_end_comes_to_the_next_life",
    "test_a_message_is_described_before_and_after_it_is_settled_and_when_all_is_closed",
    "test_it_is_described_alike_when_it_comes_again",
})  # fmt: skip
"""Sentences that read several messages of a lane and settle none of them meanwhile."""


@pytest.fixture(params=_PARAMS)
async def broker(request: pytest.FixtureRequest) -> Broker:
    made: Broker = await BROKERS[request.param](request)
    if made.features.blocks and request.node.originalname in READ_ON:
        pytest.skip("of a lane nothing more comes before what came is settled")
    return made


@pytest.fixture
async def live(broker: Broker) -> AsyncIterator[Callable[[], Life]]:
    """Begins lives of the broker's reader, which share a store; those still open at the end are closed."""
    store = Store()
    lives: list[Life] = []

    def begin() -> Life:
        lives.append(Life(broker.producer(), store, broker.expire if broker.features.leases else None))
        return lives[-1]

    yield begin
    for life in lives:
        await life.close()
