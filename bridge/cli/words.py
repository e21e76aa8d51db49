"""Times, ages, counts and foreign text, as people and programs read them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))
_ENOUGH = 2  # of the smaller unit, before the larger one says as much: 90 s and not 1 min, but 2 min and not 120 s


def iso_time(seconds: float | None) -> str | None:
    """`2026-11-30T14:04:05.120Z`, from seconds since 1970; a number that is no time is kept as it is, as text."""
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, tz=UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return repr(seconds)


def local_time(seconds: float) -> str:
    """`2026-11-30 15:04:05` in the time zone of the machine."""
    try:
        return datetime.fromtimestamp(seconds, tz=UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return repr(seconds)


def span(seconds: float) -> str:
    """`3 s`, `90 s`, `2 min`, `5 h`, `12 d`: one unit, rounded down."""
    for unit, name in _UNITS:
        if seconds >= unit * _ENOUGH:
            return f"{int(seconds // unit)} {name}"
    return f"{max(0, int(seconds))} s"


def age(then: float, now: float) -> str:
    """`3 s ago`, or `in 3 s`."""
    return f"{span(now - then)} ago" if then <= now else f"in {span(then - now)}"


def when(then: float, now: float) -> str:
    """The time and the age."""
    return f"{local_time(then)} ({age(then, now)})"


def count(number: int, what: str) -> str:
    """`1 stream`, `1,200 watchers`."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def printable(text: str, *, lines: bool = False) -> str:
    """Text from a message or a program, without anything that a terminal would take for a command.

    With `lines`, line breaks and tabs stay as they are.
    """
    if text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return "".join(c if c.isprintable() or c in kept else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    short = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(character)
    if short is not None:
        return short
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
