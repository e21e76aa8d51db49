"""`headrace status`: what runs, how it goes, and what waits for somebody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import typer

from bridge.cli.endings import FINDINGS
from bridge.cli.opening import reader_of
from bridge.cli.options import Output, Paths, StoreUrl
from bridge.cli.output import say_json, show_parts, wants_json, width
from bridge.cli.words import count, iso_time, span

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bridge.cli.health import Health, Instance
    from bridge.store.reader import Reader
    from bridge.store.views import Counts, WatcherView

_GONE_SHOWN: Final = 3  # instances that are no more
_ERRORS_SHOWN: Final = 20
_STATES: Final = ("pending", "held", "dispatching", "started", "succeeded", "failed", "failed_run")


def status(paths: Paths = None, store: StoreUrl = None, output: Output = None) -> None:
    """Say whether it is healthy, and what waits where.

    One sentence, then the instances, streams, targets and dead letters. Exit code 0 when it is healthy, 1 when it
    is not or when no instance runs.

    \b
    Examples:
      headrace status
      headrace status --store sqlite:////var/lib/headrace.db --output json
    """
    from bridge.cli.health import instance_of, judge

    reader = reader_of(paths, store)
    instances = [instance_of(row) for row in reader.instances()]
    trouble = reader.trouble()
    health = judge(instances, trouble)
    report = _report(health, trouble, instances, reader)
    if wants_json(output):
        say_json(report)
    else:
        show_parts(*_parts(health, instances, report))
    if not health.is_healthy:
        raise typer.Exit(FINDINGS)


# What there is to tell -----------------------------------------------------------------------------------------------


def _report(health: Health, trouble: str, instances: Sequence[Instance], reader: Reader) -> dict[str, Any]:
    counts = reader.counts()
    return {
        "healthy": health.is_healthy,
        "reason": health.sentence,
        "store": {"trouble": trouble or None},
        "instances": [_instance(instance) for instance in instances],
        "streams": [
            {"instance": instance.row.id, "stream": name, **said, **_relay(name, said, counts)}
            for instance in instances
            if instance.is_up
            for name, said in instance.part("streams").items()
        ],
        "targets": _targets(counts, instances),
        "dead_letters": _letters(counts),
        "retrying": counts.attempts,
        "watchers": _watchers(reader.watchers()),
    }


def _relay(stream: str, said: Mapping[str, Any], counts: Counts) -> dict[str, Any]:
    """What the instance says of copying dead letters to the broker's own place, and how many wait for it."""
    relay = said.get("relay")
    return {"relay": {**relay, "waiting": dict(counts.relays).get(stream, 0)}} if isinstance(relay, dict) else {}


def _instance(instance: Instance) -> dict[str, Any]:
    row = instance.row
    return {
        "id": row.id,
        "state": row.state,
        "pid": row.pid,
        "host": row.host,
        "version": row.version,
        "started_at": iso_time(row.started_at),
        "uptime": round(instance.uptime, 1),
        "heartbeat_at": iso_time(row.heartbeat_at),
        "heartbeat_age": round(row.seen_ago, 1),
        "status": instance.said,
    }


def _targets(counts: Counts, instances: Sequence[Instance]) -> dict[str, dict[str, Any]]:
    """By name: how many runs are in which state, and what the instances say about the target now."""
    from bridge.cli.health import number

    targets: dict[str, dict[str, Any]] = {}
    live = [(name, said) for i in instances if i.is_up for name, said in i.part("targets").items()]
    for name in sorted({*(target for _, target, _ in counts.runs), *(name for name, _ in live)}):
        states: dict[str, int] = dict.fromkeys(_STATES, 0)
        states |= {state: number for state, target, number in counts.runs if target == name}
        mine = [said for named, said in live if named == name]
        targets[name] = {
            **states,
            "in_flight": sum(number(said, "in_flight") for said in mine),
            "trouble": next((str(said["trouble"]) for said in mine if said.get("trouble")), None),
            "last_error": next((str(said["last_error"]) for said in mine if said.get("last_error")), None),
        }
    return targets


def _letters(counts: Counts) -> dict[str, dict[str, int]]:
    letters: dict[str, dict[str, int]] = {}
    for state, reason, number in counts.dead_letters:
        letters.setdefault(state, {})[reason] = number
    return letters


def _watchers(watchers: Sequence[WatcherView]) -> dict[str, list[str]]:
    present = [watcher for watcher in watchers if watcher.removed_at is None]
    return {
        "paused": [watcher.id for watcher in present if watcher.paused],
        "disabled": [watcher.id for watcher in present if watcher.disabled],
    }


# For people ----------------------------------------------------------------------------------------------------------


def _parts(health: Health, instances: Sequence[Instance], report: Mapping[str, Any]) -> list[RenderableType]:
    from rich.text import Text

    from bridge.cli.words import printable

    parts: list[RenderableType] = [Text(printable(health.sentence), "bold green" if health.is_healthy else "bold red")]
    tables = (
        _instance_table(instances),
        _stream_table(report["streams"]),
        _target_table(report["targets"]),
        _letter_table(report["dead_letters"]),
        _relay_table(report["streams"]),
        _error_table(report["streams"]),
        _watcher_lines(report["watchers"]),
    )
    for table in tables:
        if table is not None:
            parts += ["", table]
    return parts


def _instance_table(instances: Sequence[Instance]) -> RenderableType | None:
    from bridge.cli.tables import Column, listing

    up = [instance for instance in instances if instance.is_up]
    shown = up + [instance for instance in instances if not instance.is_up][:_GONE_SHOWN]
    columns: list[Column[Instance]] = [
        Column("instance", lambda i: i.row.id, 3),
        Column("state", lambda i: i.row.state),
        Column("pid", lambda i: str(i.row.pid), right=True),
        Column("host", lambda i: i.row.host, 1),
        Column("version", lambda i: i.row.version, 4),
        Column("uptime", lambda i: span(i.uptime), 2, right=True),
        Column("heartbeat", lambda i: f"{span(i.row.seen_ago)} ago", 1, right=True),
    ]
    return listing(shown, columns, width()) if shown else None


def _stream_table(streams: Sequence[Mapping[str, Any]]) -> RenderableType | None:
    from bridge.cli.health import reported
    from bridge.cli.tables import Column, listing

    def told(key: str) -> Any:
        return lambda said: f"{said[key]:,}" if isinstance(said.get(key), int) else ""

    columns: list[Column[Mapping[str, Any]]] = [
        Column("stream", lambda said: said["stream"]),
        Column("state", _stream_state),
        Column("received", told("received"), 1, right=True),
        Column("matched", lambda said: f"{_sum(said.get('matched')):,}", 2, right=True),
        Column("settled", told("settled"), 2, right=True),
        Column("outstanding", told("outstanding"), 1, right=True),
        Column("partitions", lambda said: reported(said, "partitions"), 2, right=True),
        Column("lag", lambda said: reported(said, "lag"), 1, right=True),
        Column("trouble", lambda said: str(said.get("trouble") or ""), 1, "folded"),
    ]
    return listing(streams, columns, width()) if streams else None


def _stream_state(said: Mapping[str, Any]) -> str:
    return f"{said.get('state', '')}{', full' if said.get('paused') else ''}"


def _sum(matched: object) -> int:
    return sum(n for n in matched.values() if isinstance(n, int)) if isinstance(matched, dict) else 0


def _target_table(targets: Mapping[str, Mapping[str, Any]]) -> RenderableType | None:
    from bridge.cli.tables import Column, listing

    def stored(*keys: str) -> Any:
        return lambda item: f"{sum(item[1][key] for key in keys):,}"

    columns: list[Column[tuple[str, Mapping[str, Any]]]] = [
        Column("target", lambda item: item[0]),
        Column("pending", stored("pending"), right=True),
        Column("held", stored("held"), 3, right=True),
        Column("in flight", stored("dispatching"), 1, right=True),
        Column("started", stored("started", "succeeded"), 1, right=True),
        Column("failed", stored("failed", "failed_run"), right=True),
        Column("last error", lambda item: item[1]["trouble"] or item[1]["last_error"] or "", 2, "folded"),
    ]
    return listing(list(targets.items()), columns, width()) if targets else None


def _letter_table(letters: Mapping[str, Mapping[str, int]]) -> RenderableType | None:
    from bridge.cli.tables import Column, listing

    rows = [(reason, state, number) for state, reasons in letters.items() for reason, number in reasons.items()]
    shown = sorted((row for row in rows if row[1] in ("dead", "replaying")), key=lambda row: -row[2])
    columns: list[Column[tuple[str, str, int]]] = [
        Column("dead letters", lambda row: row[0]),
        Column("state", lambda row: row[1], 1),
        Column("waiting", lambda row: f"{row[2]:,}", right=True),
    ]
    return listing(shown, columns, width()) if shown else None


def _relay_table(streams: Sequence[Mapping[str, Any]]) -> RenderableType | None:
    from bridge.cli.health import number
    from bridge.cli.tables import Column, listing

    def told(key: str) -> Any:
        return lambda row: f"{number(row[1], key):,}"

    rows = [(said["stream"], said["relay"]) for said in streams if isinstance(said.get("relay"), dict)]
    columns: list[Column[tuple[str, Mapping[str, Any]]]] = [
        Column("dead letters of", lambda row: row[0]),
        Column("copied", told("relayed"), right=True),
        Column("to be copied", told("waiting"), right=True),
        Column("refused", told("refused"), 1, right=True),
        Column("trouble", lambda row: str(row[1].get("trouble") or ""), 1, "folded"),
    ]
    return listing(rows, columns, width()) if rows else None


def _error_table(streams: Sequence[Mapping[str, Any]]) -> RenderableType | None:
    """Watchers whose conditions could not be asked of some events: those match nothing, and somebody should know."""
    from bridge.cli.tables import Column, listing

    rows = [
        (watcher, told)
        for said in streams
        for watcher, told in (said.get("outcomes") or {}).items()
        if isinstance(told, dict) and told.get("errors")
    ]
    columns: list[Column[tuple[str, dict[str, Any]]]] = [
        Column("filter errors", lambda row: row[0]),
        Column("events", lambda row: f"{row[1]['errors']:,}", right=True),
        Column("field missing", lambda row: f"{row[1].get('missing', 0):,}", 1, right=True),
        Column("last error", lambda row: str(row[1].get("last_error", "")), 2, "folded"),
    ]
    return listing(rows[:_ERRORS_SHOWN], columns, width()) if rows else None


def _watcher_lines(watchers: Mapping[str, Sequence[str]]) -> RenderableType | None:
    from bridge.cli.tables import facts

    pairs = [(f"{count(len(ids), 'watcher')} {what}", ", ".join(ids)) for what, ids in watchers.items() if ids]
    return facts(pairs) if pairs else None
