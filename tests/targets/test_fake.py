from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from bridge.core.errors import Refused, Transient
from bridge.ports import Claim, Launched
from bridge.targets.fake import FakeTarget

MakeClaim = Callable[..., Claim]


class Died(BaseException):
    pass


async def test_the_script_is_followed_and_then_all_goes_well(claim: MakeClaim) -> None:
    target = FakeTarget([Launched("failed_run", error="no"), Refused("never")])
    assert (await target.launch(claim(run_key="a"))).error == "no"
    with pytest.raises(Refused, match="never"):
        await target.launch(claim(run_key="b"))
    assert (await target.launch(claim(run_key="c"))).state == "succeeded"
    assert target.effects == [("a", 0), ("c", 0)]


async def test_it_fails_as_often_as_it_was_told(claim: MakeClaim) -> None:
    target = FakeTarget()
    target.fail(2)
    for _ in range(2):
        with pytest.raises(Transient):
            await target.launch(claim())
    await target.launch(claim())
    assert target.launches[claim().run_key] == 3
    assert len(target.effects) == 1


@pytest.mark.parametrize(("when", "effects"), [("before", 0), ("after", 1)])
async def test_it_dies_before_or_after_the_effect_of_the_nth_launch(claim: MakeClaim, when: str, effects: int) -> None:
    target = FakeTarget()
    target.die(when, 2, Died())
    await target.launch(claim(run_key="a"))
    with pytest.raises(Died):
        await target.launch(claim(run_key="b"))
    assert len(target.effects) == 1 + effects
    await target.launch(claim(run_key="b", ambiguous=True))
    assert target.effects == [("a", 0), ("b", 0)]


def test_it_can_die_at_two_instants_only() -> None:
    with pytest.raises(ValueError, match="before or after"):
        FakeTarget().die("during", 1, Died())


async def test_while_it_is_held_nothing_happens(claim: MakeClaim) -> None:
    target = FakeTarget()
    target.hold()
    launches = [asyncio.create_task(target.launch(claim(run_key=str(n)))) for n in range(3)]
    await asyncio.sleep(0)
    assert (target.effects, target.most_at_once) == ([], 3)
    target.release()
    await asyncio.gather(*launches)
    assert len(target.effects) == 3
