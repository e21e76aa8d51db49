from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.core.retry import Backoff

BACKOFFS = st.builds(
    Backoff,
    delay=st.floats(min_value=0.001, max_value=1000),
    factor=st.floats(min_value=1, max_value=100),
    max=st.floats(min_value=0.001, max_value=100_000),
    jitter=st.floats(min_value=0, max_value=1),
)
ROLLS = st.floats(min_value=0, max_value=1, exclude_max=True)


def test_the_delay_grows_by_its_factor_up_to_its_most() -> None:
    backoff = Backoff(delay=1.0, factor=2.0, max=5.0, jitter=0.0)
    assert [backoff.after(attempts) for attempts in (1, 2, 3, 4, 100)] == [1.0, 2.0, 4.0, 5.0, 5.0]


@pytest.mark.parametrize("jitter", [0.0, 0.5, 1.0])
def test_the_roll_adds_up_to_its_share_of_the_delay(jitter: float) -> None:
    backoff = Backoff(delay=10.0, factor=2.0, max=100.0, jitter=jitter)
    assert backoff.after(1, 0.0) == 10.0
    assert backoff.after(1, 0.5) == 10.0 + 5.0 * jitter


@given(BACKOFFS, st.integers(1, 10**9), ROLLS)
def test_however_often_it_failed_the_delay_is_a_finite_number_within_its_bounds(
    backoff: Backoff, attempts: int, roll: float
) -> None:
    delay = backoff.after(attempts, roll)
    assert min(backoff.delay, backoff.max) <= delay <= backoff.max * (1 + backoff.jitter)


@given(BACKOFFS, st.integers(1, 200), ROLLS)
def test_one_failure_more_never_shortens_the_delay(backoff: Backoff, attempts: int, roll: float) -> None:
    assert backoff.after(attempts + 1, roll) >= backoff.after(attempts, roll)
