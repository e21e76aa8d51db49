"""`headrace runs list`, `show` and `retry`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bridge.cli.endings import Unmet
from bridge.cli.opening import reader_of
from bridge.cli.options import (
    ActionOutput,
    ConfigPaths,
    Limit,
    Output,
    RunStateOption,
    StoreUrl,
    TargetOption,
    WatcherOption,
)
from bridge.cli.output import note, say, say_json, show_parts, wants_json, width
from bridge.cli.words import age, count, iso_time, printable, when

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bridge.cli.asking import Answer
    from bridge.store.reader import Reader
    from bridge.store.views import RunView

app = typer.Typer(no_args_is_help=True, help="Run requests: list, show, retry.")

RunKey = Annotated[
    str, typer.Argument(metavar="RUN_KEY", help="A run key, or a start that only one has.", show_default=False)
]
RunKeys = Annotated[
    list[str],
    typer.Argument(metavar="RUN_KEY", help="Whole run keys, from `headrace runs list`.", show_default=False),
]


@app.command("list")
def list_(
    state: RunStateOption = None,
    watcher: WatcherOption = None,
    target: TargetOption = None,
    limit: Limit = 50,
    config: ConfigPaths = None,
    store: StoreUrl = None,
    output: Output = None,
) -> None:
    """List run requests, the latest first.

    \b
    Examples:
      headrace runs list --state failed
      headrace runs list --watcher eu_orders --limit 1000 --output json
    """
    reader = reader_of(config, store)
    runs = reader.runs(state, watcher, target, limit)
    _warn_of_unknown(watcher, reader, has_found=bool(runs))
    if wants_json(output):
        say_json([as_json(run) for run in runs])
        return
    show_parts(_table(runs) if runs else "no runs")
    if len(runs) == limit:
        note(f"these are the latest {limit:,}; --limit shows more")


@app.command("show")
def show_(key: RunKey, config: ConfigPaths = None, store: StoreUrl = None, output: Output = None) -> None:
    """Show everything about one run.

    Its state, its parameters, and which message caused it.

    \b
    Example:
      headrace runs show eu_orders/orders-topic/0-1789-1764513845/0
    """
    run = _found(reader_of(config, store), key)
    if wants_json(output):
        say_json(as_json(run))
    else:
        show_parts(*_parts(run, time.time()))


@app.command("retry")
def retry(keys: RunKeys, config: ConfigPaths = None, store: StoreUrl = None, output: ActionOutput = None) -> None:
    """Start runs again that failed or were skipped.

    Each is a new launch, with the same parameters. An instance does it within a second; where none runs, the next
    one does.

    \b
    Example:
      headrace runs retry eu_orders/orders-topic/0-1789-1764513845/0
    """
    from bridge.cli.asking import wait_for

    reader = reader_of(config, store)
    wanted = list(dict.fromkeys(keys))
    _refuse(_not_retryable(reader, wanted))
    answer = wait_for(reader, reader.post("retry", run_keys=wanted))
    if output == "json":
        say_json({"intent": answer.intent, "kind": "retry", "run_keys": wanted, "outcome": answer.outcome})
    _refuse([answer.outcome] if answer.is_refused and answer.outcome else [])
    if output != "json":
        say(_retried(wanted, answer))


def as_json(run: RunView) -> dict[str, Any]:
    """Every column; times in ISO 8601, UTC; `params` and `tags` as the JSON that they are."""
    import msgspec

    names = ("received_at", "created_at", "updated_at", "due", "key_until")
    times = {name: iso_time(getattr(run, name)) for name in names}
    return {**msgspec.structs.asdict(run), **times, "params": _raw(run.params), "tags": _raw(run.tags)}


def _raw(data: bytes) -> object:
    """JSON as it is, digit for digit; what is none, as text."""
    import msgspec

    try:
        msgspec.json.decode(data, strict=True)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return data.decode("utf-8", "replace")
    return msgspec.Raw(data)


# Finding -------------------------------------------------------------------------------------------------------------


def _found(reader: Reader, key: str) -> RunView:
    run = reader.run(key) if key else None
    if run is None:
        raise Unmet(f"there is no run {key!r}; `headrace runs list` lists them")
    return run


def _not_retryable(reader: Reader, keys: Sequence[str]) -> list[str]:
    """What stands against it, a sentence for each key. A mere start of a key is not enough to start something."""
    from bridge.store.rules import RETRYABLE

    problems = []
    for key in keys:
        run = reader.run(key) if key else None
        if run is None:
            problems.append(f"there is no run {key!r}")
        elif run.run_key != key:
            problems.append(f"there is no run {key!r}; did you mean {run.run_key!r}?")
        elif run.state not in RETRYABLE:
            problems.append(f"{key!r} is {run.state}: only runs that are {', '.join(RETRYABLE)} can be started again")
    return problems


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        raise Unmet("\n".join(problems))


def _warn_of_unknown(watcher: str | None, reader: Reader, *, has_found: bool) -> None:
    """Nothing found may be a slip of the keyboard."""
    if watcher is None or has_found:
        return
    from bridge.config.suggest import did_you_mean

    known = [view.id for view in reader.watchers()]
    if watcher not in known:
        note(f"the store knows no watcher {watcher!r}; {did_you_mean(watcher, known, 'headrace show lists them')}")


# For people ----------------------------------------------------------------------------------------------------------


def _table(runs: Sequence[RunView]) -> RenderableType:
    from bridge.cli.tables import Column, listing

    now = time.time()
    columns: list[Column[RunView]] = [
        Column("run key", lambda run: run.run_key, shape="whole"),
        Column("state", lambda run: run.state),
        Column("changed", lambda run: age(run.updated_at, now), 1),
        Column("target", lambda run: run.target, 3),
        Column("job", lambda run: run.job, 4),
        Column("repeats", lambda run: str(run.repeats) if run.repeats else "", 5, right=True),
        Column("error", lambda run: run.error, 2, "folded"),
        Column("suppressed by", lambda run: run.suppressed_by or "", 2, "whole"),
    ]
    return listing(runs, columns, width())


def _parts(run: RunView, now: float) -> list[RenderableType]:
    from bridge.cli.tables import facts

    parts: list[RenderableType] = [facts(_launch(run, now)), "", facts(_message(run, now))]
    for name, data in (("params", run.params), ("tags", run.tags)):
        if data not in (b"", b"{}"):
            parts += ["", f"{name} {_pretty(data)}"]
    return parts


def _launch(run: RunView, now: float) -> list[tuple[str, str]]:
    return [
        ("run key", run.run_key),
        ("state", run.state),
        ("", "its watcher is paused or disabled" if run.state == "held" else ""),
        ("", _suppressed(run, now)),
        ("key", _held_key(run, now)),
        ("changed", when(run.updated_at, now)),
        ("due", when(run.due, now) if run.due is not None else ""),
        ("error", run.error),
        ("run id", run.run_id),
        ("url", run.url),
        ("target", run.target),
        ("job", run.job),
        ("attempts", _attempts(run)),
        ("claimed by", f"instance {run.claimed_by}" if run.claimed_by else ""),
        ("host", run.host),
        ("watcher", run.watcher),
        ("asset", run.asset),
    ]


def _message(run: RunView, now: float) -> list[tuple[str, str]]:
    return [
        ("message", run.position),
        ("stream", run.stream),
        ("source", run.source),
        ("identity", run.identity),
        ("received", when(run.received_at, now)),
        ("stored", when(run.created_at, now)),
        ("repeats", f"it came again {count(run.repeats, 'time')}" if run.repeats else ""),
    ]


def _suppressed(run: RunView, now: float) -> str:
    if run.suppressed_by is None or run.key_until is None:
        return ""
    verb = "has" if run.key_until > now else "had"
    return f"run {run.suppressed_by} {verb} the key {run.key!r} until {when(run.key_until, now)}"


def _held_key(run: RunView, now: float) -> str:
    if run.key is None or run.key_until is None or run.suppressed_by is not None:
        return ""
    verb = "keeps" if run.key_until > now else "kept"
    return f"{run.key!r}, {verb} others with it away until {when(run.key_until, now)}"


def _attempts(run: RunView) -> str:
    by_hand = f", started again by hand {count(run.retry, 'time')}" if run.retry else ""
    return f"{run.attempts}{by_hand}" if run.attempts or run.retry else ""


def _pretty(data: bytes) -> str:
    import msgspec

    try:
        return printable(msgspec.json.format(data, indent=2).decode(), lines=True)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return printable(data.decode("utf-8", "replace"), lines=True)


def _retried(keys: Sequence[str], answer: Answer) -> str:
    what = count(len(keys), "run")
    if answer.is_done:
        is_are = "is" if len(keys) == 1 else "are"
        return f"{what} {is_are} pending again"
    return f"{what} to be started again; {answer.later}"
