"""The statements of the hot path: SQLAlchemy constructs, compiled once to the text that the driver takes.

Each is run with tuples (`Transaction.many`). The order of their values stands beside the statement and is checked when
it is compiled, so that a column that moves is an error at start and not a value in the wrong place.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final

from sqlalchemy import (
    BindParameter,
    ClauseElement,
    ColumnElement,
    Dialect,
    Table,
    bindparam,
    case,
    delete,
    func,
    literal_column,
    null,
    or_,
    select,
    update,
)

from bridge.core.model import EVERY_WATCHER
from bridge.store.schema import attempts, business_keys, dead_letters, run_keys, runs, watchers
from bridge.store.sqlite import Sqlite

RUN_FIELDS: Final = (
    "run_key", "watcher", "asset", "stream", "source", "identity", "position", "target", "job", "received_at",
    "params", "tags",
)  # fmt: skip
_PLACES: Final = {
    **{name: f"run.plan.{name}" for name in ("watcher", "asset", "target", "job")},
    "params": "run.params",
    "stream": "origin.stream",
    "source": "origin.id",
}
run_fields = attrgetter(*(_PLACES.get(name, name) for name in RUN_FIELDS))
"""The values of RUN_FIELDS of a RunRow, past its properties where they only lead on."""
_LETTER_VALUES: Final = (
    "watcher", "source", "identity", "whole", "stream", "position", "reason", "error", "attempts", "timestamp",
    "received_at", "created_at", "updated_at", "commit_id", "key", "headers", "body", "tombstone", "relay_due",
)  # fmt: skip
CLAIM_FIELDS: Final = (
    "watcher", "asset", "stream", "position", "target", "job", "params", "tags", "host",
)  # fmt: skip


def prepare(statement: ClauseElement, dialect: Dialect, *order: str) -> str:
    """The statement's text, for tuples whose values come in `order`, which is checked."""
    compiled = statement.compile(dialect=dialect)
    names = tuple(getattr(compiled, "positiontup", None) or ())
    if names != order:
        raise AssertionError(f"the statement takes {names}, not {order}: {compiled}")
    return str(compiled)


def _text(word: str) -> ColumnElement[str]:
    """A word in the statement itself: not a parameter, and visible to partial indexes."""
    return literal_column(f"'{word}'")


_ZERO: Final[ColumnElement[int]] = literal_column("0")
_ONE: Final[ColumnElement[int]] = literal_column("1")
_NOT_STARTED: Final[dict[str, ColumnElement[Any]]] = {
    **dict.fromkeys(("retry", "attempts", "ambiguous", "claim_epoch"), _ZERO),
    **dict.fromkeys(("claimed_by", "host", "run_id", "url", "error"), _text("")),
}


def _named(table: Table, *names: str) -> dict[str, BindParameter[Any]]:
    return {name: bindparam(name, type_=table.c[name].type) for name in names}


class Statements:
    """The prepared texts for one dialect."""

    def __init__(self, database: Sqlite) -> None:
        self._database = database
        self._dialect = database.dialect
        self.insert_keys = self._insert_keys()
        self.count_repeats = self._count_repeats()
        self.insert_runs = self._insert_runs()
        self.insert_keyed_runs = self._insert_keyed_runs()
        self.hold_keys = self._hold_keys()
        self.results = self._results()
        self.claimable = self._claimable(past_held=False)
        self.claimable_past_held = self._claimable(past_held=True)
        self.take = self._take()
        self.put_letter = self._put_letter()
        self.supersede = self._supersede()
        self.replayed = self._replayed()
        self.put_attempt = self._put_attempt()
        self.forget = self._forget()

    # run requests ----------------------------------------------------------------------------------------------------

    def _insert_keys(self) -> str:
        """What is not inserted is a repeat or a conflict: the row count tells, at no cost."""
        order = ("id", "run_key", "digest", "commit_id", "first_seen", "last_seen")
        statement = self._database.insert(run_keys).values(**_named(run_keys, *order), repeats=_ZERO)
        return prepare(statement.on_conflict_do_nothing(index_elements=["run_key"]), self._dialect, *order)

    def _count_repeats(self) -> str:
        """A commit that is run again counts nothing twice: the key remembers which commit counted last."""
        ours: BindParameter[str] = bindparam("ours")
        statement = (
            update(run_keys)
            .values(last_seen=bindparam("seen"), repeats=run_keys.c.repeats + bindparam("times"), repeated_by=ours)
            .where(run_keys.c.id == bindparam("key"), run_keys.c.repeated_by.is_distinct_from(bindparam("but")))
        )
        return prepare(statement, self._dialect, "seen", "times", "ours", "key", "but")

    def _insert_runs(self) -> str:
        order = ("id", "due", "created_at", "updated_at", "commit_id", *RUN_FIELDS)
        statement = self._database.insert(runs).values(**_named(runs, *order), state=_text("pending"), **_NOT_STARTED)
        return prepare(statement, self._dialect, *order)

    def _insert_keyed_runs(self) -> str:
        order = (
            "id", "due", "created_at", "updated_at", "commit_id", "state", *RUN_FIELDS, "key", "key_until",
            "suppressed_by",
        )  # fmt: skip
        statement = self._database.insert(runs).values(**_named(runs, *order), **_NOT_STARTED)
        return prepare(statement, self._dialect, *order)

    def _hold_keys(self) -> str:
        """A key that is free or whose time is over gets a holder; the row count tells whether others hold some."""
        order = ("watcher", "key", "holder", "expires_at")
        new = self._database.insert(business_keys).values(**_named(business_keys, *order))
        statement = new.on_conflict_do_update(
            index_elements=["watcher", "key"],
            set_={name: new.excluded[name] for name in ("holder", "expires_at")},
            where=business_keys.c.expires_at <= bindparam("now"),
        )
        return prepare(statement, self._dialect, *order, "now")

    def _results(self) -> str:
        """Fenced by the claim's epoch: a result of an older claim changes nothing."""
        order = ("due", "updated_at", "commit_id", "state", "run_id", "url", "error")
        key = select(run_keys.c.id).where(run_keys.c.run_key == bindparam("key")).scalar_subquery()
        statement = (
            update(runs)
            .values(**_named(runs, *order))
            .where(runs.c.id == key, runs.c.claim_epoch == bindparam("epoch"), runs.c.state == _text("dispatching"))
        )
        return prepare(statement, self._dialect, *order, "key", "epoch")

    def _claimable(self, *, past_held: bool) -> str:
        """The oldest runs that are due, in the fields of a Claim, then the row's id and when it was due.

        A walk along the index `runs_due` from `floor`; with held watchers, past their entries.
        """
        statement = (
            select(
                runs.c.run_key,
                runs.c.claim_epoch + _ONE,
                bindparam("until"),
                runs.c.retry,
                runs.c.attempts,
                or_(runs.c.ambiguous == _ONE, runs.c.state == _text("dispatching")),
                *(runs.c[name] for name in CLAIM_FIELDS),
                runs.c.id,
                runs.c.due,
            )
            .where(runs.c.target == bindparam("to"), runs.c.due >= bindparam("floor"), runs.c.due <= bindparam("now"))
            .order_by(runs.c.due, runs.c.id)
            .limit(bindparam("most"))
            .offset(_ZERO)  # or SQLAlchemy makes a parameter of it
        )
        if past_held:
            statement = statement.where(runs.c.watcher.not_in(select(watchers.c.id).where(is_held())))
        return prepare(statement, self._dialect, "until", "to", "floor", "now", "most")

    def _take(self) -> str:
        """The lease itself. A run whose lease ran out may have been launched: it stays ambiguous from then on."""
        columns = runs.c
        host = bindparam("host", type_=columns.host.type)
        statement = (
            update(runs)
            .values(
                due=bindparam("until", type_=columns.due.type),
                updated_at=bindparam("now", type_=columns.updated_at.type),
                state=_text("dispatching"),
                attempts=columns.attempts + _ONE,
                ambiguous=case((columns.state == _text("dispatching"), _ONE), else_=columns.ambiguous),
                claim_epoch=columns.claim_epoch + _ONE,
                claimed_by=bindparam("instance", type_=columns.claimed_by.type),
                host=case((columns.host == _text(""), host), else_=columns.host),
            )
            .where(self._database.among(columns.id, "ids"))
        )
        return prepare(statement, self._dialect, "until", "now", "instance", "host", "ids")

    # dead letters and attempts ---------------------------------------------------------------------------------------

    def _put_letter(self) -> str:
        """A dead letter that comes again is the same row, `dead` again whatever had become of it.

        The bytes stay as they came first, unless those were not the message's own. It is copied to the broker's place
        once: not again when it comes again after that, and when it was to be already, not later for it.
        """
        new = self._database.insert(dead_letters).values(
            **_named(dead_letters, *_LETTER_VALUES), state=_text("dead"), repeats=_ZERO
        )
        come, had = new.excluded, dead_letters.c
        again = had.commit_id == come.commit_id
        better = (come.whole == _ONE) & (had.whole == _ZERO)
        latest = ("stream", "position", "reason", "error", "attempts", "updated_at", "commit_id")
        bytes_ = ("whole", "timestamp", "key", "headers", "body", "tombstone")
        is_there = had.relayed_at.is_not(None)
        statement = new.on_conflict_do_update(
            index_elements=["watcher", "source", "identity"],
            set_={
                "state": case((again, had.state), else_=_text("dead")),
                "repeats": had.repeats + case((again, _ZERO), else_=_ONE),
                **{name: come[name] for name in latest},
                **{name: case((better, come[name]), else_=had[name]) for name in bytes_},
                "relay_due": case(
                    (or_(again, is_there), had.relay_due), else_=func.coalesce(had.relay_due, come.relay_due)
                ),
            },
        )
        return prepare(statement, self._dialect, *_LETTER_VALUES)

    def _supersede(self) -> str:
        """It is not copied to the broker's place any more, if it was to be: what it was about has happened.

        What nobody could read is superseded in its own stream only: another one may read the same source otherwise.
        """
        letters = dead_letters.c
        statement = (
            update(dead_letters)
            .values(state=_text("superseded"), updated_at=bindparam("at"), relay_due=null())
            .where(
                letters.watcher == bindparam("of"),
                letters.source == bindparam("from"),
                letters.identity == bindparam("event"),
                or_(letters.watcher != _text(EVERY_WATCHER), letters.stream == bindparam("in")),
                or_(letters.state == _text("dead"), letters.state == _text("replaying")),
                letters.commit_id != bindparam("ours"),
            )
        )
        return prepare(statement, self._dialect, "at", "of", "from", "event", "in", "ours")

    def _replayed(self) -> str:
        """Not what was rejected again meanwhile: that is `dead`, by the commit that said so."""
        state = dead_letters.c.state
        statement = (
            update(dead_letters)
            .values(state=_text("replayed"), updated_at=bindparam("at"), relay_due=null())
            .where(
                dead_letters.c.id == bindparam("letter"),
                or_(state == _text("replaying"), state == _text("superseded")),
            )
        )
        return prepare(statement, self._dialect, "at", "letter")

    def _put_attempt(self) -> str:
        """A try that failed has ended, and the process has not died of it."""
        order = ("source", "watcher", "identity", "tries", "error", "updated_at")
        new = self._database.insert(attempts).values(**_named(attempts, *order))
        statement = new.on_conflict_do_update(
            index_elements=["source", "watcher", "identity"],
            set_={
                **{name: new.excluded[name] for name in ("tries", "error", "updated_at")},
                **dict.fromkeys(("opened", "deaths"), null()),
            },
        )
        return prepare(statement, self._dialect, *order)

    def _forget(self) -> str:
        statement = delete(attempts).where(
            attempts.c.source == bindparam("from"),
            attempts.c.watcher == bindparam("of"),
            attempts.c.identity == bindparam("event"),
        )
        return prepare(statement, self._dialect, "from", "of", "event")


def is_held() -> ColumnElement[bool]:
    """Whose runs wait although they are pending."""
    return or_(watchers.c.paused, watchers.c.disabled)
