"""Requests that settle: as few as the load allows, and each id gets its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from grpc import StatusCode
from grpc.aio import AioRpcError
from hypothesis import given
from hypothesis.strategies import integers, lists, sets

from bridge.core.errors import IllegalStep, Transient
from connectors.pubsub.settling import BYTES_MOST, IDS_MOST, Settler, parts_of
from tests.connectors.test_pubsub_errors import refusal


class Service:
    """Takes requests; `answer` may refuse one. It holds them back while `is_open` is not set."""

    def __init__(self) -> None:
        self.requests: list[tuple[int | None, list[str]]] = []
        self.answer: Callable[[list[str]], AioRpcError | None] = lambda _ids: None
        self.is_open = asyncio.Event()
        self.is_open.set()

    async def settle(self, seconds: int | None, ids: list[str], timeout: float) -> None:
        self.requests.append((seconds, list(ids)))
        await self.is_open.wait()
        error = self.answer(ids)
        if error is not None:
            raise error


@pytest.fixture
async def service() -> Service:
    return Service()


@pytest.fixture
async def settler(service: Service) -> AsyncIterator[Settler]:
    made = Settler(service.settle, 5.0)
    yield made
    await made.aclose()


async def test_what_is_settled_at_the_same_time_goes_into_one_request(service: Service, settler: Settler) -> None:
    answers = await asyncio.gather(*(settler.settle(None, [f"id{n}"], 5.0) for n in range(100)))
    assert answers == [[]] * 100
    assert service.requests == [(None, [f"id{n}" for n in range(100)])]


async def test_what_comes_while_requests_are_on_their_way_waits_for_them(service: Service, settler: Settler) -> None:
    service.is_open.clear()
    first = []
    for n in range(4):
        first.append(asyncio.ensure_future(settler.settle(None, [f"first{n}"], 5.0)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    more = [asyncio.ensure_future(settler.settle(None, [f"more{n}"], 5.0)) for n in range(50)]
    await asyncio.sleep(0)
    assert len(service.requests) == 4
    service.is_open.set()
    await asyncio.gather(*first, *more)
    assert len(service.requests) == 5


async def test_acks_and_deadlines_are_requests_of_their_own(service: Service, settler: Settler) -> None:
    await asyncio.gather(
        settler.settle(None, ["a"], 5.0), settler.settle(60, ["b"], 5.0), settler.settle(0, ["c"], 5.0)
    )
    assert sorted(service.requests, key=str) == sorted([(None, ["a"]), (60, ["b"]), (0, ["c"])], key=str)


async def test_nothing_to_settle_is_no_request(service: Service, settler: Settler) -> None:
    assert await settler.settle(None, [], 5.0) == []
    assert service.requests == []


@given(sets(integers(0, 99), max_size=20))
async def test_unknown_ids_are_found_and_cost_the_others_nothing(unknown: set[int]) -> None:
    bad, acked = {f"id{n}" for n in unknown}, set[str]()
    service = Service()

    def answer(ids: list[str]) -> AioRpcError | None:
        if bad & set(ids):
            return refusal(StatusCode.INVALID_ARGUMENT)
        acked.update(ids)
        return None

    service.answer = answer
    settler = Settler(service.settle, 5.0)
    every = [f"id{n}" for n in range(100)]
    assert await settler.settle(None, every, 5.0) == [each for each in every if each in bad]
    assert acked == set(every) - bad
    await settler.aclose()


async def test_each_caller_hears_of_its_own_ids_only(service: Service, settler: Settler) -> None:
    lost = {"a1": "PERMANENT_FAILURE_INVALID_ACK_ID"}
    service.answer = lambda ids: refusal(StatusCode.FAILED_PRECONDITION, lost) if "a1" in ids else None
    answers = await asyncio.gather(settler.settle(None, ["a0", "a1"], 5.0), settler.settle(None, ["b0"], 5.0))
    assert answers == [["a1"], []]
    assert len(service.requests) == 1


async def test_what_failed_for_a_moment_is_sent_again_alone(service: Service, settler: Settler) -> None:
    words = [{"b": "TRANSIENT_FAILURE_UNORDERED_ACK_ID"}]
    service.answer = lambda _ids: refusal(StatusCode.FAILED_PRECONDITION, words.pop()) if words else None
    assert await settler.settle(None, ["a", "b", "c"], 5.0) == []
    assert [ids for _, ids in service.requests] == [["a", "b", "c"], ["b"]]


async def test_what_the_service_never_confirms_is_told_in_time(service: Service, settler: Settler) -> None:
    service.answer = lambda _ids: refusal(StatusCode.UNAVAILABLE)
    with pytest.raises(Transient, match="acking: UNAVAILABLE"):
        await settler.settle(None, ["a"], 0.3)
    service.answer = lambda _ids: None
    assert await settler.settle(None, ["a"], 0.3) == []


async def test_a_subscription_that_is_gone_is_no_reason_to_wait(service: Service, settler: Settler) -> None:
    service.answer = lambda _ids: refusal(StatusCode.NOT_FOUND)
    with pytest.raises(Transient, match="renewing leases: NOT_FOUND"):
        await settler.settle(60, ["a"], 60.0)
    assert len(service.requests) == 1


async def test_who_gives_up_waiting_takes_nothing_from_others(service: Service, settler: Settler) -> None:
    service.is_open.clear()
    one = asyncio.ensure_future(settler.settle(None, ["a"], 5.0))
    two = asyncio.ensure_future(settler.settle(None, ["b"], 5.0))
    await asyncio.sleep(0)
    one.cancel()
    service.is_open.set()
    assert await two == []
    assert one.cancelled() or one.cancelling()


async def test_closing_ends_what_is_on_its_way(service: Service) -> None:
    service.is_open.clear()
    settler = Settler(service.settle, 5.0)
    waiting = [asyncio.ensure_future(settler.settle(None, [f"a{n}"], 5.0)) for n in range(3)]
    await asyncio.sleep(0)
    await settler.aclose()
    await asyncio.wait(waiting)
    assert all(each.cancelled() for each in waiting)
    with pytest.raises(IllegalStep):
        await settler.settle(None, ["a"], 5.0)


@given(lists(integers(1, 400), max_size=6000))
def test_parts_fit_into_a_request_and_keep_their_order(sizes: list[int]) -> None:
    ids = ["x" * size for size in sizes]
    parts = list(parts_of(ids))
    assert [each for part in parts for each in part] == ids
    assert all(len(part) <= IDS_MOST and sum(len(each) + 3 for each in part) <= BYTES_MOST for part in parts)
