"""Pub/Sub for tests, as fixtures: a pytest plugin that `tests/conftest.py` names.

    async def test_x(pubsub: PubSub, subscription: NewSubscription, pubsub_control: Control) -> None:
        made = await subscription(ordered=True, ack_deadline=10)    # random names; `.now(...)` without a loop
        await topics.publish(pubsub.address, made.topic, [b"1", b"2"], key="a")
        pubsub_control.expire(made.name)
        assert pubsub_control.unacked(made.name) == [b"1", b"2"]

`pubsub` (session) is the shared one of this run or xdist worker: our fake, or what HEADRACE_PUBSUB=host:port names.
`pubsub_control` (one test) is the control of our fake (bench/brokers/pubsub/control.py): all that is broken by it is
mended before and after the test. Other sources skip the test. `own_pubsub` (one test) is a fake of the test's own.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from msgspec import Struct

from bench.brokers.choosing import or_skip
from bench.brokers.endpoint import SOURCES
from bench.brokers.pubsub import topics
from bench.brokers.pubsub.control import Control
from bench.brokers.pubsub.emulated import Emulated
from bench.brokers.pubsub.serving import PubSub, serve_pubsub
from bench.brokers.pubsub.topics import PROJECT
from bench.brokers.report import told


class Made(Struct, frozen=True):
    """Whole names. `dead_letter` is a subscription of the dead-letter topic, empty where there is none."""

    name: str
    topic: str
    dead_letter: str = ""


class NewSubscription:
    """Makes topics with a subscription, with random names that tell which test made them."""

    def __init__(self, address: str, test: str) -> None:
        self._address = address
        self._prefix = re.sub(r"[^a-z0-9]+", "-", test.removeprefix("test_").lower())[:50].strip("-")
        self.made: list[Made] = []

    async def __call__(
        self, *, ordered: bool = False, exactly_once: bool = False, ack_deadline: int = 10, attempts: int | None = None
    ) -> Made:
        """`attempts`: with a dead-letter policy, which has Pub/Sub count deliveries."""
        name = f"t-{self._prefix}-{uuid4().hex[:8]}"
        letters = f"projects/{PROJECT}/topics/{name}-dlq" if attempts is not None else None
        made = Made(
            f"projects/{PROJECT}/subscriptions/{name}",
            f"projects/{PROJECT}/topics/{name}",
            f"projects/{PROJECT}/subscriptions/{name}-dlq" if letters else "",
        )
        if letters:
            await topics.create(self._address, letters, made.dead_letter)
        await topics.create(
            self._address, made.topic, made.name, ordered=ordered, exactly_once=exactly_once,
            ack_deadline=ack_deadline, dead_letter=letters, attempts=attempts or 5,
        )  # fmt: skip
        self.made.append(made)
        return made

    def now(
        self, *, ordered: bool = False, exactly_once: bool = False, ack_deadline: int = 10, attempts: int | None = None
    ) -> Made:
        made = self(ordered=ordered, exactly_once=exactly_once, ack_deadline=ack_deadline, attempts=attempts)
        return topics.apart(made)


@pytest.fixture(scope="session")
def pubsub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PubSub]:
    """The shared one of this run."""
    folder = tmp_path_factory.mktemp("pubsub")
    served = or_skip(request, "pubsub", lambda: serve_pubsub(folder), *SOURCES)
    told(request.config).serves("pubsub", served.broker.endpoint, served.passed_over)
    yield served.broker
    served.broker.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def pubsub_control(pubsub: PubSub, request: pytest.FixtureRequest) -> Iterator[Control]:
    control = pubsub.control
    if control is None:
        told(request.config).lacks("pubsub_control", reason := f"{pubsub.endpoint} can't be broken on purpose")
        pytest.skip(reason)
    control.mend()
    yield control
    control.mend()


@pytest.fixture
def subscription(pubsub: PubSub, request: pytest.FixtureRequest) -> NewSubscription:
    return NewSubscription(pubsub.address, request.node.name)


@pytest.fixture
def own_pubsub(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Emulated]:
    """A fake of the test's own, running."""
    broker = Emulated(tmp_path / "own-pubsub")
    try:
        or_skip(request, "own_pubsub", broker.start, "local")
        told(request.config).serves("own_pubsub", broker.endpoint)
        yield broker
    finally:
        broker.close()
