"""Files in, runs out, a kill -9 half way: `python -m demo [FOLDER]`. Exit code 1 if anything was lost or doubled.

What happened is read from a file to which every run appended its run key and its pid, and from the folder: not from
the store, which is the program's own word. The store is only asked for what it alone knows (dead letters, repeats).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct
from rich.console import Console
from rich.table import Table

from bridge.store.reader import open_reader
from demo.orders import MESSAGES, Feed, make

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / "configs" / "quickstart.yaml"
BRIDGE = [sys.executable, "-m", "bridge.cli.main", "run"]
PATIENCE = 50.0
"""Seconds for all of it, set-up aside."""

console = Console(highlight=False)


class Demo:
    """One folder, and the lives of the bridge in it; `patience` in seconds for all of them."""

    def __init__(self, folder: Path, patience: float = PATIENCE) -> None:
        self.folder = folder
        self.drop = folder / "drop"
        self.runs = folder / "runs.txt"
        self.drop.mkdir(parents=True)
        self.ends_at = time.monotonic() + patience
        self.bridge: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.folder / "headrace.log").open("ab") as log:
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            self.bridge = subprocess.Popen([*BRIDGE, str(CONFIG)], cwd=self.folder, env=environment, stderr=log)

    def feed(self, files: list[tuple[str, bytes]]) -> None:
        """A file appears whole, by a rename: the usual way to drop one."""
        for name, content in files:
            part = self.drop / f".{name}.part"
            part.write_bytes(content)
            part.rename(self.drop / name)

    def seen(self) -> list[str]:
        return self.runs.read_text().splitlines() if self.runs.exists() else []

    def wait(self, what: str, condition: Callable[[], bool]) -> None:
        """Until it is so, with the runs on a terminal as they come; gives up when the patience is over."""
        with console.status(what) as status:
            while not condition():
                if self.bridge is not None and self.bridge.poll() is not None:
                    raise SystemExit(f"the bridge ended by itself: see {self.folder / 'headrace.log'}")
                if time.monotonic() > self.ends_at:
                    raise SystemExit(
                        f"gave up: {what}, with {len(self.seen())} runs; see {self.folder / 'headrace.log'}"
                    )
                status.update(f"{what}: {len(self.seen())} runs so far")
                time.sleep(0.05)

    def kill(self) -> None:
        """The process of the bridge alone, by its pid: commands that run go on by themselves."""
        assert self.bridge is not None
        self.bridge.send_signal(signal.SIGKILL)
        self.bridge.wait()

    def stop(self) -> int:
        assert self.bridge is not None
        self.bridge.terminate()
        return self.bridge.wait(timeout=30)

    @property
    def is_up(self) -> bool:
        """This life has opened the store, so it hears signals."""
        assert self.bridge is not None
        return any(i.pid == self.bridge.pid and i.state == "running" for i in open_reader(self.url).instances())

    def is_quiet(self, feed: Feed) -> bool:
        """Every file is in done/, and the outbox is empty."""
        if len([n for n in os.listdir(self.drop / "done") if not n.startswith(".")]) < len(feed.files):
            return False
        counts = open_reader(self.url).counts()
        return not any(state in ("pending", "dispatching", "held") for state, _, _ in counts.runs)

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder / 'headrace.db'}"


class Outcome(Struct, frozen=True):
    """What was found, counted from outside where that is possible."""

    received: int
    matched: int
    runs: int
    suppressed: int
    malformed: int
    rejected: int
    interrupted: int
    lost: int
    doubled: int
    strangers: int


def outcome(demo: Demo, feed: Feed) -> Outcome:
    """Run keys in the file against what was fed in; the middle of a run key never matters here, only who and which."""
    lines = [line.split(" ") for line in demo.seen()]
    keys = Counter(key for key, _, _ in lines)
    ran = Counter((key.split("/", 1)[0], order) for key, _, order in lines)
    reader = open_reader(demo.url)
    letters: Counter[str] = Counter()
    for _, reason, count in reader.counts().dead_letters:
        letters[reason] += count
    states: Counter[str] = Counter()
    for state, _, count in reader.counts().runs:
        states[state] += count
    done = [path.read_bytes() for path in (demo.drop / "done").iterdir()]
    return Outcome(
        received=sum(content.count(b"\n") for content in done),
        matched=len(feed.runs),
        runs=len(lines),
        suppressed=sum(run.repeats for run in reader.runs(limit=10 * MESSAGES)),
        malformed=letters["malformed"] + letters["encoding"],
        rejected=letters["no such currency"],
        interrupted=states["failed"] + states["failed_run"],
        lost=len(feed.runs - set(ran)),
        doubled=sum(n - 1 for n in keys.values()) + sum(n - 1 for n in ran.values() if n > 1),
        strangers=len(set(ran) - feed.runs),
    )


def compared(found: Outcome, feed: Feed) -> list[tuple[str, int, int | None]]:
    """What, how many were seen, how many there should be (None: any number)."""
    return [
        ("received", found.received, MESSAGES),
        ("matched", found.matched, len(feed.runs)),
        ("runs", found.runs, len(feed.runs)),
        ("suppressed (came again after the crash)", found.suppressed, None),
        ("dead-lettered: malformed", found.malformed, feed.malformed),
        ("dead-lettered: rejected in Python", found.rejected, feed.rejected),
        ("interrupted", found.interrupted, 0),
        ("lost", found.lost, 0),
        ("doubled", found.doubled, 0),
        ("runs that nothing asked for", found.strangers, 0),
    ]


def show(found: Outcome, feed: Feed) -> bool:
    """The one table. True if every line is as it should be."""
    rows = compared(found, feed)
    table = Table("", "seen", "expected", "", title="2,000 messages, 20 watchers, one kill -9")
    for name, seen, expected in rows:
        right = expected is None or seen == expected
        table.add_row(
            name, str(seen), "any" if expected is None else str(expected), "[green]ok" if right else "[red]WRONG"
        )
    console.print(table)
    return all(expected is None or seen == expected for _, seen, expected in rows)


def main(folder: Path) -> int:
    feed = make()
    demo = Demo(folder)
    began = time.monotonic()
    half = len(feed.files) // 2
    try:
        demo.start()
        demo.feed(feed.files[:half])
        demo.wait("first half", lambda: len(demo.seen()) >= len(feed.runs) // 5)
        demo.kill()
        console.print(f"killed the bridge with SIGKILL after {len(demo.seen())} runs")
        demo.feed(feed.files[half:])
        demo.start()
        demo.wait("second life", lambda: demo.is_up and demo.is_quiet(feed))
        code = demo.stop()
    finally:
        if demo.bridge is not None and demo.bridge.poll() is None:
            demo.kill()
    right = show(outcome(demo, feed), feed) and code == 0
    console.print(f"{time.monotonic() - began:.1f} s; the folder is {folder}")
    return 0 if right else 1


if __name__ == "__main__":
    if len(sys.argv) > 1:
        raise SystemExit(main(Path(sys.argv[1]).resolve()))
    raise SystemExit(main(Path(tempfile.mkdtemp(prefix="headrace-demo-"))))
