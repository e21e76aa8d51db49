"""SQS for tests, as fixtures: a pytest plugin that `tests/conftest.py` names.

    async def test_x(sqs: Sqs, queue: NewQueue) -> None:
        url = await queue(fifo=True, visibility=5, redrive=3)     # a random name; `queue.now(...)` without a loop
        await queues.send(sqs.url, url, ["1", "2"], group="a")    # bench/brokers/sqs/queues.py
        producer = KIND.build(SqsOptions(queue=url, endpoint=sqs.url, ...))

`sqs` (session) is the shared one of this run or xdist worker: fauxqs, or what HEADRACE_SQS=http://... names.
`moto_sqs` (session) is moto's server, which refuses bad receipt handles. `sqs_faults` and `moto_faults` (one test)
are a proxy in front of them that makes mistakes on request and counts calls: see faults.py; give its `url` to what is
tested, and let the test's own clients go on using `sqs.url`. `own_sqs` (one test) may be killed.

AWS_* variables of the machine are out of the way in every test that uses one of them.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from bench.brokers.choosing import or_skip
from bench.brokers.endpoint import SOURCES
from bench.brokers.report import told
from bench.brokers.sqs import queues
from bench.brokers.sqs.emulated import Emulated, Fauxqs, Moto
from bench.brokers.sqs.faults import Faults
from bench.brokers.sqs.serving import KEYS, Sqs, serve_sqs


class NewQueue:
    """Makes queues with random names that tell which test made them."""

    def __init__(self, url: str, test: str) -> None:
        self._url = url
        self._prefix = re.sub(r"[^a-z0-9]+", "-", test.removeprefix("test_").lower())[:50].strip("-")
        self.made: list[str] = []

    async def __call__(
        self, *, fifo: bool = False, visibility: float = 30.0, redrive: int | None = None, **attributes: str
    ) -> str:
        """Its URL. `redrive`: how often a message is received before it goes to a queue of its own, `<name>-dlq`."""
        name, ending = f"{self._prefix}-{uuid4().hex[:8]}", ".fifo" if fifo else ""
        to = None
        if redrive is not None:
            to = (await self._make(f"{name}-dlq{ending}", 30.0), redrive)
        return await self._make(f"{name}{ending}", visibility, to, **attributes)

    def now(
        self, *, fifo: bool = False, visibility: float = 30.0, redrive: int | None = None, **attributes: str
    ) -> str:
        return queues.apart(self(fifo=fifo, visibility=visibility, redrive=redrive, **attributes))

    async def _make(self, name: str, visibility: float, to: tuple[str, int] | None = None, **more: str) -> str:
        made = await queues.create(self._url, name, visibility=visibility, redrive=to, **more)
        self.made.append(made)
        return made


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Credentials that no machine's own can mix with."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SQS", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "aws-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "aws-credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture(scope="session")
def shared_sqs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sqs]:
    folder = tmp_path_factory.mktemp("sqs")
    served = or_skip(request, "sqs", lambda: serve_sqs(folder), *SOURCES)
    told(request.config).serves("sqs", served.broker.endpoint, served.passed_over)
    yield served.broker
    served.broker.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def sqs(shared_sqs: Sqs, aws: None) -> Sqs:
    """The shared one of this run."""
    return shared_sqs


@pytest.fixture(scope="session")
def shared_moto(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    moto = Moto(tmp_path_factory.mktemp("moto"))
    or_skip(request, "moto_sqs", moto.start, "local")
    told(request.config).serves("moto_sqs", moto.endpoint)
    yield moto
    moto.close()


@pytest.fixture
def moto_sqs(shared_moto: Emulated, aws: None) -> Emulated:
    """moto's server: bad handles and partial failures are as SQS has them."""
    return shared_moto


@pytest.fixture
def own_sqs(request: pytest.FixtureRequest, tmp_path: Path, aws: None) -> Iterator[Emulated]:
    """One of the test's own, running."""
    broker = Fauxqs(tmp_path / "own-sqs")
    try:
        or_skip(request, "own_sqs", broker.start, "local")
        told(request.config).serves("own_sqs", broker.endpoint)
        yield broker
    finally:
        broker.close()


@pytest.fixture
def queue(sqs: Sqs, request: pytest.FixtureRequest) -> Iterator[NewQueue]:
    new = NewQueue(sqs.url, request.node.name)
    yield new
    if sqs.endpoint.source == "given" and new.made:  # any other goes away whole
        queues.apart(queues.delete(sqs.url, *new.made))


@pytest.fixture
def moto_queue(moto_sqs: Emulated, request: pytest.FixtureRequest) -> NewQueue:
    return NewQueue(moto_sqs.url, request.node.name)


@pytest.fixture
def sqs_faults(sqs: Sqs) -> Iterator[Faults]:
    with Faults(sqs.url) as faults:
        yield faults


@pytest.fixture
def moto_faults(moto_sqs: Emulated) -> Iterator[Faults]:
    with Faults(moto_sqs.url) as faults:
        yield faults
