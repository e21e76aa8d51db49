"""How much may be on its way, and how what has come is cut."""

from __future__ import annotations

from typing import Any, cast

import pytest
from azure.servicebus._pyamqp.message import Header, Message

from bridge.core.model import UNORDERED, Slice
from connectors.servicebus.link import Link
from connectors.servicebus.messages import Delivery, message_of
from connectors.servicebus.session import Session
from connectors.servicebus.tap import POLL_MOST, Tap, shares


class Credit:
    """Stands where a link does: what it was last told to want."""

    def __init__(self, session: str = "") -> None:
        self.session = session
        self.wanted = 0
        self.is_open = True
        self.unsettled: dict[int, bytes] = {}

    def want(self, credit: int) -> None:
        self.wanted = credit


def link(session: str = "") -> Link:
    return cast("Link", Credit(session))


def wanted(*links: Link) -> list[int]:
    return [cast("Credit", each).wanted for each in links]


def amqp(sequence: int, **more: Any) -> Message:
    annotations = {b"x-opt-sequence-number": sequence, b"x-opt-enqueued-time": 1000 + sequence}
    return Message(message_annotations=annotations, data=[b"x"], **more)


def arrive(tap: Tap, count: int, session: Session | None = None, start: int = 0) -> None:
    for n in range(start, start + count):
        delivery = Delivery(link(), n, b"0" * 16)
        tap.put(b"%d" % n, message_of(delivery, amqp(n), session, session.epoch if session is not None else 0))


@pytest.mark.parametrize(
    ("most", "links", "each", "cut"),
    [
        (500, 1, 100, [100]),
        (500, 3, 100, [100, 100, 100]),
        (10, 4, 100, [3, 3, 2, 2]),
        (2, 4, 100, [1, 1, 0, 0]),
        (0, 2, 100, [0, 0]),
        (5, 0, 100, []),
    ],
)
def test_what_is_asked_for_is_cut_among_the_links(most: int, links: int, each: int, cut: list[int]) -> None:
    assert list(shares(most, links, each)) == cut


def test_the_tap_is_closed_and_opened() -> None:
    tap, one, two = Tap(50, 20), link(), link()
    tap.add(one)
    tap.add(two)
    assert wanted(one, two) == [20, 20]
    tap.ask(0)
    assert wanted(one, two) == [0, 0]
    tap.ask(8)
    assert wanted(one, two) == [4, 4]
    tap.remove(one)
    assert wanted(two) == [8]


def test_a_link_that_is_paused_leaves_its_share_to_the_others() -> None:
    tap, one, two = Tap(8, 20), link(), link()
    tap.add(one)
    tap.add(two)
    tap.pause(one, paused=True)
    assert wanted(one, two) == [0, 8]
    tap.pause(one, paused=False)
    assert wanted(one, two) == [4, 4]


async def test_what_nobody_takes_closes_the_tap_until_it_is_taken() -> None:
    tap, one = Tap(10, 5), link()
    tap.add(one)
    arrive(tap, 10)
    assert wanted(one) == [0]
    assert len((await tap.poll()).bodies) == 10
    assert wanted(one) == [5]


async def test_a_poll_is_not_without_bounds() -> None:
    tap = Tap(5000, 5)
    arrive(tap, POLL_MOST + 7)
    assert len((await tap.poll()).bodies) == POLL_MOST
    assert (await tap.poll()).bodies == [b"%d" % n for n in range(POLL_MOST, POLL_MOST + 7)]


async def test_without_sessions_all_is_of_one_lane_that_has_no_order() -> None:
    tap = Tap(50, 5)
    arrive(tap, 3)
    poll = await tap.poll()
    assert poll.slices == [Slice(UNORDERED, 0, 3, None)]
    assert poll.received > 0


async def test_sessions_are_cut_into_lanes_each_with_its_epoch() -> None:
    tap, a, b = Tap(50, 5), Session(link("a"), 1), Session(link("b"), 2)
    arrive(tap, 2, a)
    arrive(tap, 2, b, 10)
    arrive(tap, 1, a, 2)
    poll = await tap.poll()
    assert poll.slices == [Slice("a", 0, 3, 1), Slice("b", 3, 5, 2)]
    assert poll.bodies == [b"0", b"1", b"2", b"10", b"11"]


async def test_what_came_before_a_session_began_anew_is_not_delivered() -> None:
    tap, a = Tap(50, 5), Session(link("a"), 1)
    arrive(tap, 2, a)
    a.epoch = 2
    arrive(tap, 1, a, 5)
    assert (await tap.poll()).bodies == [b"5"]


async def test_what_came_of_a_session_that_is_paused_waits_for_it() -> None:
    tap, a, b = Tap(50, 5), Session(link("a"), 1), Session(link("b"), 2)
    arrive(tap, 2, a)
    arrive(tap, 1, b, 10)
    a.is_paused = True
    assert (await tap.poll()).bodies == [b"10"]
    a.is_paused = False
    tap.look_again()
    assert (await tap.poll()).bodies == [b"0", b"1"]


def test_a_message_is_known_by_number_and_time_and_its_first_delivery_is_the_first() -> None:
    message = message_of(Delivery(link(), 1, b"0" * 16), amqp(7))
    assert (message.key, message.deliveries) == ("7/1007", 1)
    again = message_of(Delivery(link(), 1, b"0" * 16), amqp(7, header=Header(delivery_count=2)))
    assert (again.key, again.deliveries) == ("7/1007", 3)
    assert message_of(Delivery(link(), 1, b"0" * 16), amqp(7, header=Header(delivery_count=None))).deliveries == 1


def test_the_lock_token_is_the_tag_in_the_byte_order_of_the_service() -> None:
    delivery = Delivery(link(), 1, bytes(range(16)))
    assert str(delivery.token) == "03020100-0504-0706-0809-0a0b0c0d0e0f"
