"""Kafka in, run requests on a real disk: the whole program beside what somebody writes by hand.

    python -m bench.kafka [--json] [--case NAME] [--messages N] [--bootstrap HOST:PORT]
    python -m bench.kafka --peers [--json]

Both sides read the same topic with the same client settings, each in a process of its own, in turns. An Apache Kafka is
started for it unless `--bootstrap` or HEADRACE_KAFKA says where one is.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from bench.brokers.serving import serve_kafka
from bench.common import Case, Need, Result, main
from bench.kafka import cases
from bench.kafka.cases import Filled
from bench.kafka.peers import running
from bench.kafka.topic import create, fill, remove

BARE = "bare loop"
STORING = "bare loop with sqlite3"
RUNS = 5


def _under(limit: float) -> Need:
    return Need(at_most=limit, of="value")


def chosen(filled: Filled) -> dict[str, Case]:
    """The cases on this topic."""
    bootstrap, events = filled.bootstrap, filled.counts.events
    nothing = cache(lambda: cases.pairs(filled, "nothing", "nothing", RUNS))
    thousand = cache(lambda: cases.pairs(filled, "tenants", "nothing", RUNS))
    eighteen = cache(lambda: cases.pairs(filled, "eighteen", "eighteen", RUNS, holds=True))
    started = cache(lambda: cases.pairs(filled, "eighteen", "eighteen", RUNS))
    added = cache(lambda rate: cases.added(bootstrap, rate, 3))

    def latency(name: str, rate: int, which: int) -> Result:
        return Result(name, round(added(rate)[which], 2), "ms", None, "a bare consumer's receipt", 3)

    return {
        "kafka_1_nomatch": (Need(at_least=0.8), lambda: cases.rate("kafka_1_nomatch", nothing(), BARE)),
        "kafka_1_nomatch_cpu": (Need(at_most=1.3), lambda: cases.cpu("kafka_1_nomatch_cpu", nothing(), BARE)),
        "kafka_1000": (Need(at_least=0.7), lambda: cases.rate("kafka_1000", thousand(), BARE)),
        "kafka_18": (Need(at_least=0.5), lambda: cases.rate("kafka_18", eighteen(), STORING)),
        "kafka_18_started": (Need(at_least=0.35), lambda: cases.rate("kafka_18_started", started(), STORING)),
        "kafka_all_match": (Need(at_least=15_000, of="value"), lambda: cases.all_match(filled, 3)),
        "kafka_latency_20_p50": (_under(4), lambda: latency("kafka_latency_20_p50", 20, 0)),
        "kafka_latency_20_p99": (_under(40), lambda: latency("kafka_latency_20_p99", 20, 1)),
        "kafka_latency_500_p50": (_under(4), lambda: latency("kafka_latency_500_p50", 500, 0)),
        "kafka_latency_500_p99": (_under(40), lambda: latency("kafka_latency_500_p99", 500, 1)),
        "kafka_rss": (_under(120), lambda: cases.steady(filled)),
        "kafka_rss_backlog": (_under(120), lambda: cases.backlog(filled)),
        "kafka_two": (Need(at_most=1.15), lambda: cases.two(bootstrap, events, 3)),
    }


@contextmanager
def preloaded(bootstrap: str, count: int) -> Iterator[Filled]:
    """A topic with so many events, removed at the end."""
    name = asyncio.run(create(bootstrap))
    try:
        yield Filled(bootstrap, name, asyncio.run(fill(bootstrap, name, count)))
    finally:
        asyncio.run(remove(bootstrap, name))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.kafka", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one object a line")
    parser.add_argument("--case", action="append", default=[], metavar="NAME", help="by the start of its name")
    parser.add_argument("--messages", type=int, default=200_000, metavar="N", help="in the preloaded topic")
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="a broker that runs already")
    parser.add_argument("--peers", action="store_true", help="other programs that read Kafka, beside ours")
    parser.add_argument("cases", nargs="*", default=[], metavar="CASE", help="the same as --case")
    return parser.parse_args()


@contextmanager
def broker(bootstrap: str | None) -> Iterator[str]:
    """Where Kafka is: what was said, or one that lives as long as this."""
    if bootstrap:
        yield bootstrap
        return
    with TemporaryDirectory(prefix="headrace-bench-") as folder:
        served = serve_kafka(Path(folder)).broker
        print(served.endpoint, file=sys.stderr)
        try:
            yield served.bootstrap
        finally:
            served.close()


def compare(filled: Filled, *, as_json: bool) -> int:
    for result in running.results(filled):
        if as_json:
            print(msgspec.json.encode(result).decode(), flush=True)
        else:
            print(f"{result.case:24} {result.value:>12,.0f} {result.unit}  {result.ratio:g}x of {result.against}")
    return 0


def run() -> int:
    given = arguments()
    with broker(given.bootstrap) as bootstrap, preloaded(bootstrap, given.messages) as filled:
        if given.peers:
            return compare(filled, as_json=given.json)
        sys.argv[1:] = [*(["--json"] if given.json else []), *given.case, *given.cases]
        return main(chosen(filled))


if __name__ == "__main__":
    raise SystemExit(run())
