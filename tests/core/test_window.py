"""What a try at an event amounts to, whatever the filter does with it."""

from __future__ import annotations

import pytest

from bridge.core.errors import IllegalStep
from bridge.core.window import RETURNED, SKIPPED, Derived, Verdict, Window


def test_moving_past_an_event_without_a_word_skips_it() -> None:
    assert Window().leave() is SKIPPED


def test_what_was_yielded_goes_along_in_order() -> None:
    window = Window()
    window.derive(Derived(b"1"))
    window.derive(Derived(b"2"))
    assert window.leave().derived == (Derived(b"1"), Derived(b"2"))


def test_what_a_failed_try_yielded_is_thrown_away() -> None:
    window = Window()
    window.derive(Derived(b"1"))
    assert window.fail("boom").derived == ()


@pytest.mark.parametrize("end", ["leave", "fail", "abandon"])
def test_a_reject_fixes_the_outcome_and_keeps_what_is_yielded_before_and_after(end: str) -> None:
    window = Window()
    window.derive(Derived(b"before"))
    window.reject("no")
    window.reject("too late")
    window.derive(Derived(b"after"))
    verdict: Verdict = window.fail("boom") if end == "fail" else getattr(window, end)()
    assert (verdict.kind, verdict.reason) == ("rejected", "no")
    assert verdict.derived == (Derived(b"before"), Derived(b"after"))


def test_a_try_that_we_ended_is_as_if_it_had_never_begun() -> None:
    window = Window()
    window.derive(Derived(b"1"))
    assert window.abandon() is RETURNED


@pytest.mark.parametrize("step", ["leave", "abandon"])
def test_a_closed_window_refuses_every_step(step: str) -> None:
    window = Window()
    window.leave()
    for illegal in (
        getattr(window, step),
        lambda: window.derive(Derived(b"")),
        lambda: window.reject(""),
        lambda: window.fail(""),
    ):
        with pytest.raises(IllegalStep):
            illegal()
