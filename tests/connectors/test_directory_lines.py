"""Line by line: lanes, positions, pauses, and where a file ends up."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import connectors.directory.by_line as by_line
from bridge.core.errors import Transient
from bridge.core.model import AdvanceBatch, AdvanceItem, outcome_of
from connectors.directory import DirectoryOptions, LineByLine

ACKED = outcome_of(2, 0, 0)
REJECTED = outcome_of(0, 0, 2)
FAILED = outcome_of(1, 1, 0)


def offsets(pairs):
    return [payload[1] for _, payload in pairs]


async def test_each_line_is_an_event_in_the_lane_of_its_file_with_its_byte_offset(folder, reading):
    folder.drop("a.json", b"one\ntwo\r\n\nthree")
    reader = reading(lines=True)
    poll = await reader.poll()
    assert poll.bodies == [b"one", b"two", b"three"]
    [claim] = folder.files(".work")
    file = claim.name.partition("~")[0]
    assert [(s.lane, s.start, s.stop) for s in poll.slices] == [(file, 0, 3)]
    assert [reader.producer.identity(p) for p in poll.payloads] == [f"{file}@0", f"{file}@4", f"{file}@10"]
    assert [reader.producer.get_advance_lane(p) for p in poll.payloads] == [file] * 3
    assert reader.producer.describe(poll.payloads[2]).position == "orders/a.json:10"


async def test_a_file_moves_to_done_when_its_last_line_is_settled_and_not_before(folder, reading):
    folder.drop("a", b"1\n2\n3\n")
    reader = reading(lines=True)
    pairs = await reader.take(3)
    await reader.settle(pairs[:2])
    assert folder.names("done") == []
    await reader.settle(pairs[2:])
    assert folder.names("done") == ["a"]
    assert folder.names(".work") == []


async def test_with_on_done_delete_the_file_is_gone_after_its_last_line(folder, reading):
    folder.drop("a", b"1\n2\n")
    reader = reading(lines=True, on_done="delete")
    await reader.settle(await reader.take(2))
    assert folder.files(".work") == []
    assert not (folder.path / "done").exists()


async def test_a_rejected_line_is_nothing_special_for_the_file(folder, reading):
    folder.drop("a", b"1\n2\n")
    reader = reading(lines=True)
    pairs = await reader.take(2)
    await reader.settle(pairs[:1])
    await reader.settle(pairs[1:], REJECTED)
    assert folder.names("done") == ["a"]
    assert folder.names("dead") == []


@pytest.mark.parametrize("body", [b"", b"\n", b"\n\r\n\n"])
async def test_a_file_without_a_line_moves_to_done_at_once(folder, reading, body):
    folder.drop("a", body)
    reader = reading(lines=True)
    assert await reader.has_nothing_for(0.1)
    assert folder.names("done") == ["a"]
    assert reader.producer._readings == {}


async def test_empty_lines_at_the_end_do_not_hold_the_file(folder, reading):
    folder.drop("a", b"1\n\n\n")
    reader = reading(lines=True)
    await reader.settle(await reader.take(1))
    assert folder.names("done") == ["a"]


async def test_a_second_name_of_a_file_that_is_being_read_is_not_read_again(folder, reading, logs):
    path = folder.drop("a", b"1\n2\n")
    os.link(path, folder.path / "b")
    reader = reading(lines=True)
    pairs = await reader.take(2)
    assert await reader.has_nothing_for(1)
    await reader.settle(pairs)
    assert folder.names("done") == ["a", "b"]
    assert any("second name" in e["event"] for e in logs)


# Order and turns -----------------------------------------------------------------------------------------------------


async def test_polls_hold_500_lines_in_order_and_a_long_file_does_not_hold_up_a_short_one(folder, reading):
    folder.drop("long", b"".join(b"%d\n" % n for n in range(200_000)))
    folder.drop("short", b"short\n")
    reader = reading(lines=True)
    got: list[bytes] = []
    seen_short = None
    for number in range(400):
        poll = await reader.poll()
        assert len(poll.bodies) <= 500
        seen_short = number if b"short" in poll.bodies else seen_short
        got += [b for b in poll.bodies if b != b"short"]
    assert got == [b"%d" % n for n in range(len(got))]
    assert len(got) > 199_000
    assert seen_short is not None
    assert seen_short < 5


async def test_a_file_that_is_dropped_while_a_long_one_is_read_is_not_kept_waiting(folder, reading, clock):
    folder.drop("long", b"x" * 99 + b"\n" + b"y\n" * 300_000)
    reader = reading(lines=True, poll_interval=0.2)
    await reader.poll()
    folder.drop("short", b"short\n")
    clock.move(0.2)
    for _ in range(20):
        if b"short" in (await reader.poll()).bodies:
            return
    pytest.fail("the new file was not read")


async def test_more_files_than_take_turns_are_all_read(folder, reading, monkeypatch):
    monkeypatch.setattr(by_line, "_TURNS_MOST", 3)
    for number in range(20):
        folder.drop(f"{number}", b"a\nb\n" * 3)
    reader = reading(lines=True)
    pairs = await reader.take(120)
    assert len({p[0].claim.identity for _, p in pairs}) == 20
    for reading_of in {id(p[0]): p[0] for _, p in pairs}.values():
        await reader.settle([pair for pair in pairs if pair[1][0] is reading_of])
    assert len(folder.names("done")) == 20
    assert reader.producer._readings == {}


async def test_a_paused_lane_is_not_read_and_goes_on_where_it_was(folder, reading):
    folder.drop("a", b"".join(b"a%d\n" % n for n in range(1200)))
    reader = reading(lines=True)
    first = await reader.take(500)
    lane = reader.producer.get_advance_lane(first[0][1])
    reader.producer.pause([lane])
    folder.drop("b", b"b\n")
    assert await reader.bodies(1) == [b"b"]
    assert await reader.has_nothing_for(3)
    reader.producer.resume([lane])
    rest = await reader.take(700)
    assert [body for body, _ in rest] == [b"a%d" % n for n in range(500, 1200)]
    await reader.settle(first + rest)
    assert folder.names("done") == ["a"]


async def test_a_paused_lane_keeps_no_lines_in_memory_and_resumes_at_once(folder, reading, clock):
    folder.drop("a", b"a\n" * 1200)
    reader = reading(lines=True)
    first = await reader.take(500)
    lane = reader.producer.get_advance_lane(first[0][1])
    reader.producer.pause([lane])
    assert first[0][1][0].bodies == []
    assert await reader.has_nothing_for(0.1)
    before = clock.time
    reader.producer.resume([lane])
    await reader.poll()
    assert clock.time == before


async def test_a_pause_while_the_file_is_being_read_loses_nothing(folder, reading, monkeypatch):
    monkeypatch.setattr(by_line, "_READ_BYTES", 700 * 8)
    folder.drop("a", b"".join(b"%07d\n" % n for n in range(2000)))
    reader = reading(lines=True)
    first = await reader.take(500)  # 200 more are in store
    lane = reader.producer.get_advance_lane(first[0][1])
    gate = threading.Event()
    reader.producer._thread.submit(gate.wait, 20)
    pending = asyncio.ensure_future(reader.poll())
    for _ in range(20):
        await asyncio.sleep(0)
    reader.producer.pause([lane])
    reader.producer.resume([lane])
    gate.set()
    got = [body for body, _ in first] + (await pending).bodies
    while len(got) < 2000:
        got += (await reader.poll()).bodies
    assert got == [b"%07d" % n for n in range(2000)]


async def test_pausing_a_lane_that_is_gone_or_resuming_one_that_runs_does_nothing(folder, reading):
    folder.drop("a", b"1\n2\n")
    reader = reading(lines=True)
    reader.producer.pause(["no such lane"])
    reader.producer.resume(["no such lane"])
    pairs = await reader.take(2)
    reader.producer.resume([reader.producer.get_advance_lane(pairs[0][1])])
    assert await reader.has_nothing_for(1)


# Failed and released lines -------------------------------------------------------------------------------------------


async def test_a_failed_line_comes_again_later_and_everything_behind_it_with_it(folder, reading, clock):
    folder.drop("a", b"1\n2\n3\n4\n")
    reader = reading(lines=True)
    pairs = await reader.take(4)
    await reader.settle(pairs[:1])
    before = clock.time
    await reader.fail(pairs[1])
    assert await reader.has_nothing_for(0.9)
    again = await reader.take(3)
    assert clock.time - before >= 1.0
    assert [body for body, _ in again] == [b"2", b"3", b"4"]
    assert [reader.producer.identity(p) for _, p in again] == [reader.producer.identity(p) for _, p in pairs[1:]]
    await reader.settle(again)
    assert folder.names("done") == ["a"]


async def test_what_is_said_of_lines_from_before_a_failure_changes_nothing(folder, reading, logs):
    folder.drop("a", b"1\n2\n3\n")
    reader = reading(lines=True)
    pairs = await reader.take(3)
    await reader.fail(pairs[0])
    await reader.settle(pairs)
    await reader.fail(pairs[1])
    await reader.producer.release([p for _, p in pairs])
    assert folder.names("done") == []
    again = await reader.take(3)
    await reader.settle(again)
    assert await reader.has_nothing_for(10)
    assert folder.names("done") == ["a"]
    assert logs == []


async def test_no_position_is_kept_behind_a_line_that_failed(folder, reading):
    folder.drop("a", b"1\n2\n3\n4\n")
    reader = reading(lines=True)
    pairs = await reader.take(4)
    await reader.settle(pairs[:1])
    await reader.fail(pairs[1])
    await reader.settle(pairs[2:3])
    await reader.close()
    assert [body for body, _ in await reading(lines=True).take(3)] == [b"2", b"3", b"4"]


async def test_a_failed_line_holds_its_own_file_only(folder, reading):
    folder.drop("a", b"a\n")
    reader = reading(lines=True)
    await reader.fail((await reader.take(1))[0])
    folder.drop("b", b"b\n")
    assert await reader.bodies(1) == [b"b"]


async def test_a_batch_of_plain_items_is_settled_up_to_its_first_failure(folder, reading):
    folder.drop("a", b"1\n2\n3\n")
    reader = reading(lines=True)
    pairs = await reader.take(3)
    outcomes = [ACKED, FAILED, ACKED]
    await reader.producer.advance([AdvanceItem(p, o) for (_, p), o in zip(pairs, outcomes, strict=True)])
    again = await reader.take(2)
    assert [body for body, _ in again] == [b"2", b"3"]


async def test_released_lines_come_again_at_once_from_the_first_of_them(folder, reading, clock):
    folder.drop("a", b"1\n2\n3\n")
    reader = reading(lines=True)
    pairs = await reader.take(3)
    await reader.settle(pairs[:1])
    before = clock.time
    await reader.producer.release([p for _, p in reversed(pairs)][:2])
    assert [body for body, _ in await reader.take(2)] == [b"2", b"3"]
    assert clock.time == before


# Positions and restarts ----------------------------------------------------------------------------------------------


def position_of(folder):
    [file] = [p for p in folder.files(".work") if p.suffix == ".pos"]
    return file


async def test_after_a_clean_end_a_file_goes_on_behind_its_last_settled_line(folder, reading):
    folder.drop("a", b"1\n2\n3\n4\n")
    reader = reading(lines=True)
    pairs = await reader.take(4)
    await reader.settle(pairs[:2])
    await reader.close()
    assert position_of(folder).read_bytes() == b"2\n"
    reader = reading(lines=True)
    again = await reader.take(2)
    assert [body for body, _ in again] == [b"3", b"4"]
    assert [reader.producer.identity(p) for _, p in again] == [reader.producer.identity(p) for _, p in pairs[2:]]
    await reader.settle(again)
    assert folder.names("done") == ["a"]
    assert folder.files(".work") == []


async def test_the_position_is_kept_at_most_once_a_second(folder, reading, clock):
    folder.drop("a", b"1\n2\n3\n4\n")
    reader = reading(lines=True)
    pairs = await reader.take(4)
    await reader.settle(pairs[:1])
    assert [p.suffix for p in folder.files(".work")] == [""]
    clock.move(1.0)
    await reader.settle(pairs[1:2])
    assert position_of(folder).read_bytes() == b"2\n"
    await reader.settle(pairs[2:3])
    assert position_of(folder).read_bytes() == b"2\n"
    assert await reader.has_nothing_for(1.3)
    assert position_of(folder).read_bytes() == b"4\n"


@pytest.mark.parametrize(
    "torn", [None, b"", b"2", b"x\n", b"-1\n", b"1\n", b"6\n", b"999\n", b"02", b"2\n2\n", b"\xff" * 100]
)
async def test_a_position_that_is_missing_torn_or_wrong_only_makes_the_file_be_read_again(folder, reading, torn):
    folder.drop("a", b"1\n2\n3\n")
    reader = reading(lines=True)
    await reader.settle((await reader.take(3))[:2])
    await reader.close()
    position_of(folder).unlink()
    if torn is not None:
        [claim] = folder.files(".work")
        folder.drop(f".work/{claim.name.partition('~')[0]}.pos", torn)
    assert [body for body, _ in await reading(lines=True).take(3)] == [b"1", b"2", b"3"]


async def test_a_file_whose_every_line_was_settled_before_a_crash_goes_to_done_without_an_event(folder, reading):
    folder.drop("a", b"1\n2")
    reader = reading(lines=True)
    await reader.take(2)
    await reader.crash()
    [claim] = folder.files(".work")
    folder.drop(f".work/{claim.name.partition('~')[0]}.pos", b"2\n")
    assert await reading(lines=True).has_nothing_for(1)
    assert folder.names("done") == ["a"]


async def test_positions_of_files_that_have_left_are_swept_away(folder, reading):
    (folder.path / ".work").mkdir()
    folder.drop(".work/1-2-3-4.pos", b"0\n")
    folder.drop(".work/1-2-3-4.pos.new", b"0")
    assert await reading(lines=True).has_nothing_for(0.1)
    assert folder.files(".work") == []


async def test_after_a_crash_every_line_that_was_not_settled_comes_again(folder, reading):
    folder.drop("a", b"1\n2\n3\n")
    folder.drop("b", b"1\n2\n3\n")
    reader = reading(lines=True)
    pairs = await reader.take(6)
    [one, other] = [[pair for pair in pairs if pair[1][0] is r] for r in {id(p[0]): p[0] for _, p in pairs}.values()]
    await reader.settle(one[:1])
    await reader.settle(other)
    await reader.crash()
    reader = reading(lines=True)
    again = [reader.producer.identity(p) for _, p in await reader.take(3)]
    assert set(again) >= {reader.producer.identity(p) for _, p in one[1:]}
    assert await reader.has_nothing_for(1)


# Trouble -------------------------------------------------------------------------------------------------------------


async def test_a_line_over_max_line_is_delivered_cut_reported_and_the_next_goes_on(folder, reading, logs):
    folder.drop("a", b"x" * 11 + b"\n" + b"y" * 10 + b"\n" + b"z" * 5000)
    reader = reading(lines=True, max_line=10)
    pairs = await reader.take(3)
    assert [body for body, _ in pairs] == [b"x" * 10 + b"\xff", b"y" * 10, b"z" * 10 + b"\xff"]
    assert reader.producer.counts.cut == 2
    assert len([e for e in logs if "delivered cut" in e["event"]]) == 1
    await reader.settle(pairs)
    assert folder.names("done") == ["a"]


async def test_a_file_with_a_cut_line_is_never_deleted_not_even_after_a_restart(folder, reading):
    folder.drop("a", b"x" * 11 + b"\n" + b"y\n" * 3)
    reader = reading(lines=True, max_line=10, on_done="delete")
    await reader.settle((await reader.take(4))[:3])
    await reader.close()
    reader = reading(lines=True, max_line=10, on_done="delete")
    await reader.settle(await reader.take(4))
    assert folder.names("dead") == ["a"]
    assert folder.files("dead")[0].stat().st_size == 18


async def test_growth_after_the_claim_is_not_read_and_reported(folder, reading, logs):
    path = folder.drop("a", b"1\n2")
    with path.open("ab") as writer:
        reader = reading(lines=True)
        pairs = await reader.take(2)
        writer.write(b"3\n4\n")
    await reader.settle(pairs)
    assert [body for body, _ in pairs] == [b"1", b"2"]
    assert await reader.has_nothing_for(1)
    assert any("grew" in e["event"] for e in logs)
    assert folder.files("done")[0].read_bytes() == b"1\n23\n4\n"


async def test_a_file_that_can_be_read_no_further_goes_to_dead_once_its_lines_are_settled(folder, reading, logs):
    folder.drop("a", b"".join(b"%07d\n" % n for n in range(200_000)))
    reader = reading(lines=True)
    pairs = await reader.take(500)
    [file] = folder.files(".work")
    file.rename(folder.path / ".kept")
    file.symlink_to("/etc/hostname")
    while not await reader.has_nothing_for(0.5):
        poll = await reader.poll()
        pairs += zip(poll.bodies, poll.payloads, strict=True)
    assert [body for body, _ in pairs] == [b"%07d" % n for n in range(len(pairs))]
    assert folder.names("dead") == []
    await reader.settle(pairs)
    assert folder.names("dead") == ["a"]
    assert any(e["log_level"] == "error" for e in logs)


async def test_a_file_that_cannot_be_moved_is_transient_and_moves_when_it_is_tried_again(folder, reading):
    folder.drop("a", b"1\n2\n")
    reader = reading(lines=True)
    pairs = await reader.take(2)
    (folder.path / "done").rmdir()
    folder.drop("done")
    with pytest.raises(Transient, match="can't be moved out of"):
        await reader.settle(pairs)
    (folder.path / "done").unlink()
    await reader.settle(pairs)
    await reader.settle(pairs)
    assert folder.names("done") == ["a"]


async def test_advance_lanes_settles_all_files_in_one_call(folder, reading):
    for name in "abc":
        folder.drop(name, b"1\n2\n")
    reader = reading(lines=True)
    poll = await reader.poll()
    await reader.producer.advance_lanes(
        [(s.lane, AdvanceBatch([(ACKED, poll.payloads[s.start : s.stop])], s.stop - s.start)) for s in poll.slices]
    )
    assert folder.names("done") == ["a", "b", "c"]


async def test_a_file_far_larger_than_memory_should_hold_is_read_with_little(folder, reading):
    with (folder.path / "big").open("wb") as file:
        file.write(b"first\n")
        file.truncate(200 * 1024 * 1024)  # a hole: one line of zeros
        file.seek(0, os.SEEK_END)
        file.write(b"\nlast\n")
    reader = reading(lines=True, max_line=1000)
    tracemalloc.start()
    try:
        pairs = await reader.take(3)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [body[:5] for body, _ in pairs] == [b"first", b"\0" * 5, b"last"]
    assert peak < 8 * 1024 * 1024


# Whatever happens ----------------------------------------------------------------------------------------------------

steps = st.lists(
    st.sampled_from(["drop", "poll", "poll", "settle", "settle", "fail", "release", "pause", "resume", "crash", "end"]),
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(steps, st.randoms(use_true_random=False))
def test_whatever_happens_every_line_is_delivered_and_none_is_settled_unseen(script, chance):
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(Story(Path(place), chance).play(script))


class NoWait:
    """Time passes only in sleep, and at once."""

    def __init__(self) -> None:
        self.time = 0.0

    def monotonic(self) -> float:
        return self.time

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        await asyncio.sleep(0)


class Story:
    """A drop folder, a runtime that behaves as the contract says, and what must hold of both."""

    def __init__(self, path: Path, chance) -> None:
        self.path = path
        self.chance = chance
        self.dropped: dict[str, list[bytes]] = {}
        self.seen: set[bytes] = set()
        self.settled: set[bytes] = set()
        self.open()

    def open(self) -> None:
        options = DirectoryOptions(path=str(self.path), settle=0.0, lines=True, max_line=1000, poll_interval=30.0)
        self.clock = NoWait()
        self.producer = LineByLine(options, self.clock)
        self.polls = self.producer.open_batches()
        self.lanes: dict[object, list] = {}
        self.paused: set[object] = set()

    async def play(self, script) -> None:
        for step in script:
            await getattr(self, step)()
        await self.resume()
        for _ in range(200):
            if len(list((self.path / "done").glob("*"))) == len(self.dropped):
                break
            await self.poll()
            await self.settle(all_of_them=True)
        await self.end()
        everything = {line for lines in self.dropped.values() for line in lines}
        assert self.settled == self.seen == everything
        assert [p.name for p in (self.path / ".work").glob("[!.]*")] == []

    async def drop(self) -> None:
        name = f"f{len(self.dropped)}"
        lines = [b"%s:%d" % (name.encode(), n) for n in range(self.chance.choice([1, 3, 40, 1200]))]
        self.dropped[name] = lines
        (self.path / name).write_bytes(b"\n".join(lines) + self.chance.choice([b"", b"\n", b"\r\n\n"]))

    async def poll(self) -> None:
        pending = asyncio.ensure_future(anext(self.polls))
        patience = self.clock.time + 200
        while not pending.done() and self.clock.time < patience:
            await asyncio.wait([pending], timeout=0)
        if not pending.done():
            await self.restart(pending)
            return
        poll = pending.result()
        for piece in poll.slices:
            lane = self.lanes.setdefault(piece.lane, [])
            lane += zip(poll.bodies[piece.start : piece.stop], poll.payloads[piece.start : piece.stop], strict=True)
            assert piece.lane not in self.paused
            numbers = [payload[1] for _, payload in lane]
            assert numbers == sorted(set(numbers)), "a lane goes forward only"
        self.seen.update(poll.bodies)

    async def restart(self, pending) -> None:
        """Nothing came: a poll can't be called back, so this life ends."""
        pending.cancel()
        await asyncio.wait([pending])
        await self.producer.aclose()
        self.open()

    async def settle(self, *, all_of_them: bool = False) -> None:
        for lane, pairs in list(self.lanes.items()):
            number = len(pairs) if all_of_them else self.chance.randint(1, len(pairs))
            taken, self.lanes[lane] = pairs[:number], pairs[number:]
            await self.producer.advance_lanes([(lane, AdvanceBatch([(ACKED, [p for _, p in taken])], number))])
            self.settled.update(body for body, _ in taken)
            self._forget_drained(lane)

    async def fail(self) -> None:
        for lane, pairs in list(self.lanes.items())[:1]:
            await self.producer.advance(AdvanceBatch([(FAILED, [pairs[0][1]])], 1))
            self._kill(lane)

    async def release(self) -> None:
        for lane, pairs in list(self.lanes.items())[:1]:
            await self.producer.release([p for _, p in pairs])
            self._kill(lane)

    def _kill(self, lane) -> None:
        del self.lanes[lane]
        self.paused.discard(lane)

    def _forget_drained(self, lane) -> None:
        if not self.lanes[lane]:
            if lane in self.paused:
                self.producer.resume([lane])
            self._kill(lane)

    async def pause(self) -> None:
        for lane in list(self.lanes)[:2]:
            self.producer.pause([lane])
            self.paused.add(lane)

    async def resume(self) -> None:
        self.producer.resume(list(self.paused))
        self.paused.clear()

    async def crash(self) -> None:
        await self.polls.aclose()
        self.producer.folder.unlock()
        self.open()

    async def end(self) -> None:
        await self.polls.aclose()
        await self.producer.aclose()
        self.open()
