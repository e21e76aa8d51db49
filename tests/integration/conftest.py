"""The whole program as a real process in a folder of its own: real files, a real store, real signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from textwrap import dedent
from typing import Any, TypeVar

import pytest

from bridge.store.reader import Reader, open_reader
from bridge.store.views import DeadLetterView, RunView

T = TypeVar("T")

HEADRACE = [sys.executable, "-m", "bridge.cli.main"]
ROOT = Path(__file__).resolve().parents[2]

RECORD = 'printf "%s %s\\n" "$HEADRACE_WATCHER" "$HEADRACE_PARAM_N" >> runs.txt'
"""What a run does by default: it says outside of the store that it ran."""

STARTED = "Shared stream group started"
DEFECTS = ("Traceback (most recent call last)", "commit failed unexpectedly", "A task of the dispatcher failed")
"""What no log may hold, whatever a test does to the program."""

PRELUDE = """
import asyncio
import time
from pathlib import Path
from bridge.shared_stream import AckTimeout, current_message, reject_shared_stream_event
from bridge.triggers import BaseEventTrigger, TriggerEvent

class Filter(BaseEventTrigger):
    def serialize(self):
        return f"my_triggers:{type(self).__name__}", {}

    async def run(self):
        raise NotImplementedError
        yield

def tell(*words):
    with open("told.txt", "a") as file:
        file.write(" ".join(map(str, words)) + "\\n")
"""


class Bridge:
    """One folder, and the lives of the program in it. Everything that was started is ended by `close`."""

    def __init__(self, folder: Path, bytecode: Path) -> None:
        self.folder = folder
        self.drop = folder / "drop"
        self.database = folder / "headrace.db"
        self.process: subprocess.Popen[bytes] | None = None
        self._log = folder / "no-life.log"
        self._lives = 0
        self._bytecode = bytecode
        self._processes: list[subprocess.Popen[bytes]] = []
        self.drop.mkdir(parents=True)
        (folder / "tmp").mkdir()

    # What it is given -------------------------------------------------------------------------------------------------

    def configure(
        self,
        watchers: Mapping[str, Mapping[str, Any]],
        *,
        stream: Mapping[str, Any] | None = None,
        target: Mapping[str, Any] | None = None,
        streams: Mapping[str, Any] | None = None,
        store: Any = "sqlite:///headrace.db",
        **instance: Any,
    ) -> None:
        """Writes headrace.yaml (JSON is YAML). `stream` and `target` change the default ones, `in` and `out`."""
        directory = {"kind": "directory", "path": "drop", "lines": True, "settle": "0s", "poll_interval": "50ms"}
        command = {"kind": "command", "command": ["/bin/sh", "-c", RECORD]}
        run = {"target": "out", "job": "job", "params": {"n": "${event.n}"}}
        config = {
            "store": store,
            "instance": {"heartbeat": "200ms", "stop_timeout": "10s", **instance},
            "targets": {"out": target if target and "kind" in target else {**command, **(target or {})}},
            "streams": {"in": {**directory, **(stream or {})}, **(streams or {})},
            "assets": {
                name: {"watchers": [{"stream": "in", "run": run, **watcher}]} for name, watcher in watchers.items()
            },
        }
        (self.folder / "headrace.yaml").write_text(json.dumps(config, indent=1))

    def python(self, source: str) -> None:
        """Writes my_triggers.py: classes that derive from `Filter`; `tell` appends a line to told.txt."""
        (self.folder / "my_triggers.py").write_text(PRELUDE + dedent(source))

    def feed(self, name: str, *lines: Mapping[str, Any] | bytes) -> None:
        """A file appears whole, by a rename."""
        part = self.drop / f".{name}.part"
        part.write_bytes(b"".join((x if isinstance(x, bytes) else json.dumps(x).encode()) + b"\n" for x in lines))
        part.rename(self.drop / name)

    # Its lives --------------------------------------------------------------------------------------------------------

    def start(self, until: str | None = STARTED, config: str = "headrace.yaml") -> subprocess.Popen[bytes]:
        """A life begins; returns when its log has that line."""
        self._lives += 1
        self._log = self.folder / f"life-{self._lives}.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*HEADRACE, "run", config], cwd=self.folder, env=self.environment(), stdin=subprocess.DEVNULL,
                stdout=log, stderr=log,
            )  # fmt: skip
        self._processes.append(self.process)
        if until is not None:
            self.wait(f"the log says {until!r}", lambda: self.said(until))
        return self.process

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs another command of the program to its end."""
        return subprocess.run(
            [*HEADRACE, *arguments], cwd=self.folder, env=self.environment(), stdin=subprocess.DEVNULL,
            capture_output=True, encoding="utf-8", errors="surrogateescape", timeout=30, check=False,
        )  # fmt: skip

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def ended(self, within: float = 15.0) -> int:
        """The exit code, once it has ended by itself; minus the signal if one killed it."""
        assert self.process is not None
        try:
            return self.process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it has not ended within {within} s{self.tail()}") from None

    def stop(self, within: float = 15.0) -> int:
        self.signal()
        return self.ended(within)

    def kill(self) -> None:
        """kill -9, of this process alone."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """Ends whatever is left of all lives, each by its pid."""
        for process in self._processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        for pid in self.left_over():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def check(self) -> None:
        """No log of any life may show a defect."""
        for log in self.folder.glob("life-*.log"):
            text = log.read_text(errors="replace")
            assert not [defect for defect in DEFECTS if defect in text], text

    def environment(self) -> dict[str, str]:
        """That of every process. Byte code is kept for all of them, or each would compile all libraries anew."""
        left_out = ("HEADRACE_", "PYTHONDONTWRITEBYTECODE")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
        own = {"PYTHONPATH": ROOT, "PYTHONPYCACHEPREFIX": self._bytecode, "TMPDIR": self.folder / "tmp"}
        return {**inherited, **{name: str(path) for name, path in own.items()}}

    # What is seen of it -----------------------------------------------------------------------------------------------

    def wait(self, what: str, condition: Callable[[], T], within: float = 15.0) -> T:
        """Until the condition holds; returns what it returned."""
        ends_at = time.monotonic() + within
        while not (found := condition()):
            assert self.process is None or self.process.poll() is None, f"ended, waiting for: {what}{self.tail()}"
            assert time.monotonic() < ends_at, f"not within {within} s: {what}{self.tail()}"
            time.sleep(0.02)
        return found

    def log(self) -> list[dict[str, Any]]:
        """The lines of this life; one that is not JSON is an event of level `text`."""
        lines = self._log.read_bytes().split(b"\n")[:-1] if self._log.exists() else []  # the last may be half a line
        return [_parsed(line) for line in lines]

    def said(self, event: str, **fields: Any) -> list[dict[str, Any]]:
        """Log lines whose event has this text in it, and these fields."""
        return [
            line for line in self.log() if event in line["event"] and all(line.get(k) == v for k, v in fields.items())
        ]

    def tail(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
        return "\nits log ends:\n" + "\n".join(lines[-15:])

    def reader(self) -> Reader:
        return open_reader(f"sqlite:///{self.database}")

    def runs(self) -> list[RunView]:
        """All rows, in the order in which they were stored."""
        return self.reader().runs(limit=10_000)[::-1]

    def letters(self) -> list[DeadLetterView]:
        return self.reader().dead_letters(None, limit=10_000)[::-1]

    def run(self) -> RunView:
        """The only one."""
        (run,) = self.runs()
        return run

    def states(self) -> list[str]:
        return [run.state for run in self.runs()]

    def told(self) -> list[str]:
        return self._lines("told.txt")

    def ran(self) -> list[str]:
        """`<watcher> <n>` of every run that really ran, sorted."""
        return sorted(self._lines("runs.txt"))

    def _lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def status(self) -> tuple[int, dict[str, Any]]:
        """`headrace status`: its exit code and what it says."""
        done = self.call("status", "--output", "json")
        return done.returncode, json.loads(done.stdout)

    def done(self) -> list[str]:
        """Names of the files that are settled, as they were dropped."""
        place = self.drop / "done"
        return sorted(path.name.partition("~")[2] for path in place.iterdir()) if place.exists() else []

    def to_claim(self) -> list[str]:
        """Names of the files that were dropped and that nobody has claimed yet."""
        return sorted(path.name for path in self.drop.iterdir() if path.is_file())

    def left_over(self) -> list[int]:
        """Processes that live in the folder: the program, its launchers and commands. Empty where there is no /proc."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if Path(os.readlink(entry / "cwd")).is_relative_to(self.folder):
                    found.append(int(entry.name))
        return found


def _parsed(line: bytes) -> dict[str, Any]:
    with suppress(ValueError):
        found = json.loads(line)
        if isinstance(found, dict):
            return {"event": "", **found}
    return {"event": line.decode("utf-8", "replace"), "level": "text"}


@pytest.fixture(scope="session")
def bytecode(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bytecode")


@pytest.fixture
def new_bridge(tmp_path: Path, bytecode: Path) -> Iterator[Callable[[str], Bridge]]:
    """Makes one in a folder of the given name."""
    made: list[Bridge] = []

    def make(name: str) -> Bridge:
        made.append(Bridge(tmp_path.resolve() / name, bytecode))
        return made[-1]

    yield make
    for each in made:
        each.close()
    for each in made:
        each.check()


@pytest.fixture
def bridge(new_bridge: Callable[[str], Bridge]) -> Bridge:
    return new_bridge("bridge")
