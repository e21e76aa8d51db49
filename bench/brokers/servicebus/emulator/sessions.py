"""Which sessions are held, by whom and until when; and what was stored for each. Pure state, as queue.py."""

from __future__ import annotations

from collections.abc import Hashable


class Hold:
    """One session's lock."""

    __slots__ = ("holder", "until")

    def __init__(self, holder: Hashable, until: float) -> None:
        self.holder = holder
        self.until = until


class SessionLockLost(Exception):
    """Nobody holds this session, or its time is over."""


class Sessions:
    def __init__(self) -> None:
        self.held: dict[str, Hold] = {}
        self.states: dict[str, bytes | None] = {}

    def is_held(self, session: str, now: float) -> bool:
        held = self.held.get(session)
        return held is not None and held.until > now

    def accept(self, session: str, holder: Hashable, until: float) -> None:
        self.held[session] = Hold(holder, until)

    def renew(self, session: str, now: float, lock: float) -> float:
        """Until when it is held now. Raises SessionLockLost."""
        if not self.is_held(session, now):
            raise SessionLockLost(session)
        held = self.held[session]
        held.until = now + lock
        return held.until

    def of(self, holder: Hashable) -> list[str]:
        return [session for session, held in self.held.items() if held.holder is holder]

    def over(self, now: float) -> list[tuple[str, Hold]]:
        """Those whose time is up."""
        return [(session, held) for session, held in self.held.items() if held.until <= now]
