"""`retry: {mode: broker}` and `overflow: fail` as a configuration asks for them, in a real process."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

SOURCE = """
from bridge.shared_stream import SharedStreamProducer, current_message

class Brittle(Filter):
    async def filter_shared_stream(self, shared_stream):
        async for event in shared_stream:
            attempt = current_message().attempt
            tell(event["n"], attempt)
            if event.get("fails", 0) >= attempt:
                raise ValueError("boom")
            yield TriggerEvent({"n": event["n"]})

class Slow(Filter):
    async def filter_shared_stream(self, shared_stream):
        async for event in shared_stream:
            await asyncio.sleep(0.002)
            yield TriggerEvent({"n": event["n"]})

class Nameless(SharedStreamProducer):
    async def open_stream(self):
        await asyncio.sleep(3600)
        yield b"{}", 0

    async def advance(self, batch):
        pass
"""


@pytest.mark.integration
@pytest.mark.timeout(120)
@pytest.mark.parametrize("lines", [True, False], ids=["lines", "files"])
def test_a_failed_try_is_reported_to_the_source_and_the_budget_holds(bridge: Any, lines: bool) -> None:
    bridge.python(SOURCE)
    bridge.configure(
        {"brittle": {"trigger": "my_triggers:Brittle"}, "declared": {}},
        stream={"lines": lines, "retry": {"mode": "broker"}, "max_attempts": 2},
    )
    events = [{"n": 0}, {"n": 1, "fails": 1}, {"n": 2, "fails": 9}, {"n": 3}]
    if lines:
        bridge.feed("events.jsonl", *events)
    else:
        for event in events:
            bridge.feed(f"{event['n']}.json", event)
    bridge.start()
    bridge.wait("all is settled", lambda: len(bridge.done()) == (1 if lines else 4), 40)
    bridge.wait("all has run", lambda: len(bridge.ran()) == 7, 20)
    assert bridge.stop() == 0
    expected = [f"{w} {n}" for w in ("brittle", "declared") for n in range(4) if (w, n) != ("brittle", 2)]
    assert bridge.ran() == expected
    assert sorted(bridge.told()) == ["0 1", "1 1", "1 2", "2 1", "2 2", "3 1"]
    (letter,) = bridge.letters()
    assert (letter.watcher, letter.reason, letter.attempts) == ("brittle", "max_attempts", 2)


@pytest.mark.integration
@pytest.mark.timeout(120)
def test_a_watcher_that_is_too_far_behind_drains_all_the_same(bridge: Any) -> None:
    bridge.python(SOURCE)
    bridge.configure(
        {"slow": {"trigger": "my_triggers:Slow"}, "declared": {}},
        stream={"overflow": "fail", "subscriber_queue_size": 50},
        target={"kind": "log"},
    )
    bridge.feed("events.jsonl", *({"n": n} for n in range(200)))
    bridge.start()
    bridge.wait("all is settled", lambda: bridge.done() == ["events.jsonl"], 60)
    overflowed = bridge.status()[1]["streams"][0]["watchers"]["slow"]["overflowed"]
    assert bridge.stop() == 0
    assert overflowed >= 150
    assert Counter(run.watcher for run in bridge.runs()) == {"slow": 200, "declared": 200}
    assert not bridge.letters()


@pytest.mark.integration
@pytest.mark.timeout(60)
def test_broker_mode_is_refused_where_messages_have_no_identity(bridge: Any) -> None:
    bridge.python(SOURCE)
    stream = {"kind": "python", "class": "my_triggers:Nameless", "retry": {"mode": "broker"}}
    bridge.configure({"brittle": {"stream": "nameless"}}, streams={"nameless": stream})
    for command in ("validate", "run"):
        done = bridge.call(command)
        assert done.returncode
        assert "streams.nameless: `retry: {mode: broker}` needs messages with an identity" in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
