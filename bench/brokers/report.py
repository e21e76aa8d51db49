"""The last lines of the test report: which source served which broker, and what was left out for want of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from bench.brokers.endpoint import BrokerEndpoint, Source


class Told:
    """What one process has to tell, as plain lists, since workers send theirs to the process that reports."""

    def __init__(self) -> None:
        self.served: list[str] = []
        self.passed_over: list[str] = []
        self.lacking: list[str] = []

    def serves(self, fixture: str, endpoint: BrokerEndpoint, passed_over: Mapping[Source, str] | None = None) -> None:
        self.served.append(f"{fixture}: {endpoint.source} ({endpoint.what})")
        self.passed_over += [
            f"{fixture}: not {source}: {why}" for source, why in (passed_over or {}).items() if source != "given"
        ]  # nobody misses a broker that nobody named

    def lacks(self, fixture: str, why: str) -> None:
        self.lacking.append(f"{fixture}: {why}")

    def add(self, other: Mapping[str, list[str]]) -> None:
        self.served += other["served"]
        self.passed_over += other["passed_over"]
        self.lacking += other["lacking"]

    def plain(self) -> dict[str, list[str]]:
        return {"served": self.served, "passed_over": self.passed_over, "lacking": self.lacking}

    def lines(self) -> list[tuple[str, bool]]:
        """Each with whether it must be loud."""
        counted = [
            (f"{text}, {times} times" if times > 1 else text, False) for text, times in Counter(self.served).items()
        ]
        beside = [(text, False) for text in dict.fromkeys(self.passed_over)]
        return counted + beside + [(f"SKIPPED, {text}", True) for text in dict.fromkeys(self.lacking)]


TOLD = pytest.StashKey[Told]()


def told(config: pytest.Config) -> Told:
    return config.stash.setdefault(TOLD, Told())


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In a worker of xdist: what it has to tell goes to the process that reports."""
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["brokers"] = told(session.config).plain()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Only xdist calls it. A worker that crashed has no output."""
    output = getattr(node, "workeroutput", {})
    if "brokers" in output:
        told(node.config).add(output["brokers"])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    lines = told(config).lines()
    if lines:
        terminalreporter.section("brokers", sep="=")
    for text, loud in lines:
        terminalreporter.write_line(text, red=loud, bold=loud)
