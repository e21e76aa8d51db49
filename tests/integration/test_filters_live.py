"""Everything that filters can do, in one process that is killed: wrapped bodies, for_each, when, reject, tags, keys."""

from __future__ import annotations

import base64
import gzip
import json
import random
import time
from collections import Counter
from typing import Any

import pytest

TENANTS = 12
EACH = 30


def wrapped(event: dict[str, Any]) -> bytes:
    return base64.b64encode(gzip.compress(json.dumps(event).encode()))


def messages() -> list[bytes]:
    """Of each tenant: two messages for each order, some of them below its limit, one that is rejected, one odd."""
    events: list[dict[str, Any]] = []
    for tenant in range(TENANTS):
        events += [
            {"tenant": f"t{tenant}", "order": f"{tenant}-{n // 2}", "amount": n // 2 * 10, "n": n} for n in range(EACH)
        ]
        events.append({"tenant": f"t{tenant}", "order": "huge", "amount": 10**6, "n": -1})
        events.append({"tenant": f"t{tenant}", "order": "odd", "amount": "many", "n": -2})
    random.Random(7).shuffle(events)
    return [*map(wrapped, events), b"not base64!", base64.b64encode(b"not gzip")]


def wanted(tenant: int) -> int:
    """Orders beyond the tenant's limit."""
    return sum(n * 10 > tenant * 10 for n in range(EACH // 2))


@pytest.mark.integration
def test_keys_tags_and_wrapped_bodies_survive_kills(bridge: Any) -> None:
    watcher = {
        "name": "${each.name}",
        "for_each": [{"name": f"t{n}", "limit": n * 10} for n in range(TENANTS)],
        "when": "event.tenant == each.name && event.amount > each.limit",
        "reject": "event.amount >= 1000000",
        "on_error": "reject",
        "run": {
            "target": "out",
            "job": "job-${each.name}",
            "params": {"n": "${event.n}", "label": "order ${event.order} of ${each.name}"},
            "tags": {"tenant": "${event.tenant}", "big": "${event.amount > 100}"},
            "key": "${event.order}",
            "key_ttl": "1h",
        },
    }
    bridge.configure({"tenants": watcher}, stream={"decode": ["base64", "gzip", "json"]})
    lines = messages()
    rnd = random.Random(time.time_ns())
    for start in range(0, len(lines), 100):
        bridge.feed(f"{start:04}.jsonl", *lines[start : start + 100])
        bridge.start(until=None)
        time.sleep(rnd.uniform(0.3, 1.5))  # from before the store is open until after all is done
        bridge.kill()
    bridge.start()
    due = sum(map(wanted, range(TENANTS)))
    bridge.wait("all is settled", lambda: len(bridge.done()) == -(-len(lines) // 100), within=60)
    bridge.wait("all has run", lambda: Counter(bridge.states())["succeeded"] == due, within=60)
    assert bridge.stop() == 0

    runs = bridge.runs()
    started = [run for run in runs if run.state == "succeeded"]
    assert Counter(bridge.states()) == {"succeeded": due, "suppressed": due}
    assert len(bridge.ran()) == due
    keys = Counter((run.watcher, json.loads(run.params)["label"]) for run in started)
    assert set(keys.values()) == {1}
    for run in runs:
        tenant = run.watcher.removeprefix("tenants.")
        assert run.job == f"job-{tenant}"
        assert json.loads(run.tags)["tenant"] == tenant
    reasons = Counter((letter.watcher, letter.reason) for letter in bridge.letters())
    assert reasons == {
        ("*", "encoding"): 2,
        **{(f"tenants.t{n}", "rejected"): 1 for n in range(TENANTS)},
        **{(f"tenants.t{n}", "filter_error"): 1 for n in range(TENANTS)},
    }
