"""One message, one run, whatever happens to the program and its store while the broker only lends its messages."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from tests.integration.conftest import Bridge
from tests.integration.kafka_faults import truth
from tests.integration.kafka_faults.lengths import either
from tests.integration.kafka_faults.test_store_away import locked
from tests.integration.queues.brokers import Queue

pytestmark = pytest.mark.integration

MESSAGES = 10_000
AWAY = either(15.0, 30.0)
"""Seconds: longer than any lease here."""
LOG = {"kind": "log", "level": "debug"}

TRIGGERS = """
    class Slow(Filter):
        async def filter_shared_stream(self, stream):
            async for event in stream:
                if event["n"] % 50 == 7:
                    yield TriggerEvent(event)

    class Stumbling(Filter):
        async def filter_shared_stream(self, stream):
            async for event in stream:
                if event["n"] % 2000 == 3 and current_message().attempt < 3:
                    raise RuntimeError("not yet")
                if event["n"] % 50 == 3:
                    yield TriggerEvent(event)

    class Long(Filter):
        async def filter_shared_stream(self, stream):
            async for event in stream:
                tell("try", event["n"])
                await asyncio.sleep(event["seconds"] if "seconds" in event else LASTS)
                yield TriggerEvent(event)
"""
WATCHERS = {
    **{f"w{k}": {"match": {"k": k}} for k in range(18)},
    "slow": {"trigger": "my_triggers:Slow", "max_attempts": 2},
    "stumbling": {"trigger": "my_triggers:Stumbling", "max_attempts": 3},
}


def requests(bridge: Bridge) -> int:
    """How many run requests there are. None where there is no store yet."""
    if not bridge.database.exists() or not truth.asked(
        bridge.database, "SELECT 1 FROM sqlite_master WHERE name = 'runs'"
    ):
        return 0
    ((count,),) = truth.asked(bridge.database, "SELECT count(*) FROM runs")
    return int(str(count))


def begin(bridge: Bridge, lent: Queue) -> None:
    bridge.configure(
        WATCHERS, target=LOG, streams={"in": {**lent.stream, "retry": {"delay": "100ms", "factor": 1, "max": "1s"}}}
    )
    bridge.python(TRIGGERS.replace("LASTS", str(3 * lent.lease)))
    bridge.start()


@pytest.mark.timeout(either(240, 400))
def test_ten_thousand_messages_a_kill_and_a_store_outage_make_one_run_request_for_each_match(
    bridge: Bridge, lent: Queue
) -> None:
    begin(bridge, lent)
    half = range(MESSAGES // 2)
    lent.send(half)
    bridge.wait("some of it is stored", lambda: requests(bridge) > 500, within=60)
    bridge.kill()
    bridge.start()
    lent.send(range(MESSAGES // 2, MESSAGES))
    bridge.wait("more of it is stored", lambda: requests(bridge) > 2000, within=60)
    with locked(bridge.database):
        time.sleep(AWAY)
    bridge.wait("all is settled", lambda: lent.left() == 0, within=120)
    assert bridge.stop(30) == 0
    due = {f"w{k}": Counter(range(k, MESSAGES, 20)) for k in range(18)}
    due |= {"slow": Counter(range(7, MESSAGES, 50)), "stumbling": Counter(range(3, MESSAGES, 50))}
    assert {watcher: truth.numbers(bridge.database, watcher) for watcher in due} == due
    assert truth.letters(bridge.database) == []
    assert truth.attempts(bridge.database) == 0
    assert lent.moved_away() == 0


@pytest.mark.timeout(180)
def test_a_watcher_that_takes_three_leases_time_has_its_message_to_itself_and_once(bridge: Bridge, lent: Queue) -> None:
    bridge.configure({"long": {"trigger": "my_triggers:Long"}}, target=LOG, streams={"in": dict(lent.stream)})
    bridge.python(TRIGGERS.replace("LASTS", str(3 * lent.lease)))
    bridge.start()
    lent.send([1])
    bridge.wait("the run is stored", lambda: requests(bridge) == 1, within=4 * lent.lease + 15)
    bridge.wait("all is settled", lambda: lent.left() == 0)
    _, status = bridge.status()
    (stream,) = status["streams"]
    assert (stream["received"], stream["settled"], stream["expired"], stream["joined"]) == (1, 1, 0, 0)
    assert bridge.told() == ["try 1"]
    assert bridge.stop(30) == 0


@pytest.mark.timeout(120)
def test_a_stop_gives_back_at_once_what_a_slow_watcher_has_not_seen(bridge: Bridge, lent: Queue) -> None:
    bridge.configure({"long": {"trigger": "my_triggers:Long"}}, target=LOG, streams={"in": dict(lent.stream)})
    bridge.python(TRIGGERS.replace("LASTS", "60"))
    bridge.start()
    lent.send(range(50))
    bridge.wait("the first is held", lambda: bridge.told() != [])
    bridge.wait("all have come", lambda: bridge.status()[1]["streams"][0]["outstanding"] == 50)
    assert bridge.stop(30) == 0
    stopped = time.monotonic()
    bridge.python(TRIGGERS.replace("LASTS", "0"))
    bridge.start()
    bridge.wait("all of it is stored", lambda: requests(bridge) == 50, within=30)
    took = time.monotonic() - stopped
    bridge.wait("all is settled", lambda: lent.left() == 0)
    assert sorted(truth.numbers(bridge.database, "long").elements()) == list(range(50))
    assert (truth.letters(bridge.database), lent.moved_away()) == ([], 0)
    assert took < 30
    assert bridge.stop(30) == 0
