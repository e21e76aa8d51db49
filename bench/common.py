"""What the benchmarks share: documents, interleaved pairs, and lines to print.

A case is a pair of thunks that return seconds per event. They run in turns (ours, the other, ours, ...), so that a
neighbour on the machine hits both alike; the ratio is the median of the ratios of the rounds.
"""

from __future__ import annotations

import gc
import json
import random
import statistics
import sys
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from bridge.runtime.process import tune_interpreter

Measure = Callable[[], float]


class Result(Struct, frozen=True):
    """One case. `ratio` compares with `against`, measured in the same run; `need` is what it should be."""

    case: str
    value: float
    unit: str
    ratio: float | None
    against: str
    runs: int


class Need(Struct, frozen=True):
    """The figure that a case has to reach: `at_least` or `at_most`, of the ratio or of the value."""

    at_least: float | None = None
    at_most: float | None = None
    of: str = "ratio"

    def is_met(self, result: Result) -> bool:
        seen = result.value if self.of == "value" else result.ratio
        assert seen is not None
        return (self.at_least is None or seen >= self.at_least) and (self.at_most is None or seen <= self.at_most)

    def __str__(self) -> str:
        return f">= {self.at_least:g}" if self.at_least is not None else f"<= {self.at_most:g}"


def document(number: int, rnd: random.Random, tenant: str, *, size: int) -> bytes:
    """A compact order event of about 300 bytes, or 1 KB: all distinct, the tenant in the middle."""
    order: dict[str, Any] = {
        "event_id": f"ord-{number:09d}",
        "kind": f"order.{rnd.choice(['created', 'paid', 'packed', 'sent'])}",
        "at": "2026-11-30T08:15:00Z",
        "region": f"region-{rnd.randrange(12)}",
        "tenant": tenant,
        "amount": rnd.randrange(1, 100_000) / 100,
        "currency": "EUR",
        "buyer": {"id": rnd.randrange(10**8), "tier": rnd.choice(["gold", "tin"]), "city": "Hamburg"},
        "flags": {"gift": False, "express": rnd.random() < 0.1},
    }
    if size > 600:
        order["lines"] = [
            {
                "sku": f"sku-{rnd.randrange(10**5)}",
                "quantity": i + 1,
                "price": rnd.randrange(10_000) / 100,
                "tags": ["x", "y"],
            }
            for i in range(7)
        ]
        order["trace"] = {"id": f"{rnd.getrandbits(128):032x}", "span": f"{rnd.getrandbits(64):016x}"}
        order["note"] = "n" * (size - 920)
    else:
        order["note"] = "n" * 40
    return json.dumps(order, separators=(",", ":")).encode()


def documents(count: int, size: int, tenants: int, *, prefix: str = "t") -> list[bytes]:
    """`count` events over so many tenants, the same for every run."""
    rnd = random.Random(20261130)
    return [document(i, rnd, f"{prefix}{rnd.randrange(tenants)}", size=size) for i in range(count)]


def interleaved(measures: Sequence[Measure], runs: int = 5) -> list[list[float]]:
    """For each measure its seconds per event, round by round."""
    for measure in measures:
        measure()  # once for nothing: imports, caches, the allocator
    rounds: list[list[float]] = [[] for _ in measures]
    for _ in range(runs):
        for measure, found in zip(measures, rounds, strict=True):
            gc.collect()
            found.append(measure())
    return rounds


def rate(case: str, ours: Measure, other: Measure, against: str, runs: int = 5) -> Result:
    """Events per second, and how many times the other's rate that is."""
    mine, theirs = interleaved([ours, other], runs)
    ratio = statistics.median(t / m for m, t in zip(mine, theirs, strict=True))
    return Result(case, round(1 / statistics.median(mine)), "events/s", round(ratio, 2), against, runs)


def cost(case: str, ours: Measure, other: Measure, against: str, runs: int = 5) -> Result:
    """Microseconds per event, and how many times the other's cost that is."""
    mine, theirs = interleaved([ours, other], runs)
    ratio = statistics.median(m / t for m, t in zip(mine, theirs, strict=True))
    return Result(case, round(statistics.median(mine) * 1e6, 3), "us/event", round(ratio, 2), against, runs)


Case = tuple[Need | tuple[Need, ...], Callable[[], Result]]
"""What a case needs, and how to run it."""


def main(cases: dict[str, Case]) -> int:
    """`[--json] [CASE...]`, the cases by the start of their names: exit code 1 if a figure was not reached."""
    arguments = sys.argv[1:]
    as_json = "--json" in arguments or not sys.stdout.isatty()
    names = [a for a in arguments if not a.startswith("-")]
    unknown = [n for n in names if not any(case.startswith(n) for case in cases)]
    if unknown:
        print(f"no such case: {', '.join(unknown)}; there are {', '.join(cases)}", file=sys.stderr)
        return 2
    tune_interpreter()  # as the program itself does
    rows: list[tuple[Result, Need]] = []
    for name, (needs, run) in cases.items():
        if names and not any(name == n or (n not in cases and name.startswith(n)) for n in names):
            continue
        result = run()
        rows += [(result, need) for need in (needs if isinstance(needs, tuple) else (needs,))]
        if as_json:
            print(msgspec.json.encode(result).decode(), flush=True)
        else:
            print(f"{name} done", file=sys.stderr)
    if not as_json:
        _show(rows)
    missed = [
        f"{r.case}: {n} needed, {r.value if n.of == 'value' else r.ratio} seen" for r, n in rows if not n.is_met(r)
    ]
    for line in missed:
        print(line, file=sys.stderr)
    return 1 if missed else 0


def _show(rows: list[tuple[Result, Need]]) -> None:
    table = Table("case", "value", "ratio", "against", "needed", "")
    for result, need in rows:
        met = need.is_met(result)
        ratio = "" if result.ratio is None else f"{result.ratio:g}"
        said = f"{need} {result.unit if need.of == 'value' else 'x'}"
        table.add_row(
            result.case,
            f"{_plain(result.value)} {result.unit}",
            ratio,
            result.against,
            said,
            "[green]ok" if met else "[red]missed",
        )
    Console().print(table)


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"
