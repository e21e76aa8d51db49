"""2,000 order messages for configs/quickstart.yaml, and what each of them should cause.

What should happen is worked out here from the orders alone, by rules that are written a second time on purpose: the
demo must not ask the program under test what is right.
"""

from __future__ import annotations

import json
import random
from typing import Any, NamedTuple

MESSAGES = 2000
FILES = 20
LIMIT = 975.0

RETURNS = ("at", "be", "cz", "de", "dk", "es", "fi", "fr", "gr", "hu", "ie", "it", "nl")
COUNTRIES = (*RETURNS, "lu", "pl", "pt", "se", "si", "sk", "us", "ch", "no", "jp", "ca")
KINDS = ("order.created", "order.paid", "order.packed", "order.sent", "order.returned", "order.cancelled")


class Feed(NamedTuple):
    """`files`: name and content. `runs`: (watcher, order id) that must run once each. Counts of dead letters."""

    files: list[tuple[str, bytes]]
    runs: set[tuple[str, str]]
    malformed: int
    rejected: int


def make(files: int = FILES) -> Feed:
    """The same messages every time, in so many files."""
    rnd = random.Random(1847)  #
    lines: list[bytes] = []
    runs: set[tuple[str, str]] = set()
    malformed = rejected = 0
    for number in range(MESSAGES):
        order = _order(rnd, number)
        if number % 100 == 37:
            lines.append(
                rnd.choice([b'{"order_id": ', b"not JSON at all", b'{"amount": NaN}', b'{"text": "\xff\xfe"}'])
            )
            malformed += 1
            continue
        if number % 80 == 11:
            order["currency"] = "XXX"
            rejected += 1
        lines.append(json.dumps(order).encode())
        runs |= {(watcher, order["order_id"]) for watcher in _wanted_by(order)}
    each = MESSAGES // files
    cut = [lines[i * each : (i + 1) * each] for i in range(files)]
    return Feed(
        [(f"orders-{i:03d}.jsonl", b"\n".join(c) + b"\n") for i, c in enumerate(cut)], runs, malformed, rejected
    )


def _order(rnd: random.Random, number: int) -> dict[str, Any]:
    return {
        "order_id": f"o-{number:05d}",
        "kind": rnd.choice(KINDS),
        "amount": round(rnd.uniform(1, 1000), 2),
        "currency": "EUR",
        "pieces": rnd.choice([*range(1, 30), 250, 500, 1000.0, "500"]),
        "express": rnd.random() < 0.08,
        "shop": "test" if rnd.random() < 0.02 else "main",
        "customer": {"country": rnd.choice(COUNTRIES), "tier": "gold" if rnd.random() < 0.2 else "tin"},
    }


def _wanted_by(order: dict[str, Any]) -> set[str]:
    kind, country, tier = order["kind"], order["customer"]["country"], order["customer"]["tier"]
    wanted: set[str] = set()
    if kind == "order.returned" and country in RETURNS:
        wanted.add(f"returns_{country}")
    if kind == "order.created" and tier == "gold":
        wanted.add("gold_created")
    if kind in ("order.created", "order.paid") and order["express"]:
        wanted.add("express")
    if order["pieces"] in (500, 1000) and not isinstance(order["pieces"], str):
        wanted.add("bulk")
    if kind == "order.paid" and country in ("be", "nl", "lu"):
        wanted.add("benelux_paid")
    if order["shop"] == "test":
        wanted.add("test_shop")
    if kind == "order.cancelled" and tier == "gold":
        wanted.add("cancelled_gold")
    if order["currency"] != "XXX" and order["amount"] > LIMIT:
        wanted.add("risky")
    return wanted
