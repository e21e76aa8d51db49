"""Bodies and headers of AMQP messages, whoever has sent them (B53)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pytest
from azure.servicebus._pyamqp.message import Header, Message, Properties

from bridge.core.model import TOMBSTONE
from connectors.servicebus.bodies import UNREADABLE, body_of, header_of, headers_of
from connectors.servicebus.messages import described, seen_of

NUMBER = UUID("12345678-1234-5678-1234-567812345678")


def test_data_sections_are_joined() -> None:
    assert body_of(Message(data=[b'{"a":', b"1}"])) == b'{"a":1}'
    assert body_of(Message(data=[b"\xff\x00"])) == b"\xff\x00"


def test_a_data_section_without_a_byte_is_an_empty_body() -> None:
    assert body_of(Message(data=[b""])) == b""
    assert type(body_of(Message(data=[b""]))) is bytes


@pytest.mark.parametrize("message", [Message(), Message(value=None)])
def test_no_body_and_the_value_null_are_told_from_an_empty_one(message: Message) -> None:
    assert body_of(message) is TOMBSTONE


def test_a_value_that_is_a_text_or_binary_is_its_bytes() -> None:
    assert body_of(Message(value=b'{"a":1}')) == b'{"a":1}'
    assert body_of(Message(value="größe")) == "größe".encode()


@pytest.mark.parametrize(
    ("value", "json"),
    [
        ({b"id": b"o-1", b"n": 1, b"ok": True, b"none": None}, {"id": "o-1", "n": 1, "ok": True, "none": None}),
        ([b"a", 1.5, [b"b"]], ["a", 1.5, ["b"]]),
        ({7: b"seven"}, {"7": "seven"}),
        ({b"u": NUMBER, b"d": Decimal("1.10")}, {"u": str(NUMBER), "d": "1.10"}),
        (42, 42),
        (False, False),
    ],
)
def test_any_other_value_is_json_with_texts_for_keys(value: Any, json: Any) -> None:
    assert msgspec.json.decode(body_of(Message(value=value))) == json


def test_sequence_sections_are_one_list() -> None:
    assert body_of(Message(sequence=[[b"a", 1], [b"b"]])) == b'["a",1,"b"]'


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (Message(value={b"x": b"\xff\xfe"}), "2 bytes that are no UTF-8"),
        (Message(value=[float("nan")]), "the number nan"),
        (Message(value={b"1": 1, 1: 2}), "two keys that are '1' as texts"),
        (Message(value=[object()]), "something of type object"),
        (Message(sequence=[[float("inf")]]), "an AMQP sequence"),
    ],
)
def test_what_json_can_not_say_is_bytes_that_no_decoder_takes_and_says_why(message: Message, why: str) -> None:
    body = body_of(message)
    assert body.startswith(UNREADABLE)
    assert why in body[1:].decode()
    with pytest.raises(UnicodeDecodeError):
        body.decode()
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(body)


def test_a_value_as_deep_as_one_likes_raises_nothing() -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    assert b"levels deep" in body_of(Message(value=deep))


# Headers -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "header"),
    [
        (b"shop", b"shop"), ("shop", b"shop"), (7, b"7"), (1.5, b"1.5"), (True, b"true"), (False, b"false"),
        (None, None), (NUMBER, str(NUMBER).encode()), ([b"a", 1], b'["a",1]'), ({b"a": 1}, b'{"a":1}'),
    ],
)  # fmt: skip
def test_a_header_is_its_text(value: Any, header: bytes | None) -> None:
    assert header_of(value) == header


def test_properties_of_the_application_come_behind_those_of_amqp_and_so_win() -> None:
    properties = Properties(subject=b"orders", content_type=b"application/json", correlation_id=NUMBER)
    headers = headers_of(properties, {b"subject": b"mine", b"n": 1})
    assert headers == (
        ("subject", b"orders"),
        ("correlation-id", str(NUMBER).encode()),
        ("content-type", b"application/json"),
        ("subject", b"mine"),
        ("n", b"1"),
    )
    assert headers_of(None, None) == ()


def test_a_message_is_described_by_what_the_broker_says() -> None:
    message = Message(
        header=Header(delivery_count=2),
        message_annotations={b"x-opt-sequence-number": 7, b"x-opt-enqueued-time": 1_700_000_000_500},
        properties=Properties(message_id=b"m-1", group_id=b"s-1"),
        data=[b"x"],
    )
    meta = seen_of(message)
    assert (meta.position, meta.timestamp, meta.lane) == ("s-1@7", 1_700_000_000.5, "s-1")
    assert (meta.message_id, meta.delivery_attempt, meta.tombstone) == ("m-1", 3, False)


def test_a_message_of_which_nothing_is_said_is_described_too() -> None:
    meta = described(Message(), 0, 0, 1)
    assert (meta.position, meta.timestamp, meta.headers, meta.message_id, meta.tombstone) == ("0", None, (), "", True)
