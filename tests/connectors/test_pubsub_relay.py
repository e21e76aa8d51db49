"""Dead letters as messages of a topic, and messages that people send."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis.strategies import binary, dictionaries, none, text, tuples

from bench.brokers.pubsub import topics
from bench.brokers.pubsub.control import Control
from bench.brokers.pubsub.fixtures import NewSubscription
from bench.brokers.pubsub.serving import PubSub
from bridge.core.errors import Refused, Transient
from bridge.ports import Letter, Outgoing, Relay
from connectors.pubsub import KIND, PubSubOptions
from connectors.pubsub.options import DeadLetterTopic
from connectors.pubsub.publishing import cut
from connectors.pubsub.relay import attributes_for, copy_of


def letter(**changes: Any) -> Letter:
    known: dict[str, Any] = {
        "number": 1,
        "id": "01J",
        "watcher": "eu_orders",
        "stream": "orders",
        "identity": "4711",
        "position": "orders/4711",
        "body": b'{"id": 1}',
        "key": b"customer 7",
        "headers": (("source", b"shop"),),
        "timestamp": 1796084491.25,
        "reason": "max_attempts",
        "error": "ValueError: no",
        "attempts": 5,
        "created_at": 1796084500.0,
    }
    return Letter(**{**known, **changes})


# As a message ---------------------------------------------------------------------------------------------------------


def test_a_copy_has_what_the_message_had_and_what_is_known_of_it() -> None:
    copy = copy_of(letter(), ordered=False)
    assert copy.data == b'{"id": 1}'
    assert dict(copy.attributes) == {
        "source": "shop",
        "headrace_dead_letter": "01J",
        "headrace_stream": "orders",
        "headrace_message_id": "4711",
        "headrace_position": "orders/4711",
        "headrace_published": "1796084491.250",
        "headrace_watcher": "eu_orders",
        "headrace_reason": "max_attempts",
        "headrace_attempts": "5",
        "headrace_error": "ValueError: no",
    }
    assert copy.ordering_key == ""


def test_the_ordering_key_goes_along_where_that_is_asked_for() -> None:
    assert copy_of(letter(), ordered=True).ordering_key == "customer 7"
    assert copy_of(letter(key=None), ordered=True).ordering_key == ""


def test_attributes_that_the_service_reserves_are_left_out_and_counted() -> None:
    attributes = attributes_for(letter(headers=(("googclient_x", b"1"), ("mine", b"2"))))
    assert attributes["headrace_left_out"] == "1"
    assert ("googclient_x" in attributes, attributes["mine"]) == (False, "2")


def test_ours_have_room_beside_a_hundred_of_theirs() -> None:
    attributes = attributes_for(letter(headers=tuple((f"name {n}", b"x") for n in range(100))))
    assert len(attributes) == 100
    assert attributes["headrace_left_out"] == "10"


def test_a_letter_that_is_copied_again_is_the_same_copy() -> None:
    """A copy may itself become a dead letter, elsewhere: then ours are of the last."""
    headers = tuple((name, value.encode()) for name, value in attributes_for(letter()).items())
    assert attributes_for(letter(headers=headers)) == attributes_for(letter())


def test_a_letter_without_a_body_is_sent_all_the_same() -> None:
    assert copy_of(letter(body=None), ordered=False).attributes["headrace_dead_letter"] == "01J"


def test_what_is_too_large_goes_by_reference() -> None:
    copy = copy_of(letter(body=b"x" * 10_000_000), ordered=False)
    assert (copy.data, copy.attributes["headrace_by_reference"]) == (b"", "10000000")
    assert copy.attributes["headrace_message_id"] == "4711"


@given(
    dictionaries(text(max_size=300), none() | binary(max_size=1100), max_size=120),
    tuples(text(max_size=600), text(max_size=600)),
)
def test_every_copy_is_within_the_limits(headers: dict[str, bytes | None], words: tuple[str, str]) -> None:
    attributes = attributes_for(letter(headers=tuple(headers.items()), reason=words[0], error=words[1] * 3))
    assert len(attributes) <= 100
    for name, value in attributes.items():
        assert 0 < len(name.encode()) <= 256
        assert len(value.encode()) <= 1024
        assert not name.startswith("goog")


@given(text())
def test_words_are_cut_between_characters(words: str) -> None:
    assert words.encode("utf-8", "replace").decode().startswith(cut(words, 10))
    assert len(cut(words, 10).encode()) <= 10


# At the service -------------------------------------------------------------------------------------------------------


def relayed(pubsub: PubSub, subscription: str, topic: str) -> Relay:
    made = PubSubOptions(
        subscription=subscription,
        endpoint=pubsub.address,
        dead_letter=DeadLetterTopic(topic=topic),
        request_timeout=2.0,
    )
    assert KIND.relay is not None
    relay = KIND.relay(made)
    assert relay is not None
    return relay


def test_without_a_topic_there_is_no_relay() -> None:
    assert KIND.relay is not None
    assert KIND.relay(PubSubOptions(subscription="projects/acme-prod/subscriptions/orders")) is None


@pytest.mark.integration
async def test_letters_arrive_confirmed(pubsub: PubSub, subscription: NewSubscription) -> None:
    made = await subscription()
    relay = relayed(pubsub, made.name, made.topic)
    await relay.open()
    assert await relay.send([letter(id=f"letter-{n}") for n in range(40)]) == [None] * 40
    await relay.aclose()
    taken = await topics.take(pubsub.address, made.name, 40)
    assert {each.message.attributes["headrace_dead_letter"] for each in taken} == {f"letter-{n}" for n in range(40)}


@pytest.mark.integration
async def test_a_topic_that_does_not_exist_is_an_error_at_start(pubsub: PubSub, subscription: NewSubscription) -> None:
    made = await subscription()
    relay = relayed(pubsub, made.name, "projects/tests/topics/never-made")
    with pytest.raises(Refused, match="never-made does not exist"):
        await relay.open()
    await relay.aclose()


@pytest.mark.integration
async def test_a_topic_that_refuses_for_a_while_gets_the_letters_later(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription
) -> None:
    made = await subscription()
    relay = relayed(pubsub, made.name, made.topic)
    await relay.open()
    pubsub_control.fail_calls("Publish", "PERMISSION_DENIED")
    (answer,) = await relay.send([letter()])
    assert isinstance(answer, Transient)
    assert "PERMISSION_DENIED" in str(answer)
    pubsub_control.mend()
    assert await relay.send([letter()]) == [None]
    await relay.aclose()


@pytest.mark.integration
async def test_what_people_send_arrives_with_its_attributes_and_its_key(
    pubsub: PubSub, subscription: NewSubscription
) -> None:
    made = await subscription(ordered=True)
    assert KIND.sender is not None
    sender = KIND.sender(PubSubOptions(subscription=made.name, endpoint=pubsub.address))
    positions = await sender.send(
        [Outgoing(b"1", b"k", (("a", b"x"),)), Outgoing(b"2", lane="lane"), Outgoing(None, headers=(("b", b""),))]
    )
    await sender.aclose()
    taken = {each.message.data: each.message for each in await topics.take(pubsub.address, made.name, 3)}
    assert len(positions) == 3
    assert (taken[b"1"].ordering_key, dict(taken[b"1"].attributes)) == ("k", {"a": "x"})
    assert taken[b"2"].ordering_key == "lane"
    assert dict(taken[b""].attributes) == {"b": ""}


@pytest.mark.integration
async def test_what_can_not_be_sent_is_told(pubsub: PubSub, subscription: NewSubscription) -> None:
    made = await subscription()
    assert KIND.sender is not None
    sender = KIND.sender(PubSubOptions(subscription=made.name, endpoint=pubsub.address))
    with pytest.raises(Refused, match="without data and attributes"):
        await sender.send([Outgoing(None)])
    with pytest.raises(Refused, match="'google' can't be sent"):
        await sender.send([Outgoing(b"1", headers=(("google", b"x"),))])
    await topics.delete(pubsub.address, topics=[made.topic])
    await sender.aclose()
    again = KIND.sender(PubSubOptions(subscription=made.name, endpoint=pubsub.address))
    with pytest.raises(Refused, match="was deleted"):
        await again.send([Outgoing(b"1")])
    await again.aclose()
