"""The program in a folder, with one stream that reads topics of a Kafka; and the members of a group in one process."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from bench.brokers.topics import apart
from tests.integration.conftest import Bridge
from tests.integration.kafka_faults import truth
from tests.integration.kafka_faults.truth import Wants

QUICK: Final[Mapping[str, Any]] = {
    "kind": "kafka",
    "start": "earliest",
    "cluster": "test",  # a run key must not tell by which way we came
    "session_timeout": "6s",
    "heartbeat_interval": "300ms",
    "rebalance_timeout": "10s",
    "request_timeout": "10s",
    "discovery": "1s",
    "fetch_max_wait": "100ms",
}
LOG: Final[Mapping[str, Any]] = {"kind": "log", "level": "debug"}
"""A target that does nothing at all."""

AUDIENCE: Final[Mapping[str, Mapping[str, Any]]] = {
    "all": {},
    "third": {"match": {"third": 0}},
    "slow": {"trigger": "my_triggers:Slow", "max_attempts": 1},
    "stumbling": {"trigger": "my_triggers:Stumbling", "max_attempts": 3},
}
"""Two declarative watchers, and two in Python that leave no room for a try that is wrongly counted."""

TRIGGERS: Final = """
    class Slow(Filter):
        async def filter_shared_stream(self, stream):
            async for event in stream:
                if event["n"] % 50 == 7:
                    await asyncio.sleep(0.02)
                    yield TriggerEvent(event)

    class Stumbling(Filter):
        async def filter_shared_stream(self, stream):
            async for event in stream:
                if event["n"] % 500 == 3 and current_message().attempt < 3:
                    raise RuntimeError("not yet")
                if event["n"] % 50 == 3:
                    yield TriggerEvent(event)
"""

WANTS: Final[Wants] = {
    "all": lambda n: True,
    "third": lambda n: n % 3 == 0,
    "slow": lambda n: n % 50 == 7,
    "stumbling": lambda n: n % 50 == 3,
}


class KafkaBridge(Bridge):
    """Its stream `in` reads `topics` as a member of `group`, which is its own."""

    def __init__(self, folder: Path, bytecode: Path) -> None:
        super().__init__(folder, bytecode)
        self.bootstrap = ""
        self.topics: list[str] = []
        self.group = f"group-{uuid4().hex[:8]}"

    def reads(
        self,
        bootstrap: str,
        *topics: str,
        watchers: Mapping[str, Mapping[str, Any]],
        by: str = "",
        stream: Mapping[str, Any] | None = None,
        target: Mapping[str, Any] = LOG,
        **instance: Any,
    ) -> None:
        """Writes the configuration. `by`: where the program finds the broker, if that is not where the test does."""
        self.bootstrap, self.topics = bootstrap, [*topics]
        kafka = {
            **QUICK,
            "bootstrap_servers": (by or bootstrap).split(","),
            "group_id": self.group,
            "topics": [*topics],
            "retry": {"delay": "100ms", "factor": 1, "max": "1s"},
            **(stream or {}),
        }
        self.configure(watchers, target=target, streams={"in": kafka}, **instance)

    @property
    def store(self) -> str:
        """The URL of its store, for who runs it elsewhere than in its folder."""
        return f"sqlite:///{self.database}"

    def start_members(self, *words: object) -> None:
        """Several members of the group, in one process that a life of this bridge is: see `storm.py`."""
        self._begin(["-m", "tests.integration.kafka_faults.storm", "headrace.yaml", *map(str, words)])

    def start_with(self, *options: str) -> None:
        """`headrace run` with options. Returns at once."""
        self._begin(["-m", "bridge.cli.main", "run", *options])

    def _begin(self, arguments: Sequence[str]) -> None:
        self._lives += 1
        self._log = self.folder / f"life-{self._lives}.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, *arguments], cwd=self.folder, env=self.environment(), stdin=subprocess.DEVNULL,
                stdout=log, stderr=log,
            )  # fmt: skip
        self._processes.append(self.process)

    # What is seen of it ----------------------------------------------------------------------------------------------

    def requests(self, watcher: str = "") -> int:
        """How many run requests there are. None where there is no store yet."""
        if not self.database.exists() or not truth.asked(
            self.database, "SELECT 1 FROM sqlite_master WHERE name = 'runs'"
        ):
            return 0
        where = " WHERE watcher = ?" if watcher else ""
        ((count,),) = truth.asked(self.database, f"SELECT count(*) FROM runs{where}", *([watcher] if watcher else []))
        return int(str(count))

    def lag(self) -> int:
        return apart(truth.lag(self.bootstrap, self.group, *self.topics))

    def settles(self, within: float) -> None:
        """All that the topics hold is settled by then."""
        self.wait("all is settled", lambda: self._looks_settled(), within)

    def _looks_settled(self) -> bool:
        time.sleep(0.3)  # each look is a connection of its own
        return self.lag() == 0

    def has_done(self, wants: Wants) -> None:
        """Exactly one run request for every match of the records that are there now, and no dead letter."""
        records = apart(truth.written(self.bootstrap, *self.topics))
        truth.compare(records, self.database, wants)
        assert truth.letters(self.database) == []
        assert truth.attempts(self.database) == 0

    def health(self) -> tuple[bool, dict[str, Any]]:
        """Whether it calls itself healthy, and what it says of its stream."""
        _, said = self.status()
        return said["healthy"], next((dict(stream) for stream in said["streams"]), {})
