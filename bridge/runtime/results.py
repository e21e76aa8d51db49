"""What becomes of a launch: from an answer, an error or silence to the row that the store gets. Plain functions.

answer                  started, succeeded or failed_run, as the target says
Refused                 failed: visible, and can be retried by hand
Transient, or a defect  pending until the back-off has passed, at the last attempt failed
silence                 no row: it may have reached the target, so the lease runs out and the next claim is
                        ambiguous; at the last attempt failed
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NamedTuple, get_args

from bridge.core.errors import Refused, Transient
from bridge.core.retry import Backoff
from bridge.ports import Claim, Launched, ResultRow

ERROR_MOST: Final = 4000  # characters
RETRY_AFTER_MOST: Final = 86400.0

Kind = Literal["launched", "failed_runs", "failed", "retried", "overdue"]
"""Taken; ran and failed; given up; failed for now; gave no answer."""
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

EVENTS: Final[dict[Kind, str]] = {
    "failed_runs": "A run failed",
    "failed": "A run is given up, it can be retried",
    "retried": "A launch failed, it is tried again",
    "overdue": "A launch outlasted its time, it is looked for when its claim ends",
}


class Result(NamedTuple):
    """How a launch ended. `is_final`: no launch follows by itself. `is_defect`: its stack is of interest."""

    kind: Kind
    row: ResultRow | None
    error: str = ""
    is_final: bool = True
    is_defect: bool = False


def of_answer(claim: Claim, said: Launched) -> Result:
    """The target took it."""
    if said.state == "failed_run":
        error = storable(said.error or "the target gives no reason")
        row = ResultRow(claim.run_key, claim.epoch, said.state, said.run_id, said.url, error)
        return Result("failed_runs", row, error)
    return Result("launched", ResultRow(claim.run_key, claim.epoch, said.state, said.run_id, said.url, said.error))


def of_error(
    claim: Claim, error: Exception, attempts: int, retry: Backoff, now: float, roll: Callable[[], float]
) -> Result:
    """The launch raised. `attempts` are those in all, `now` is what `not_before` is counted from."""
    text = str(error) or repr(error)
    if isinstance(error, Refused):
        return _given_up(claim, text)
    is_defect = not isinstance(error, Transient)
    if is_defect:
        text = f"{type(error).__name__}: {text}"
    tries = claim.attempts + 1
    if tries >= attempts:
        return _given_up(claim, f"gave up after {tries} attempts, the last: {text}", is_defect=is_defect)
    text = storable(text)
    due = now + _pause(error, retry.after(tries, roll()))
    row = ResultRow(claim.run_key, claim.epoch, "pending", error=text, not_before=due)
    return Result("retried", row, text, is_final=False, is_defect=is_defect)


def of_silence(claim: Claim, seconds: float, attempts: int) -> Result:
    """The launch was ended by us after `seconds`."""
    text, tries = f"no answer after {seconds:g}s", claim.attempts + 1
    if tries >= attempts:
        return _given_up(claim, f"gave up after {tries} attempts, the last: {text}")
    return Result("overdue", None, text, is_final=False)


def storable(text: str) -> str:
    """Text that every database takes: no NUL, no half of a surrogate pair, and not endless."""
    text = text if len(text) <= ERROR_MOST else f"{text[: ERROR_MOST // 2]} … {text[-ERROR_MOST // 2 :]}"
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _given_up(claim: Claim, text: str, *, is_defect: bool = False) -> Result:
    text = storable(text)
    return Result("failed", ResultRow(claim.run_key, claim.epoch, "failed", error=text), text, is_defect=is_defect)


def _pause(error: Exception, own: float) -> float:
    """At least what the target asks for, as far as that makes sense."""
    wanted = error.retry_after if isinstance(error, Transient) else None
    return max(own, min(wanted, RETRY_AFTER_MOST)) if wanted is not None and wanted > 0 else own
