"""`headrace explain`: which watchers take a message, and why the others don't."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from bridge.cli.completion import stream_names, watcher_ids
from bridge.cli.endings import WrongCall
from bridge.cli.opening import config_of
from bridge.cli.options import ConfigPaths, Output, StoreUrl
from bridge.cli.output import say_json, show_parts, wants_json, width

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bridge.cli.questions import Question
    from bridge.config.model import Config
    from bridge.rehearsal import Asked, Outcome, Rehearsed

_LONGEST: Final = 500  # characters of params in a table

Watcher = Annotated[
    str | None,
    typer.Option(
        "--watcher",
        "-w",
        metavar="ID",
        help="Only this watcher, with each clause of its condition and what it saw.",
        autocompletion=watcher_ids,
        show_default=False,
    ),
]
Stream = Annotated[
    str | None,
    typer.Option(
        "--stream",
        metavar="NAME",
        help="The stream that the message comes from; needed where there are several.",
        autocompletion=stream_names,
        show_default=False,
    ),
]
Letter = Annotated[
    int | None,
    typer.Option("--dlq", metavar="ID", help="The message of this dead letter, from the store.", show_default=False),
]
RunKey = Annotated[
    str | None,
    typer.Option("--run", metavar="RUN_KEY", help="A run that was asked for, from the store.", show_default=False),
]
Headers = Annotated[
    list[str] | None,
    typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header of the message.", show_default=False),
]
Key = Annotated[str | None, typer.Option("--key", metavar="TEXT", help="Its key.", show_default=False)]
Timestamp = Annotated[
    str | None,
    typer.Option("--timestamp", metavar="TIME", help="Its time: 2026-01-31T12:00:00Z.", show_default=False),
]
Now = Annotated[
    str | None,
    typer.Option("--now", metavar="TIME", help="What `now` is; by default the present.", show_default=False),
]


def explain(
    stream: Stream = None,
    watcher: Watcher = None,
    dlq: Letter = None,
    run: RunKey = None,
    key: Key = None,
    header: Headers = None,
    timestamp: Timestamp = None,
    now: Now = None,
    config: ConfigPaths = None,
    store: StoreUrl = None,
    output: Output = None,
) -> None:
    """Say which watchers take a message, and why not the others.

    The message is read from standard input, or from the store: a dead letter (--dlq), or what is kept of the message
    of a run (--run). With --watcher each clause of the condition is shown with the values that it saw.

    \b
    Examples:
      headrace explain < samples/order.json
      headrace explain --stream orders --watcher eu_orders --header source=shop < message.bin
      headrace explain --dlq 17 --watcher eu_orders
      headrace explain --run eu_orders/orders-topic/0-1789-1764513845/0
    """
    from bridge.cli.hiding import Hiding
    from bridge.cli.questions import Given, question_of

    if dlq is not None and run is not None:
        raise WrongCall("--dlq and --run are two messages: leave one out")
    loaded = config_of(config, check=False)
    if run is not None:
        from bridge.cli.recovery import explain_run

        if watcher is not None or stream is not None:
            raise WrongCall("--run names a run of one watcher and one stream: leave --watcher and --stream out")
        explain_run(run, loaded, store, output)
        return
    given = Given(stream, watcher, key, tuple(header or ()), timestamp, now)
    question = question_of(given, dlq, loaded, store)
    seen = Hiding(loaded.secrets).everything(_rehearsed(question, loaded))
    if wants_json(output):
        say_json(_report(question, seen, _disabled(loaded)))
    else:
        show_parts(*_parts(question, seen, loaded))


def _rehearsed(question: Question, config: Config) -> Rehearsed:
    """Schemas that the message takes are asked for, each once."""
    import asyncio

    from bridge.rehearsal import NeedsSchema, Stage

    with redirect_stdout(sys.stderr):
        stage = Stage(config, config.streams[question.stream])
    watchers = None if question.watcher is None else {question.watcher}
    while True:
        try:
            return stage.rehearse(question.sample, question.now, watchers)
        except NeedsSchema as needed:
            asyncio.run(stage.learn(needed.schema_id))


# For programs --------------------------------------------------------------------------------------------------------


def _report(question: Question, seen: Rehearsed, disabled: frozenset[str]) -> dict[str, Any]:
    return {
        "stream": question.stream,
        "fault": None if seen.fault is None else {"reason": seen.fault.reason, "error": seen.fault.error},
        "flaw": None if seen.flaw is None else {"reason": seen.flaw.reason, "error": seen.flaw.error},
        "events": seen.events,
        "ignored": seen.ignored or None,
        "watchers": [
            {**_outcome_as_json(outcome, seen), "disabled": outcome.watcher in disabled}
            for outcome in _shown(question, seen)
        ],
        **({"dead_letter": question.letter} if question.letter else {}),
    }


def _outcome_as_json(outcome: Outcome, seen: Rehearsed) -> dict[str, Any]:
    import msgspec

    from bridge.cli.checking import why_of

    runs = [
        {"params": msgspec.Raw(run.params), "tags": msgspec.Raw(run.tags or b"{}"), "key": run.key}
        for run in outcome.runs
    ]
    told: dict[str, Any] = {"watcher": outcome.watcher, "verdict": outcome.verdict, "why": why_of(outcome, seen)}
    told |= {name: value for name in ("reason", "error", "defect") if (value := getattr(outcome, name))}
    return told | {"runs": runs, "events": [_asked_as_json(asked) for asked in outcome.asked]}


def _asked_as_json(asked: Asked) -> dict[str, Any]:
    from bridge.cli.trees import as_json

    return {
        "condition": as_json(asked.condition),
        "reject": None if asked.reject is None else as_json(asked.reject),
    }


def _shown(question: Question, seen: Rehearsed) -> Sequence[Outcome]:
    """Those that take it first; else in the order of the configuration."""
    if question.watcher is not None:
        return [seen.outcomes[question.watcher]]
    order = ("match", "reject", "dead_letter", "error", "missing_field", "no_match", "python")
    return sorted(seen.outcomes.values(), key=lambda outcome: order.index(outcome.verdict))


# For people ----------------------------------------------------------------------------------------------------------


def _parts(question: Question, seen: Rehearsed, config: Config) -> list[RenderableType]:
    from rich.text import Text

    parts: list[RenderableType] = [*_letter(question.letter)]
    if seen.fault is not None:
        text = f"it can't be read ({seen.fault.reason}): {seen.fault.error}. It is a dead letter for every watcher"
        return [*parts, Text(text, "bold red")]
    if seen.flaw is not None:
        parts += [Text(f"no strict JSON, which nobody noticed: {seen.flaw.error}", "yellow"), ""]
    if seen.events != 1:
        why = f": {seen.ignored}" if seen.ignored else ""
        parts += [f"the message holds {seen.events or 'no'} events{why}", ""]
    if question.watcher is None:
        return [*parts, _table(question, seen, _disabled(config))]
    return [*parts, *_one(seen.outcomes[question.watcher], seen)]


def _letter(letter: Mapping[str, Any] | None) -> list[RenderableType]:
    from bridge.cli.tables import facts

    if letter is None:
        return []
    pairs = [("dead letter", str(letter["id"])), ("watcher", letter["watcher"]), ("reason", letter["reason"])]
    return [facts([*pairs, ("error", letter["error"]), ("message", letter["position"])]), ""]


def _disabled(config: Config) -> frozenset[str]:
    return frozenset(watcher.id for watcher in config.watchers if not watcher.enabled)


def _table(question: Question, seen: Rehearsed, disabled: frozenset[str]) -> RenderableType:
    from bridge.cli.checking import told_of, why_of
    from bridge.cli.tables import Column, listing

    columns: list[Column[Outcome]] = [
        Column("watcher", lambda o: o.watcher + (" (disabled)" if o.watcher in disabled else "")),
        Column("verdict", told_of),
        Column("why", lambda o: _why(o, why_of(o, seen)), 1, "folded"),
    ]
    rows = _shown(question, seen)
    return listing(rows, columns, width()) if rows else "the stream has no watcher"


def _why(outcome: Outcome, why: str) -> str:
    """Why it doesn't take the message, or else what the run would be told."""
    if outcome.defect:
        return f"a defect of headrace, please report it: {outcome.defect}"
    if outcome.verdict == "python":
        return "only its own code knows; try it with bridge.testing"
    if outcome.verdict != "match":
        return why
    told = "; ".join(run.params.decode() for run in outcome.runs)
    return told if len(told) <= _LONGEST else f"{told[:_LONGEST]}… (--watcher {outcome.watcher} shows all of it)"


def _one(outcome: Outcome, seen: Rehearsed) -> list[RenderableType]:
    from rich.padding import Padding
    from rich.text import Text

    from bridge.cli.checking import told_of, why_of
    from bridge.cli.trees import tree_of
    from bridge.cli.words import printable

    why = "" if outcome.verdict == "match" else _why(outcome, why_of(outcome, seen))
    head = Text.assemble((printable(outcome.watcher), "bold"), ": ", (told_of(outcome), "bold"))
    parts: list[RenderableType] = [head.append(printable(f"  {why}")) if why else head]
    for number, asked in enumerate(outcome.asked):
        heading = f"event {number + 1}" if len(outcome.asked) > 1 else "the condition"
        parts += ["", heading, Padding(tree_of(asked.condition), (0, 0, 0, 2))]
        if asked.reject is not None:
            parts += ["", "its `reject`", Padding(tree_of(asked.reject), (0, 0, 0, 2))]
    for run in outcome.runs:
        parts += ["", Text(f"params {run.params.decode()}")]
        parts += [Text(f"tags   {run.tags.decode()}")] if run.tags not in (None, b"{}") else []
        parts += [Text(f"key    {printable(run.key)}")] if run.key is not None else []
    return parts
