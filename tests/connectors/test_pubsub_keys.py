"""Ordering keys: what has to be dropped so that their order holds, by example and against a model of the service."""

from __future__ import annotations

from collections import deque

from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from hypothesis.strategies import booleans, integers, sampled_from

from connectors.pubsub.keys import PATIENCE, Given, Keys

LEASE = 60.0
NOW = 1000.0


def deliveries(keys: Keys, *ids: str) -> list[Given]:
    first = keys.numbered(len(ids))
    return [Given(id_, order, f"handle of {id_} {order}") for order, id_ in enumerate(ids, first)]


def arrivals(keys: Keys, *ids: str, now: float = NOW) -> list[int | None]:
    return [keys.arrived("k", each, now) for each in deliveries(keys, *ids)]


# By example -----------------------------------------------------------------------------------------------------------


def test_a_plain_key_keeps_nothing() -> None:
    keys = Keys(LEASE)
    assert arrivals(keys, "a", "b") == [None, None]
    assert keys.is_quiet
    assert keys.is_plain("k")


def test_after_a_failure_everything_is_dropped_until_that_message_comes_again() -> None:
    keys = Keys(LEASE)
    first, *_ = deliveries(keys, "a", "b", "c")
    assert keys.failed("k", first, 30, NOW)
    assert arrivals(keys, "d", "b") == [31, 31]
    assert arrivals(keys, "a", "b", "c", now=NOW + 30) == [None, None, None]


def test_what_lies_behind_a_failure_is_put_off_until_after_it() -> None:
    keys = Keys(LEASE)
    first, *behind = deliveries(keys, "a", "b", "c")
    keys.failed("k", first, 30, NOW)
    assert keys.released("k", behind, NOW + 5) == 26


def test_what_is_given_back_without_a_failure_comes_again_at_once_and_the_oldest_is_awaited() -> None:
    keys = Keys(LEASE)
    given = deliveries(keys, "a", "b", "c")
    assert keys.released("k", given[1:], NOW) == 0
    assert arrivals(keys, "d") == [0]
    assert arrivals(keys, "b", "c", "d") == [None, None, None]


def test_a_message_that_comes_again_and_again_in_place_of_the_awaited_one_is_believed() -> None:
    """The service sends in order, so the awaited one is gone; and each delivery may count (B43)."""
    keys = Keys(LEASE)
    keys.released("k", deliveries(keys, "a"), NOW)
    assert [arrivals(keys, "b")[0] for _ in range(4)] == [0, 5, None, None]


def test_a_message_that_never_comes_again_is_not_awaited_for_ever() -> None:
    keys = Keys(LEASE)
    keys.failed("k", *deliveries(keys, "a"), 30, NOW)
    almost = NOW + 30 + LEASE + PATIENCE - 1
    assert arrivals(keys, "b", now=almost) == [0]
    assert arrivals(keys, "b", "c", now=almost + 1) == [None, None]


def test_what_is_said_of_deliveries_before_a_failure_is_void() -> None:
    keys = Keys(LEASE)
    before = deliveries(keys, "z")[0]
    first, second = deliveries(keys, "a", "b")
    keys.failed("k", first, 30, NOW)
    again = deliveries(keys, "a")[0]
    assert keys.arrived("k", again, NOW + 30) is None
    assert [keys.is_void("k", each.order) for each in (before, first, second, again)] == [False, True, True, False]
    assert not keys.failed("k", second, 30, NOW + 31)


def test_the_same_failure_may_be_told_twice() -> None:
    keys = Keys(LEASE)
    first = deliveries(keys, "a")[0]
    assert keys.failed("k", first, 30, NOW)
    assert keys.failed("k", first, 40, NOW + 1)


def test_giving_back_the_end_of_a_lane_leaves_what_is_before_it_valid() -> None:
    keys = Keys(LEASE)
    given = deliveries(keys, "a", "b", "c")
    keys.released("k", given[2:], NOW)
    assert [keys.is_void("k", each.order) for each in given] == [False, False, True]


def test_a_paused_key_puts_off_what_comes_and_calls_it_back_when_it_is_resumed() -> None:
    keys = Keys(LEASE)
    keys.pause(["k"], NOW)
    assert arrivals(keys, "a", "b") == [10, 10]
    assert keys.resume(["k"], NOW + 3) == ["handle of a 1", "handle of b 2"]
    assert arrivals(keys, "c", now=NOW + 3) == [0]
    assert arrivals(keys, "a", "b", "c", now=NOW + 3) == [None, None, None]


def test_what_comes_again_and_again_while_its_key_is_paused_is_put_off_for_longer_each_time() -> None:
    """Each delivery counts where the service has a dead-letter policy."""
    keys = Keys(LEASE)
    keys.pause(["k"], NOW)
    assert [arrivals(keys, "a")[0] for _ in range(8)] == [10, 20, 40, 80, 160, 320, 600, 600]


def test_resuming_a_key_that_nothing_came_of_forgets_it() -> None:
    keys = Keys(LEASE)
    keys.pause(["k", "other"], NOW)
    assert keys.resume(["k", "other", "unknown"], NOW) == []
    assert keys.is_quiet


def test_messages_without_a_key_are_never_awaited() -> None:
    keys = Keys(LEASE)
    keys.pause([""], NOW)
    one, two = deliveries(keys, "a", "b")
    assert keys.arrived("", one, NOW) == 10
    assert keys.resume([""], NOW) == [one.handle]
    assert keys.arrived("", two, NOW) is None


def test_what_rests_is_told_in_order_for_the_end() -> None:
    keys = Keys(LEASE)
    first, *behind = deliveries(keys, "a", "b", "c")
    keys.failed("k", first, 30, NOW)
    keys.released("k", behind, NOW)
    assert keys.resting(NOW) == [first.handle, behind[0].handle, behind[1].handle]
    assert keys.resting(NOW + 40) == []


def test_keys_are_forgotten_when_nothing_is_awaited_for_long() -> None:
    keys = Keys(LEASE)
    keys.failed("k", *deliveries(keys, "a"), 30, NOW)
    keys.tidy(NOW + 300)
    assert not keys.is_quiet
    keys.tidy(NOW + 1000)
    assert keys.is_quiet


# Against a model of the service ---------------------------------------------------------------------------------------


class Service:
    """One key, as Pub/Sub documents it: what is given back is sent again, and with it all that lies behind it.

    It does not wait for acks, and what was sent stays on its way. Messages are numbers; the last to be sent is `last`.
    """

    def __init__(self) -> None:
        self.last = 0
        self.acked: set[int] = set()
        self.out: dict[str, tuple[int, float]] = {}  # handle: message, deadline
        self.on_its_way: deque[tuple[int, str]] = deque()
        self._handles = 0

    def send(self, now: float) -> bool:
        lent = {message for message, _ in self.out.values()}
        for message in range(self.last):
            if message not in lent and message not in self.acked:
                self._handles += 1
                self.out[f"h{self._handles}"] = message, now + LEASE
                self.on_its_way.append((message, f"h{self._handles}"))
                return True
        return False

    def ack(self, handle: str) -> None:
        if handle in self.out:
            self.acked.add(self.out.pop(handle)[0])

    def put_off(self, handle: str, seconds: int, now: float) -> None:
        if handle not in self.out:
            return
        message, _ = self.out[handle]
        if seconds:
            self.out[handle] = message, now + seconds
        else:
            self.out = {h: (m, until) for h, (m, until) in self.out.items() if m < message}

    def expire(self, now: float) -> None:
        for handle, (_, until) in sorted(self.out.items(), key=lambda each: each[1][0]):
            if until <= now:
                self.put_off(handle, 0, now)


class KeyMachine(RuleBasedStateMachine):
    """A lane of the runtime on one key. Its leases are renewed; requests arrive late and in order."""

    @initialize(messages=integers(3, 12))
    def begin(self, messages: int) -> None:
        self.now = NOW
        self.service = Service()
        self.service.last = messages
        self.keys = Keys(LEASE)
        self.held: deque[tuple[int, Given]] = deque()
        self.requests: deque[tuple[str, int | None]] = deque()
        self.expected = 0
        self.is_paused = False
        self.on_its_way = 0.0

    def hand_on(self) -> bool:
        """The next delivery reaches us."""
        if not self.service.on_its_way:
            return False
        message, handle = self.service.on_its_way.popleft()
        given = Given(str(message), self.keys.numbered(1), handle)
        rest = self.keys.arrived("k", given, self.now)
        if rest is not None:
            self.requests.append((handle, rest))
            return True
        assert not self.is_paused
        for n, (mine, first) in enumerate(self.held):
            if mine == message:  # a second delivery joins the first
                self.held[n] = mine, first._replace(handle=handle)
                return True
        if message < self.expected:  # its ack came too late: a repeat, which its run key tells, and which is acked
            self.requests.append((handle, None))
            return True
        assert message == self.expected, f"{message} came, and {self.expected} was next"
        self.held.append((message, given))
        self.expected += 1
        return True

    def reach(self) -> bool:
        """The next request of ours reaches the service."""
        if not self.requests:
            return False
        handle, seconds = self.requests.popleft()
        if seconds is None:
            self.service.ack(handle)
        else:
            self.service.put_off(handle, seconds, self.now)
        return True

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for message, given in self.held:  # renewed in time
            if given.handle in self.service.out:
                self.service.out[given.handle] = message, self.now + LEASE
        self.service.expire(self.now)

    @rule()
    def sends(self) -> None:
        self.service.send(self.now)

    @rule()
    def hands_on(self) -> None:
        self.hand_on()

    @rule()
    def reaches(self) -> None:
        self.reach()

    @rule(seconds=sampled_from([0.5, 1.0, 5.0, 20.0]))
    def time_passes(self, seconds: float) -> None:
        """Nothing is on its way for longer than a few seconds."""
        self.on_its_way += seconds
        if self.on_its_way > 5:
            self.on_its_way = 0.0
            while self.reach() or self.hand_on():
                pass
        self.pass_time(seconds)

    @precondition(lambda self: self.held)
    @rule()
    def head_is_acked(self) -> None:
        _, given = self.held.popleft()
        assert not self.keys.is_void("k", given.order)
        self.requests.append((given.handle, None))

    @precondition(lambda self: self.held)
    @rule(seconds=sampled_from([1, 10, 30]))
    def head_fails(self, seconds: int) -> None:
        (message, given), *behind = self.held
        self.held.clear()
        assert self.keys.failed("k", given, seconds, self.now)
        self.requests.append((given.handle, seconds))
        if behind:
            rest = self.keys.released("k", [each for _, each in behind], self.now)
            self.requests += [(each.handle, rest) for _, each in behind]
        self.expected = message

    @rule(paused=booleans())
    def is_paused_or_resumed(self, paused: bool) -> None:
        if paused:
            self.keys.pause(["k"], self.now)
        else:
            self.requests += [(handle, 0) for handle in self.keys.resume(["k"], self.now)]
        self.is_paused = paused

    def teardown(self) -> None:
        """Left alone, all of it is settled in the end, in order, and without waiting for a deadline of ours."""
        if not hasattr(self, "keys"):
            return
        self.is_paused_or_resumed(paused=False)
        ends_at = self.now + 2 * LEASE
        while len(self.service.acked) < self.service.last:
            assert self.now < ends_at, f"{self.expected} never came"
            while self.held or self.reach() or self.hand_on() or self.service.send(self.now):
                if self.held:
                    self.head_is_acked()
            self.pass_time(1.0)


KeyMachine.TestCase.settings = settings(max_examples=300, stateful_step_count=60, deadline=None)
TestKeysAgainstTheService = KeyMachine.TestCase
