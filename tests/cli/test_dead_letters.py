"""Dead letters: listed, shown with their bytes, read again, given up."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from bridge.ports import RelayedRow

Rows = Callable[..., Any]


async def test_dead_letters_are_listed_latest_first_and_by_what_is_asked(
    headrace: Any, home: Any, letter_row: Rows
) -> None:
    await home.filled(
        letter_row(1), letter_row(2, watcher="*", reason="malformed"), letter_row(3, stream="bills", reason="too_deep")
    )

    def listed(*options: str) -> list[str]:
        return [letter["identity"] for letter in headrace("dlq", "list", *options).json]

    assert listed() == ["3", "2", "1"]
    assert listed("--limit", "1") == ["3"]
    assert listed("--watcher", "*") == ["2"]
    assert listed("--reason", "rejected") == ["1"]
    assert listed("--stream", "bills") == ["3"]
    assert listed("--state", "dropped") == []
    table = headrace("dlq", "list", "--output", "table").out
    assert "malformed" in table
    assert "a.jsonl:2" in table
    assert "no price" in table


async def test_a_dead_letter_is_shown_with_headers_key_and_text(headrace: Any, home: Any, letter_row: Rows) -> None:
    headers = json.dumps([["kind", base64.b64encode(b"order").decode()], ["bin", base64.b64encode(b"\xff").decode()]])
    await home.filled(letter_row(1, headers=headers.encode(), key=b"k-1", timestamp=1_764_513_845.0))
    said = headrace("dlq", "show", "1", "--output", "table")
    assert said.code == 0
    for words in ("rejected", "no price", "a.jsonl:1", "kind", "order", "hex ff", "k-1", '{"region":"eu"}', "15 bytes"):
        assert words in said.out
    shown = headrace("dlq", "show", "1").json
    assert shown["body"] == {"encoding": "utf-8", "text": '{"region":"eu"}', "size": 15, "is_cut": False}
    assert [(h["name"], h["value"]["encoding"]) for h in shown["headers"]] == [("kind", "utf-8"), ("bin", "hex")]
    assert shown["timestamp"] == "2025-11-30T14:44:05.000Z"


async def test_a_null_header_is_shown_as_null_and_an_empty_one_as_empty(
    headrace: Any, home: Any, letter_row: Rows
) -> None:
    await home.filled(letter_row(1, headers=b'[["gone", null], ["empty", ""]]'))
    out = headrace("dlq", "show", "1", "--output", "table").out
    assert re.search(r"gone +<null>", out)
    assert re.search(r"empty +<empty>", out)
    gone, empty = headrace("dlq", "show", "1").json["headers"]
    assert gone == {"name": "gone", "value": None}
    assert empty["value"]["size"] == 0


async def test_a_tombstone_is_shown_as_a_message_without_a_body(headrace: Any, home: Any, letter_row: Rows) -> None:
    await home.filled(letter_row(1, body=b"null", tombstone=True), letter_row(2, body=b"null"))
    assert "no body (a tombstone)" in headrace("dlq", "show", "1", "--output", "table").out
    shown = headrace("dlq", "show", "1").json
    assert (shown["tombstone"], shown["body"]) == (True, None)
    said = headrace("dlq", "show", "1", "--raw")
    assert (said.bytes, "no body" in said.err) == (b"", True)
    shown = headrace("dlq", "show", "2").json
    assert (shown["tombstone"], shown["body"]["text"]) == (False, "null")


async def test_bytes_that_are_no_text_are_shown_as_hex(headrace: Any, home: Any, letter_row: Rows) -> None:
    await home.filled(letter_row(1, body=b"\x00\x01ab\xff"))
    assert "0000  00 01 61 62 ff" in headrace("dlq", "show", "1", "-o", "table").out
    assert headrace("dlq", "show", "1").json["body"]["text"] == "00016162ff"


async def test_a_large_body_is_cut_with_a_note_and_whole_when_raw(headrace: Any, home: Any, letter_row: Rows) -> None:
    body = ("é" * 3000).encode() + b"\n\x00\xff"
    await home.filled(letter_row(1, body=body))
    out = headrace("dlq", "show", "1", "-o", "table").out
    assert "6,003 bytes" in out
    assert "--raw writes all" in out
    assert out.count("é") == 2048
    assert headrace("dlq", "show", "1", "--raw").bytes == body


async def test_a_body_can_t_command_the_terminal(headrace: Any, home: Any, letter_row: Rows) -> None:
    await home.filled(letter_row(1, body="\x1b[2J \x9b \u202e".encode(), error="\x1b]0;x\x07"))
    assert not set(headrace("dlq", "show", "1", "-o", "table").out) & set("\x1b\x07\x9b\u202e")


@pytest.mark.parametrize("number", ["2", "0", "-1", "99999999999999999999"])
async def test_a_number_that_no_dead_letter_has_is_told(
    headrace: Any, home: Any, letter_row: Rows, number: str
) -> None:
    await home.filled(letter_row(1))
    said = headrace("dlq", "show", "--", number)
    assert (said.code, said.out) == (1, "")
    assert f"there is no dead letter {number}" in said.err


# replay --------------------------------------------------------------------------------------------------------------


async def test_a_replay_without_an_instance_waits_for_one(headrace: Any, home: Any, letter_row: Rows) -> None:
    await home.filled(letter_row(1), letter_row(2))
    said = headrace("dlq", "replay", "1", "2", "1")
    assert said.code == 0
    assert said.out == "2 dead letters to be read again; no instance runs: it will be done when one does\n"
    store = await home.open()
    await store.take_intents()
    assert sorted(replay.identity for replay in await store.replays("orders", 10)) == ["1", "2"]


async def test_a_running_instance_picks_a_replay_up(
    headrace: Any, home: Any, letter_row: Rows, instance_at_work: Any
) -> None:
    store = await home.open()
    await store.commit([letter_row(1)], "c1")
    async with instance_at_work(store):
        said = await asyncio.to_thread(headrace, "dlq", "replay", "1")
    assert said.out.startswith("1 dead letter is being read again")
    assert [letter["id"] for letter in headrace("dlq", "list", "--state", "replaying").json] == [1]


async def test_all_that_the_filters_leave_are_replayed_oldest_first_in_parts(
    headrace: Any, home: Any, letter_row: Rows
) -> None:
    letters = [letter_row(n, reason="malformed" if n % 2 else "rejected") for n in range(1202)]
    await home.filled(*letters)
    said = headrace("dlq", "replay", "--all", "--reason", "malformed", "-o", "json")
    assert len(said.json["intents"]) == 2
    wanted = said.json["dead_letters"]
    assert (len(wanted), wanted) == (601, sorted(wanted))
    store = await home.open()
    await store.take_intents()
    assert len(headrace("dlq", "list", "--state", "replaying", "--limit", "2000").json) == 601


async def test_bytes_that_are_not_the_message_s_are_not_replayed(headrace: Any, home: Any, letter_row: Rows) -> None:
    await home.filled(letter_row(1), letter_row(2))
    home.sql("UPDATE dead_letters SET whole = 0 WHERE id = 1")  # as when the store could not keep the bytes
    said = headrace("dlq", "replay", "1")
    assert said.code == 1
    assert "can't be read again" in said.err
    said = headrace("dlq", "replay", "--all", "-o", "json")
    assert said.json["dead_letters"] == [2]
    assert "1 dead letter without the message's own bytes" in said.err
    assert "not the message's own bytes" in headrace("dlq", "show", "1", "-o", "table").out


async def test_nothing_to_replay_is_said(headrace: Any, home: Any, letter_row: Rows) -> None:
    await home.filled(letter_row(1))
    said = headrace("dlq", "replay", "--all", "--watcher", "us_orders")
    assert (said.code, said.out) == (0, "no dead letter waits that could be read again\n")


@pytest.mark.parametrize("command", ["replay", "drop"])
@pytest.mark.parametrize("arguments", [(), ("1", "--all"), ("1", "--reason", "rejected")])
async def test_which_ones_must_be_clear(
    headrace: Any, home: Any, letter_row: Rows, command: str, arguments: tuple[str, ...]
) -> None:
    await home.filled(letter_row(1))
    said = headrace("dlq", command, *arguments)
    assert (said.code, said.out) == (2, "")
    assert "--all" in said.err
    assert headrace("dlq", "list").json[0]["state"] == "dead"


# drop ----------------------------------------------------------------------------------------------------------------


async def test_dropped_ones_wait_no_more_and_stay_listed(headrace: Any, home: Any, letter_row: Rows) -> None:
    await home.filled(letter_row(1), letter_row(2))
    assert headrace("dlq", "drop", "2").out == "dropped 1 dead letter\n"
    assert [letter["id"] for letter in headrace("dlq", "list").json] == [1]
    assert [letter["id"] for letter in headrace("dlq", "list", "--state", "dropped").json] == [2]
    said = headrace("dlq", "drop", "2", "1")
    assert said.code == 1
    assert "dead letter 2 is dropped" in said.err
    assert [letter["id"] for letter in headrace("dlq", "list").json] == [1]


async def test_all_are_dropped_only_with_a_yes(headrace: Any, home: Any, letter_row: Rows) -> None:
    await home.filled(*(letter_row(n) for n in range(1100)), letter_row("x", reason="malformed"))
    said = headrace("dlq", "drop", "--all", "--reason", "rejected")
    assert said.code == 2
    assert "--yes" in said.err
    said = headrace("dlq", "drop", "--all", "--reason", "rejected", "--yes", "-o", "json")
    assert (said.json["dropped"], len(said.json["dead_letters"])) == (1100, 1100)
    assert [letter["reason"] for letter in headrace("dlq", "list").json] == ["malformed"]


def _ended(process: Any, again: signal.Signals | None) -> int:
    for _ in range(20):
        if again is not None:
            process.send_signal(again)
        with suppress(subprocess.TimeoutExpired):
            return int(process.wait(2))
    raise AssertionError("it did not end")


@pytest.mark.parametrize("answer", [b"n\n", b"\x03"], ids=["no", "ctrl-c"])
async def test_on_a_terminal_it_asks(
    headrace: Any, headrace_process: Any, terminal: Any, home: Any, letter_row: Rows, answer: bytes
) -> None:
    await home.filled(letter_row(1))
    with terminal() as (ours, theirs):
        process = headrace_process("dlq", "drop", "--all", stdin=theirs, stdout=theirs, stderr=theirs)
        seen = b""
        while b"Drop 1 dead letter?" not in seen:  # the timeout of the test bounds it
            seen += os.read(ours, 4096)
        os.write(ours, answer)
        # It is no session of its own, so the terminal sends no signal for it; a person would press again, too.
        code = _ended(process, signal.SIGINT if answer == b"\x03" else None)
        os.set_blocking(ours, False)
        with suppress(BlockingIOError):
            while True:
                seen += os.read(ours, 4096)
    assert [letter["id"] for letter in headrace("dlq", "list").json] == [1]
    assert code == 1
    assert b"nothing was dropped" in seen


async def test_people_see_what_was_copied_to_the_brokers_own_place_and_why_not(
    headrace: Any, home: Any, letter_row: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await home.open()
    await store.commit([letter_row(n, relays=n > 1) for n in range(1, 6)], "c1")
    numbers = [letter.number for letter in await store.claim_letters("orders", 3, 3600)]
    far = 4e9
    await store.commit(
        [RelayedRow(numbers[0]), RelayedRow(numbers[1], "too large"), RelayedRow(numbers[2], "no leader", far)], "c2"
    )
    await store.aclose(clean=True)
    monkeypatch.setenv("COLUMNS", "200")
    listed = headrace("dlq", "list", "--output", "table").out
    assert [listed.count(word) for word in ("copied", "yes", "refused", "failing", "waits")] == [1, 1, 1, 1, 1]
    shown = {n: headrace("dlq", "show", str(n), "--output", "table").out for n in range(1, 6)}
    assert "copied" not in shown[1]
    assert re.search(r"copied +\d{4}-\d\d-\d\d .* ago", shown[2])
    assert re.search(r"copied +no, and it is not tried again: too large", shown[3])
    assert re.search(r"copied +not yet, it failed 1 time, the last because: no leader", shown[4])
    assert re.search(r"copied +not yet, it is due", shown[5])
    told = headrace("dlq", "show", "4").json
    assert (told["relay_error"], told["relay_failures"], told["relayed_at"]) == ("no leader", 1, None)
    assert told["relay_due"].startswith("2096-")
