"""Whole files: one event each, and where each ends up."""

from __future__ import annotations

import os
import shutil
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest

from bridge.core.errors import Transient
from bridge.core.model import UNORDERED, AdvanceBatch, AdvanceItem, outcome_of
from bridge.ports import AdvancesLanes, Pauses, Releases
from bridge.shared_stream import SharedStreamProducer
from connectors.directory import KIND, DirectoryOptions

ACKED = outcome_of(2, 0, 0)
REJECTED = outcome_of(0, 0, 2)
FAILED = outcome_of(1, 1, 0)


async def test_each_file_is_an_event_of_the_unordered_lane(folder, reading):
    folder.drop("a.json", b"1")
    folder.drop("b.json", b"")
    reader = reading()
    poll = await reader.poll()
    assert [(s.lane, s.start, s.stop) for s in poll.slices] == [(UNORDERED, 0, 2)]
    assert sorted(poll.bodies) == [b"", b"1"]
    assert reader.producer.get_advance_lane(poll.payloads[0]) is UNORDERED


async def test_a_message_is_described_by_folder_and_name_and_the_time_it_was_written(folder, reading):
    path = folder.drop("a.json")
    written = path.stat().st_mtime
    reader = reading()
    [(_, payload)] = await reader.take(1)
    meta = reader.producer.describe(payload)
    assert meta.position == "orders/a.json"
    assert meta.timestamp == pytest.approx(written)


async def test_a_settled_file_moves_to_done(folder, reading):
    folder.drop("a.json", b"1")
    reader = reading()
    await reader.settle(await reader.take(1))
    assert folder.names("done") == ["a.json"]
    assert folder.names(".work") == []
    assert reader.producer.counts.settled == 1


async def test_with_on_done_delete_a_settled_file_is_gone(folder, reading):
    folder.drop("a.json", b"1")
    reader = reading(on_done="delete")
    await reader.settle(await reader.take(1))
    assert folder.names(".work") == []
    assert not (folder.path / "done").exists()


@pytest.mark.parametrize("on_done", ["move", "delete"])
async def test_a_file_that_every_watcher_rejected_goes_to_dead(folder, reading, on_done):
    folder.drop("a.json", b"1")
    reader = reading(on_done=on_done)
    await reader.settle(await reader.take(1), REJECTED)
    assert folder.names("dead") == ["a.json"]
    assert reader.producer.counts.dead == 1


async def test_a_file_that_one_took_and_another_rejected_goes_to_done(folder, reading):
    folder.drop("a.json", b"1")
    reader = reading()
    await reader.settle(await reader.take(1), outcome_of(1, 0, 1))
    assert folder.names("done") == ["a.json"]


@pytest.mark.parametrize("outcome", [FAILED, outcome_of(0, 0, 0)], ids=["failed", "nobody"])
async def test_a_file_that_failed_or_that_nobody_looked_at_comes_again_later(folder, reading, clock, outcome):
    folder.drop("a.json", b"1")
    reader = reading()
    [first] = await reader.take(1)
    before = clock.time
    await reader.settle([first], outcome)
    assert await reader.has_nothing_for(0.9)
    [again] = await reader.take(1)
    assert clock.time - before >= 1.0
    assert again[0] == b"1"
    assert reader.producer.identity(again[1]) == reader.producer.identity(first[1])
    await reader.settle([again])
    assert folder.names("done") == ["a.json"]


async def test_a_file_that_fails_again_and_again_comes_at_growing_distances(folder, reading, clock):
    folder.drop("a.json", b"1")
    reader = reading()
    waits = []
    for _ in range(5):
        [pair] = await reader.take(1)
        waits.append(clock.time)
        await reader.fail(pair)
    gaps = [b - a for a, b in pairwise(waits)]
    assert gaps == sorted(gaps)
    assert gaps[-1] > 4 * gaps[0]


async def test_settling_what_is_delivered_again_under_its_old_payload_changes_nothing(folder, reading, logs):
    folder.drop("a.json", b"1")
    reader = reading()
    pairs = await reader.take(1)
    await reader.fail(pairs[0])
    await reader.settle(pairs)
    assert folder.names("done") == []
    again = await reader.take(1)
    await reader.settle(again)
    await reader.fail(again[0])
    await reader.producer.release([p for _, p in pairs + again])
    assert await reader.has_nothing_for(10)
    assert folder.names("done") == ["a.json"]
    assert logs == []


async def test_released_files_come_again_at_once(folder, reading, clock):
    for name in "abc":
        folder.drop(name, name.encode())
    reader = reading()
    pairs = await reader.take(3)
    await reader.settle(pairs[:1])
    assert await reader.has_nothing_for(0.1)
    before = clock.time
    await reader.producer.release([p for _, p in pairs])
    assert len(await reader.take(2)) == 2
    assert clock.time == before


async def test_advance_takes_plain_items_as_well_as_batches(folder, reading):
    for name in "abcd":
        folder.drop(name, name.encode())
    reader = reading()
    pairs = sorted(await reader.take(4), key=lambda pair: pair[0])
    outcomes = [ACKED, REJECTED, FAILED, ACKED]
    await reader.producer.advance([AdvanceItem(p, o) for (_, p), o in zip(pairs, outcomes, strict=True)])
    assert folder.names("done") == ["a", "d"]
    assert folder.names("dead") == ["b"]
    assert await reader.bodies(1) == [b"c"]


async def test_advance_lanes_settles_several_batches_at_once(folder, reading):
    for name in "ab":
        folder.drop(name)
    reader = reading()
    pairs = await reader.take(2)
    batches = [(UNORDERED, AdvanceBatch([(ACKED, [payload])], 1)) for _, payload in pairs]
    await reader.producer.advance_lanes(batches)
    assert folder.names("done") == ["a", "b"]


# Trouble -------------------------------------------------------------------------------------------------------------


async def test_a_file_over_max_file_goes_to_dead_and_is_reported_and_counted(folder, reading, logs):
    folder.drop("big", b"x" * 101)
    folder.drop("just", b"y" * 100)
    reader = reading(max_file=100)
    assert await reader.bodies(1) == [b"y" * 100]
    assert folder.names("dead") == ["big"]
    assert reader.producer.counts.dead == 1
    [told] = [e for e in logs if e["event"] == "file can't be read, goes to dead/"]
    assert told["log_level"] == "error"
    assert "101 bytes are more than `max_file` (100)" in told["why"]


async def test_a_file_that_nobody_may_read_goes_to_dead(clock, logs, unprivileged):
    path = Path(tempfile.mkdtemp())
    try:
        (path / "a").write_bytes(b"1")
        (path / "a").chmod(0)
        (path / "b").write_bytes(b"2")
        producer = KIND.build(DirectoryOptions(path=str(path), settle=0.0))
        with unprivileged(path):
            polls = producer.open_batches()
            assert (await anext(polls)).bodies == [b"2"]
            await polls.aclose()
            await producer.aclose()
        assert [p.name.partition("~")[2] for p in (path / "dead").iterdir()] == ["a"]
        assert "Permission denied" in next(e["why"] for e in logs if e["log_level"] == "error")
    finally:
        shutil.rmtree(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs files of two users")
async def test_a_file_that_may_not_be_renamed_is_left_and_reported_once_and_the_others_go_on(logs):
    path = Path(tempfile.mkdtemp())
    try:
        os.chmod(path, 0o1777)  # only the owner of a file may rename it
        (path / "a").write_bytes(b"1")
        (path / "b").write_bytes(b"2")
        os.chown(path / "b", 65534, -1)
        os.seteuid(65534)
        try:
            producer = KIND.build(DirectoryOptions(path=str(path), settle=0.0, poll_interval=0.001))
            polls = producer.open_batches()
            assert (await anext(polls)).bodies == [b"2"]
            (path / "c").write_bytes(b"3")
            assert (await anext(polls)).bodies == [b"3"]
            await polls.aclose()
            await producer.aclose()
        finally:
            os.seteuid(0)
        assert [e["file"] for e in logs if "can't be claimed" in e["event"]] == ["a"]
        assert (path / "a").read_bytes() == b"1"
    finally:
        shutil.rmtree(path)


async def test_a_claimed_file_that_became_a_link_is_not_followed(folder, reading, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"not for you")
    folder.drop("a", b"1")
    reader = reading()
    pairs = await reader.take(1)
    [file] = folder.files(".work")
    file.unlink()
    file.symlink_to(secret)
    await reader.producer.release([pairs[0][1]])
    assert await reader.has_nothing_for(1)
    assert folder.files("dead")[0].is_symlink()


async def test_growth_after_the_claim_is_reported_and_not_read(folder, reading, logs):
    path = folder.drop("a", b"1")
    with path.open("ab") as writer:
        reader = reading()
        pairs = await reader.take(1)
        writer.write(b"23")
        writer.flush()
        await reader.producer.release([pairs[0][1]])
        pairs = await reader.take(1)
        assert pairs[0][0] == b"1"
        await reader.settle(pairs)
    [told] = [e for e in logs if "grew" in e["event"]]
    assert (told["size"], told["size_now"]) == (1, 3)
    assert folder.files("done")[0].read_bytes() == b"123"
    assert reader.producer.counts.grown == 1


async def test_a_file_that_grew_is_never_deleted(folder, reading):
    path = folder.drop("a", b"1")
    with path.open("ab") as writer:
        reader = reading(on_done="delete")
        pairs = await reader.take(1)
        writer.write(b"23")
    await reader.settle(pairs)
    assert folder.files("dead")[0].read_bytes() == b"123"


async def test_a_file_that_shrank_is_reported_and_delivered_as_far_as_it_goes(folder, reading, logs):
    folder.drop("a", b"123")
    reader = reading()
    await reader.take(1)
    await reader.crash()
    folder.files(".work")[0].write_bytes(b"1")
    assert await reading().bodies(1) == [b"1"]
    assert any("shrank" in e["event"] for e in logs)


async def test_a_claimed_file_that_somebody_took_away_is_reported_and_counts_as_settled(folder, reading, logs):
    for name in "ab":
        folder.drop(name)
    reader = reading()
    pairs = await reader.take(2)
    folder.files(".work")[0].unlink()
    await reader.settle(pairs)
    assert len(folder.names("done")) == 1
    assert reader.producer.counts.gone == 1
    assert any("is gone" in e["event"] for e in logs)


async def test_a_file_that_cannot_be_moved_is_transient_and_the_others_are_settled_once(folder, reading):
    for name in "abc":
        folder.drop(name)
    reader = reading()
    pairs = await reader.take(3)
    (folder.path / "done").rmdir()
    folder.drop("done")  # in the way
    with pytest.raises(Transient, match="can't be moved out of"):
        await reader.settle(pairs)
    (folder.path / "done").unlink()
    await reader.settle(pairs)
    await reader.settle(pairs)
    assert folder.names("done") == ["a", "b", "c"]


async def test_a_done_folder_that_was_tidied_away_is_made_again(folder, reading):
    folder.drop("a")
    reader = reading()
    pairs = await reader.take(1)
    (folder.path / "done").rmdir()
    await reader.settle(pairs)
    assert folder.names("done") == ["a"]


# Crashes and pauses --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settled", range(4))
async def test_after_a_crash_every_file_that_was_not_settled_comes_again(folder, reading, settled):
    for name in "abc":
        folder.drop(name, name.encode())
    reader = reading()
    pairs = sorted(await reader.take(3), key=lambda pair: pair[0])
    if settled:
        await reader.settle(pairs[:settled])
    await reader.crash()
    reader = reading()
    if settled < 3:
        assert await reader.bodies(3 - settled) == [b"a", b"b", b"c"][settled:]
    assert await reader.has_nothing_for(1)


async def test_a_paused_lane_is_not_read_until_it_resumes(folder, reading, clock):
    reader = reading()
    assert await reader.has_nothing_for(0.1)
    reader.producer.pause([UNORDERED])
    folder.drop("a", b"a")
    assert await reader.has_nothing_for(2)
    assert folder.names() == ["a"]
    reader.producer.resume([])
    assert await reader.has_nothing_for(1)
    before = clock.time
    reader.producer.resume([UNORDERED])
    assert await reader.bodies(1) == [b"a"]
    assert clock.time == before


async def test_large_files_do_not_pile_up_in_one_poll(folder, reading):
    for name in "abcd":
        folder.drop(name, b"x" * (5 * 1024 * 1024))
    reader = reading()
    assert [len((await reader.poll()).bodies) for _ in range(2)] == [2, 2]


async def test_open_stream_yields_the_same_one_by_one(folder, reading):
    for name in "ab":
        folder.drop(name, name.encode())
    stream = reading().producer.open_stream()
    got = [await anext(stream), await anext(stream)]
    assert sorted(body for body, _ in got) == [b"a", b"b"]
    await stream.aclose()


def test_the_producer_is_a_shared_stream_producer_with_every_optional_part(reading):
    for lines in (False, True):
        producer = reading(lines=lines).producer
        assert isinstance(producer, SharedStreamProducer)
        assert isinstance(producer, AdvancesLanes)
        assert isinstance(producer, Pauses)
        assert isinstance(producer, Releases)
