"""What a producer gives account of beside its messages: how far its lanes are settled, and what people should know.

Both are the producer's own code: what it does wrong here costs its account, and neither the stream nor the heartbeat.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import structlog
from msgspec import Struct

from bridge.ports import KeepsPlaces, Ledger, Producer, Reports, Store

log = structlog.get_logger("headrace.stream")

Places = Mapping[str, str]


class Meant(Struct, frozen=True):
    """What a person has said of a broker that was told more than the store remembers: see `Ledger`."""

    rewind: bool = False
    accept: bool = False


async def give_ledger(producer: Producer, store: Store, stream: str, meant: Meant) -> None:
    """To a producer that can use it, before its stream is opened. Raises StoreUnavailable."""
    if isinstance(producer, KeepsPlaces):
        places = await store.places(stream)
        producer.take_ledger(Ledger(store.store_id, lambda: store.sequence, places, meant.rewind, meant.accept))


def places_of(producer: Producer, stream: str) -> Places:
    """Empty where there is nothing to keep, and then what was kept stays as it is."""
    if not isinstance(producer, KeepsPlaces):
        return {}
    try:
        return dict(producer.places())
    except Exception as error:
        log.warning("the producer can't tell its places", stream=stream, error=f"{type(error).__name__}: {error}")
        return {}


def report_of(producer: Producer) -> Mapping[str, object]:
    """As JSON can hold it; with a text under `trouble` where something is wrong."""
    if not isinstance(producer, Reports):
        return {}
    try:
        report = dict(producer.report())
        msgspec.json.encode(report)
    except Exception as error:
        return {"trouble": f"the producer can't report: {type(error).__name__}: {error}"}
    return report
