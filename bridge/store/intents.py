"""What people ask a running instance to do: rows that it takes, and what of it is a matter of the store alone.

An intent is taken and applied in one transaction, so a crash leaves it either waiting or done. What can't be done is
done with the reason as its outcome, for `headrace` to print.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Struct
from sqlalchemy import select, update

from bridge.ports import Intent
from bridge.store.rules import RETRYABLE
from bridge.store.schema import dead_letters, intents, run_keys, runs, watchers
from bridge.store.writer import Transaction, Writer

_TAKE_MOST: Final = 100


class Taken(Struct):
    """Intents that were taken: those that the runtime acts on too."""

    intents: list[Intent] = []


class Inbox:
    """Takes intents, and tells of each once, also when the answer to the commit that took them was lost."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._doubtful = Taken()

    def take(self) -> Taken:
        """On the writer's thread. After StoreUnavailable, the next call tells what had been taken all the same."""
        if self._doubtful.intents:
            doubtful = self._doubtful
            happened = self._writer.transact(lambda tx: _is_done(tx, doubtful.intents[0]))
            self._doubtful = Taken()
            if happened:
                return doubtful
        if not self._writer.transact(_any_waiting):
            return Taken()
        taken = self._doubtful = Taken()
        self._writer.transact(lambda tx: take(tx, taken))
        self._doubtful = Taken()
        return taken


def _any_waiting(tx: Transaction) -> bool:
    return tx.connection.execute(select(intents.c.id).where(intents.c.done_at.is_(None)).limit(1)).first() is not None


def _is_done(tx: Transaction, intent: Intent) -> bool:
    """Whether the transaction that took it happened: all of what it took, or nothing."""
    done_at = select(intents.c.done_at).where(intents.c.id == intent.id)
    return tx.connection.execute(done_at).scalar() is not None


def take(tx: Transaction, taken: Taken) -> None:
    """Takes up to `_TAKE_MOST` intents in the order in which they were posted, and applies them."""
    columns = intents.c
    query = (
        select(columns.id, columns.kind, columns.watcher, columns.skip, columns.about)
        .where(columns.done_at.is_(None))
        .order_by(columns.id)
        .limit(_TAKE_MOST)
    )
    for number, kind, watcher, skip, about in tx.connection.execute(query).all():
        intent = Intent(number, kind, watcher, bool(skip))
        problem = _APPLY[kind](tx, intent, msgspec.json.decode(about), taken) if kind in _APPLY else "unknown kind"
        if not problem:
            taken.intents.append(intent)
        done = update(intents).where(columns.id == number).values(done_at=tx.now, outcome=problem or "done")
        tx.connection.execute(done)


def _pause(tx: Transaction, intent: Intent, _about: list[Any], _taken: Taken) -> str:
    return _set(tx, intent.watcher, paused=True)


def _resume(tx: Transaction, intent: Intent, _about: list[Any], _taken: Taken) -> str:
    """With `skip`, what is committed up to now and waits is skipped, in the same transaction."""
    problem = _set(tx, intent.watcher, paused=False)
    if not problem and intent.skip:
        waiting = (runs.c.due.is_not(None), runs.c.state == "pending", runs.c.watcher == intent.watcher)
        tx.connection.execute(update(runs).where(*waiting).values(state="skipped", due=None, updated_at=tx.now))
    return problem


def _disable(tx: Transaction, intent: Intent, _about: list[Any], _taken: Taken) -> str:
    return _set(tx, intent.watcher, disabled=True)


def _enable(tx: Transaction, intent: Intent, _about: list[Any], _taken: Taken) -> str:
    return _set(tx, intent.watcher, disabled=False)


def _set(tx: Transaction, watcher: str, **flag: bool) -> str:
    known = update(watchers).where(watchers.c.id == watcher, watchers.c.removed_at.is_(None)).values(**flag)
    return "" if tx.connection.execute(known).rowcount else f"there is no watcher {watcher!r}"


def _retry(tx: Transaction, _intent: Intent, about: list[Any], _taken: Taken) -> str:
    """A manual retry is a new launch with a number of its own, from any host; only what has ended can be retried."""
    columns = runs.c
    problems = []
    for key in about:
        numbered = select(run_keys.c.id).where(run_keys.c.run_key == key).scalar_subquery()
        again = (
            update(runs)
            .where(columns.id == numbered, columns.state.in_(RETRYABLE))
            .values(
                state="pending", retry=columns.retry + 1, attempts=0, ambiguous=0, due=tx.now, updated_at=tx.now,
                host="", claimed_by="", run_id="", url="", error="",
            )
        )  # fmt: skip
        if not tx.connection.execute(again).rowcount:
            state = tx.connection.execute(select(columns.state).where(columns.id == numbered)).scalar()
            problems.append(_not_retried(key, state))
    return "; ".join(problems)


def _not_retried(key: str, state: str | None) -> str:
    if state is None:
        return f"there is no run {key!r}"
    return f"{key!r} is {state}: only runs that are {', '.join(RETRYABLE)} can be retried"


def _replay(tx: Transaction, _intent: Intent, about: list[Any], taken: Taken) -> str:
    """Marks dead letters to be read again; one whose bytes are not the message's can't be."""
    letters = dead_letters.c
    problems = []
    for number in about:
        again = (
            update(dead_letters)
            .where(letters.id == number, letters.state == "dead", letters.whole == 1)
            .values(state="replaying", updated_at=tx.now)
        )
        if tx.connection.execute(again).rowcount:
            continue
        found = tx.connection.execute(select(letters.state, letters.whole).where(letters.id == number)).first()
        state, whole = found or (None, 0)
        problems.append(_not_replayed(number, state, whole))
    return "; ".join(problems)


def _not_replayed(number: int, state: str | None, whole: int) -> str:
    if state is None:
        return f"there is no dead letter {number}"
    if not whole:
        return f"dead letter {number} does not hold the message's own bytes and can't be read again"
    return f"dead letter {number} is {state}: only dead ones can be replayed"


_APPLY: Final[dict[str, Callable[[Transaction, Intent, list[Any], Taken], str]]] = {
    "pause": _pause,
    "resume": _resume,
    "disable": _disable,
    "enable": _enable,
    "retry": _retry,
    "replay": _replay,
}
