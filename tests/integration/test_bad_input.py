"""Bad input of every kind, and what it gets: a clear word about it, while everything else goes on."""

from __future__ import annotations

import resource
import shutil
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.integration.conftest import Bridge

pytestmark = pytest.mark.integration

ALL: dict[str, dict[str, Any]] = {"all": {}}
"""One declarative watcher, which every message matches."""

MIB = 1024 * 1024


def python(name: str, **more: Any) -> dict[str, Any]:
    """A watcher written in Python: that class in my_triggers.py."""
    return {"trigger": f"my_triggers:{name}", **more}


# Messages ------------------------------------------------------------------------------------------------------------


def test_a_malformed_line_is_a_dead_letter_with_its_bytes_and_the_next_line_goes_on(bridge: Bridge) -> None:
    broken, foreign = b'{"n": 2, ', b'{"n": "\xff\xfe"}'
    bridge.configure(ALL)
    bridge.start()
    bridge.feed("orders", {"n": 1}, broken, foreign, {"n": 4})
    bridge.wait("the file is settled", lambda: bridge.done() == ["orders"])
    bridge.wait("the good lines ran", lambda: bridge.ran() == ["all 1", "all 4"])
    letters = bridge.letters()
    assert [(letter.reason, letter.watcher) for letter in letters] == [("malformed", "*"), ("encoding", "*")]
    assert all(letter.error for letter in letters)
    whole = [bridge.reader().dead_letter(letter.id) for letter in letters]
    assert [letter.body for letter in whole if letter is not None] == [broken, foreign]


def test_a_message_without_what_params_asks_for_is_a_dead_letter_of_that_watcher(bridge: Bridge) -> None:
    asks = {"target": "out", "job": "job", "params": {"n": "${event.order.id}"}}
    bridge.configure({"asks": {"run": asks}, **ALL})
    bridge.start()
    bridge.feed("orders", {"n": 1}, {"n": 2, "order": {"id": "o-2"}})
    bridge.wait("three runs ran", lambda: bridge.ran() == ["all 1", "all 2", "asks o-2"])
    bridge.wait("the file is settled", lambda: bridge.done() == ["orders"])
    (letter,) = bridge.letters()
    assert (letter.watcher, letter.reason, letter.state) == ("asks", "params", "dead")
    assert "event.order" in letter.error


# Commands ------------------------------------------------------------------------------------------------------------


def test_a_missing_command_and_a_missing_folder_are_found_before_anything_starts(bridge: Bridge) -> None:
    bridge.configure(ALL, target={"command": ["./run.sh"]})
    bridge.drop.rmdir()
    bridge.start(until=None)
    checked = bridge.call("validate", "headrace.yaml")
    assert bridge.ended() == checked.returncode == 1
    for told in (checked.stderr, bridge.tail()):
        assert f"there is no file {bridge.folder}/run.sh" in told
        assert f"the folder {bridge.drop} does not exist: create it, or correct `path`" in told
    assert not bridge.database.exists()


def test_a_command_that_vanishes_fails_its_run_and_a_retry_runs_it_when_it_is_back(bridge: Bridge) -> None:
    script = bridge.folder / "run.sh"
    script.write_text('#!/bin/sh\necho "$HEADRACE_WATCHER $HEADRACE_PARAM_N" >> runs.txt\n')
    script.chmod(0o755)
    bridge.configure(ALL, target={"command": ["./run.sh"]})
    bridge.start()
    script.rename(bridge.folder / "elsewhere.sh")
    bridge.feed("orders", {"n": 1})
    bridge.wait("the run is given up", lambda: bridge.states() == ["failed"])
    assert bridge.run().error == "targets.out.command: not found: ./run.sh"
    assert bridge.said("A run is given up", run_key=bridge.run().run_key)
    bridge.wait("the file is settled all the same", lambda: bridge.done() == ["orders"])
    (bridge.folder / "elsewhere.sh").rename(script)
    assert bridge.call("runs", "retry", bridge.run().run_key).returncode == 0
    bridge.wait("it ran", lambda: bridge.states() == ["succeeded"])
    assert bridge.ran() == ["all 1"]


def test_a_command_that_fails_is_a_failed_run_with_its_exit_code_and_output(bridge: Bridge) -> None:
    bridge.configure(ALL, target={"command": ["/bin/sh", "-c", "echo no such order >&2; exit 3"]})
    bridge.start()
    bridge.feed("orders", {"n": 1})
    bridge.wait("the run is over", lambda: bridge.states() == ["failed_run"])
    assert "exit code 3" in bridge.run().error
    assert "no such order" in bridge.run().error


def test_a_command_that_hangs_is_ended_at_its_timeout_and_others_run_meanwhile(bridge: Bridge) -> None:
    hang = "echo begun; trap '' TERM; while :; do sleep 0.1; done"
    script = f'if [ "$HEADRACE_PARAM_N" = 1 ]; then {hang}; else echo "all $HEADRACE_PARAM_N" >> runs.txt; fi'
    bridge.configure(ALL, target={"command": ["/bin/sh", "-c", script], "timeout": "2s", "grace": "200ms"})
    process = bridge.start()
    bridge.feed("orders", {"n": 1}, {"n": 2})
    bridge.wait("the other one ran", lambda: bridge.states() == ["dispatching", "succeeded"])
    bridge.wait("it was ended", lambda: bridge.states() == ["failed_run", "succeeded"])
    error = bridge.runs()[0].error
    assert "timed out" in error
    assert "begun" in error
    bridge.wait("nothing of it is left", lambda: bridge.left_over() in ([process.pid], []))


def test_a_command_that_prints_200_megabytes_costs_neither_memory_nor_disk(bridge: Bridge) -> None:
    script = "head -c 200000000 /dev/zero; echo; echo the end; exit 1"
    bridge.configure(ALL, target={"command": ["/bin/sh", "-c", script]})
    process = bridge.start()
    before = _peak(process.pid)
    largest: Counter[str] = Counter()

    def is_over() -> bool:
        others = [_peak(pid) for pid in bridge.left_over() if pid != process.pid]
        largest["memory"] = max(largest["memory"], *others, 0)
        largest["disk"] = max(largest["disk"], _size(bridge.folder))
        return bridge.states() == ["failed_run"]

    bridge.feed("orders", {"n": 1})
    bridge.wait("the run is over", is_over, within=60)
    assert "the end" in bridge.run().error
    assert largest["memory"] < 48 * MIB
    assert largest["disk"] < 4 * MIB
    assert _peak(process.pid) - before < 16 * MIB


def _peak(pid: int) -> int:
    """The most memory that a process has had, in bytes; 0 where that can't be known."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def _size(folder: Path) -> int:
    size = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            size += path.lstat().st_size
    return size


# Code of watchers ----------------------------------------------------------------------------------------------------


def test_a_watcher_that_raises_for_one_message_gives_it_up_after_its_budget(bridge: Bridge) -> None:
    bridge.python("""
        class Brittle(Filter):
            async def filter_shared_stream(self, stream):
                async for event in stream:
                    tell(event["n"], current_message().attempt)
                    if event["n"] == 2:
                        raise ValueError("boom")
                    yield TriggerEvent({})
    """)
    retry = {"delay": "50ms", "max": "50ms"}
    bridge.configure({"brittle": python("Brittle"), **ALL}, stream={"max_attempts": 3, "retry": retry})
    bridge.start()
    bridge.feed("orders", {"n": 1}, {"n": 2}, {"n": 3})
    bridge.wait("the file is settled", lambda: bridge.done() == ["orders"])
    bridge.wait("the others ran", lambda: bridge.ran() == ["all 1", "all 2", "all 3", "brittle 1", "brittle 3"])
    assert bridge.told() == ["1 1", "2 1", "2 2", "2 3", "3 1"]
    (letter,) = bridge.letters()
    assert (letter.watcher, letter.reason, letter.attempts) == ("brittle", "max_attempts", 3)
    assert "ValueError: boom" in letter.error
    assert len(bridge.said("try failed", watcher="brittle")) == 3


def test_a_watcher_that_waits_for_ever_has_failed_its_try_at_ack_timeout(bridge: Bridge) -> None:
    bridge.python("""
        class Waiting(Filter):
            async def filter_shared_stream(self, stream):
                async for event in stream:
                    if event["n"] == 1:
                        await asyncio.Event().wait()
                    yield TriggerEvent({})
    """)
    stream = {"max_attempts": 2, "ack_timeout": "300ms", "retry": {"delay": "50ms"}}
    bridge.configure({"waiting": python("Waiting")}, stream=stream)
    bridge.start()
    bridge.feed("orders", {"n": 1}, {"n": 2})
    bridge.wait("the other message ran", lambda: bridge.ran() == ["waiting 2"])
    (letter,) = bridge.letters()
    assert (letter.reason, letter.attempts) == ("max_attempts", 2)
    assert "AckTimeout" in letter.error
    assert len(bridge.said("try took too long", watcher="waiting")) == 2


def test_code_that_would_end_the_program_or_its_loop_ends_no_more_than_its_own_try(bridge: Bridge) -> None:
    bridge.python("""
        class Panic(BaseException):
            pass

        class Exiting(Filter):
            async def filter_shared_stream(self, stream):
                async for event in stream:
                    if event["n"] == 1:
                        raise SystemExit(3)
                    yield TriggerEvent({})

        class Panicking(Filter):
            async def filter_shared_stream(self, stream):
                async for event in stream:
                    if event["n"] == 1:
                        raise Panic("not an Exception")
                    yield TriggerEvent({})

        class Background(Filter):
            async def filter_shared_stream(self, stream):
                async for event in stream:
                    if event["n"] == 1:
                        self.task = asyncio.create_task(self.leave())
                    yield TriggerEvent({})

            async def leave(self):
                raise SystemExit(4)

            async def cleanup(self):
                self.task.exception()
                raise SystemExit(5)
    """)
    names = ("Exiting", "Panicking", "Background")
    watchers = {name.lower(): python(name) for name in names}
    bridge.configure(watchers, stream={"max_attempts": 2, "retry": {"delay": "50ms"}})
    bridge.start()
    bridge.feed("orders", {"n": 1}, {"n": 2})
    bridge.wait("the file is settled", lambda: bridge.done() == ["orders"])
    expected = ["background 1", "background 2", "exiting 2", "panicking 2"]
    bridge.wait("all others ran", lambda: bridge.ran() == expected)
    told = {letter.watcher: (letter.reason, letter.error.partition(" (")[0]) for letter in bridge.letters()}
    assert told == {
        "exiting": ("max_attempts", "SystemExit: 3"),
        "panicking": ("max_attempts", "Panic: not an Exception"),
    }
    assert bridge.said("code of a watcher tried to end the program", error="SystemExit(4)")
    assert bridge.stop() == 0


HOLDING = """
    class Holding(Filter):
        def __init__(self, how):
            super().__init__()
            self.hold = {"sleeps": self.sleep, "computes": self.compute}[how]

        async def filter_shared_stream(self, stream):
            async for event in stream:
                if event["n"] == 0:
                    tell("held")
                    self.hold()
                    tell("freed", time.time())
                yield TriggerEvent({})

        def sleep(self):
            time.sleep(3)

        def compute(self):
            ends_at = time.monotonic() + 3
            while time.monotonic() < ends_at:
                sum(range(1000))

    class Patient(Filter):
        async def filter_shared_stream(self, stream):
            async for event in stream:
                tell("attempt", current_message().attempt)
                await asyncio.sleep(0.5)
                yield TriggerEvent({})
"""


def test_a_watcher_that_holds_the_thread_delays_no_declarative_one_and_costs_no_other_a_try(
    new_bridge: Callable[[str], Bridge],
) -> None:
    bridges = [new_bridge("sleeps"), new_bridge("computes")]
    patient = {"kind": "directory", "path": "drop2", "lines": True, "settle": "0s", "ack_timeout": "2s"}
    for each in bridges:
        each.python(HOLDING)
        (each.folder / "drop2").mkdir()
        (each.folder / "drop2" / "patience").write_text('{"n": 7}\n')
        holding = python("Holding", kwargs={"how": each.folder.name})
        watchers = {"holding": holding, "patient": python("Patient", stream="second"), **ALL}
        each.configure(watchers, stream={"ack_timeout": "20s"}, streams={"second": patient})
        each.start(until=None)
    for each in bridges:
        each.wait("the patient one is at its message", lambda each=each: "attempt 1" in each.told())
        each.feed("first", {"n": 0})
        each.wait("the thread is held", lambda each=each: "held" in each.told())
        each.feed("next", *({"n": n} for n in range(1, 21)))
    for each in bridges:
        each.wait("all of it ran", lambda each=each: each.states() == ["succeeded"] * 43)
        (freed_at,) = (float(line.split()[1]) for line in each.told() if line.startswith("freed"))
        meanwhile = [run for run in each.runs() if run.watcher == "all" and "/next:" in run.position]
        assert len(meanwhile) == 20
        assert max(run.created_at for run in meanwhile) < freed_at - 1
        assert [line for line in each.told() if line.startswith("attempt")] == ["attempt 1"]
        assert each.said("watcher blocks the others", watcher="holding")
        assert not each.letters()


def test_a_thread_that_is_held_past_ack_timeout_is_left_behind_and_the_others_go_on(bridge: Bridge) -> None:
    bridge.python("""
        class Holding(Filter):
            async def filter_shared_stream(self, stream):
                async for event in stream:
                    if event["n"] == 1 and current_message().attempt == 1:
                        time.sleep(6)
                        tell("freed")
                    yield TriggerEvent({})

        class Other(Filter):
            async def filter_shared_stream(self, stream):
                async for event in stream:
                    tell("attempt", current_message().attempt)
                    yield TriggerEvent({})
    """)
    stream = {"ack_timeout": "1s", "retry": {"delay": "50ms"}}
    bridge.configure({"holding": python("Holding"), "other": python("Other")}, stream=stream)
    bridge.start()
    bridge.feed("orders", {"n": 1}, {"n": 2})
    expected = ["holding 1", "holding 2", "other 1", "other 2"]
    bridge.wait("all of it ran", lambda: bridge.ran() == expected, within=5)
    assert "freed" not in bridge.told()
    assert set(bridge.told()) == {"attempt 1"}
    (line,) = bridge.said("thread left behind", watcher="holding")
    assert "time.sleep(6)" in line["stack"]
    assert bridge.stop() == 0  # the thread that still sleeps holds nobody up
    assert "freed" not in bridge.told()


def test_a_watcher_that_hangs_again_and_again_ends_the_program_with_70_and_costs_no_message(bridge: Bridge) -> None:
    bridge.python("""
        class Holding(Filter):
            async def filter_shared_stream(self, stream):
                async for event in stream:
                    while not Path("let-go").exists():
                        time.sleep(0.1)
                    yield TriggerEvent({})
    """)
    stream = {"ack_timeout": "500ms", "max_attempts": 100, "retry": {"delay": "10ms"}}
    bridge.configure({"holding": python("Holding"), **ALL}, stream=stream)
    bridge.start()
    bridge.feed("orders", {"n": 1}, {"n": 2})
    assert bridge.ended(within=20) == 70
    assert [line["left_behind"] for line in bridge.said("thread left behind")] == [1, 2, 3, 4]
    (bridge.folder / "let-go").touch()
    bridge.start()
    bridge.wait("all of it ran", lambda: bridge.ran() == ["all 1", "all 2", "holding 1", "holding 2"])
    bridge.wait("the file is settled", lambda: bridge.done() == ["orders"])


# Disks and folders ---------------------------------------------------------------------------------------------------

BIG = "x" * 20_000
LARGE_PARAMS = {"run": {"target": "out", "job": "job", "params": {"n": "${event.n}", "text": "${event.text}"}}}


def large(numbers: range) -> list[dict[str, Any]]:
    """Messages of 20 kB, which become runs of 20 kB."""
    return [{"n": n, "text": BIG} for n in numbers]


def in_full(numbers: range) -> list[str]:
    """Each of them ran once."""
    return sorted(f"all {n}" for n in numbers)


def test_a_full_store_settles_nothing_and_says_so_and_with_more_room_all_runs_once(bridge: Bridge) -> None:
    url = "sqlite:///headrace.db"
    watchers = {"all": LARGE_PARAMS}
    bridge.configure(watchers, store={"url": url, "max_size": "1MiB"}, stop_timeout="1s")
    bridge.start()
    bridge.feed("first", *large(range(20)))
    bridge.wait("there was room for these", lambda: bridge.done() == ["first"])
    bridge.feed("second", *large(range(20, 60)))
    said = bridge.wait("it says that it is full", lambda: bridge.said("nothing is settled meanwhile"))
    assert "max_size of 1MiB" in said[0]["reason"]
    bridge.wait("a full store still drains", lambda: bridge.ran() == in_full(range(20)))
    bridge.wait("a heartbeat tells it", lambda: b"max_size" in bridge.reader().instances()[0].status)
    code, status = bridge.status()
    assert code == 1
    assert "the store takes nothing" in status["reason"]
    assert "max_size of 1MiB" in status["reason"]
    assert bridge.done() == ["first"]
    assert bridge.stop() == 4
    bridge.configure(watchers, store={"url": url, "max_size": "64MiB"})
    bridge.start()
    bridge.wait("the rest is settled", lambda: bridge.done() == ["first", "second"])
    bridge.wait("each ran once", lambda: bridge.ran() == in_full(range(60)))
    assert set(bridge.states()) == {"succeeded"}
    assert len(bridge.runs()) == 60
    assert not bridge.letters()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount")
    made = mount and subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=8m", "headrace-test", str(place)], capture_output=True, check=False
    )
    if not made or made.returncode != 0:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_settles_nothing_and_says_so_and_with_room_again_all_runs_once(
    bridge: Bridge, small_disk: Path
) -> None:
    bridge.configure({"all": LARGE_PARAMS}, store=f"sqlite:///{small_disk}/headrace.db")
    bridge.database = small_disk / "headrace.db"
    bridge.start()
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    bridge.feed("orders", *large(range(20)))
    said = bridge.wait("it says that it is full", lambda: bridge.said("nothing is settled meanwhile"))
    assert "its disk is full: free some space" in said[0]["reason"]
    assert bridge.done() == []
    assert bridge.runs() == []
    filler.unlink()
    bridge.wait("it is settled", lambda: bridge.done() == ["orders"])
    bridge.wait("each ran once", lambda: bridge.ran() == in_full(range(20)))
    assert bridge.said("store is back")
    bridge.wait("the results are stored", lambda: set(bridge.states()) == {"succeeded"})
    code, status = bridge.status()
    assert (code, status["healthy"]) == (0, True)


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="no limit of a running process can be changed here")
def test_a_disk_that_refuses_to_write_is_reported_and_when_it_writes_again_all_runs_once(bridge: Bridge) -> None:
    bridge.configure({"all": LARGE_PARAMS})
    process = bridge.start()
    bridge.feed("first", *large(range(5)))
    bridge.wait("these ran", lambda: bridge.states() == ["succeeded"] * 5)
    _, largest = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (300_000, largest))
    bridge.feed("second", *large(range(5, 30)))
    said = bridge.wait("it says what is wrong", lambda: bridge.said("nothing is settled meanwhile"))
    assert "the disk reports an error" in said[0]["reason"]
    assert bridge.done() == ["first"]
    assert len(bridge.runs()) == 5
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (largest, largest))
    bridge.wait("it is settled", lambda: bridge.done() == ["first", "second"])
    bridge.wait("each ran once", lambda: bridge.ran() == in_full(range(30)))
    assert bridge.said("store is back")


def test_while_another_process_locks_the_store_nothing_is_settled_and_then_it_catches_up(bridge: Bridge) -> None:
    bridge.configure(ALL)
    bridge.start()
    with closing(sqlite3.connect(bridge.database, isolation_level=None, timeout=10)) as other:
        other.execute("BEGIN EXCLUSIVE")
        bridge.feed("orders", *({"n": n} for n in range(5)))
        reasons = bridge.wait("it says what holds it", lambda: [line["reason"] for line in bridge.said("store")])
        assert "is locked by another process" in reasons[0]
        assert bridge.done() == []
        assert bridge.ran() == []
        other.execute("ROLLBACK")
    bridge.wait("it is settled", lambda: bridge.done() == ["orders"], within=5)
    bridge.wait("each ran once", lambda: bridge.ran() == in_full(range(5)))
    assert bridge.status()[0] == 0


def test_a_drop_folder_that_vanishes_is_reported_and_read_again_when_it_is_back(bridge: Bridge) -> None:
    bridge.configure(ALL)
    bridge.start()
    bridge.feed("first", {"n": 1})
    bridge.wait("the first file is settled", lambda: bridge.done() == ["first"])
    bridge.wait("its run ran", lambda: bridge.ran() == ["all 1"])
    shutil.rmtree(bridge.drop)
    (said, *_) = bridge.wait("it misses the folder", lambda: bridge.said("folder can't be read"))
    assert said["folder"] == str(bridge.drop)
    bridge.drop.mkdir()
    bridge.feed("second", {"n": 2})
    bridge.wait("the second file is settled", lambda: bridge.done() == ["second"])
    bridge.wait("its run ran", lambda: bridge.ran() == ["all 1", "all 2"])
