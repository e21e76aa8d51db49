"""`headrace dlq list`, `show`, `replay` and `drop`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from bridge.cli.endings import Unmet, WrongCall
from bridge.cli.opening import reader_of
from bridge.cli.options import (
    LARGEST_LIST,
    ActionOutput,
    ConfigPaths,
    LetterIds,
    LetterStateOption,
    Limit,
    Output,
    ReasonOption,
    StoreUrl,
    StreamOption,
    WatcherOption,
)
from bridge.cli.output import note, say, say_bytes, say_json, show_parts, wants_json, width
from bridge.cli.words import age, count, iso_time, when

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bridge.cli.asking import Answer
    from bridge.store.reader import Reader
    from bridge.store.views import DeadLetterView, WholeDeadLetter

app = typer.Typer(no_args_is_help=True, help="Dead letters: list, show, replay, drop.")

_AT_ONCE: Final = 500  # in one intent, or one statement
_TIMES: Final = ("timestamp", "received_at", "created_at", "updated_at", "relay_due", "relayed_at")

LetterId = Annotated[
    int,
    typer.Argument(metavar="ID", help="A number from `headrace dlq list`.", show_default=False),
]
Raw = Annotated[bool, typer.Option("--raw", help="Write the message's exact bytes, and nothing else.")]
All = Annotated[bool, typer.Option("--all", help="All that wait, or those that the filters leave.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")]


class Filters(NamedTuple):
    """Which dead letters; None: any."""

    watcher: str | None
    reason: str | None
    stream: str | None

    @property
    def is_set(self) -> bool:
        return any(value is not None for value in (self.watcher, self.reason, self.stream))


@app.command("list")
def list_(
    state: LetterStateOption = "dead",
    watcher: WatcherOption = None,
    reason: ReasonOption = None,
    stream: StreamOption = None,
    limit: Limit = 50,
    config: ConfigPaths = None,
    store: StoreUrl = None,
    output: Output = None,
) -> None:
    """List dead letters, the latest first.

    Messages that could not be read, or that a watcher refused.

    \b
    Examples:
      headrace dlq list
      headrace dlq list --reason malformed --state all --output json
    """
    letters = reader_of(config, store).dead_letters(None if state == "all" else state, watcher, stream, reason, limit)
    if wants_json(output):
        say_json([as_json(letter) for letter in letters])
        return
    show_parts(_table(letters) if letters else "no dead letters")
    if len(letters) == limit:
        note(f"these are the latest {limit:,}; --limit shows more")


@app.command("show")
def show_(
    number: LetterId, raw: Raw = False, config: ConfigPaths = None, store: StoreUrl = None, output: Output = None
) -> None:
    """Show one dead letter.

    Why it is one, where its message came from, its headers and its body.

    \b
    Examples:
      headrace dlq show 17
      headrace dlq show 17 --raw > message.json
    """
    found = _letter(reader_of(config, store), number)
    if found is None:
        raise Unmet(f"there is no dead letter {number}; `headrace dlq list --state all` lists them")
    if raw:
        if found.letter.tombstone:
            note("the message has no body (a tombstone)")
        say_bytes(b"" if found.letter.tombstone else found.body)
    elif wants_json(output):
        say_json(_whole_as_json(found))
    else:
        show_parts(*_parts(found, time.time()))


@app.command("replay")
def replay(
    ids: LetterIds = None,
    all_: All = False,
    watcher: WatcherOption = None,
    reason: ReasonOption = None,
    stream: StreamOption = None,
    config: ConfigPaths = None,
    store: StoreUrl = None,
    output: ActionOutput = None,
) -> None:
    """Have dead letters read again.

    By the watchers that refused them: after a fix of the filter, say. An instance does it within a second; where
    none runs, the next one does.

    \b
    Examples:
      headrace dlq replay 17 18
      headrace dlq replay --all --watcher eu_orders
    """
    from bridge.cli.asking import wait_for

    reader = reader_of(config, store)
    wanted = _wanted(reader, ids, all_, Filters(watcher, reason, stream), must_be_whole=True)
    posted = [reader.post("replay", dead_letters=part) for part in _parts_of(wanted)]
    answers = [wait_for(reader, intent) for intent in posted[-1:]]  # they are taken in order: the last one tells
    refused = [view.outcome for intent in posted if (view := reader.intent(intent)) and view.done_at is not None]
    problems = [outcome for outcome in refused if outcome != "done"]
    if output == "json":
        outcome = "; ".join(problems) or (answers[0].outcome if answers else "done")
        say_json({"intents": posted, "kind": "replay", "dead_letters": wanted, "outcome": outcome})
    if problems:
        raise Unmet("\n".join(problems))
    if output != "json":
        say(_replayed(wanted, answers))


@app.command("drop")
def drop(
    ids: LetterIds = None,
    all_: All = False,
    watcher: WatcherOption = None,
    reason: ReasonOption = None,
    stream: StreamOption = None,
    yes: Yes = False,
    config: ConfigPaths = None,
    store: StoreUrl = None,
    output: ActionOutput = None,
) -> None:
    """Give dead letters up.

    They can't be replayed any more. They stay listed, as `dropped`, until they are pruned.

    \b
    Examples:
      headrace dlq drop 17
      headrace dlq drop --all --reason malformed --yes
    """
    reader = reader_of(config, store)
    wanted = _wanted(reader, ids, all_, Filters(watcher, reason, stream))
    if wanted and not yes:
        _confirm(f"Drop {count(len(wanted), 'dead letter')}?", is_sweeping=all_)
    dropped = sum(reader.drop_dead_letters(part) for part in _parts_of(wanted))
    if output == "json":
        say_json({"kind": "drop", "dead_letters": wanted, "dropped": dropped})
    else:
        late = len(wanted) - dropped
        say(f"dropped {count(dropped, 'dead letter')}" + (f"; {late:,} had been dealt with meanwhile" if late else ""))


def as_json(letter: DeadLetterView) -> dict[str, Any]:
    """Every column; times in ISO 8601, UTC."""
    import msgspec

    times = {name: iso_time(getattr(letter, name)) for name in _TIMES}
    return {**msgspec.structs.asdict(letter), **times}


def _whole_as_json(found: WholeDeadLetter) -> dict[str, Any]:
    from bridge.cli import bodies

    headers = [{"name": name, "value": bodies.as_json(value)} for name, value in bodies.headers_of(found.headers)]
    return {
        **as_json(found.letter),
        "key": bodies.as_json(found.key),
        "headers": headers,
        "body": None if found.letter.tombstone else bodies.as_json(found.body),
    }


# Which ones ----------------------------------------------------------------------------------------------------------


def _wanted(
    reader: Reader, ids: Sequence[int] | None, all_: bool, filters: Filters, *, must_be_whole: bool = False
) -> list[int]:
    """Their numbers, the oldest first. Raises WrongCall, and Unmet with a sentence for each that can't be."""
    if bool(ids) == all_:
        raise WrongCall("name the dead letters by their numbers, or say --all, with filters if you like")
    if ids:
        if filters.is_set:
            raise WrongCall("--watcher, --reason and --stream go with --all, not with numbers")
        return _named(reader, list(dict.fromkeys(ids)), must_be_whole)
    found = reader.dead_letters("dead", filters.watcher, filters.stream, filters.reason, LARGEST_LIST)
    if len(found) == LARGEST_LIST:
        note(f"there may be more than the latest {LARGEST_LIST:,}: do it again when these are done")
    chosen = [letter.id for letter in reversed(found) if letter.whole or not must_be_whole]
    if len(chosen) < len(found):
        note(f"{count(len(found) - len(chosen), 'dead letter')} without the message's own bytes can't be read again")
    return chosen


def _named(reader: Reader, ids: Sequence[int], must_be_whole: bool) -> list[int]:
    problems = []
    for number in ids:
        found = _letter(reader, number)
        if found is None:
            problems.append(f"there is no dead letter {number}")
        elif found.letter.state != "dead":
            problems.append(f"dead letter {number} is {found.letter.state}: only dead ones wait for somebody")
        elif must_be_whole and not found.letter.whole:
            problems.append(f"dead letter {number} does not hold the message's own bytes and can't be read again")
    if problems:
        raise Unmet("\n".join(problems))
    return list(ids)


def _letter(reader: Reader, number: int) -> WholeDeadLetter | None:
    return reader.dead_letter(number) if 0 < number < 2**63 else None  # more than a database's integer holds


def _parts_of(wanted: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(wanted), _AT_ONCE):
        yield wanted[start : start + _AT_ONCE]


def _confirm(question: str, *, is_sweeping: bool) -> None:
    """Asks a person; where there is none, numbers are as good as a yes, and --all is not."""
    if sys.stdin.isatty() and sys.stderr.isatty():
        try:
            is_meant = typer.confirm(question, err=True)
        except (typer.Abort, KeyboardInterrupt):  # the end of the input, or Ctrl-C, even before it waits for one
            is_meant = False
        if not is_meant:
            raise Unmet("nothing was dropped")
    elif is_sweeping:
        raise WrongCall("nobody is there to be asked (no terminal): add --yes to drop all of them")


# For people ----------------------------------------------------------------------------------------------------------


def _table(letters: Sequence[DeadLetterView]) -> RenderableType:
    from bridge.cli.tables import Column, listing

    now = time.time()
    columns: list[Column[DeadLetterView]] = [
        Column("id", lambda letter: str(letter.id), right=True),
        Column("state", lambda letter: letter.state, 4),
        Column("reason", lambda letter: letter.reason),
        Column("watcher", lambda letter: letter.watcher),
        Column("stream", lambda letter: letter.stream, 3),
        Column("message", lambda letter: letter.position, 1, "folded"),
        Column("changed", lambda letter: age(letter.updated_at, now), 1),
        Column("bytes", lambda letter: f"{letter.size:,}", 5, right=True),
        Column("copied", _copied, 2),
        Column("error", lambda letter: letter.error, 2, "folded"),
    ]
    return listing(letters, columns, width())


def _copied(letter: DeadLetterView) -> str:
    """To the broker's own place, in a word; empty where nobody meant to."""
    if letter.relayed_at is not None:
        return "yes"
    if letter.relay_due is not None:
        return "failing" if letter.relay_error else "waits"
    return "refused" if letter.relay_error and letter.state in ("dead", "replaying") else ""


def _copy(letter: DeadLetterView, now: float) -> str:
    """The same in a sentence: when, or why not."""
    match _copied(letter):
        case "yes":
            return when(letter.relayed_at or 0.0, now)
        case "waits":
            return "not yet, it is due"
        case "failing":
            tried = count(letter.relay_failures, "time")
            return f"not yet, it failed {tried}, the last because: {letter.relay_error}"
        case "refused":
            return f"no, and it is not tried again: {letter.relay_error}"
        case _:
            return ""


def _parts(found: WholeDeadLetter, now: float) -> list[RenderableType]:
    from bridge.cli import bodies
    from bridge.cli.tables import facts

    parts: list[RenderableType] = [facts(_verdict(found.letter, now)), "", facts(_message(found, now))]
    headers = [(f"  {name}", bodies.in_a_line(value)) for name, value in bodies.headers_of(found.headers)]
    if headers:
        parts += ["", "headers", facts(headers)]
    if not found.letter.whole:
        parts += ["", "what is kept as the body are not the message's own bytes: it can't be replayed"]
    return [*parts, "", bodies.for_terminal(None if found.letter.tombstone else found.body)]


def _verdict(letter: DeadLetterView, now: float) -> list[tuple[str, str]]:
    return [
        ("dead letter", str(letter.id)),
        ("state", letter.state),
        ("reason", letter.reason),
        ("error", letter.error),
        ("watcher", "every one" if letter.watcher == "*" else letter.watcher),
        ("attempts", str(letter.attempts) if letter.attempts else ""),
        ("changed", when(letter.updated_at, now)),
        ("stored", when(letter.created_at, now)),
        ("copied", _copy(letter, now)),
        ("repeats", f"it came again {count(letter.repeats, 'time')}" if letter.repeats else ""),
    ]


def _message(found: WholeDeadLetter, now: float) -> list[tuple[str, str]]:
    from bridge.cli import bodies

    letter = found.letter
    return [
        ("message", letter.position),
        ("stream", letter.stream),
        ("source", letter.source),
        ("identity", letter.identity),
        ("received", when(letter.received_at, now)),
        ("timestamp", when(letter.timestamp, now) if letter.timestamp is not None else ""),
        ("key", "" if found.key is None else bodies.in_a_line(found.key)),
    ]


def _replayed(wanted: Sequence[int], answers: Sequence[Answer]) -> str:
    what = count(len(wanted), "dead letter")
    if not answers:
        return "no dead letter waits that could be read again"
    if answers[0].is_done:
        is_are = "is" if len(wanted) == 1 else "are"
        return f"{what} {is_are} being read again; `headrace dlq list --state replaying` lists those under way"
    return f"{what} to be read again; {answers[0].later}"
