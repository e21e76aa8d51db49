"""What `headrace init` writes: for each kind of stream and target its part of a configuration that works at once.

A kind that a configuration may name has its template here, and a test makes sure of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

CONFIG: Final = "headrace.yaml"
SUITE: Final = "headrace_test.yaml"


class Part(NamedTuple):
    """What a kind brings along. `block` stands below the name of the stream or target, without indentation.

    `files` by their names, `folders` that must be there. `feed`: what a person types to send a sample through.
    """

    block: str
    files: Mapping[str, str] = {}
    folders: tuple[str, ...] = ()
    feed: str = ""


_PRODUCER: Final = '''\
"""A stream of your own: the lines that are added to a file. Put in its place whatever you read."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bridge.shared_stream import AdvanceItem, Meta, SharedStreamProducer


class Line(NamedTuple):
    """Where a line stands in the file, in bytes."""

    start: int
    end: int


class Orders(SharedStreamProducer):
    """Each whole line of `path` is a message. What is settled is noted beside it, so a restart goes on from there."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.settled = Path(f"{path}.settled")

    @classmethod
    def source_id(cls, kwargs: dict[str, Any]) -> str:
        """What run keys call the source."""
        return os.path.abspath(kwargs["path"])

    async def open_stream(self) -> AsyncIterator[tuple[bytes, Line]]:
        """For ever. What blocks goes to a thread: everything else waits for a producer that blocks."""
        start = int(self.settled.read_text()) if self.settled.exists() else 0
        while True:
            for line in await asyncio.to_thread(self.lines_from, start):
                end = start + len(line)
                yield line, Line(start, end)
                start = end
            await asyncio.sleep(0.5)

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """Everything that these messages caused is durable: they need not come again."""
        await asyncio.to_thread(self.note, batch[-1].broker_payload.end)

    def identity(self, broker_payload: Line) -> str:
        """What makes it the same message when it comes again. Never made from the body."""
        return str(broker_payload.start)

    def describe(self, broker_payload: Line) -> Meta:
        return Meta(position=f"{self.path} at byte {broker_payload.start}")

    def lines_from(self, start: int) -> list[bytes]:
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(start)
            return [line for line in file.readlines(1024 * 1024) if line.endswith(b"\\n")]

    def note(self, end: int) -> None:
        """In one step: after a crash there is the old number or the new one."""
        beside = self.settled.with_suffix(".new")
        beside.write_text(str(end))
        beside.replace(self.settled)
'''

STREAMS: Final[Mapping[str, Part]] = {
    "directory": Part(
        """\
kind: directory
path: drop                       # each file in this folder is a message; once settled, it moves to drop/done
# lines: true                    # then each line of a file is one
""",
        folders=("drop",),
        feed="cp samples/big_order.json drop/",
    ),
    "kafka": Part(
        """\
kind: kafka
bootstrap_servers: [127.0.0.1:9092]
topics: [orders]
group_id: headrace-orders        # its own: nobody else reads with it
start: earliest                  # where it begins the first time: earliest, latest, a time, or an offset
# dead_letter: {topic: orders.dlq, create: true}
# tls: {}
# sasl: {mechanism: SCRAM-SHA-512, username: headrace, password: "${KAFKA_PASSWORD}"}
""",
        feed="headrace send orders --file samples/big_order.json",
    ),
    "pubsub": Part(
        """\
kind: pubsub
subscription: projects/my-project/subscriptions/orders-headrace
ack_deadline: 60s                # how long a message is lent; it is renewed until it is settled
# dead_letter: {topic: orders-dlq}
# endpoint: 127.0.0.1:8085       # an emulator, without credentials
# Credentials are Google's default ones; or: credentials_file: service-account.json
""",
        feed="headrace send orders --file samples/big_order.json",
    ),
    "python": Part(
        """\
kind: python
class: orders_stream:Orders      # a producer of your own: orders_stream.py, beside this file
kwargs: {path: orders.jsonl}
""",
        files={"orders_stream.py": _PRODUCER},
        feed="cat samples/big_order.json >> orders.jsonl",
    ),
    "servicebus": Part(
        """\
kind: servicebus
namespace: my-namespace.servicebus.windows.net
queue: orders                    # or topic and subscription
# sessions: true                 # where the entity requires them: each is kept in order
# lock_duration: 1m              # as the entity has it
# Credentials are Azure's default ones; or: connection_string: "${SERVICEBUS}"
""",
        feed="headrace send orders --file samples/big_order.json",
    ),
    "sqs": Part(
        """\
kind: sqs
queue: https://sqs.eu-central-1.amazonaws.com/123456789012/orders
visibility_timeout: 60s          # how long a message is lent; it is renewed until it is settled
# dead_letter: {queue: orders-dlq}
# endpoint: http://127.0.0.1:4566    # an emulator
# Credentials come from AWS's own chain: environment, profile, web identity, container, instance.
""",
        feed="headrace send orders --file samples/big_order.json",
    ),
}

TARGETS: Final[Mapping[str, Part]] = {
    "command": Part(
        """\
kind: command                    # a local process for each run, and never two for one message
# The params are in its environment, and as JSON on its standard input.
command: [/bin/sh, -c, 'echo "$HEADRACE_JOB: order $HEADRACE_PARAM_ORDER" >> runs.txt']
timeout: 30s
"""
    ),
    "log": Part(
        """\
kind: log                        # writes each run to the log, and starts nothing
"""
    ),
}

_HEAD: Final = """\
# Messages in, runs out. Check this file with `headrace validate`, try its filters with `headrace test`, and start it
# with `headrace run`. A `${NAME}` is a variable of the environment; in `params` it is an expression over the message.

# What is durable: one file, which `headrace run` makes.
store: sqlite:///headrace.db

# What starts runs.
targets:
  work:
"""

_STREAMS: Final = """
# Where messages come from. Any number of watchers may share a stream.
streams:
  orders:
"""

_ASSETS: Final = """
# Which messages matter, and the run that each of them asks for.
assets:
  big_orders:
    watchers:
      - stream: orders
        # Every field must fit. As an expression it would be
        #   when: event.kind == "order.created" && event.region in ["eu", "uk"] && event.amount > 100
        match:
          kind: order.created
          region: [eu, uk]                     # any of these
          amount: {">": 100}
        run:
          target: work
          job: process_order
          params:
            order: "${event.order_id}"         # a field of the message, with its own type
            amount: "${event.amount}"
            note: 'from ${default(event.customer.name, "a guest")} in ${event.region.upper()}'
"""

_SUITE: Final = """\
# `headrace test` sends these messages through the filters of headrace.yaml, and starts no run.
# What may be expected of a watcher: match, no_match, missing_field, error, reject, dead_letter.
tests:
  - name: a big order from Europe asks for a run
    message: {file: samples/big_order.json}
    expect:
      big_orders:
        verdict: match
        params: {order: o-1, amount: 120.50, note: from Ada in EU}

  - name: a small order does not
    message: {file: samples/small_order.json}
    expect: {big_orders: no_match}

  - name: neither does a cancelled order from somewhere else
    message:
      body: {order_id: o-3, kind: order.cancelled, region: us, amount: 500}
    expect: {big_orders: no_match}

  - name: an order without an amount is never taken by accident
    message:
      body: {order_id: o-4, kind: order.created, region: uk}
    expect: {big_orders: missing_field}
"""

_SAMPLES: Final = {
    "samples/big_order.json": '{"order_id": "o-1", "kind": "order.created", "region": "eu", "amount": 120.50, '
    '"customer": {"name": "Ada"}}\n',
    "samples/small_order.json": '{"order_id": "o-2", "kind": "order.created", "region": "eu", "amount": 20}\n',
}


class Plan(NamedTuple):
    """What is to be written, by path relative to the new folder; `folders` may be there already."""

    files: Mapping[str, str]
    folders: tuple[str, ...]
    feed: str


def plan_of(stream: str, target: str) -> Plan:
    """A configuration for these kinds, samples and a suite that passes. Raises KeyError for a kind without template."""
    source, sink = STREAMS[stream], TARGETS[target]
    config = f"{_HEAD}{_below(sink.block)}{_STREAMS}{_below(source.block)}{_ASSETS}"
    files = {CONFIG: config, SUITE: _SUITE, **_SAMPLES, **source.files, **sink.files}
    return Plan(files, (*source.folders, *sink.folders), source.feed)


def _below(block: str) -> str:
    return "".join(f"    {line}" for line in block.splitlines(keepends=True))
