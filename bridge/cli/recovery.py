"""`headrace explain --run`: what can still be said of a run. Its message is not kept, its params are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from bridge.cli.checking import shown_value
from bridge.cli.endings import Unmet
from bridge.cli.hiding import Hiding
from bridge.cli.messages import exact
from bridge.cli.output import say_json, show_parts, wants_json, width
from bridge.cli.questions import reader_for
from bridge.cli.trees import as_json, plain, tree_of
from bridge.cli.words import iso_time
from bridge.language.ir import AllOf, Expr, Path
from bridge.language.text import text_of_node
from bridge.language.trace import Traced, trace
from bridge.language.uses import fields_of

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bridge.cli.output import Format
    from bridge.config.model import Config, WatcherConfig
    from bridge.store.reader import Reader
    from bridge.store.views import RunView

_PLAIN: Final = re.compile(r"\s*\$\{\s*event((?:\.[A-Za-z_]\w*)*)\s*\}\s*")
_NOT_KEPT: Final = "held; its value is not kept"


class Param(Struct, frozen=True):
    """A value of the run's params beside what it was made from; `written` is empty where that is not known."""

    place: str
    written: str
    value: object


class Part(Struct, frozen=True):
    """A part of the condition. `traced` None: what it saw is not kept."""

    text: str
    traced: Traced | None


class Recovered(Struct, frozen=True):
    """`remarks`: what keeps this from being the whole truth."""

    run: RunView
    params: tuple[Param, ...]
    parts: tuple[Part, ...]
    remarks: tuple[str, ...]


def explain_run(key: str, config: Config, store: str | None, output: Format | None) -> None:
    """Raises Unmet where there is no such run."""
    reader = reader_for(config, store)
    run = reader.run(key) if key else None
    if run is None:
        raise Unmet(f"there is no run {key!r}; `headrace runs list` lists them")
    found = recovered(run, config, _definition(reader, run.watcher))
    if wants_json(output):
        say_json(_report(found))
    else:
        show_parts(*_parts(found))


def _definition(reader: Reader, watcher: str) -> str | None:
    return next((view.definition for view in reader.watchers() if view.id == watcher), None)


def recovered(run: RunView, config: Config, definition: str | None) -> Recovered:
    """`definition` is the one of the watcher that the store knows."""
    watcher = next((each for each in config.watchers if each.id == run.watcher), None)
    params, hiding = exact(run.params), Hiding(config.secrets)
    if watcher is None:
        remark = f"this configuration has no watcher {run.watcher!r}: what it asked for is not known any more"
        return Recovered(run, tuple(_params(params, {}, "")), (), (remark,))
    written = watcher.written.get("params") or {}
    event = _event(params, written)
    parts = () if watcher.trigger is not None else tuple(_part(node, event, hiding) for node in _held(watcher))
    shown = tuple(_params(hiding.value(params), written, ""))
    return Recovered(run, shown, parts, tuple(_remarks(watcher, definition, parts)))


def _remarks(watcher: WatcherConfig, definition: str | None, parts: tuple[Part, ...]) -> Iterator[str]:
    if watcher.trigger is not None:
        yield f"it was decided by {watcher.trigger}, and only its code knows why"
    if definition is not None and definition != watcher.definition:
        yield "the watcher is defined otherwise here than where it ran last: what it asked then may be something else"
    elif any(part.traced is not None and part.traced.value is not True for part in parts):
        yield "not all of it holds for the params that are kept: the watcher was another when the run was asked for"


# What is known of the event ------------------------------------------------------------------------------------------


def _event(params: object, written: object) -> dict[Path, object]:
    """Fields of the event by path, from params that are a field and nothing else."""
    if isinstance(written, Mapping) and isinstance(params, Mapping):
        return {
            path: value
            for name, below in written.items()
            if name in params
            for path, value in _event(params[name], below).items()
        }
    found = _PLAIN.fullmatch(written) if isinstance(written, str) else None
    return {} if found is None else {tuple(found[1].split(".")[1:]): params}


def _held(watcher: WatcherConfig) -> tuple[Expr, ...]:
    """What must have held, each part for itself."""
    condition: Expr | None = watcher.condition
    if condition is None:
        return ()
    return condition.parts if isinstance(condition, AllOf) else (condition,)


def _part(node: Expr, event: Mapping[Path, object], hiding: Hiding) -> Part:
    roots = _roots(node, event)
    return Part(hiding.text(text_of_node(node)), None if roots is None else hiding.traced(trace(node, roots)))


def _roots(node: Expr, event: Mapping[Path, object]) -> dict[str, object] | None:
    """Enough of an event to evaluate the node; None where a field of it is not known."""
    document: dict[str, object] = {}
    for field in fields_of(node):
        if field.root != "event" or not _put(document, field.path, event):
            return None
    return {"event": document}


def _put(document: dict[str, object], path: Path, event: Mapping[Path, object]) -> bool:
    """Puts the field, or what it is a part of, into the document. False: neither is known."""
    for length in range(len(path) + 1):
        known = path[:length]
        if known not in event:
            continue
        value = event[known]
        if not known:
            document.update(value if isinstance(value, Mapping) else {})
            return isinstance(value, Mapping)
        here = document
        for name in known[:-1]:
            below = here.setdefault(name, {})
            if not isinstance(below, dict):
                return True  # it is there already, as a part of something larger
            here = below
        here[known[-1]] = value
        return True
    return False


def _params(value: object, written: object, place: str) -> Iterator[Param]:
    """A line for each text or number, with the expression that stands in its place."""
    if isinstance(value, Mapping) and (isinstance(written, Mapping) or not place):
        for name, below in value.items():
            beside = written.get(name) if isinstance(written, Mapping) else None
            yield from _params(below, beside, f"{place}.{name}" if place else str(name))
    else:
        yield Param(place, "" if written is None else str(written), value)


# What is shown -------------------------------------------------------------------------------------------------------


def _report(found: Recovered) -> dict[str, Any]:
    run = found.run
    names = ("run_key", "watcher", "stream", "position", "target", "job", "state")
    return {
        **{name: getattr(run, name) for name in names},
        "received_at": iso_time(run.received_at),
        "params": [{"param": p.place, "written": p.written, "value": plain(p.value)} for p in found.params],
        "conditions": [
            {"clause": part.text, "held": None} if part.traced is None else as_json(part.traced) for part in found.parts
        ],
        "remarks": list(found.remarks),
    }


def _parts(found: Recovered) -> list[RenderableType]:
    from rich.padding import Padding
    from rich.text import Text

    from bridge.cli.tables import Column, facts, listing
    from bridge.cli.words import printable

    names = ("watcher", "stream", "position", "target", "job", "state")
    pairs = [("run key", found.run.run_key), *((name, str(getattr(found.run, name))) for name in names)]
    parts: list[RenderableType] = [facts(pairs)]
    if found.params:
        columns: list[Column[Param]] = [
            Column("param", lambda p: p.place),
            Column("value", lambda p: shown_value(p.value), shape="folded"),
            Column("written as", lambda p: p.written, 1, "folded"),
        ]
        parts += ["", listing(found.params, columns, width())]
    if found.parts:
        parts += ["", "its condition: all of these"]
    for part in found.parts:
        line = Text.assemble(("✓", "green"), f" {printable(part.text)}  ", (_NOT_KEPT, "dim"))
        parts.append(Padding(line if part.traced is None else tree_of(part.traced), (0, 0, 0, 2)))
    for remark in found.remarks:
        parts += ["", Text(printable(remark), "yellow")]
    return parts
