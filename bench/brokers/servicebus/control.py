"""The remote control of our Service Bus emulator: what tests break, and what they ask.

Every method is synchronous and returns when it has happened, within a millisecond: it may be called from a test's loop.
Everywhere `entity` is a path: `orders`, `orders/$DeadLetterQueue`, `topic`, `topic/Subscriptions/name`; None means all.
Faults stay until `mend` (the fixture `servicebus_control` calls it after each test), unless they say how often.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

import msgspec

from bench.brokers.servicebus.figures import Counts, Stats

T = TypeVar("T")

PATIENCE = 10.0
LOCK_LOST = "com.microsoft:message-lock-lost"
SESSION_LOCK_LOST = "com.microsoft:session-lock-lost"
SERVER_BUSY = "com.microsoft:server-busy"
INTERNAL_ERROR = "amqp:internal-error"

Silent = Literal["all", "dispositions", "management", "tokens"]


class Refused(Exception):
    """The emulator could not do it; the text is its own."""


class _Answer(msgspec.Struct):
    done: msgspec.Raw = msgspec.Raw(b"null")
    refused: str | None = None


class Control:
    def __init__(self, port: int) -> None:
        self._lock = threading.Lock()
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self._file = self._socket.makefile("rb")

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    # Entities ---------------------------------------------------------------------------------------------------------

    def make_queue(
        self,
        name: str,
        *,
        sessions: bool = False,
        lock: float = 60.0,
        max_delivery: int = 10,
        life: float | None = None,
        expired_are_dead_lettered: bool = False,
    ) -> None:
        """One that is there is replaced by an empty one. `lock` and `life` (time to live) in seconds."""
        options = _options(sessions, lock, max_delivery, life, expired_are_dead_lettered)
        self._do("make_queue", name=name, **options)

    def make_topic(self, name: str) -> None:
        self._do("make_topic", name=name)

    def make_subscription(
        self,
        topic: str,
        name: str,
        *,
        sessions: bool = False,
        lock: float = 60.0,
        max_delivery: int = 10,
        life: float | None = None,
        expired_are_dead_lettered: bool = False,
    ) -> str:
        """Its path, for the other methods. It gets all messages that are sent from now on: there are no rules."""
        options = _options(sessions, lock, max_delivery, life, expired_are_dead_lettered)
        return self._ask(str, "make_subscription", topic=topic, name=name, **options)

    def delete(self, entity: str) -> None:
        """With everything in it. Its links end with amqp:not-found, and so does every attempt to attach."""
        self._do("delete", entity=entity)

    def counts(self, entity: str) -> Counts:
        return self._ask(Counts, "counts", entity=entity)

    def send(
        self,
        entity: str,
        bodies: Sequence[bytes],
        *,
        session: str | None = None,
        properties: Mapping[str, str | int | float | bool] | None = None,
    ) -> list[int]:
        """Puts messages into a queue or topic without a client, which takes a second less. Their sequence numbers."""
        given = {"entity": entity, "bodies": list(bodies), "session": session, "properties": dict(properties or {})}
        return self._ask(list[int], "send", **given)

    # Figures ----------------------------------------------------------------------------------------------------------

    def stats(self) -> Stats:
        return self._ask(Stats, "stats")

    def forget(self) -> None:
        """`stats` counts from zero again; what is open now stays counted."""
        self._do("forget")

    # Locks ------------------------------------------------------------------------------------------------------------

    def expire_locks(self, entity: str, sequences: Sequence[int] | None = None) -> int:
        """Message locks run out now: all, or of these sequence numbers. They count as failed deliveries, and the
        messages are ready again (or dead-lettered). How many.
        """
        return self._ask(int, "expire_locks", entity=entity, sequences=sequences)

    def expire_sessions(self, entity: str, session: str | None = None) -> int:
        """The lock of this session, or of all that are held, runs out now: its link ends with session-lock-lost. How
        many.
        """
        return self._ask(int, "expire_sessions", entity=entity, session=session)

    # Answers ----------------------------------------------------------------------------------------------------------

    def fail_settlements(
        self,
        failing: int,
        of: int = 1,
        *,
        condition: str = LOCK_LOST,
        rounds: int | None = 1,
        applied: bool = False,
        entity: str | None = None,
    ) -> None:
        """Of each `of` settlements (at least `failing`) the first `failing` fail, `rounds` times over; None: until
        `mend`. With LOCK_LOST the lock is really lost, and the message comes again; with SERVER_BUSY, INTERNAL_ERROR or
        any other nothing happens to the message. `applied`: what was asked for does happen, and only the answer lies.
        By link and by $management alike. 0 lifts it.
        """
        self._plan("fail_settlements", failing, of, condition, rounds, applied, entity)

    def fail_renewals(
        self,
        failing: int,
        of: int = 1,
        *,
        condition: str = SERVER_BUSY,
        rounds: int | None = 1,
        applied: bool = False,
        entity: str | None = None,
    ) -> None:
        """As `fail_settlements`, for renewals of message locks and session locks; no lock is lost by it."""
        self._plan("fail_renewals", failing, of, condition, rounds, applied, entity)

    def silence(self, what: Silent = "all", entity: str | None = None, *, applied: bool = True) -> None:
        """`all`: connections stay open and are accepted, and nothing is answered, not even by heartbeats; with an
        entity, only those that have a link to it. `dispositions`, `management`, `tokens`: only these get no answer;
        `applied` says whether what they ask for happens.
        """
        self._do("silence", what=what, entity=entity, applied=applied)

    def speak(self) -> None:
        """Ends every silence; what was not read is read now."""
        self._do("speak")

    def slow(self, seconds: float) -> None:
        """Confirmations of settlements and sends, and the answers of $management and $cbs, come so much later."""
        self._do("slow", seconds=seconds)

    def skew(self, seconds: float) -> None:
        """The service's clock is ahead by so much: enqueued times, locked-until times and expirations are shifted."""
        self._do("skew", seconds=seconds)

    # Connections and links --------------------------------------------------------------------------------------------

    def reset_connections(self, entity: str | None = None) -> int:
        """With a TCP reset. How many. New ones are served."""
        return self._ask(int, "reset_connections", entity=entity)

    def close_connections(
        self,
        entity: str | None = None,
        *,
        condition: str = "amqp:connection:forced",
        description: str = "The connection was inactive for more than the allowed 300000 milliseconds and is closed.",
    ) -> int:
        """With an AMQP close. How many."""
        given = {"condition": condition, "description": description}
        return self._ask(int, "close_connections", entity=entity, **given)

    def detach_idle(self, entity: str | None = None) -> int:
        """All links end as after 10 minutes without traffic, with amqp:link:detach-forced. How many."""
        return self._ask(int, "detach_idle", entity=entity)

    def idle_after(self, seconds: float | None) -> None:
        """From now on links end so after so many seconds without traffic. None: never, as at the start."""
        self._do("idle_after", seconds=seconds)

    def detach(self, entity: str | None, condition: str, description: str = "") -> int:
        """All links end with this condition. How many."""
        return self._ask(int, "detach", entity=entity, condition=condition, description=description)

    def end_links(self, entity: str | None = None) -> int:
        """All links end without an error. How many."""
        return self._ask(int, "detach", entity=entity, condition=None)

    # Tokens -----------------------------------------------------------------------------------------------------------

    def refuse_tokens(
        self, status: int = 401, description: str = "InvalidSignature: The token has an invalid signature."
    ) -> None:
        """$cbs says so to every token until `accept_tokens`. Connections that are open stay open."""
        self._do("refuse_tokens", status=status, description=description)

    def accept_tokens(self) -> None:
        self._do("accept_tokens")

    def expire_tokens(self, entity: str | None = None) -> int:
        """Connections are closed with amqp:unauthorized-access, as they are when the `expiration` that their client
        told has passed. How many.
        """
        return self._ask(int, "expire_tokens", entity=entity)

    # Messages ---------------------------------------------------------------------------------------------------------

    def duplicate(self, entity: str, count: int = 1) -> None:
        """Each of the next `count` deliveries loses its lock at once, untold, so the message comes a second time."""
        self._do("duplicate", entity=entity, count=count)

    def reorder(self, entity: str, count: int) -> None:
        """The next `count` messages that leave do so in the reverse order."""
        self._do("reorder", entity=entity, count=count)

    def mend(self) -> None:
        """Lifts all of these; entities, messages, locks and figures stay as they are."""
        self._do("mend")

    # ------------------------------------------------------------------------------------------------------------------

    def _plan(
        self, do: str, failing: int, of: int, condition: str, rounds: int | None, applied: bool, entity: str | None
    ) -> None:
        told = {"failing": failing, "of": of, "condition": condition, "rounds": rounds}
        self._do(do, **told, applied=applied, entity=entity)

    def _do(self, do: str, **given: Any) -> None:
        self._ask(msgspec.Raw, do, **given)

    def _ask(self, type: type[T], do: str, **given: Any) -> T:
        with self._lock:
            self._socket.sendall(msgspec.json.encode({"do": do, "with": given}) + b"\n")
            line = self._file.readline()
        if not line:
            raise ConnectionError("the emulator has ended")
        answer = msgspec.json.decode(line, type=_Answer)
        if answer.refused is not None:
            raise Refused(answer.refused)
        return msgspec.json.decode(answer.done, type=type)


def _options(
    sessions: bool, lock: float, max_delivery: int, life: float | None, expired_are_dead_lettered: bool
) -> dict[str, Any]:
    told = {"sessions": sessions, "lock": lock, "max_delivery": max_delivery}
    lives = {} if life is None else {"life": life, "expired_are_dead_lettered": expired_are_dead_lettered}
    return {**told, **lives}
