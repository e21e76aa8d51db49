"""`headrace send`: messages to where a stream reads them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final, NamedTuple

import typer

from bridge.cli.endings import Unmet, WrongCall
from bridge.cli.opening import config_of
from bridge.cli.options import ActionOutput, StreamConfigPaths, StreamName
from bridge.cli.output import note, say, say_json
from bridge.cli.words import count

if TYPE_CHECKING:
    from bridge.ports import Outgoing, Sender

_BATCH: Final = 500
_SHOWN: Final = 20

Body = Annotated[
    str | None,
    typer.Argument(metavar="BODY", help="The message. Without it, standard input is.", show_default=False),
]
FromFile = Annotated[
    Path | None, typer.Option("--file", "-f", metavar="FILE", help="The message is in this file.", show_default=False)
]
Lines = Annotated[
    bool,
    typer.Option("--lines", "-l", help="Each line of the file or of standard input is a message; empty ones are not."),
]
Key = Annotated[str | None, typer.Option("--key", "-k", metavar="TEXT", help="Its key.", show_default=False)]
Headers = Annotated[
    list[str] | None,
    typer.Option(
        "--header", "-H", metavar="NAME=VALUE", help="A header. May be given several times.", show_default=False
    ),
]
Lane = Annotated[
    str | None,
    typer.Option(
        "--lane",
        metavar="LANE",
        help="Where to: on Kafka PARTITION, TOPIC or TOPIC/PARTITION. By default by the key.",
        show_default=False,
    ),
]
Null = Annotated[bool, typer.Option("--null", help="It has no body: a tombstone.")]


class Given(NamedTuple):
    """How the message was named. One of these, or standard input."""

    body: str | None
    file: Path | None
    is_null: bool
    by_line: bool


def send(
    stream: StreamName,
    body: Body = None,
    file: FromFile = None,
    lines: Lines = False,
    key: Key = None,
    header: Headers = None,
    lane: Lane = None,
    null: Null = False,
    paths: StreamConfigPaths = None,
    output: ActionOutput = None,
) -> None:
    """Send messages to a stream, as its other senders do.

    Ends once the broker has confirmed all of them, and says where they are. Of many messages those before one that is
    refused are sent.

    \b
    Examples:
      headrace send orders '{"order_id": "o-1"}' --key o-1 --header source=shop
      headrace send orders --file samples/big_order.json
      headrace send orders --lines < orders.jsonl
    """
    given = Given(body, file, null, lines)
    _refuse_two(given)
    config = config_of(paths, check=False)
    from bridge.cli.brokers import stream_called
    from bridge.cli.questions import header_of
    from bridge.ports import Outgoing

    named = stream_called(stream, config)
    if named.kind.sender is None:
        raise Unmet(f"nothing can be sent to {stream!r}: streams of kind {named.stream.kind!r} have no way to")
    about = Outgoing(None, None if key is None else key.encode(), tuple(map(header_of, header or ())), lane)
    positions = _sent(named.kind.sender(named.stream.options), _batches(_bodies(given), about))
    if output == "json":
        say_json({"stream": stream, "sent": len(positions), "positions": positions})
    else:
        say(_told(stream, positions))


def _refuse_two(given: Given) -> None:
    named = [
        name
        for name, is_there in (
            ("BODY", given.body is not None), ("--file", given.file is not None), ("--null", given.is_null),
        )
        if is_there
    ]  # fmt: skip
    if len(named) > 1:
        raise WrongCall(f"{' and '.join(named)}: a message has one body")
    if given.by_line and (given.body is not None or given.is_null):
        raise WrongCall(f"--lines goes with --file or with standard input, and not with {named[0]}")


# What is sent --------------------------------------------------------------------------------------------------------


def _bodies(given: Given) -> Iterator[bytes | None]:
    """Raises Unmet where a file can't be read."""
    if given.is_null:
        yield None
    elif given.body is not None:
        yield given.body.encode("utf-8", "surrogateescape")
    elif given.file is not None:
        try:
            with given.file.open("rb") as opened:
                yield from _of_file(opened, str(given.file), given.by_line)
        except OSError as error:
            raise Unmet(f"{given.file} can't be read: {error.strerror or error}") from error
    else:
        if sys.stdin.isatty():
            note("the message is read from the terminal: end it with Ctrl-D")
        yield from _of_file(sys.stdin.buffer, "standard input", given.by_line)


def _of_file(file: BinaryIO, name: str, by_line: bool) -> Iterator[bytes]:
    from bridge.cli.messages import LARGEST
    from bridge.core.units import format_size

    if not by_line:
        body = file.read(LARGEST + 1)
        if len(body) > LARGEST:
            raise Unmet(f"{name} is larger than {format_size(LARGEST)}, and no stream takes that")
        yield body
        return
    while line := file.readline(LARGEST + 1):
        if len(line) > LARGEST:
            raise Unmet(f"{name} has a line that is larger than {format_size(LARGEST)}, and no stream takes that")
        if body := line.removesuffix(b"\n").removesuffix(b"\r"):
            yield body


def _batches(bodies: Iterator[bytes | None], about: Outgoing) -> Iterator[list[Outgoing]]:
    while batch := [about._replace(body=body) for body in islice(bodies, _BATCH)]:
        yield batch


def _sent(sender: Sender, batches: Iterator[Sequence[Outgoing]]) -> list[str]:
    import asyncio

    from bridge.cli.brokers import quiet

    positions: list[str] = []

    async def all_of_them() -> None:
        try:
            for batch in batches:
                positions.extend(await sender.send(batch))
        finally:
            await sender.aclose()

    try:
        with quiet():
            asyncio.run(all_of_them())
    except BaseException:
        if positions:
            note(f"{count(len(positions), 'message')} in front of that were confirmed, the last as {positions[-1]}")
        raise
    return positions


def _told(stream: str, positions: Sequence[str]) -> str:
    lines = [f"sent {count(len(positions), 'message')} to {stream}", *(f"  {p}" for p in positions[:_SHOWN])]
    if len(positions) > _SHOWN:
        lines.append(f"  ... and {len(positions) - _SHOWN:,} more, the last is {positions[-1]}")
    return "\n".join(lines)
