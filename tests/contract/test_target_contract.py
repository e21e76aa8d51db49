"""What `bridge.ports.Target` promises, for every target that ships."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from structlog.testing import capture_logs

from bridge.ports import Claim, Target
from bridge.targets.command import CommandOptions, CommandTarget
from bridge.targets.fake import FakeTarget
from bridge.targets.log import LogOptions, LogTarget

pytestmark = pytest.mark.integration

CLAIM = Claim(
    run_key="orders/src/0-17/0",
    epoch=1,
    until=0.0,
    retry=0,
    attempts=0,
    ambiguous=False,
    watcher="orders",
    asset="eu_orders",
    stream="files",
    position="0:17",
    target="local",
    job="process",
    params=b'{"order":"o-1"}',
    tags=b"{}",
    host="",
)


def a_claim(**changes: object) -> Claim:
    return msgspec.structs.replace(CLAIM, **changes)


class Subject(NamedTuple):
    """A target, and the run keys of the effects that it has had, in order."""

    target: Target
    effects: Callable[[], list[str]]


def a_fake(_folder: Path) -> Iterator[Subject]:
    fake = FakeTarget()
    yield Subject(fake, lambda: [key for key, _ in fake.effects])


def a_log(_folder: Path) -> Iterator[Subject]:
    with capture_logs() as lines:
        yield Subject(LogTarget("local", LogOptions(), ""), lambda: [line["run_key"] for line in lines])


def a_command(folder: Path) -> Iterator[Subject]:
    mark = folder / "mark"
    options = CommandOptions(command=["sh", "-c", f'echo "$HEADRACE_RUN_KEY" >> {mark}'], timeout=20)
    target = CommandTarget("local", options, str(folder))
    yield Subject(target, lambda: mark.read_text().splitlines() if mark.exists() else [])


MAKERS = {"command": a_command, "fake": a_fake, "log": a_log}
KEYED = ("command", "fake")


@pytest.fixture(params=sorted(MAKERS))
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subject]:
    yield from MAKERS[request.param](tmp_path)


@pytest.fixture(params=KEYED)
def keyed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subject]:
    yield from MAKERS[request.param](tmp_path)


async def test_it_says_what_it_is_and_what_it_promises(subject: Subject) -> None:
    target = subject.target
    assert target.kind in MAKERS
    assert target.guarantee == ("keyed" if target.kind in KEYED else "at least once")
    assert target.timeout > 0


async def test_a_launch_has_one_effect_and_says_how_it_went(subject: Subject) -> None:
    said = await subject.target.launch(a_claim())
    assert said.state in ("started", "succeeded")
    assert said.error == ""
    assert subject.effects() == [CLAIM.run_key]


async def test_runs_of_different_keys_have_an_effect_each(subject: Subject) -> None:
    keys = [f"orders/src/0-{n}/0" for n in range(12)]
    await asyncio.gather(*[subject.target.launch(a_claim(run_key=key)) for key in keys])
    assert sorted(subject.effects()) == sorted(keys)


async def test_a_claim_that_is_ambiguous_and_never_arrived_has_its_effect(subject: Subject) -> None:
    await subject.target.launch(a_claim(ambiguous=True, epoch=2, attempts=1))
    assert subject.effects() == [CLAIM.run_key]


async def test_a_claim_that_is_ambiguous_and_arrived_is_answered_alike_without_a_second_effect(keyed: Subject) -> None:
    first = await keyed.target.launch(a_claim())
    again = await keyed.target.launch(a_claim(ambiguous=True, epoch=2, attempts=1))
    assert again == first
    assert keyed.effects() == [CLAIM.run_key]


async def test_two_launches_of_one_claim_have_one_effect(keyed: Subject) -> None:
    first = await keyed.target.launch(a_claim())
    assert await keyed.target.launch(a_claim()) == first
    assert keyed.effects() == [CLAIM.run_key]


async def test_launches_of_one_claim_at_the_same_time_have_one_effect(keyed: Subject) -> None:
    said = await asyncio.gather(*[keyed.target.launch(a_claim(epoch=n, ambiguous=n > 1)) for n in range(1, 5)])
    assert len(set(said)) == 1
    assert keyed.effects() == [CLAIM.run_key]


async def test_a_manual_retry_has_an_effect_of_its_own(subject: Subject) -> None:
    await subject.target.launch(a_claim())
    await subject.target.launch(a_claim(retry=1, epoch=2))
    assert subject.effects() == [CLAIM.run_key] * 2


async def test_a_launch_that_is_cancelled_harms_no_other(subject: Subject) -> None:
    task = asyncio.create_task(subject.target.launch(a_claim(run_key="cancelled")))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await subject.target.launch(a_claim())
    assert CLAIM.run_key in subject.effects()


async def test_params_of_any_size_arrive(subject: Subject) -> None:
    await subject.target.launch(a_claim(params=msgspec.json.encode({"big": "x" * 1_000_000})))
    assert subject.effects() == [CLAIM.run_key]


async def test_closing_twice_is_harmless(subject: Subject) -> None:
    await subject.target.launch(a_claim())
    await subject.target.aclose()
    await subject.target.aclose()
