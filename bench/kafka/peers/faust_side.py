"""Faust: an agent over the topic, its own JSON to a dict, offsets committed in the background.

    python -m bench.kafka.peers.faust_side ORDER

After the last event its commit is asked for until it covers everything.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from typing import Any

import faust  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]  # in its own environment

from bench.kafka import sides
from bench.kafka.sides import Meter, Report


def main() -> None:
    given = sides.order()
    sys.argv[1:] = []
    meter = Meter()
    got = matches = 0
    app = faust.App(
        given.group,
        broker=f"kafka://{given.bootstrap}",
        store="memory://",
        datadir=tempfile.mkdtemp(prefix="headrace-bench-"),
        broker_session_timeout=sides.SESSION_MS / 1000,
        broker_heartbeat_interval=sides.HEARTBEAT_MS / 1000,
        consumer_auto_offset_reset="earliest",
        topic_disable_leader=True,
        web_enabled=False,
        value_serializer="json",
    )

    async def finish() -> None:
        while sum(o or 0 for o in app.consumer._committed_offset.values()) < given.events:
            await app.consumer.commit()
            await asyncio.sleep(0.005)
        meter.stop()
        sides.report(Report(events=got, seconds=meter.seconds, cpu=meter.cpu, matches=matches, most=sides.rss()))
        os._exit(0)  # its worker takes seconds to stop

    @app.agent(app.topic(given.topic))  # type: ignore[untyped-decorator]
    async def read(stream: Any) -> None:
        nonlocal got, matches
        async for event in stream:
            if not got:
                meter.start()
            if event["tenant"] == "absent":
                matches += 1
            got += 1
            if got == given.events:
                finishing.append(asyncio.create_task(finish()))

    finishing: list[asyncio.Task[None]] = []
    faust.Worker(app, loglevel="ERROR", redirect_stdouts=False).execute_from_commandline()


if __name__ == "__main__":
    main()
