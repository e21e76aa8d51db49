"""What the emulator tells about itself. Both ends of its control port use these."""

from __future__ import annotations

from msgspec import Struct


class Counts(Struct, frozen=True, kw_only=True):
    """Of one queue or subscription. `settled` by outcome (completed, abandoned, defered, suspended, released), and
    `renewals` by sequence number, since it was made.
    """

    active: int
    locked: int
    deferred: int
    scheduled: int
    dead_letters: int
    settled: dict[str, int]
    renewals: dict[int, int]

    @property
    def messages(self) -> int:
        """All but the dead letters."""
        return self.active + self.locked + self.deferred + self.scheduled


class Stats(Struct, frozen=True, kw_only=True):
    """Of the whole emulator, since it started or since `Control.forget`. `connections` and `links` are those open now.

    `links_opened` by role (`senders`, `receivers`), `transfers` by direction (`in`, `out`: messages), `dispositions` by
    what the client sent (accepted, rejected, released, modified) and `unsettled_dispositions` those that waited for an
    answer; `management` by operation, `tokens` by whether they were `accepted` or `refused`.
    """

    connections: int
    links: int
    connections_opened: int
    links_opened: dict[str, int]
    transfers: dict[str, int]
    dispositions: dict[str, int]
    unsettled_dispositions: int
    management: dict[str, int]
    renewals: int
    session_renewals: int
    tokens: dict[str, int]
