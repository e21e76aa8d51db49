"""Where a person's message goes, and how one is shown. What needs a broker is in tests/integration/kafka."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka import ConsumerRecord

from bridge.core.errors import Refused
from connectors.kafka.options import KafkaOptions
from connectors.kafka.people import Place, place_of, seen_of


def options_of(*topics: str, **keys: Any) -> KafkaOptions:
    return KafkaOptions(bootstrap_servers=["b:9092"], group_id="g", topics=list(topics), **keys)


@pytest.mark.parametrize(
    ("lane", "place"),
    [
        (None, Place("orders", None)),
        ("3", Place("orders", 3)),
        ("orders", Place("orders", None)),
        ("orders/3", Place("orders", 3)),
    ],
)
def test_a_lane_is_a_partition_a_topic_or_both(lane: str | None, place: Place) -> None:
    assert place_of(lane, options_of("orders")) == place


def test_of_several_topics_one_is_to_be_named() -> None:
    both = options_of("orders", "refunds")
    with pytest.raises(Refused, match="reads topics orders, refunds: say where"):
        place_of(None, both)
    with pytest.raises(Refused, match="say where"):
        place_of("3", both)
    assert place_of("refunds/3", both) == Place("refunds", 3)


def test_a_pattern_takes_topics_whose_whole_name_fits() -> None:
    fitting = options_of(topic_pattern=r"orders\..*")
    assert place_of("orders.eu/0", fitting) == Place("orders.eu", 0)
    with pytest.raises(Refused, match="what fits a pattern: say where"):
        place_of(None, fitting)
    with pytest.raises(Refused, match=r"does not read 'xorders.eu', it reads what fits"):
        place_of("xorders.eu", fitting)


def test_a_topic_may_be_called_by_a_number() -> None:
    assert place_of("2026", options_of("2026")) == Place("2026", None)


@pytest.mark.parametrize("lane", ["orders/", "orders/x", "/x", "other", "other/1"])
def test_what_is_no_lane_of_the_stream_is_refused(lane: str) -> None:
    with pytest.raises(Refused):
        place_of(lane, options_of("orders"))


def test_a_record_is_shown_as_the_stream_names_it() -> None:
    record = ConsumerRecord(
        topic="orders", partition=3, offset=17, timestamp=1_764_513_845_120, timestamp_type=0, key=None, value=None,
        checksum=None, serialized_key_size=-1, serialized_value_size=-1, headers=(("a", None),),
    )  # fmt: skip
    seen = seen_of(record)
    assert (seen.meta.position, seen.meta.timestamp, seen.meta.lane) == ("orders[3]@17", 1_764_513_845.12, "orders-3")
    assert (seen.body, seen.meta.tombstone, seen.meta.headers) == (None, True, (("a", None),))
