"""Starts launchers and waits for them, without a thread.

A spawn holds the loop for 0.2 ms, and for as long as the system keeps the new process waiting where every core is
busy; so a turn of the loop makes one at most. A launcher's standard output is a pipe that nobody else holds: its end
is the launcher's end.
"""

from __future__ import annotations

import asyncio
import errno
import os
import py_compile
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Final

from bridge.core.errors import Refused, Transient
from bridge.targets import launcher

_REPORT: Final = 4096  # bytes of what a launcher says that are kept


class Launchers:
    """The launchers that this process has started. `folder` holds their byte code and, unnamed, their input."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._program = [sys.executable, "-I", "-S", _compiled(folder)]
        self._turn = asyncio.Lock()
        self._left: set[int] = set()

    async def run(
        self, arguments: Sequence[str], params: bytes, environment: Mapping[str, str], deadline: float
    ) -> tuple[int, str]:
        """Runs one to its end. -> (exit code, what it said). Cancelling leaves it alone.

        Raises Transient where it can't be started now or has not ended by `deadline` (loop time), Refused where its
        arguments and environment are more than the system takes.
        """
        self.reap()
        async with self._turn:
            await asyncio.sleep(0)
            pid, source = self._spawned(arguments, params, environment)
        try:
            report = await _read_to_end(source, deadline)
            code = await _exit_code(pid, deadline)
        except BaseException:
            self._left.add(pid)
            raise
        return code, report.decode("utf-8", "replace").strip()

    def reap(self) -> None:
        """Takes leave of launchers that nobody waited for to the end: a cancelled launch, a deadline."""
        for pid in tuple(self._left):
            if _status_of(pid) is not None:
                self._left.discard(pid)

    def _spawned(self, arguments: Sequence[str], params: bytes, environment: Mapping[str, str]) -> tuple[int, int]:
        try:
            return self._spawn(arguments, params, environment)
        except OSError as error:
            if error.errno == errno.E2BIG:
                raise Refused("the command's arguments and environment are longer than the system allows") from error
            raise Transient(f"no launcher can be started: {error.strerror} {error.filename or ''}") from error

    def _spawn(self, arguments: Sequence[str], params: bytes, environment: Mapping[str, str]) -> tuple[int, int]:
        source, sink = os.pipe()
        try:
            # A file, not a pipe: a command that never reads its input blocks nobody.
            with tempfile.TemporaryFile(dir=self._folder, buffering=0) as stdin:
                stdin.write(params)
                stdin.seek(0)
                pid = os.posix_spawn(
                    sys.executable,
                    [*self._program, *arguments],
                    environment,
                    file_actions=[
                        (os.POSIX_SPAWN_DUP2, stdin.fileno(), 0),
                        (os.POSIX_SPAWN_DUP2, sink, 1),
                        (os.POSIX_SPAWN_DUP2, sink, 2),
                    ],
                    setsid=True,
                    setsigmask=(),
                )
        except BaseException:
            os.close(source)
            raise
        finally:
            os.close(sink)
        return pid, source


async def _read_to_end(source: int, deadline: float) -> bytes:
    """What comes through the pipe until its last writer is gone. Closes it in any case."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    text = bytearray()

    def readable() -> None:
        chunk = os.read(source, _REPORT)
        if chunk:
            text.extend(chunk[: _REPORT - len(text)])
        elif not ended.done():
            ended.set_result(None)

    loop.add_reader(source, readable)
    try:
        async with asyncio.timeout_at(deadline):
            await ended
    except TimeoutError:
        raise Transient("the launcher has not ended in time") from None
    finally:
        loop.remove_reader(source)
        os.close(source)
    return bytes(text)


async def _exit_code(pid: int, deadline: float) -> int:
    """The pipe has ended, so the process is on its last instructions: a short pause or none."""
    pause, loop = 0.0005, asyncio.get_running_loop()
    while True:
        code = _status_of(pid)
        if code is not None:
            return code
        if loop.time() > deadline:
            raise Transient("the launcher does not end")
        await asyncio.sleep(pause)
        pause = min(pause * 2, 0.1)


def _status_of(pid: int) -> int | None:
    """Its exit code, minus the signal that ended it, -1 where somebody else waited for it; None while it lives."""
    try:
        done, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return -1
    return os.waitstatus_to_exitcode(status) if done else None


def _compiled(folder: str) -> str:
    """The launcher as byte code: compiling it would be a fifth of every start. The source where that can't be had."""
    target = f"{folder}/launcher.{sys.implementation.cache_tag}.pyc"
    try:
        py_compile.compile(launcher.__file__, target, doraise=True)
    except (OSError, py_compile.PyCompileError):
        return launcher.__file__
    return target
