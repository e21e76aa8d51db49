"""The command target with real launchers, through every crash that can part it from them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridge.core.errors import Refused, Transient
from bridge.ports import Claim
from bridge.targets import command as command_module
from bridge.targets import launcher
from bridge.targets.command import KIND, RERUNS, CommandOptions, CommandTarget
from bridge.targets.records import Exit, Records, rerun_of

pytestmark = pytest.mark.integration

MakeClaim = Callable[..., Claim]
Until = Callable[..., None]
HOST = os.uname().nodename


class Place:
    """A state folder, a file that runs append a line to, and targets that share them: one for each life."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = folder / "mark"
        self.go = folder / "go"
        self.records = Records(str(folder))

    def target(self, script: str = "", **options: Any) -> CommandTarget:
        options = {"timeout": 20.0, "grace": 0.2, **options}
        command = ["sh", "-c", f'echo "$HEADRACE_RUN_KEY" >> {self.mark}; {script}']
        return CommandTarget("local", CommandOptions(command=command, **options), str(self.folder))

    def waiting(self, **options: Any) -> CommandTarget:
        """Its command ends once `go` is there."""
        return self.target(f"while [ ! -e {self.go} ]; do sleep 0.01; done", **options)

    @property
    def runs(self) -> int:
        return len(self.mark.read_text().splitlines()) if self.mark.exists() else 0

    def base(self, claim: Claim) -> str:
        return self.records.base(claim.run_key, claim.retry)

    def has_record(self, base: str) -> bool:
        return os.path.exists(f"{base}.exit")

    def interrupt(self, base: str) -> None:
        """What a launcher leaves that was killed between its link and the end."""
        self.records.prepare(base)
        Path(f"{base}.started").touch()

    def launch_late(self, claim: Claim) -> int:
        """A launcher that an earlier life asked for, and that comes to its work only now. -> its exit code"""
        arguments = [self.base(claim), "20", "1", "", "sh", "-c", f"echo late >> {self.mark}"]
        run = [sys.executable, "-I", "-S", launcher.__file__, *arguments]
        return subprocess.run(run, check=False, timeout=20).returncode


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def started(place: Place, runs: int = 1) -> None:
    for _ in range(1000):
        if place.runs >= runs:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{place.runs} of {runs} runs were started within 10s")


# How runs end --------------------------------------------------------------------------------------------------------


async def test_a_command_that_ends_well_succeeded(place: Place, claim: MakeClaim) -> None:
    said = await place.target("cat > /dev/null").launch(claim())
    assert said.state == "succeeded"
    assert said.run_id.startswith(f"{HOST}:")
    assert place.mark.read_text() == "orders/src/0-17/0\n"


async def test_params_come_as_input_and_in_the_environment(place: Place, claim: MakeClaim) -> None:
    target = place.target(
        f'cat >> {place.mark}; echo " $HEADRACE_PARAM_AMOUNT $EXTRA" >> {place.mark}', env={"EXTRA": "e"}
    )
    await target.launch(claim())
    assert place.mark.read_text().splitlines()[1] == '{"order":"o-1","amount":12.5} 12.5 e'


async def test_params_larger_than_any_pipe_or_variable_block_nobody(place: Place, claim: MakeClaim) -> None:
    params = msgspec.json.encode({"big": "x" * 3_000_000})
    assert (await place.target("true").launch(claim(params=params))).state == "succeeded"
    counted = await place.target(f"wc -c >> {place.mark}").launch(claim(run_key="k2", params=params))
    assert counted.state == "succeeded"
    assert place.mark.read_text().split()[-1] == str(len(params))


async def test_a_command_that_fails_is_a_failed_run_with_the_end_of_its_output(place: Place, claim: MakeClaim) -> None:
    said = await place.target("head -c 100000 /dev/zero; echo boom >&2; exit 3").launch(claim())
    assert said.state == "failed_run"
    assert said.error.startswith("exit code 3 after 0.")
    assert said.error.endswith("boom")
    assert len(said.error) < 3000


async def test_a_command_that_is_killed_is_a_failed_run(place: Place, claim: MakeClaim) -> None:
    said = await place.target("kill -9 $$").launch(claim())
    assert (said.state, said.error.split(" after")[0]) == ("failed_run", "ended by SIGKILL")


async def test_a_command_that_hangs_is_ended(place: Place, claim: MakeClaim) -> None:
    said = await place.target("trap '' TERM; while :; do sleep 0.02; done", timeout=0.2).launch(claim())
    assert (said.state, said.error.split(" after")[0]) == ("failed_run", "timed out, ended")


async def test_a_command_that_prints_a_gigabyte_is_no_trouble(place: Place, claim: MakeClaim) -> None:
    said = await place.target("head -c 1000000000 /dev/zero; echo done; exit 1").launch(claim())
    assert said.error.endswith("done")
    found = place.records.look(place.base(claim()))
    assert isinstance(found, Exit)
    assert len(found.output) == 2 * launcher.KEPT


@pytest.mark.parametrize(
    ("program", "reason"), [("no-such-program", "not found: no-such-program"), ("/etc/passwd", "not executable")]
)
async def test_a_command_that_cannot_start_is_refused_by_name(
    place: Place, claim: MakeClaim, program: str, reason: str
) -> None:
    target = CommandTarget("local", CommandOptions(command=[program]), str(place.folder))
    for ambiguous in (False, True):
        with pytest.raises(Refused, match=f"targets.local.command: {reason}"):
            await target.launch(claim(ambiguous=ambiguous))


async def test_more_than_the_system_takes_is_refused(place: Place, claim: MakeClaim) -> None:
    target = CommandTarget("local", CommandOptions(command=["true", "x" * 200_000]), str(place.folder))
    with pytest.raises(Refused, match="longer than the system allows"):
        await target.launch(claim())


async def test_no_process_to_be_had_is_transient_and_leaves_no_trace(
    place: Place, claim: MakeClaim, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = place.target()

    def refuse(*_: object, **__: object) -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    with monkeypatch.context() as changed:
        changed.setattr(os, "posix_spawn", refuse)
        with pytest.raises(Transient, match="Resource temporarily unavailable"):
            await target.launch(claim())
    assert (await target.launch(claim())).state == "succeeded"
    assert place.runs == 1


async def test_a_launcher_that_cannot_run_is_transient(
    place: Place, claim: MakeClaim, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.targets.process._compiled", lambda _folder: "/no/such/launcher.py")
    with pytest.raises(Transient, match=r"the launcher ends without starting the command: .*No such file"):
        await place.target().launch(claim())


async def test_no_descriptors_are_left_open(place: Place, claim: MakeClaim) -> None:
    target = place.target()
    await target.launch(claim())
    before = len(os.listdir("/dev/fd"))
    for n in range(5):
        await target.launch(claim(run_key=f"k{n}"))
    assert len(os.listdir("/dev/fd")) == before


# At most once --------------------------------------------------------------------------------------------------------


async def test_a_next_life_reads_how_the_run_ended(place: Place, claim: MakeClaim) -> None:
    first = await place.target("exit 4").launch(claim())
    again = await place.target("exit 4").launch(claim(ambiguous=True, host=HOST, epoch=2))
    assert again == first
    assert place.runs == 1


async def test_to_look_a_run_up_starts_no_process(
    place: Place, claim: MakeClaim, monkeypatch: pytest.MonkeyPatch
) -> None:
    await place.target().launch(claim())
    pids = _spawned(monkeypatch)
    await place.target().launch(claim(ambiguous=True, host=HOST))
    assert pids == []


async def test_a_next_life_starts_what_never_started(place: Place, claim: MakeClaim) -> None:
    said = await place.target().launch(claim(ambiguous=True, host=HOST))
    assert (said.state, place.runs) == ("succeeded", 1)


async def test_a_next_life_waits_for_a_command_that_still_runs(place: Place, claim: MakeClaim) -> None:
    first = asyncio.create_task(place.waiting().launch(claim()))
    await started(place)
    first.cancel()  # as far as the launcher can see, the bridge is gone
    second = asyncio.create_task(place.waiting().launch(claim(ambiguous=True, host=HOST)))
    await asyncio.sleep(0.1)
    assert not second.done()
    place.go.touch()
    assert (await second).state == "succeeded"
    assert place.runs == 1


async def test_of_two_launchers_of_two_lives_either_wins_and_one_runs(place: Place, claim: MakeClaim) -> None:
    """The bridge was killed after the spawn and before the link: its launcher and the next life's race."""
    lives = [place.target("sleep 0.1").launch(claim(ambiguous=bool(n))) for n in range(4)]
    said = await asyncio.gather(*lives)
    assert len({each.run_id for each in said}) == 1
    assert place.runs == 1


async def test_a_launcher_that_comes_late_finds_that_another_was_first(place: Place, claim: MakeClaim) -> None:
    target = place.target()
    await target.launch(claim())
    assert place.launch_late(claim()) == launcher.TAKEN
    target.recorded([claim()])
    assert place.launch_late(claim()) == launcher.TAKEN
    assert place.runs == 1


async def test_a_run_that_was_interrupted_fails_and_is_not_run_again(place: Place, claim: MakeClaim) -> None:
    place.interrupt(place.base(claim()))
    for ambiguous in (True, False):
        with pytest.raises(Refused, match=r"^interrupted: the command was started"):
            await place.target().launch(claim(ambiguous=ambiguous, host=HOST))
    assert place.runs == 0


async def test_a_launcher_killed_under_our_eyes_interrupts_the_run_when_the_command_has_ended(
    place: Place, claim: MakeClaim, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = _spawned(monkeypatch)
    launch = asyncio.create_task(place.waiting().launch(claim()))
    await started(place)
    os.kill(pids[0], signal.SIGKILL)
    await asyncio.sleep(0.1)
    assert not launch.done()  # the command holds the lock
    place.go.touch()
    with pytest.raises(Refused, match=r"^interrupted"):
        await launch
    assert place.runs == 1


async def test_a_command_that_nobody_can_end_is_reported_with_its_file(
    place: Place, claim: MakeClaim, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_module, "SLACK", 0.1)
    pids = _spawned(monkeypatch)
    target = place.waiting(timeout=0.3, grace=0.1)
    launch = asyncio.create_task(target.launch(claim()))
    await started(place)
    os.kill(pids[0], signal.SIGKILL)
    with pytest.raises((Refused, Transient), match="still runs"):
        await launch
    with pytest.raises(Refused, match=r"still runs after 300ms, its timeout \(see the locks on .*started\)"):
        await target.launch(claim(ambiguous=True))
    place.go.touch()


async def test_rerun_starts_an_interrupted_run_again_under_a_name_of_its_own(place: Place, claim: MakeClaim) -> None:
    base = place.base(claim())
    place.interrupt(base)
    target = place.target(on_interrupted="rerun")
    first = await target.launch(claim(ambiguous=True, host=HOST))
    assert first.state == "succeeded"
    assert await target.launch(claim(ambiguous=True, host=HOST)) == first
    assert await target.launch(claim()) == first
    assert place.runs == 1
    assert place.has_record(rerun_of(base, 1))


async def test_rerun_ends_somewhere(place: Place, claim: MakeClaim) -> None:
    for n in range(RERUNS + 1):
        place.interrupt(rerun_of(place.base(claim()), n))
    with pytest.raises(Refused, match=f"and so did {RERUNS} reruns"):
        await place.target(on_interrupted="rerun").launch(claim(ambiguous=True))
    assert place.runs == 0


async def test_a_manual_retry_is_a_run_of_its_own(place: Place, claim: MakeClaim) -> None:
    assert (await place.target("exit 1").launch(claim())).state == "failed_run"
    assert (await place.target().launch(claim(retry=1))).state == "succeeded"
    assert (await place.target().launch(claim(retry=1, ambiguous=True))).state == "succeeded"
    assert place.runs == 2


async def test_only_the_host_of_an_ambiguous_claim_looks(place: Place, claim: MakeClaim) -> None:
    with pytest.raises(Refused, match=f"^interrupted on host elsewhere: .*this is {HOST}"):
        await place.target().launch(claim(ambiguous=True, host="elsewhere"))
    assert place.runs == 0
    assert (await place.target().launch(claim(host="elsewhere"))).state == "succeeded"


async def test_the_timeout_holds_when_the_bridge_is_killed(place: Place, claim: MakeClaim, until: Until) -> None:
    """A bridge in a process of its own starts a command that hangs, and dies at once."""
    code = f"""
        import asyncio, msgspec
        from bridge.ports import Claim
        from bridge.targets.command import CommandOptions, CommandTarget
        claim = msgspec.json.decode({msgspec.json.encode(_fields(claim()))!r}, type=Claim)
        options = CommandOptions(command=["sh", "-c", "echo x >> {place.mark}; sleep 60"], timeout=0.5, grace=0.1)
        asyncio.run(CommandTarget("local", options, {str(place.folder)!r}).launch(claim))
    """
    _start_and_kill(code, lambda: until(lambda: place.runs == 1, "the command runs"))
    said = await place.target().launch(claim(ambiguous=True, host=HOST))
    assert (said.state, said.error.split(" after")[0]) == ("failed_run", "timed out, ended")
    assert place.runs == 1


async def test_what_is_recorded_is_forgotten_and_what_is_not_stays(place: Place, claim: MakeClaim) -> None:
    target = place.target()
    for key in ("recorded", "not recorded"):
        await target.launch(claim(run_key=key))
    target.recorded([claim(run_key="recorded")])
    assert target.forget(2**40) == 1
    await target.launch(claim(run_key="not recorded", ambiguous=True))
    assert place.runs == 2


async def test_launchers_that_nobody_waited_for_become_no_zombies(
    place: Place, claim: MakeClaim, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = _spawned(monkeypatch)
    target = place.waiting()
    launch = asyncio.create_task(target.launch(claim()))
    await started(place)
    launch.cancel()
    await asyncio.gather(launch, return_exceptions=True)
    place.go.touch()
    until(lambda: place.has_record(place.base(claim())), "the command has ended")
    for _ in range(500):
        await target.aclose()
        if not _exists(pids[0]):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the launcher has ended and was never waited for")


# Options -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"command": [""]}, "needs a program"),
        ({"command": ["x"], "env": {"A=": ""}}, "can't be the name of a variable"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CommandOptions(**options)


def test_a_missing_program_is_found_before_anything_runs() -> None:
    assert KIND.check(CommandOptions(command=["sh"])) == []
    assert "not found on PATH" in KIND.check(CommandOptions(command=["no-such-program"]))[0]


def test_a_launch_is_bounded_by_more_than_the_commands_own_limit(place: Place) -> None:
    assert place.target(timeout=3.0, grace=2.0).timeout > 5.0


def _start_and_kill(code: str, after: Callable[[], None]) -> None:
    bridge = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)])
    after()
    bridge.kill()
    bridge.wait(10)


def _fields(claim: Claim) -> dict[str, object]:
    return {name: getattr(claim, name) for name in claim.__struct_fields__}


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _spawned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    pids: list[int] = []
    spawn = os.posix_spawn

    def noting(*arguments: Any, **options: Any) -> int:
        pids.append(spawn(*arguments, **options))
        return pids[-1]

    monkeypatch.setattr(os, "posix_spawn", noting)
    return pids
