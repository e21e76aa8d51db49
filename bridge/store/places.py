"""How far the lanes of streams are settled, as their producers say: what a restored store can be measured by."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import delete, select

from bridge.store.rules import storable
from bridge.store.schema import places
from bridge.store.writer import Transaction

Lanes = Mapping[str, str]


class Places:
    """Writes the places of streams where they have changed. It remembers what it wrote last."""

    def __init__(self) -> None:
        self._kept: dict[str, Lanes] = {}

    def refresh(self) -> None:
        """The connection is a new one: what was written last may not be there."""
        self._kept.clear()

    def of(self, tx: Transaction, stream: str) -> dict[str, str]:
        query = select(places.c.lane, places.c.place).where(places.c.stream == stream)
        return {row[0]: row[1] for row in tx.connection.execute(query)}

    def put(self, tx: Transaction, told: Mapping[str, Lanes]) -> dict[str, Lanes]:
        """Replaces those of each stream. Returns what `keep` is to be told once that is committed."""
        changed = {stream: dict(lanes) for stream, lanes in told.items() if self._kept.get(stream) != lanes}
        for stream, lanes in changed.items():
            tx.connection.execute(delete(places).where(places.c.stream == stream))
            rows = {storable(lane): storable(place) for lane, place in lanes.items()}
            if rows:
                tx.connection.execute(
                    places.insert(), [{"stream": stream, "lane": lane, "place": rows[lane]} for lane in sorted(rows)]
                )
        return {**changed}

    def keep(self, written: Mapping[str, Lanes]) -> None:
        self._kept.update(written)
