"""An event that kills the process (a defect in a C extension, memory that runs out) among good ones, for real."""

from __future__ import annotations

import signal
from collections import Counter
from typing import Any

import pytest

GOOD = 40

SOURCE = """
import os
import signal

class Poisoned(Filter):
    def __init__(self, name="poisoned"):
        super().__init__()
        self.name = name

    async def filter_shared_stream(self, shared_stream):
        async for event in shared_stream:
            if event.get("poison") == self.name:
                tell("died", event["n"])
                os.kill(os.getpid(), signal.SIGKILL)
            yield TriggerEvent({"n": event["n"]})
"""


@pytest.mark.integration
@pytest.mark.timeout(180)
@pytest.mark.parametrize("lines", [True, False], ids=["lines", "files"])
def test_an_event_that_kills_the_process_is_a_dead_letter_and_all_good_ones_run_once(bridge: Any, lines: bool) -> None:
    bridge.python(SOURCE)
    bridge.configure(
        {
            "poisoned": {"trigger": "my_triggers:Poisoned"},
            "sound": {"trigger": "my_triggers:Poisoned", "kwargs": {"name": "sound"}},
            "declared": {},
        },
        stream={"lines": lines},
    )
    events = [{"n": n} for n in range(GOOD)]
    events[GOOD // 2]["poison"] = "poisoned"  # type: ignore[assignment]
    if lines:
        bridge.feed("events.jsonl", *events)
    else:
        for event in events:
            bridge.feed(f"event-{event['n']}.json", event)
    deaths = 0
    while True:
        bridge.start(until=None)
        if deaths == 4:
            break
        assert bridge.ended(30) == -signal.SIGKILL
        deaths += 1
    assert bridge.told() == [f"died {GOOD // 2}"] * 4, "once with nobody to blame, and three times alone"
    bridge.wait("all else has run", lambda: len(bridge.ran()) == 3 * GOOD - 1, 60)
    bridge.wait("all is settled", lambda: len(bridge.done()) == (1 if lines else GOOD), 30)
    assert bridge.said("suspect mode: an earlier instance was killed")
    suspect = bridge.status()[1]["instances"][0]["status"]["suspect"]
    assert bridge.stop() == 0
    (letter,) = bridge.letters()
    assert (letter.watcher, letter.reason, letter.attempts) == ("poisoned", "killed_process", 3)
    ran = Counter(tuple(line.split()) for line in bridge.ran())
    names = {"poisoned": {n for n in range(GOOD) if n != GOOD // 2}, "sound": range(GOOD), "declared": range(GOOD)}
    assert ran == {(name, str(n)): 1 for name, of in names.items() for n in of}
    assert 0 < suspect["events"] < 20_000
    assert 0 < suspect["seconds"] < 300


@pytest.mark.integration
@pytest.mark.timeout(120)
def test_an_instance_that_ended_cleanly_leaves_no_suspicion(bridge: Any) -> None:
    bridge.python(SOURCE)
    bridge.configure({"poisoned": {"trigger": "my_triggers:Poisoned"}})
    bridge.feed("a.jsonl", {"n": 1})
    bridge.start()
    bridge.wait("it has run", lambda: bridge.ran() == ["poisoned 1"])
    assert bridge.stop() == 0
    bridge.start()
    assert not bridge.said("suspect mode")
    assert bridge.stop() == 0
