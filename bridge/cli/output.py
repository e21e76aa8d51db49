"""What goes to standard output and standard error: tables and sentences for people, JSON for programs."""

from __future__ import annotations

import os
import re
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Literal

from bridge.cli.words import printable
from bridge.core.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, RenderableType

Format = Literal["table", "json"]

PIPE_CLOSED: Final = 141  # 128 + SIGPIPE, as a shell reports it
_UNLIMITED: Final = 10_000  # columns, where no terminal sets a limit
_CONTROLS: Final = re.compile("[\x7f-\x9f]")  # what JSON leaves as it is and some terminals obey


def wants_json(asked: Format | None) -> bool:
    """What was asked for; else JSON for a pipe or file, and a table for a terminal."""
    return asked == "json" if asked is not None else not sys.stdout.isatty()


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def say_json(value: object) -> None:
    """One JSON document, UTF-8, indented. Values may be msgspec Structs, `Raw` included."""
    import msgspec

    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    say_bytes(_CONTROLS.sub(_escaped, text).encode() + b"\n")


def say_json_line(value: object) -> None:
    """The same in one line, for documents that come one after the other."""
    import msgspec

    say_bytes(_CONTROLS.sub(_escaped, msgspec.json.encode(value).decode()).encode() + b"\n")


def say(text: str) -> None:
    """Plain lines, to standard output."""
    say_bytes((text + "\n").encode(sys.stdout.encoding or "utf-8", "backslashreplace"))


def say_bytes(data: bytes) -> None:
    """Exactly these bytes, to standard output."""
    with _pipe():
        sys.stdout.flush()
        left = memoryview(data)
        while left:  # with PYTHONUNBUFFERED a write takes only what the pipe has room for
            left = left[sys.stdout.buffer.write(left) :]
        sys.stdout.buffer.flush()


def show_parts(*parts: RenderableType) -> None:
    """For people: with colour where standard output is a terminal."""
    from bridge.cli.tables import print_all

    out = console()
    with _pipe(), out.capture() as shown:  # written by us, so that a closed pipe ends this and every other output alike
        print_all(out, *parts)
    say("\n".join(line.rstrip() for line in shown.get().removesuffix("\n").split("\n")))


def console() -> Console:
    """Standard output as Rich knows it. Lines are as wide as they need to be where it is no terminal."""
    from rich.console import Console

    width = None if sys.stdout.isatty() or os.environ.get("COLUMNS") else _UNLIMITED
    return Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)


def width() -> int:
    """Columns that a table may take."""
    return console().width


def error_console() -> Console:
    from rich.console import Console

    return Console(file=sys.stderr, highlight=False, markup=False, emoji=False)


def complain(message: str, *, label: str = "headrace", style: str = "bold red") -> None:
    """One message to standard error."""
    from rich.text import Text

    complain_with(Text.assemble((f"{label}: ", style), printable(message, lines=True)))


def complain_with(part: Any) -> None:
    """Something to standard error; that nobody reads it is no error."""
    with suppress(OSError):
        error_console().print(part, soft_wrap=True)


def note(message: str) -> None:
    """A remark to standard error, which is not part of the answer."""
    complain(message, label="note", style="bold")


@contextmanager
def _pipe() -> Iterator[None]:
    """Whoever reads has enough (`| head`): the command ends, quietly."""
    try:
        yield
    except BrokenPipeError:
        with suppress(OSError, ValueError):  # or the interpreter complains when it flushes at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(PIPE_CLOSED) from None
    except OSError as error:
        raise Refused(f"the answer can't be written: {error.strerror or error}") from error
