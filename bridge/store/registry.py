"""Which watchers and sources the store has seen: run keys are made of their names, so a name must keep its meaning."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import select, update

from bridge.core.errors import StoreRefused
from bridge.store.schema import sources, watchers
from bridge.store.writer import Transaction


def register(
    tx: Transaction, definitions: Mapping[str, str], streams: Mapping[str, str], accept: frozenset[str]
) -> None:
    """Writes what is configured now, or raises StoreRefused with every problem and changes nothing."""
    seen = select(watchers.c.id, watchers.c.definition, watchers.c.removed_at)
    known = {watcher: (definition, removed) for watcher, definition, removed in tx.connection.execute(seen)}
    stored = {row[0]: row[1] for row in tx.connection.execute(select(sources.c.stream, sources.c.source))}
    problems = reused_ids(known, definitions, accept) + moved_sources(stored, streams, accept)
    if problems:
        raise StoreRefused("\n".join(problems))
    _write_watchers(tx, known, definitions)
    for stream in sorted(streams.keys() - stored.keys()):
        tx.connection.execute(sources.insert().values(stream=stream, source=streams[stream]))
    for stream in sorted(s for s in streams.keys() & stored.keys() if streams[s] != stored[s]):
        tx.connection.execute(update(sources).where(sources.c.stream == stream).values(source=streams[stream]))


def reused_ids(
    known: Mapping[str, tuple[str, float | None]], definitions: Mapping[str, str], accept: frozenset[str]
) -> list[str]:
    """Ids that were removed and come back as something else: their old run keys would swallow the new runs."""
    return [
        f"watcher {watcher!r}: this id was removed from the configuration earlier and comes back with another "
        "definition, so its runs could be taken for repeats of the old ones; "
        f"give it another id, or run with --accept {watcher}"
        for watcher, definition in sorted(definitions.items())
        if watcher in known and known[watcher][1] is not None and known[watcher][0] != definition
        if watcher not in accept
    ]


def moved_sources(stored: Mapping[str, str], streams: Mapping[str, str], accept: frozenset[str]) -> list[str]:
    """Streams that read another source than at their first start."""
    return [
        f"stream {stream!r}: its source was {stored[stream]!r} and is {source!r} now, so messages that were handled "
        f"before would count as new; give the stream another name, or run with --accept {stream}"
        for stream, source in sorted(streams.items())
        if stream in stored and stored[stream] != source and stream not in accept
    ]


def _write_watchers(
    tx: Transaction,
    known: Mapping[str, tuple[str, float | None]],
    definitions: Mapping[str, str],
) -> None:
    new = [
        {"id": watcher, "definition": definitions[watcher], "paused": False, "disabled": False}
        for watcher in sorted(definitions.keys() - known.keys())
    ]
    if new:
        tx.connection.execute(watchers.insert(), new)
    for watcher in sorted(definitions.keys() & known.keys()):
        definition, removed_at = known[watcher]
        changed = definition != definitions[watcher]
        if changed or removed_at is not None:
            values: dict[str, object] = {"definition": definitions[watcher], "removed_at": None}
            if changed and removed_at is not None:  # another watcher under an old name: it starts afresh
                values |= {"paused": False, "disabled": False}
            tx.connection.execute(update(watchers).where(watchers.c.id == watcher).values(**values))
    for watcher in sorted(w for w in known.keys() - definitions.keys() if known[w][1] is None):
        tx.connection.execute(update(watchers).where(watchers.c.id == watcher).values(removed_at=tx.now))
