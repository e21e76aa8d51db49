"""Lists of any width, and words for people."""

from __future__ import annotations

import time
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from bridge.cli import bodies, words
from bridge.cli.tables import Column, facts, listing, print_all

Row = tuple[str, str, str, str]
COLUMNS: list[Column[Row]] = [
    Column("key", lambda row: row[0], shape="whole"),
    Column("state", lambda row: row[1]),
    Column("changed", lambda row: row[2], 1),
    Column("error", lambda row: row[3], 2, "folded"),
]
TEXT = st.text(st.characters(codec="utf-8"), max_size=60)
ROWS = st.lists(st.tuples(TEXT.filter(str.strip), st.sampled_from(["failed", "started"]), TEXT, TEXT), max_size=5)


def rendered(part: object, width: int) -> list[str]:
    out = StringIO()
    print_all(Console(file=out, width=width, markup=False, highlight=False, emoji=False), part)  # type: ignore[arg-type]
    return out.getvalue().splitlines()


@given(ROWS, st.integers(5, 200))
def test_a_key_is_never_broken_and_a_table_never_too_wide(rows: list[Row], width: int) -> None:
    lines = rendered(listing(rows, COLUMNS, width), width)
    for key, state, *_ in rows:
        assert any(words.printable(key).strip() in line for line in lines)
        assert any(state in line for line in lines)
    if lines and lines[0].startswith("key"):
        assert all(cell_len(line) <= width for line in lines)
    assert not any(c in line for line in lines for c in "\x1b\x07\x9b\r")


def test_columns_go_the_least_important_first() -> None:
    rows = [("k" * 20, "failed", "3 s ago", "a long error that says why it failed and what to do")]
    widths = {width: rendered(listing(rows, COLUMNS, width), width)[0].split() for width in (100, 60, 40, 30)}
    assert widths == {
        100: ["key", "state", "changed", "error"],
        60: ["key", "state", "changed"],
        40: ["key", "state", "changed"],
        30: ["key", "state"],
    }


def test_where_not_even_the_key_fits_each_row_is_a_few_lines() -> None:
    rows = [("k" * 50, "failed", "3 s ago", "why"), ("short", "started", "10 s ago", "")]
    assert rendered(listing(rows, COLUMNS, 40), 40) == [
        "failed   3 s ago ",
        "  " + "k" * 50,
        "  why",
        "started  10 s ago",
        "  short",
    ]


def test_facts_leave_out_what_is_not_known() -> None:
    assert rendered(facts([("name", "x"), ("longer name", "y\x1b"), ("nothing", "")]), 80) == [
        "name         x",
        "longer name  y\\x1b",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0 s"), (0.9, "0 s"), (3, "3 s"), (119, "119 s"), (120, "2 min"), (7199, "119 min"), (7200, "2 h")],
)
def test_a_span_has_one_unit(seconds: float, text: str) -> None:
    assert words.span(seconds) == text


def test_times_are_local_for_people_and_utc_for_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        assert words.when(1_764_513_845.0, 1_764_513_848.0) == "2025-11-30 15:44:05 (3 s ago)"
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()
    assert words.iso_time(1_764_513_845.12) == "2025-11-30T14:44:05.120Z"
    assert words.age(10.0, 5.0) == "in 5 s"
    assert words.iso_time(None) is None


@pytest.mark.parametrize("seconds", [1e300, -1e300, float("inf"), float("nan")])
def test_a_number_that_is_no_time_is_shown_as_it_is(seconds: float) -> None:
    assert words.iso_time(seconds) == repr(seconds)
    assert words.local_time(seconds) == repr(seconds)


@given(st.binary(max_size=300), st.integers(1, 100))
def test_what_is_shown_of_a_body_is_its_beginning(data: bytes, longest: int) -> None:
    shown = bodies.shown(data, longest)
    raw = bytes.fromhex(shown.text) if shown.encoding == "hex" else shown.text.encode()
    assert data.startswith(raw)
    assert len(raw) >= min(len(data), longest) - 3  # at most a character that was cut in two is missing
    assert (shown.size, shown.is_cut) == (len(data), len(data) > longest)


@pytest.mark.parametrize("stored", [b"", b"{}", b"\xff", b'[["a"]]', b'[["a", "not base64!"]]', b'[[1, "YQ=="]]'])
def test_headers_that_are_damaged_are_left_out(stored: bytes) -> None:
    assert bodies.headers_of(stored) == []
