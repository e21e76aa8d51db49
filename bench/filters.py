"""Filters alone: what a condition costs, and what it costs to have thousands of them.

    python -m bench.filters [--json] [CASE...]

Every case checks the answers that it measures.
"""

from __future__ import annotations

import random
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import cel_expr_python.cel as cel
import msgspec

from bench.common import Case, Measure, Need, Result, documents, main, rate
from bridge.core.model import Plan, Poll
from bridge.filters.compiled import Condition, Documents
from bridge.filters.router import Declared, FilterRouter
from bridge.language.ir import Expr
from bridge.language.reading.match import compile_match
from bridge.language.reading.parse import compile_when
from bridge.params.plans import compile_params

EVENTS = 20_000
POLL = 500
NOTHING = compile_params({})

CONDITION = 'event.region == "eu" && event.amount > 100'


def _per_event(work: Callable[[], object], events: int) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) / events


# One condition -------------------------------------------------------------------------------------------------------


def _decoded() -> list[dict[str, Any]]:
    """Decoded 1 KB events, of which a fourth match."""
    events: list[dict[str, Any]] = [msgspec.json.decode(body) for body in documents(2000, 1024, 1000)]
    for number, event in enumerate(events):
        event["region"] = "eu" if number % 2 else "us"
        event["amount"] = 50.5 if number % 4 < 2 else 150.5
    return events


def filter_eval_cel(case: str, events: list[dict[str, Any]]) -> Result:
    """Against the C++ engine behind its Python binding, which converts the event that it is given."""
    ours = Condition(compile_when(CONDITION), Documents()).function
    theirs = cel.NewEnv(variables={"event": cel.Type.DYN}).compile(CONDITION)
    assert [ours(e, None) for e in events] == [theirs.eval(data={"event": e}).plain_value() for e in events]
    few = events[:200]
    return rate(
        case,
        lambda: _per_event(lambda: [ours(e, None) for e in events], len(events)),
        lambda: _per_event(lambda: [theirs.eval(data={"event": e}) for e in few], len(few)),
        "cel-expr-python",
    )


def _two_fields() -> list[dict[str, Any]]:
    """The same events with nothing in them but what the condition asks for."""
    return [{"region": event["region"], "amount": event["amount"]} for event in _decoded()]


def filter_eval_lambda() -> Result:
    """Against what somebody would write by hand, who knows that both fields are there and of which kind."""
    events = _decoded()
    ours = Condition(compile_when(CONDITION), Documents()).function
    by_hand: Callable[[Any], object] = lambda event: event["region"] == "eu" and event["amount"] > 100  # noqa: E731
    assert [ours(e, None) for e in events] == [by_hand(e) for e in events]
    return rate(
        "filter_eval_lambda",
        lambda: _per_event(lambda: [ours(e, None) for e in events], len(events)),
        lambda: _per_event(lambda: [by_hand(e) for e in events], len(events)),
        "a lambda written by hand",
    )


# Bytes to verdict ----------------------------------------------------------------------------------------------------


def _polls(bodies: list[bytes]) -> list[Poll]:
    return [Poll([], bodies[i : i + POLL], list(range(i, i + POLL))) for i in range(0, len(bodies), POLL)]


def _routing(router: FilterRouter, bodies: list[bytes], *, matches: int) -> Measure:
    """From bytes to records."""
    assert sum(len(router.route(poll).records) for poll in _polls(bodies)) == matches

    def measure() -> float:
        polls = _polls(bodies)
        return _per_event(lambda: [router.route(poll) for poll in polls], len(bodies))

    return measure


def _router(conditions: Sequence[Expr]) -> FilterRouter:
    return FilterRouter(
        [Declared(Plan(f"w{i}", "asset", "target", "job"), c, NOTHING) for i, c in enumerate(conditions)],
        max_body=1 << 20,
    )


def filter_bytes() -> Result:
    """1 KB, the fields that are used behind all others."""
    bodies = [
        msgspec.json.encode(msgspec.json.decode(body) | {"zone": "us", "total": 5})
        for body in documents(EVENTS, 1024, 1000)
    ]
    decode = msgspec.json.Decoder().decode

    def whole() -> float:
        return _per_event(lambda: deque(map(decode, bodies), maxlen=0), len(bodies))

    router = _router([compile_when('event.zone == "eu" && event.total > 100')])
    return rate("filter_bytes", _routing(router, bodies, matches=0), whole, "a full msgspec decode alone")


# The index -----------------------------------------------------------------------------------------------------------


def _tenants(count: int, prefix: str, limit: int) -> list[Expr]:
    """One watcher for each tenant: two equalities and a threshold."""
    return [compile_match({"tenant": f"{prefix}{i}", "kind": "order", "amount": {">": limit}}) for i in range(count)]


def _orders(tenants: int) -> list[bytes]:
    bodies = documents(EVENTS, 300, tenants)
    return [msgspec.json.encode(msgspec.json.decode(body) | {"kind": "order"}) for body in bodies]


def _verdicts(router: FilterRouter, bodies: list[bytes], *, matches: int) -> Measure:
    """From bytes to which watchers match: what an index answers for. Without the records that are made of a match."""
    assert sum(len(found) for poll in _polls(bodies) for found in router.verdicts(poll).values()) == matches

    def measure() -> float:
        polls = _polls(bodies)
        return _per_event(lambda: [router.verdicts(poll) for poll in polls], len(bodies))

    return measure


def index(case: str, count: int, prefix: str, limit: int) -> Result:
    """`prefix` and `limit` say what comes: tenants of no watcher, amounts that none reaches, or one match each."""
    bodies = _orders(count)
    matches = len(bodies) if (prefix, limit) == ("t", 0) else 0
    one = _router(_tenants(1, "nobody-", 0))
    many = _router(_tenants(count, prefix, limit))
    return rate(
        case, _verdicts(many, bodies, matches=matches), _verdicts(one, bodies, matches=0), "1 watcher, no match"
    )


def index_routed() -> Result:
    """The same as index_1000_hit with all that a match costs: decoded whole and strictly, its record made."""
    bodies = _orders(1000)
    one, many = _router(_tenants(1, "nobody-", 0)), _router(_tenants(1000, "t", 0))
    return rate(
        "index_1000_records",
        _routing(many, bodies, matches=len(bodies)),
        _routing(one, bodies, matches=0),
        "1 watcher, no match",
    )


def _mixed(rnd: random.Random) -> Expr:
    """A third with an equality and more, a third with one alone, a third without any, of which a third has no key."""
    tenant = f"t{rnd.randrange(5000)}"
    choices: list[Callable[[], object]] = [
        lambda: {"tenant": tenant, "amount": {">": rnd.randrange(1000)}},
        lambda: {"tenant": tenant, "region": {"anything_but": f"region-{rnd.randrange(12)}"}},
        lambda: {"tenant": tenant},
        lambda: {"tenant": [tenant, f"t{rnd.randrange(5000)}"]},
        lambda: {"tenant": tenant, "buyer": {"tier": "gold"}},
        lambda: {"tenant": tenant, "region": {"prefix": "region-1"}},
        lambda: {"amount": {">": 900 + rnd.randrange(100)}},
        lambda: {"event_id": {"suffix": f"{rnd.randrange(10**5):05d}"}},
        lambda: f'event.event_id.contains("{rnd.randrange(10**5):05d}")',
    ]
    made = rnd.choice(choices)()
    return compile_when(made) if isinstance(made, str) else compile_match(made)


def index_mixed() -> Result:
    rnd = random.Random(20261130)
    conditions = [_mixed(rnd) for _ in range(1000)]
    bodies = _orders(5000)[:4000]
    router, one = _router(conditions), _router(_tenants(1, "nobody-", 0))
    matches = sum(len(found) for poll in _polls(bodies) for found in router.verdicts(poll).values())
    return rate(
        "index_mixed", _verdicts(router, bodies, matches=matches), _verdicts(one, bodies, matches=0), "1 watcher"
    )


CASES: dict[str, Case] = {
    "filter_eval": (Need(at_least=10), lambda: filter_eval_cel("filter_eval", _decoded())),
    "filter_eval_two_fields": (Need(at_least=10), lambda: filter_eval_cel("filter_eval_two_fields", _two_fields())),
    "filter_eval_lambda": (Need(at_least=0.33), filter_eval_lambda),
    "filter_bytes": (Need(at_least=2), filter_bytes),
    "index_1000": (Need(at_least=0.7), lambda: index("index_1000", 1000, "nobody-", 0)),
    "index_1000_below": (Need(at_least=0.3), lambda: index("index_1000_below", 1000, "t", 10**6)),
    "index_1000_hit": (Need(at_least=0.3), lambda: index("index_1000_hit", 1000, "t", 0)),
    "index_1000_records": ((), index_routed),
    "index_10000": (Need(at_least=0.7), lambda: index("index_10000", 10_000, "nobody-", 0)),
    "index_10000_hit": (Need(at_least=0.3), lambda: index("index_10000_hit", 10_000, "t", 0)),
    "index_mixed": ((), index_mixed),
}

if __name__ == "__main__":
    sys.exit(main(CASES))
