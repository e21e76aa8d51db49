"""Ending what the client has open, whether or not its broker answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final


async def said_goodbye(receiver: Any) -> None:
    """Detaches, ends and closes, in the client's own order. It waits for no answer, only until all is written."""
    handler = receiver._handler
    if handler is not None:
        await handler.close_async()


_GONE_WITHIN: Final = 0.5


async def gone(task: asyncio.Task[Any]) -> None:
    """Ends a task that may swallow a cancellation; what it raises is of no interest any more. Bounded."""
    for _ in range(3):
        if task.done():
            break
        task.cancel()
        await asyncio.wait({task}, timeout=_GONE_WITHIN)
    if task.done() and not task.cancelled():
        task.exception()


def transport_of(handler: Any) -> Any:
    """What has the socket, None where there is none yet."""
    return getattr(getattr(handler, "_connection", None), "_transport", None)


def cut_off(receiver: Any, transport: Any) -> None:
    """What holds a socket is gone after it, at the next turn of the loop; harmless where all is closed already."""
    receiver._handler = None
    receiver._running = False
    receiver._shutdown.set()
    writer = getattr(transport, "writer", None)  # of AMQP over TCP
    if writer is not None:
        writer.transport.abort()
        transport.writer = transport.reader = None
    response = getattr(getattr(transport, "sock", None), "_response", None)
    if response is not None:
        response.close()
    session = getattr(transport, "session", None)  # of AMQP over websockets: an aiohttp session
    connector = getattr(session, "connector", None)
    if session is not None and connector is not None:
        connector._close()
        session.detach()


def watched(client: Any, prepare: Callable[[Any], None] | None = None) -> list[Any]:
    """All that a sender or receiver connects with from now on: it forgets one whose connection is only half open, and
    then nobody closes that. `prepare` gets each before it is opened.
    """
    create, handlers = client._create_handler, list[Any]()

    def made(auth: Any) -> None:
        create(auth)
        handlers.append(client._handler)
        if prepare is not None:
            prepare(client._handler)

    client._create_handler = made
    return handlers


async def closed_within(seconds: float, client: Any, handlers: Sequence[Any]) -> None:
    """A sender or a receiver that was used as it is, and what it connected with."""
    transports = [transport_of(handler) for handler in handlers]
    try:
        async with asyncio.timeout(seconds):
            await client.close()
    except Exception:  # noqa: S110  # what could not be closed in order is cut off
        pass
    finally:
        for transport in transports:
            cut_off(client, transport)
