"""Stops of every kind: what they settle, what they leave alone, how long they take, and what they exit with."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import pytest

from bridge.runtime.process import ONE_SIGNAL

if TYPE_CHECKING:
    from tests.integration.conftest import Bridge

pytestmark = pytest.mark.integration

ALL: dict[str, dict[str, Any]] = {"all": {}}

STUCK = """
    class Stuck(Filter):
        async def filter_shared_stream(self, stream):
            async for event in stream:
                if event["n"] == 3 and not Path("let-go").exists():
                    tell("stuck")
                    await asyncio.sleep(3600)
                yield TriggerEvent({})
"""

SLOW = """
echo "begun $$$$" >> told.txt
while [ ! -e let-go ]; do sleep 0.05; done
echo "all $HEADRACE_PARAM_N" >> runs.txt
"""
"""A run that lasts until the test creates the file let-go. (In a configuration `$$` is one `$`.)"""


def is_alive(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def test_a_signal_stops_within_the_deadline_and_settles_what_is_resolved(bridge: Bridge) -> None:
    bridge.python(STUCK)
    bridge.configure({"stuck": {"trigger": "my_triggers:Stuck"}, **ALL}, stop_timeout="10s")
    first = [f"all {n}" for n in range(1, 6)] + ["stuck 1", "stuck 2"]
    for life, number in enumerate((signal.SIGTERM, signal.SIGINT), 1):
        bridge.start()
        if life == 1:
            bridge.feed("orders", *({"n": n} for n in range(1, 6)))
        bridge.wait("the Python one is stuck at the third", lambda life=life: bridge.told() == ["stuck"] * life)
        bridge.wait("the rest ran", lambda: bridge.ran() == first)
        began = time.monotonic()
        bridge.signal(number)
        assert bridge.ended(within=10) == 0
        assert time.monotonic() - began < 4  # a filter that waits for something is not waited for
        assert bridge.said("signal", signal=number.name)
        assert bridge.reader().instances()[0].state == "ended"
    (bridge.folder / "let-go").touch()
    bridge.start()
    bridge.wait("the rest is settled", lambda: bridge.done() == ["orders"])
    bridge.wait("the rest ran", lambda: bridge.ran() == sorted([*first, "stuck 3", "stuck 4", "stuck 5"]))
    # The first two lines were settled by the first stop: they never came again. The others did, and ran once.
    assert [run.repeats for run in bridge.runs() if run.watcher == "all"] == [0, 0, 2, 2, 2]
    assert not bridge.letters()


def test_code_that_holds_the_thread_of_the_watchers_does_not_hold_up_the_stop(bridge: Bridge) -> None:
    bridge.python("""
        class Holding(Filter):
            async def filter_shared_stream(self, stream):
                async for event in stream:
                    tell("held")
                    time.sleep(60)
                    yield TriggerEvent({})
    """)
    bridge.configure({"holding": {"trigger": "my_triggers:Holding"}}, stop_timeout="10s")
    bridge.start()
    bridge.feed("orders", {"n": 1})
    bridge.wait("the thread is held", lambda: bridge.told() == ["held"])
    began = time.monotonic()
    assert bridge.stop() == 0
    assert time.monotonic() - began < 5
    assert bridge.runs() == []
    assert bridge.letters() == []


def test_a_second_signal_ends_it_at_once_with_128_and_the_signal(bridge: Bridge) -> None:
    bridge.configure(ALL, target={"command": ["/bin/sh", "-c", SLOW]}, stop_timeout="60s")
    for life, number in enumerate((signal.SIGTERM, signal.SIGINT), 1):
        bridge.start()
        bridge.feed(f"orders-{life}", {"n": life})
        bridge.wait("another command runs", lambda life=life: len(bridge.told()) == life)
        began = time.monotonic()
        bridge.signal(number)
        bridge.wait("it stops, and waits for the command", lambda: bridge.said("stopping"))
        bridge.signal(number)  # at once: `timeout` sends its one signal twice
        bridge.wait("that was one", lambda began=began: time.monotonic() - began > 2 * ONE_SIGNAL)
        bridge.signal(number)
        assert bridge.ended(within=2) == 128 + number
    (bridge.folder / "let-go").touch()
    bridge.start()
    bridge.wait("the next life has the results", lambda: bridge.states() == ["succeeded"] * 2)
    assert bridge.ran() == ["all 1", "all 2"]


def test_a_stop_leaves_a_running_command_alone_and_the_next_start_has_its_result(bridge: Bridge) -> None:
    bridge.configure(ALL, target={"command": ["/bin/sh", "-c", SLOW]}, stop_timeout="1s")
    bridge.start()
    bridge.feed("orders", {"n": 1})
    (begun,) = bridge.wait("the command runs", bridge.told)
    bridge.wait("its message is settled", lambda: bridge.done() == ["orders"])
    assert bridge.stop(within=3) == 0
    assert bridge.said("Launches were left in flight")
    assert bridge.states() == ["dispatching"]
    assert is_alive(int(begun.split()[1]))
    (bridge.folder / "let-go").touch()
    bridge.start()
    bridge.wait("the next life has its result", lambda: bridge.states() == ["succeeded"])
    assert bridge.told() == [begun]
    assert bridge.ran() == ["all 1"]
    assert bridge.run().error == ""


def test_a_stop_that_runs_out_of_time_exits_with_4_and_the_next_life_does_each_once(bridge: Bridge) -> None:
    bridge.configure(ALL, stop_timeout="1s")
    bridge.start()
    bridge.feed("first", {"n": 1})
    bridge.wait("the first one ran", lambda: bridge.states() == ["succeeded"])
    with closing(sqlite3.connect(bridge.database, isolation_level=None, timeout=10)) as other:
        other.execute("BEGIN IMMEDIATE")  # commits wait, and what waits for a commit can't be settled
        bridge.feed("second", {"n": 2}, {"n": 3})
        bridge.wait("the second file is read", lambda: bridge.done() == ["first"] and not bridge.to_claim())
        began = time.monotonic()
        bridge.signal()
        code = bridge.ended(within=10)
        took = time.monotonic() - began
        other.execute("ROLLBACK")
    assert code == 4
    assert took < 2.5
    assert bridge.said("stopped before everything was settled")
    bridge.start()
    bridge.wait("the rest is settled", lambda: bridge.done() == ["first", "second"])
    bridge.wait("each ran once", lambda: bridge.ran() == ["all 1", "all 2", "all 3"])
    bridge.wait("and that is known", lambda: bridge.states() == ["succeeded"] * 3)


def test_ten_starts_and_stops_leave_no_process_and_no_temporary_file(bridge: Bridge) -> None:
    bridge.configure(ALL)
    for number in range(10):
        bridge.start()
        bridge.feed(f"file-{number}", {"n": number})
        bridge.wait("its run ran", lambda number=number: bridge.states() == ["succeeded"] * (number + 1))
        assert bridge.stop() == 0
        assert bridge.left_over() == []
    assert bridge.ran() == sorted(f"all {number}" for number in range(10))
    assert bridge.done() == sorted(f"file-{number}" for number in range(10))
    paths = [path.relative_to(bridge.folder) for path in bridge.folder.rglob("*") if path.is_file()]
    work = {path.name for path in paths if path.parent.name == ".work"}
    assert work == {".lock"}
    assert list((bridge.folder / "tmp").iterdir()) == []
    assert [path for path in paths if path.suffix in (".tmp", ".part") or "probe" in path.name] == []
    top = {path.name for path in paths if len(path.parts) == 1}
    logs = {f"life-{number}.log" for number in range(1, 11)}
    assert top - logs == {"headrace.yaml", "headrace.db", "headrace.db.lock", "runs.txt"}
