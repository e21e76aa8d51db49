"""From records to rows: where a message gets the name that makes it one run.

`run_key = <watcher id>/<source id>/<identity>/<n>`: it never depends on what a person may rename or a body may repeat.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from secrets import token_hex
from typing import Any, assert_never

import msgspec
from msgspec import Struct

from bridge.core.model import Attempt, Forget, Opened, Record, Reject, Run, Tombstone
from bridge.ports import AttemptRow, DeadLetterRow, ForgetRow, Meta, OpenedRow, Replay, Row, RunRow

_encode = msgspec.json.Encoder().encode


class Replayed(Struct, frozen=True):
    """The payload of a replay: it keeps the identity of the message that the dead letter holds."""

    replay: Replay

    @property
    def meta(self) -> Meta:
        headers = tuple(
            (n, None if v is None else base64.b64decode(v))
            for n, v in msgspec.json.decode(self.replay.headers or b"[]")
        )
        replay = self.replay
        return Meta(replay.position, replay.timestamp, replay.key, headers, tombstone=replay.tombstone)


class Source(Struct, frozen=True):
    """Where the messages of a stream come from. `id` is what the broker calls it, with the stream's generation.

    Without `identity` a redelivery can't be told from a new message: run keys are random, each delivery is a run of
    its own (at least once), and failed tries are not kept over a restart. `relays`: its dead letters are to be copied
    to the broker's own place.
    """

    stream: str
    id: str
    identity: Callable[[Any], str] | None
    describe: Callable[[Any], Meta]
    relays: bool = False

    def identity_of(self, payload: Any) -> str:
        if type(payload) is Replayed:
            return payload.replay.identity
        return self.identity(payload) if self.identity is not None else f"random-{token_hex(16)}"

    def meta_of(self, payload: Any) -> Meta:
        if isinstance(payload, Replayed):
            return payload.meta
        return self.describe(payload) if self.identity is not None else Meta(position=repr(payload)[:200])

    def seen_by_filters(self, payload: Any) -> Meta:
        """The same; where the broker has no name for a message, its identity is one."""
        meta = self.meta_of(payload)
        if meta.message_id or self.identity is None:
            return meta
        return msgspec.structs.replace(meta, message_id=self.identity_of(payload))

    def rows(self, records: Sequence[Record], now: float) -> list[Row]:
        """A row for each record; `now` in seconds since 1970."""
        tell, source = self.identity, self.id
        if tell is None:
            return [self._row(r, now) for r in records if isinstance(r, Run | Reject)]
        rows: list[Row] = []
        for record in records:
            if type(record) is Run and type(record.payload) is not Replayed:  # almost always, so without a further call
                identity = tell(record.payload)
                key = f"{record.plan.watcher}/{source}/{identity}/{record.n}"
                rows.append(RunRow(key, identity, self, record, now))
            else:
                rows.append(self._row(record, now))
        return rows

    def _row(self, record: Record, now: float) -> Row:
        identity = self.identity_of(record.payload)
        if isinstance(record, Run):
            return RunRow(f"{record.plan.watcher}/{self.id}/{identity}/{record.n}", identity, self, record, now)
        if isinstance(record, Reject):
            return self._dead_letter(record, identity, now)
        if isinstance(record, Attempt):
            return AttemptRow(record.watcher, self.id, identity, record.tries, record.error)
        if isinstance(record, Opened):
            return OpenedRow(record.watcher, self.id, identity, record.deaths)
        if isinstance(record, Forget):
            return ForgetRow(record.watcher, self.id, identity)
        assert_never(record)

    def position_of(self, payload: Any) -> str:
        """Of a run request. What a producer can't tell is no reason to keep a run from being stored."""
        try:
            return self.meta_of(payload).position
        except Exception:
            return repr(payload)[:200]

    def _dead_letter(self, record: Reject, identity: str, now: float) -> DeadLetterRow:
        meta = self.meta_of(record.payload)
        return DeadLetterRow(
            watcher=record.watcher,
            stream=self.stream,
            source=self.id,
            identity=identity,
            position=meta.position,
            body=record.body,
            key=meta.key,
            headers=_encode([[n, v if v is None else base64.b64encode(v).decode()] for n, v in meta.headers]),
            timestamp=meta.timestamp,
            reason=record.reason,
            error=record.error,
            attempts=record.attempts,
            received_at=now,
            tombstone=isinstance(record.body, Tombstone),
            relays=self.relays,
        )
