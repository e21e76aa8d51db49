"""`headrace validate --connect`: what a look at the brokers has shown, stream by stream."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct
from rich.console import RenderableType

from bridge.cli.brokers import kind_of, quiet
from bridge.cli.tables import Column, listing
from bridge.cli.words import count
from bridge.config.model import Config, StreamConfig
from bridge.core.errors import HeadraceError
from bridge.importing import told
from bridge.ports import Finding

WITHIN: Final = 60.0
"""Seconds that a stream's look may take, should it not bound itself."""


class Looked(Struct, frozen=True):
    """At a stream. `findings` None: its kind has no way to look."""

    stream: str
    kind: str
    findings: tuple[Finding, ...] | None

    def count(self, severity: str) -> int:
        return sum(finding.severity == severity for finding in self.findings or ())


def looked_at(config: Config) -> list[Looked]:
    """All streams at the same time. Nothing is taken from any of them."""

    async def look() -> list[Looked]:
        return await asyncio.gather(*map(_look, config.streams.values()))

    with quiet():
        return asyncio.run(look())


async def _look(stream: StreamConfig) -> Looked:
    examine = kind_of(stream).examine
    if examine is None:
        return Looked(stream.name, stream.kind, None)
    try:
        async with asyncio.timeout(WITHIN):
            found = await examine(stream.options)
    except TimeoutError:
        found = [Finding("error", f"no answer within {WITHIN:g} s", "is the broker there?")]
    except HeadraceError as error:
        found = [Finding("error", str(error))]
    except Exception as error:  # whatever it is, it hides no other stream's findings
        found = [Finding("error", f"the look at it failed: {told(error)}")]
    return Looked(stream.name, stream.kind, tuple(found))


def has_errors(looks: Sequence[Looked]) -> bool:
    return any(look.count("error") for look in looks)


def as_json(looks: Sequence[Looked]) -> dict[str, Any]:
    """By stream; `findings` is null where the kind has no way to look."""
    return {
        look.stream: {
            "kind": look.kind,
            "findings": None if look.findings is None else [finding._asdict() for finding in look.findings],
        }
        for look in looks
    }


def table_of(looks: Sequence[Looked], width: int) -> RenderableType:
    """A line for each finding, and one for each stream without any."""
    columns: list[Column[tuple[str, str, str, str]]] = [
        Column("stream", lambda row: row[0]),
        Column("", lambda row: row[1]),
        Column("what was found", lambda row: row[2], 0, "folded"),
        Column("what to do", lambda row: row[3], 1, "folded"),
    ]
    return listing([row for look in looks for row in _rows(look)], columns, width)


def _rows(look: Looked) -> list[tuple[str, str, str, str]]:
    if look.findings is None:
        return [(look.stream, "-", f"was not looked at: there is no way to for the kind {look.kind!r}", "")]
    if not look.findings:
        return [(look.stream, "ok", "nothing wrong", "")]
    return [(look.stream, finding.severity, finding.message, finding.hint) for finding in look.findings]


def summary(looks: Sequence[Looked]) -> str:
    """`2 errors, 1 warning`."""
    counts = [
        count(number, what) for what in ("error", "warning") if (number := sum(look.count(what) for look in looks))
    ]
    return ", ".join(counts) or "nothing wrong"
