"""Text that no database refuses, and names that stay apart."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from hypothesis import given
from hypothesis import strategies as st

from bridge.store.rules import conflict_key, storable, storable_id

# Every code point, lone surrogates too.
ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=20)


def test_a_conflict_is_named_by_the_start_of_its_digest() -> None:
    assert conflict_key("w/s/1/0", bytes(range(32))) == "w/s/1/0~0001020304050607"


@given(ANY_TEXT)
def test_storable_text_is_text_that_a_database_takes_and_clean_text_stays_as_it_is(text: str) -> None:
    stored = storable(text)
    assert "\0" not in stored
    with closing(sqlite3.connect(":memory:")) as database:
        assert database.execute("SELECT ?", (stored,)).fetchone() == (stored,)
    assert storable(stored) == stored


@given(ANY_TEXT, ANY_TEXT)
def test_two_ids_are_never_taken_for_one(one: str, other: str) -> None:
    assert (storable_id(one) == storable_id(other)) == (one == other)


def test_an_endless_error_is_cut() -> None:
    assert len(storable("é" * 1_000_000)) == 100_000
    assert len(storable("\udcff" * 1_000_000)) < 1_000_000
