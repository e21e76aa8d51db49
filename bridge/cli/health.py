"""Is it healthy, and when not, why: in one sentence, from what the instances last said of themselves. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from bridge.cli.words import count, span
from bridge.store.views import InstanceView

_MOST: Final = 3  # reasons in the sentence


class Health(Struct, frozen=True):
    """`sentence` begins with `healthy` or `not healthy`."""

    is_healthy: bool
    sentence: str


class Instance(Struct, frozen=True):
    """A row of the store and what it held: `said` is the status of its last heartbeat, empty where there was none."""

    row: InstanceView
    said: Mapping[str, Any]

    @property
    def is_up(self) -> bool:
        """Neither ended nor known to be dead."""
        return self.row.state in ("running", "silent")

    @property
    def name(self) -> str:
        return f"process {self.row.pid} on {self.row.host}"

    @property
    def uptime(self) -> float:
        """Seconds from its start to now, or to its last sign of life."""
        return max(0.0, self.row.heartbeat_at - self.row.started_at + (self.row.seen_ago if self.is_up else 0.0))

    def part(self, name: str) -> Mapping[str, Mapping[str, Any]]:
        """`streams` or `targets` by name, as far as it told."""
        found = self.said.get(name)
        return {k: v for k, v in found.items() if isinstance(v, dict)} if isinstance(found, dict) else {}


def instance_of(row: InstanceView) -> Instance:
    """Reads the status, which a later or damaged version may have written."""
    try:
        return Instance(row, msgspec.json.decode(row.status, type=dict[str, Any]))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Instance(row, {})


def number(said: Mapping[str, Any], key: str) -> int:
    """A count that an instance told; 0 where it told none."""
    found = said.get(key)
    return found if isinstance(found, int) else 0


def reported(stream: Mapping[str, Any], key: str) -> str:
    """A number that a stream's source tells of itself (`lag`, `partitions`); empty where it tells none.

    Without a partition nobody knows of a lag: a 0 would look like all is read.
    """
    report = stream.get("report")
    if not isinstance(report, dict) or (key == "lag" and not report.get("partitions")):
        return ""
    found = report.get(key)
    return f"{found:,}" if isinstance(found, int) else ""


def judge(instances: Sequence[Instance], store_trouble: str = "") -> Health:
    """`instances` latest first; `store_trouble`: why the store takes no writes, told past it (`Reader.trouble`)."""
    up = [instance for instance in instances if instance.is_up]
    reasons = [reason for instance in up for reason in _reasons(instance)]
    if store_trouble and not any(_tells(instance, store_trouble) for instance in up):
        reasons.insert(0, f"the store takes no writes: {store_trouble}")
    if not (up or reasons):
        return Health(False, f"not healthy: {_why_none(instances)}")
    if reasons:
        more = f"; and {len(reasons) - _MOST} more" if len(reasons) > _MOST else ""
        return Health(False, f"not healthy: {'; '.join(reasons[:_MOST])}{more}")
    streams = sum(len(instance.part("streams")) for instance in up)
    outstanding = sum(number(s, "outstanding") for i in up for s in i.part("streams").values())
    work = f"{count(outstanding, 'event')} outstanding" if outstanding else "nothing outstanding"
    return Health(True, f"healthy: {count(len(up), 'instance')} running, {count(streams, 'stream')}, {work}")


def _tells(instance: Instance, store_trouble: str) -> bool:
    """Its last heartbeat says the same, and is among the reasons."""
    told = _store_trouble(instance.said)
    return instance.row.state == "running" and told != "" and store_trouble.startswith(told)


def _why_none(instances: Sequence[Instance]) -> str:
    if not instances:
        return "no instance has run on this store within the time that it remembers; start one with headrace run"
    last = instances[0]
    ago = span(last.row.seen_ago)
    if last.row.state == "crashed":
        return f"no instance runs: the last one ({last.name}) died without a clean end, last seen {ago} ago"
    return f"no instance runs: the last one ({last.name}) ended cleanly {ago} ago"


def _reasons(instance: Instance) -> Iterator[str]:
    if instance.row.state == "silent":
        yield f"{instance.name} has given no sign of life for {span(instance.row.seen_ago)}"
        return
    said = instance.said
    if not said:
        yield f"{instance.name} has just started and has told nothing yet"
        return
    told = list(_troubles(said, instance))
    yield from told
    if not told and said.get("healthy") is not True:
        yield f"{instance.name} says so, without a reason"


def _troubles(said: Mapping[str, Any], instance: Instance) -> Iterator[str]:
    if store_trouble := _store_trouble(said):
        yield f"the store takes nothing ({store_trouble})"
    for what, part in (("stream", "streams"), ("target", "targets")):
        for name, status in instance.part(part).items():
            if status.get("trouble"):
                yield f"{what} {name!r}: {status['trouble']}"


def _store_trouble(said: Mapping[str, Any]) -> str:
    store = said.get("store")
    return str(store.get("trouble") or "") if isinstance(store, dict) else ""
