"""A local process for each run, at most one per run key, through crashes of the bridge, the launcher and the command.

The launcher (`launcher.py`) is a process and session of its own: what ends the bridge does not reach it, and it ends a
command that hangs even when no bridge lives. Its state files answer for every run that may have started before:

    it ended           that is the result
    it never started   it is started now
    it runs            we wait for its end
    interrupted        `failed`; with `on_interrupted: rerun` it is started again, under a name of its own

Files are local, so a run that another host has claimed and not finished can't be looked up here: it is `failed` with
the name of that host, and `headrace runs retry` decides.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, ClassVar, Final, Literal

from msgspec import Meta, Struct

from bridge.core.errors import Refused, Transient
from bridge.core.units import Duration, format_duration
from bridge.ports import Claim, Launched, TargetKind
from bridge.targets import launcher
from bridge.targets.environment import environment_of, problems_of, startup_problems
from bridge.targets.process import Launchers
from bridge.targets.records import Exit, Progress, Records, parse, rerun_of

SLACK: Final = 5.0  # seconds that a launcher may take beside the command's own
RERUNS: Final = 5
"""How often `on_interrupted: rerun` starts a run again: one that takes the machine down each time must end."""
TOLD: Final = 2000  # bytes of output that go into the error of a run
_ROUNDS: Final = 3


class CommandOptions(Struct, frozen=True):
    """`command` is the program and its arguments, run without a shell; relative paths start at `cwd`.

    `cwd` is where it runs, by default the folder that the bridge runs in, and `env` is added to the bridge's
    environment. `timeout` ends it: SIGTERM to its process group, after `grace` SIGKILL.
    """

    command: Annotated[list[str], Meta(min_length=1, description="the program and its arguments: [./run.sh, --fast]")]
    cwd: str | None = None
    env: dict[str, str] = {}
    timeout: Annotated[Duration, Meta(gt=0)] = 3600.0
    grace: Annotated[Duration, Meta(ge=0)] = 5.0
    on_interrupted: Literal["fail", "rerun"] = "fail"

    def __post_init__(self) -> None:
        problems = problems_of(self.command, self.env)
        if problems:
            raise ValueError("; ".join(problems))


class CommandTarget:
    """See the module. State files live in `state_dir`, which must live as long as the store does."""

    kind: ClassVar[str] = "command"
    guarantee: ClassVar[str] = "keyed"

    def __init__(self, name: str, options: CommandOptions, state_dir: str) -> None:
        self._longest = options.timeout + options.grace + SLACK
        self.timeout = self._longest
        self._name = name
        self._options = options
        self._records = Records(state_dir)
        self._folder = os.path.abspath(options.cwd) if options.cwd else ""
        self._host = os.uname().nodename
        self._environment = {**os.environ, **options.env}
        self._launchers = Launchers(self._records.root)

    async def launch(self, claim: Claim) -> Launched:
        """Returns when the command has ended. Cancelling it leaves the command alone."""
        if claim.ambiguous and claim.host not in ("", self._host):
            raise Refused(
                f"interrupted on host {claim.host}: whether it ran is known there only (this is {self._host}); "
                f"if it may run (again), retry it"
            )
        base = self._records.base(claim.run_key, claim.retry)
        deadline = asyncio.get_running_loop().time() + self._longest
        step = await self._find(base, deadline) if claim.ambiguous else base
        report = ""
        for _ in range(_ROUNDS):
            if isinstance(step, Launched):
                return step
            code, report = await self._start(claim, step, deadline)
            step = self._verdict(step, code, report) or await self._find(base, deadline)
        raise Transient(f"the launcher ends without starting the command: {report or 'no message'}")

    def recorded(self, claims: Sequence[Claim]) -> None:
        """The store has the results of these claims for good: their state files may go."""
        for claim in claims:
            self._records.settle(self._records.base(claim.run_key, claim.retry))

    def forget(self, before: float) -> int:
        """Removes the state files of recorded runs that ended before (seconds since 1970). Blocks: use a thread.

        Leave them a day: a launcher that was asked for, and was late, must find that another was first.
        """
        return self._records.forget(before)

    async def aclose(self) -> None:
        """Commands that run go on, and their launchers write how they end."""
        self._launchers.reap()

    async def _start(self, claim: Claim, name: str, deadline: float) -> tuple[int, str]:
        """Runs a launcher to its end. -> (exit code, what it said)"""
        try:
            self._records.prepare(name)
        except OSError as error:
            raise Transient(f"{name}: there is no folder for the state of the run: {error.strerror}") from error
        options = self._options
        arguments = [name, f"{options.timeout:.3f}", f"{options.grace:.3f}", self._folder, *options.command]
        environment = {**self._environment, **environment_of(claim)}
        return await self._launchers.run(arguments, claim.params, environment, deadline)

    async def _find(self, base: str, deadline: float) -> Launched | str:
        """What an earlier start came to; or the name under which to start now."""
        name, reruns = self._records.latest(base)
        found = await self._ended(name, deadline)
        if isinstance(found, Exit):
            return self._answer(found)
        if found is Progress.ABSENT:
            return name
        if found is Progress.RUNNING:
            raise self._still_running(name)
        if self._options.on_interrupted == "rerun" and reruns < RERUNS:
            return rerun_of(base, reruns + 1)
        raise Refused(
            "interrupted: the command was started, and ended together with its launcher before anybody saw how"
            + (f", and so did {reruns} reruns" if reruns else "")
        )

    async def _ended(self, name: str, deadline: float) -> Exit | Progress:
        """Waits while it runs, until the deadline. The lock can't be waited for without a thread: it is polled."""
        pause, loop = 0.02, asyncio.get_running_loop()
        while True:
            try:
                found = self._records.look(name)
            except OSError as error:
                raise Transient(f"{name}: the state of the run can't be read: {error.strerror}") from error
            if found is not Progress.RUNNING or loop.time() >= deadline:
                return found
            await asyncio.sleep(min(pause, max(0.0, deadline - loop.time())))
            pause = min(pause * 1.5, 0.5)

    def _still_running(self, name: str) -> Transient | Refused:
        with suppress(OSError):
            if time.time() - os.stat(f"{name}.started").st_mtime < self._longest:
                return Transient("the command of an earlier start still runs")
        limit = format_duration(self._options.timeout)
        return Refused(
            f"interrupted: the launcher died, and the command still runs after {limit}, its timeout "
            f"(see the locks on {name}.started); end it by hand"
        )

    def _verdict(self, name: str, code: int, report: str) -> Launched | None:
        """What the launcher's exit code says; None where only the files can tell."""
        if code == launcher.UNABLE:
            raise Transient(f"the command could not be started now: {report}")
        found = None
        if code == launcher.RECORDED:
            with suppress(OSError):
                looked = self._records.look(name)
                found = looked if isinstance(looked, Exit) else None
        elif code == launcher.UNRECORDED:
            found = parse(report.encode(), b"")
        return self._answer(found) if found is not None else None

    def _answer(self, found: Exit) -> Launched:
        if found.pid == 0:
            raise Refused(f"targets.{self._name}.command: {found.reason}")
        run_id = f"{self._host}:{found.pid}"
        if found.code == 0 and not found.reason:
            return Launched("succeeded", run_id)
        return Launched("failed_run", run_id, error=f"{_headline(found)}{_tail(found.output)}")


def _headline(found: Exit) -> str:
    took = f"after {found.ended - found.started:.1f}s"
    if found.reason == "timeout":
        return f"timed out, ended {took}"
    if found.code < 0:
        try:
            return f"ended by {signal.Signals(-found.code).name} {took}"
        except ValueError:
            return f"ended by signal {-found.code} {took}"
    return f"exit code {found.code} {took}"


def _tail(output: bytes) -> str:
    text = output[-TOLD:].decode("utf-8", "replace").strip()
    return f": {text}" if text else ", without output"


def _check(options: CommandOptions) -> list[str]:
    return startup_problems(options.command, options.cwd, {**os.environ, **options.env})


KIND: Final = TargetKind(options=CommandOptions, build=CommandTarget, check=_check)
