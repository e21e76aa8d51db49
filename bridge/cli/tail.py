"""`headrace tail`: the messages of a stream, as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from bridge.cli.endings import Unmet, WrongCall
from bridge.cli.opening import config_of
from bridge.cli.options import Output, StreamConfigPaths, StreamName
from bridge.cli.output import say, say_json_line, wants_json, width
from bridge.cli.words import iso_time, local_time, printable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from bridge.ports import Seen

_LAST_MOST: Final = 10_000
_PER_COLUMN: Final = 4  # bytes that a character may have

Last = Annotated[
    int, typer.Option("--last", min=0, max=_LAST_MOST, metavar="N", help="So many earlier ones first, of each topic.")
]
Limit = Annotated[
    int | None, typer.Option("--limit", "-n", min=1, metavar="N", help="End after so many.", show_default=False)
]
For = Annotated[
    str | None, typer.Option("--for", metavar="DURATION", help="End after so long, like 10s.", show_default=False)
]


def tail(
    stream: StreamName,
    last: Last = 0,
    limit: Limit = None,
    duration: For = None,
    paths: StreamConfigPaths = None,
    output: Output = None,
) -> None:
    """Show the messages of a stream as they come.

    Until Ctrl-C. Nothing is taken from the stream: whoever reads it gets every message all the same. A line for each;
    in a pipe it is JSON, with the whole message.

    \b
    Examples:
      headrace tail orders
      headrace tail orders --last 10 --limit 10
      headrace tail orders --for 10s | jq .body.text
    """
    seconds = None if duration is None else _seconds(duration)
    config = config_of(paths, check=False)
    import asyncio

    from bridge.cli.brokers import quiet, stream_called

    named = stream_called(stream, config)
    if named.kind.tail is None:
        raise Unmet(f"{stream!r} can't be looked at: streams of kind {named.stream.kind!r} have no way to")
    show: Callable[[Seen], None] = _show_json if wants_json(output) else _show
    messages: Any = named.kind.tail(named.stream.options, last)
    with quiet():
        asyncio.run(_follow(messages, limit, seconds, show))


async def _follow(
    messages: AsyncGenerator[Seen], limit: int | None, seconds: float | None, show: Callable[[Seen], None]
) -> None:
    import asyncio
    from contextlib import aclosing

    shown = 0
    time = asyncio.timeout(seconds)
    async with aclosing(messages):
        try:
            async with time:
                async for seen in messages:
                    show(seen)
                    shown += 1
                    if shown == limit:
                        return
        except TimeoutError:
            if not time.expired():
                raise


def _seconds(text: str) -> float:
    from bridge.core.units import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise WrongCall(f"--for {text}: {error}") from None


def _show(seen: Seen) -> None:
    """Where, when, the key, and as much of the body as the line has room for."""
    from rich.text import Text

    columns = width()
    time = "" if seen.meta.timestamp is None else local_time(seen.meta.timestamp)
    parts = (seen.meta.position, time, _key(seen), _body(seen, columns))
    line = Text("  ".join(printable(part) for part in parts if part))
    line.truncate(columns, overflow="ellipsis")
    say(line.plain)


def _key(seen: Seen) -> str:
    from bridge.cli.bodies import in_a_line

    return "" if seen.meta.key is None else in_a_line(seen.meta.key)


def _body(seen: Seen, columns: int) -> str:
    from bridge.cli.bodies import shown

    if not seen.body:
        return "<null>" if seen.body is None else "<empty>"
    body = shown(seen.body, columns * _PER_COLUMN)
    return body.text if body.encoding == "utf-8" else f"hex {body.text}"


def _show_json(seen: Seen) -> None:
    """One line; bytes as elsewhere, and all of them."""
    from bridge.cli.bodies import whole_as_json

    meta = seen.meta
    say_json_line(
        {
            "position": meta.position,
            "timestamp": iso_time(meta.timestamp),
            "lane": meta.lane,
            "key": whole_as_json(meta.key),
            "headers": [{"name": name, "value": whole_as_json(value)} for name, value in meta.headers],
            "body": whole_as_json(seen.body),
        }
    )
