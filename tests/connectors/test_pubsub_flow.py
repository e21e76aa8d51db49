"""When streams have to be opened again for the sake of what may be on its way."""

from __future__ import annotations

from connectors.pubsub.flow import Flow


def opened(most: int = 1000) -> Flow:
    flow = Flow(most)
    flow.open(0.0)
    return flow


def test_a_stream_that_is_full_is_left_open() -> None:
    flow = opened()
    flow.came(1000)
    flow.ask(0)
    assert flow.why_end(1.0) == ""
    flow.left(300)
    flow.came(300)
    assert flow.why_end(2.0) == ""


def test_a_service_that_does_not_count_is_told_that_nothing_is_wanted() -> None:
    flow = opened()
    flow.ask(0)
    flow.came(350)
    assert flow.why_end(1.0) == ""
    flow.came(1)
    assert flow.why_end(1.0) == "unasked"


def test_asking_again_forgets_what_came_too_much() -> None:
    flow = opened()
    flow.ask(0)
    flow.came(5000)
    flow.ask(1000)
    assert flow.why_end(1.0) == ""
    flow.ask(0)
    assert flow.why_end(1.0) == ""


def test_another_number_opens_the_streams_again() -> None:
    flow = opened()
    flow.ask(500)
    assert flow.why_end(1.0) == "resized"
    assert flow.open(1.0) == 500
    assert flow.why_end(1.0) == ""


def test_messages_that_rest_do_not_take_the_room_of_others_for_ever() -> None:
    flow = opened(10)
    flow.rested(5)
    assert flow.why_end(9.0) == ""
    assert flow.why_end(10.0) == "crowded"
    flow.open(10.0)
    assert flow.why_end(30.0) == ""


def test_streams_that_were_never_opened_are_not_ended() -> None:
    flow = Flow(100)
    flow.ask(50)
    assert flow.why_end(100.0) == ""
