"""What `headrace explain` is asked about: a message from standard input, or from a dead letter, and for whom."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from bridge.cli.bodies import headers_of
from bridge.cli.endings import Unmet, WrongCall
from bridge.cli.messages import LARGEST, seconds_of
from bridge.cli.output import note
from bridge.config.model import Config
from bridge.config.suggest import did_you_mean, listed
from bridge.core.model import TOMBSTONE, Meta
from bridge.core.units import format_size
from bridge.rehearsal import Sample
from bridge.store.reader import Reader
from bridge.store.views import WholeDeadLetter
from bridge.wiring import open_reader

_MOST: Final = 2**63 - 1  # more than a database's integer holds


class Given(Struct, frozen=True):
    """The options, as they were typed."""

    stream: str | None = None
    watcher: str | None = None
    key: str | None = None
    headers: tuple[str, ...] = ()
    timestamp: str | None = None
    now: str | None = None


class Question(Struct, frozen=True):
    """`watcher` None: all of the stream. `letter` tells of the dead letter, where it is about one."""

    stream: str
    watcher: str | None
    sample: Sample
    now: float
    letter: Mapping[str, Any] | None = None


def question_of(given: Given, dlq: int | None, config: Config, store: str | None) -> Question:
    """Reads the message. Raises WrongCall and Unmet."""
    _refuse_unknown_watcher(given.watcher, config)
    now = None if given.now is None else _time("--now", given.now)
    if dlq is not None:
        return _of_letter(given, dlq, now, config, store)
    stream = _stream(given, config)
    timestamp = None if given.timestamp is None else _time("--timestamp", given.timestamp)
    key = None if given.key is None else given.key.encode()
    meta = Meta("standard input", timestamp, key, tuple(map(header_of, given.headers)))
    return Question(stream, given.watcher, Sample(_standard_input(), meta), time.time() if now is None else now)


def reader_for(config: Config, store: str | None) -> Reader:
    """Of the store that is named, else that of the configuration. Raises StoreRefused."""
    return open_reader(config.store.url if store is None else store)


# A message on standard input -----------------------------------------------------------------------------------------


def _refuse_unknown_watcher(watcher: str | None, config: Config) -> None:
    known = [each.id for each in config.watchers]
    if watcher is not None and watcher not in known:
        hint = did_you_mean(watcher, known, f"the watchers are {listed(known)}" if known else "there is none")
        raise Unmet(f"there is no watcher {watcher!r}; {hint}")


def _stream(given: Given, config: Config) -> str:
    """The one that is named, that of the watcher, or the only one."""
    of_watcher = next((each.stream for each in config.watchers if each.id == given.watcher), None)
    streams = config.streams
    if given.stream is not None:
        if given.stream not in streams:
            hint = did_you_mean(given.stream, streams, f"the streams are {listed(streams)}")
            raise Unmet(f"there is no stream {given.stream!r}; {hint}")
        if of_watcher not in (None, given.stream):
            raise WrongCall(f"{given.watcher} watches the stream {of_watcher}, and not {given.stream}")
        return given.stream
    if of_watcher is not None:
        return of_watcher
    if len(streams) != 1:
        hint = f"name one with --stream: {listed(streams)}" if streams else "the configuration has none"
        raise WrongCall(f"which stream does the message come from? {hint}")
    return next(iter(streams))


def _standard_input() -> bytes:
    if sys.stdin.isatty():
        note("the message is read from the terminal: end it with Ctrl-D, or use < FILE")
    body = sys.stdin.buffer.read(LARGEST + 1)
    if len(body) > LARGEST:
        raise Unmet(f"the message is larger than {format_size(LARGEST)}, and no stream takes that")
    return body


def header_of(text: str) -> tuple[str, bytes]:
    """Of `NAME=VALUE`. Raises WrongCall."""
    name, is_pair, value = text.partition("=")
    if not (name and is_pair):
        raise WrongCall(f"--header {text}: write NAME=VALUE")
    return name, value.encode("utf-8", "surrogateescape")


def _time(option: str, text: str) -> float:
    try:
        return seconds_of(text)
    except ValueError as error:
        raise WrongCall(f"{option} {text}: {error}") from None


# A dead letter -------------------------------------------------------------------------------------------------------


def _of_letter(given: Given, number: int, now: float | None, config: Config, store: str | None) -> Question:
    if given.key is not None or given.headers or given.timestamp is not None:
        raise WrongCall(
            "--key, --header and --timestamp go with a message on standard input: a dead letter has its own"
        )
    found = reader_for(config, store).dead_letter(number) if 0 < number <= _MOST else None
    if found is None:
        raise Unmet(f"there is no dead letter {number}; `headrace dlq list --state all` lists them")
    letter = found.letter
    if given.stream not in (None, letter.stream):
        raise WrongCall(f"dead letter {number} is of the stream {letter.stream}, and not {given.stream}")
    if letter.stream not in config.streams:
        raise Unmet(f"dead letter {number} is of the stream {letter.stream!r}, which this configuration does not have")
    _refuse_other_stream(given.watcher, letter.stream, config)
    if not letter.whole:
        note("what is kept as its body are not the message's own bytes")
    headers = tuple(headers_of(found.headers))
    meta = Meta(letter.position, letter.timestamp, found.key, headers, tombstone=letter.tombstone)
    body = TOMBSTONE if letter.tombstone else found.body
    when = letter.received_at if now is None else now
    return Question(letter.stream, given.watcher, Sample(body, meta), when, _told(found))


def _refuse_other_stream(watcher: str | None, stream: str, config: Config) -> None:
    of_watcher = next((each.stream for each in config.watchers if each.id == watcher), stream)
    if of_watcher != stream:
        raise WrongCall(f"{watcher} watches the stream {of_watcher}, and the dead letter is of {stream}")


def _told(found: WholeDeadLetter) -> dict[str, Any]:
    letter = found.letter
    return {name: getattr(letter, name) for name in ("id", "state", "watcher", "reason", "error", "position")}
