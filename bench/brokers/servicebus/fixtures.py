"""Service Bus for tests, as fixtures: a pytest plugin that `tests/conftest.py` names.

    async def test_x(servicebus: ServiceBus, entity: NewEntity, servicebus_control: Control) -> None:
        queue = entity.queue(sessions=True, lock=5, max_delivery=3)           # a random name; its path
        events = entity.subscription(lock=5)                                  # .topic to send to, .path to read from
        await entities.send(servicebus.connection_string, queue, [b"1", b"2"], session="a")
        servicebus_control.expire_sessions(queue)
        assert servicebus_control.counts(queue).active == 2

`servicebus` (session) is the shared one of this run or xdist worker. It is what HEADRACE_SERVICEBUS names (a connection
string, never shown), or an emulator of ours, which is NOT Service Bus; HEADRACE_BROKERS=containers: Microsoft's.
`.connection_string` and `.endpoint` are all most tests need; `.control` is None unless it is our emulator.

`servicebus_control` (one test) is the emulator's control (bench/brokers/servicebus/control.py): all that is broken by
it is mended before and after the test, and its figures start at zero. Other sources skip the test.

`entity` makes queues and subscriptions with random names, at once and with or without a loop; they are deleted after
the test. A real namespace needs the Manage claim for it, and Microsoft's emulator can't.

`own_servicebus` (one test) is an emulator of the test's own, which may be `kill()`ed, `start()`ed (empty, on the same
port), `freeze()`d and `thaw()`ed. 0.3 s to make.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from msgspec import Struct

from bench.brokers.choosing import or_skip
from bench.brokers.endpoint import SOURCES
from bench.brokers.report import told
from bench.brokers.servicebus.control import Control, Refused
from bench.brokers.servicebus.emulated import Emulated
from bench.brokers.servicebus.serving import ServiceBus, serve_servicebus, servicebus_in_container

if TYPE_CHECKING:
    from azure.servicebus.management import ServiceBusAdministrationClient

    from bench.brokers.servicebus.container import ServiceBusInContainer


class Subscription(Struct, frozen=True):
    """`path` is what is read and what the control takes; `topic` and `name` are its parts."""

    topic: str
    name: str
    path: str


class NewEntity:
    """Makes entities with random names that tell which test made them."""

    def __init__(self, servicebus: ServiceBus, test: str) -> None:
        self._servicebus = servicebus
        self._prefix = re.sub(r"[^a-z0-9]+", "-", test.removeprefix("test_").lower())[:30].strip("-")
        self.made: list[str] = []

    def queue(self, *, sessions: bool = False, lock: float = 60.0, max_delivery: int = 10) -> str:
        """Its name, which is its path. `lock` in seconds; a real namespace takes 5 to 300."""
        name, control = self._name(), self._servicebus.control
        if control is not None:
            control.make_queue(name, sessions=sessions, lock=lock, max_delivery=max_delivery)
        else:
            with self._administration() as client:
                duration = timedelta(seconds=lock)
                client.create_queue(
                    name, lock_duration=duration, max_delivery_count=max_delivery, requires_session=sessions
                )
        return name

    def subscription(self, *, sessions: bool = False, lock: float = 60.0, max_delivery: int = 10) -> Subscription:
        """With a topic of its own."""
        topic, name, control = self._name(), "all", self._servicebus.control
        if control is not None:
            control.make_topic(topic)
            control.make_subscription(topic, name, sessions=sessions, lock=lock, max_delivery=max_delivery)
        else:
            with self._administration() as client:
                duration = timedelta(seconds=lock)
                client.create_topic(topic)
                client.create_subscription(
                    topic, name, lock_duration=duration, max_delivery_count=max_delivery, requires_session=sessions
                )
        return Subscription(topic, name, f"{topic}/Subscriptions/{name}")

    def delete_all(self) -> None:
        control = self._servicebus.control
        for name in self.made:
            if control is not None:
                with suppress(Refused):  # the test has deleted it
                    control.delete(name)
            else:
                self._delete(name)

    def _name(self) -> str:
        name = f"{self._prefix}-{uuid4().hex[:8]}"
        self.made.append(name)
        return name

    def _delete(self, name: str) -> None:
        from azure.core.exceptions import ResourceNotFoundError

        with self._administration() as client:
            for delete in (client.delete_queue, client.delete_topic):
                with suppress(ResourceNotFoundError):
                    delete(name)

    def _administration(self) -> ServiceBusAdministrationClient:
        if self._servicebus.endpoint.source == "containers":
            pytest.skip("Microsoft's emulator makes no entities while it runs")
        from azure.servicebus.management import ServiceBusAdministrationClient

        return ServiceBusAdministrationClient.from_connection_string(self._servicebus.connection_string)


@pytest.fixture(scope="session")
def servicebus(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceBus]:
    """The shared one of this run."""
    folder = tmp_path_factory.mktemp("servicebus")
    served = or_skip(request, "servicebus", lambda: serve_servicebus(folder), *SOURCES)
    told(request.config).serves("servicebus", served.broker.endpoint, served.passed_over)
    yield served.broker
    served.broker.close()
    if isinstance(served.broker, Emulated):
        served.broker.check()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def servicebus_control(servicebus: ServiceBus, request: pytest.FixtureRequest) -> Iterator[Control]:
    control = servicebus.control
    if control is None:
        told(request.config).lacks("servicebus_control", reason := f"{servicebus.endpoint} can't be broken on purpose")
        pytest.skip(reason)
    control.mend()
    control.forget()
    yield control
    control.mend()


@pytest.fixture
def entity(servicebus: ServiceBus, request: pytest.FixtureRequest) -> Iterator[NewEntity]:
    new = NewEntity(servicebus, request.node.name)
    yield new
    new.delete_all()


@pytest.fixture
def own_servicebus(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Emulated]:
    """An emulator of the test's own, running."""
    broker = Emulated(tmp_path / "own-servicebus")
    try:
        or_skip(request, "own_servicebus", broker.start, "local")
        told(request.config).serves("own_servicebus", broker.endpoint)
        yield broker
    finally:
        broker.close()
    broker.check()


@pytest.fixture
def servicebus_in_a_container(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServiceBusInContainer]:
    """Microsoft's emulator, running, whatever source serves the others."""
    name = "servicebus_in_a_container"
    broker = or_skip(request, name, lambda: servicebus_in_container(tmp_path / "servicebus"))
    try:
        or_skip(request, name, broker.start, "containers")
        told(request.config).serves(name, broker.endpoint)
        yield broker
    finally:
        broker.close()
