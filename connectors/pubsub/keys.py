"""What is known of ordering keys whose messages are not simply handed on. Pure.

The service sends the messages of a key in order, and when one is given back, sends that one again and then all behind
it. What it had sent before it heard of that is on its way still, and out of order: it has to be dropped. So:

    the oldest message of a key that was given back is *awaited*: until it comes again, whatever comes of the key is
    dropped, which means given back as well, to come behind it

That has an end, since the service may have moved the message to its own dead-letter topic, or to another subscriber:
when others come again and again in its place, or a lease and `PATIENCE` after it was due. A key that is *paused* drops
what comes and keeps the handles, so that all of it can be called back at once when the key is resumed; the first is
awaited then.

Deliveries are numbered as they come. Those of a key between the awaited one and the last are *void* once it was given
back: whatever is still said of them changes nothing.

The key "" is that of messages without one. They have no order, so none of them is ever awaited.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil
from typing import Final, NamedTuple

from msgspec import Struct

PATIENCE: Final = 30.0
PAUSED_REST: Final = 10.0
"""Seconds for which the first message of a paused key is put off; doubled each time that it comes again."""
_REST_MOST: Final = 600.0  # the longest deadline that Pub/Sub takes
_PASSED_OVER_REST: Final = 5.0
_BELIEVED: Final = 2
"""How often a message is dropped that comes in place of the awaited one when that is due. Then the other is gone, since
the service sends in order; and each delivery counts where there is a dead-letter policy."""
_UNDER_WAY: Final = 6.0
"""Seconds until the service has surely heard that a message is put off: by so much it comes back later."""
_BEHIND: Final = 2.0
"""Seconds, rounding included, that what lies behind a message which failed comes back after it."""
_KEPT: Final = 600.0
_DROPS_MOST: Final = 5000


class Given(NamedTuple):
    """A delivery: the message's id, its number, and the ack id."""

    id: str
    order: int
    handle: str


class Lane(Struct, eq=False):
    """One key. Times are monotonic. `due`: when the awaited message comes back by itself, at `sure` the latest;
    `until`: no longer than that.

    `resting` are handles that were put off, and until when; `drops` how often each message was dropped.
    """

    awaited: str = ""
    awaited_order: int = 0
    due: float = 0.0
    sure: float = 0.0
    until: float = 0.0
    paused: bool = False
    void_from: int = 1
    void_to: int = 0
    touched: float = 0.0
    resting: dict[str, float] = {}
    drops: dict[str, int] = {}


class Keys:
    """All keys that are not plain; most are, and then nothing is kept of them. `lease` in seconds."""

    def __init__(self, lease: float) -> None:
        self._grace = lease + PATIENCE
        self._lanes: dict[str, Lane] = {}
        self._last = 0

    @property
    def is_quiet(self) -> bool:
        """Nothing is to be dropped, and nothing is void."""
        return not self._lanes

    def is_plain(self, key: str) -> bool:
        return key not in self._lanes

    def numbered(self, count: int) -> int:
        """The number of the first of so many deliveries."""
        first = self._last + 1
        self._last += count
        return first

    # What comes ------------------------------------------------------------------------------------------------------

    def arrived(self, key: str, given: Given, now: float) -> int | None:
        """None: it is to be handed on. Else it is dropped: put off by so many seconds, or given back at once (0)."""
        lane = self._lanes.get(key)
        if lane is None:
            return None
        if lane.paused:
            if key and not lane.awaited:
                lane.awaited, lane.awaited_order = given.id, given.order
            times = _dropped(lane, given.id)
            return _rest(lane, given.handle, min(_REST_MOST, PAUSED_REST * 2.0 ** min(times, 10)), now)
        if not lane.awaited:
            return None
        if given.id == lane.awaited or now >= lane.until:
            _await_nothing(lane, now)
            return None
        if lane.due > now:
            return _rest(lane, given.handle, lane.due - now + _BEHIND - 1, now)
        if lane.sure > now:
            return _rest(lane, given.handle, lane.sure - now, now)
        times = _dropped(lane, given.id)
        if times >= _BELIEVED:
            _await_nothing(lane, now)
            return None
        return 0 if times == 0 else _rest(lane, given.handle, _PASSED_OVER_REST, now)

    # What is given back ----------------------------------------------------------------------------------------------

    def failed(self, key: str, given: Given, seconds: int, now: float) -> bool:
        """The head of a key is put off by so many seconds; False: that is void, and nothing is to be done.

        Called again for the same delivery it says the same.
        """
        lane = self._lane(key, now)
        if lane.awaited != given.id and self.is_void(key, given.order):
            return False
        _await(lane, given, now + seconds, self._grace)
        lane.sure = lane.due + _UNDER_WAY
        lane.void_from, lane.void_to = given.order, self._last
        _rest(lane, given.handle, seconds, now)
        return True

    def released(self, key: str, given: Sequence[Given], now: float) -> int:
        """For how many seconds these are to be put off. 0: they are given back at once, and come again so."""
        lane = self._lane(key, now)
        if lane.awaited and lane.due > now:  # behind the one that failed, and not before it
            seconds = lane.due - now + _BEHIND - 1
            return max(_rest(lane, each.handle, seconds, now) for each in given)
        first = min(given, key=lambda each: each.order)
        _await(lane, first, now, self._grace)
        lane.void_from, lane.void_to = first.order, self._last
        return 0

    def is_void(self, key: str, order: int) -> bool:
        lane = self._lanes.get(key)
        return lane is not None and lane.void_from <= order <= lane.void_to

    # Pausing ---------------------------------------------------------------------------------------------------------

    def pause(self, keys: Iterable[str], now: float) -> None:
        for key in keys:
            self._lane(key, now).paused = True

    def resume(self, keys: Iterable[str], now: float) -> list[str]:
        """The handles of what was dropped meanwhile, in order: to be given back at once."""
        called: list[str] = []
        for key in keys:
            lane = self._lanes.get(key)
            if lane is None or not lane.paused:
                continue
            lane.paused = False
            lane.until = max(lane.due, now) + self._grace
            late = lane.due + _BEHIND if lane.due > now else now  # the rest comes back with the one that failed
            called += [handle for handle, until in lane.resting.items() if until > late]
            lane.resting = {handle: until for handle, until in lane.resting.items() if now < until <= late}
            lane.drops = {}
            if not lane.awaited and lane.void_to < lane.void_from:
                del self._lanes[key]
        return called

    # The end ---------------------------------------------------------------------------------------------------------

    def resting(self, now: float) -> list[str]:
        """Everything that was put off and is not back yet, key by key and in order."""
        return [handle for lane in self._lanes.values() for handle, until in lane.resting.items() if until > now]

    def tidy(self, now: float) -> None:
        """Forgets keys of which nothing is awaited any more, and nothing will be said either."""
        for key, lane in list(self._lanes.items()):
            is_over = not lane.awaited or now >= lane.until
            if not lane.paused and is_over and now - lane.touched > _KEPT:
                del self._lanes[key]

    def _lane(self, key: str, now: float) -> Lane:
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane()
        lane.touched = now
        return lane


def _await(lane: Lane, given: Given, due: float, grace: float) -> None:
    """The older one, where one is awaited already. What is due later puts all of it off."""
    if not lane.awaited or given.order <= lane.awaited_order:
        lane.awaited, lane.awaited_order = given.id, given.order
    lane.due = lane.sure = due
    lane.until, lane.drops = due + grace, {}


def _await_nothing(lane: Lane, now: float) -> None:
    lane.awaited, lane.due, lane.sure, lane.touched = "", 0.0, 0.0, now
    lane.resting, lane.drops = {}, {}


def _rest(lane: Lane, handle: str, seconds: float, now: float) -> int:
    whole = min(int(_REST_MOST), max(1, ceil(seconds)))
    if len(lane.resting) >= _DROPS_MOST:
        lane.resting = {each: until for each, until in lane.resting.items() if until > now}
    if len(lane.resting) < _DROPS_MOST:
        lane.resting[handle] = now + whole
    return whole


def _dropped(lane: Lane, message: str) -> int:
    """How often before."""
    times = lane.drops.get(message, 0)
    if times or len(lane.drops) < _DROPS_MOST:
        lane.drops[message] = times + 1
    return times
