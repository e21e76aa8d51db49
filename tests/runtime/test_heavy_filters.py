"""A filter that takes long holds up its own stream, and not the loop that all of them share."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from bridge.core.model import Plan
from bridge.filters.watch import Declared
from bridge.language.reading.parse import compile_when
from bridge.params.plans import compile_params

NESTED = "event.l.all(a, event.l.all(b, event.l.all(c, a + b + c > 0)))"


async def test_nested_macros_over_short_lists_leave_the_loop_its_turns(rig: Any) -> None:
    plan = Plan("slow", "asset", "target", "job")
    rig.declared.append(Declared(plan, compile_when(NESTED), compile_params({})))
    rig.broker.send([json.dumps({"l": list(range(1, 60))}).encode() for _ in range(20)])
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.01)
            turns += 1

    taking = asyncio.create_task(take_turns())
    await rig.start()
    await rig.drained(60)
    taking.cancel()
    assert rig.stream.status(0.0)["outcomes"]["slow"]["errors"] == 20  # each spends its budget of steps
    assert turns > 20  # on the loop all of them are one call: none or one
