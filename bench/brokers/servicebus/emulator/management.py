"""The operations of `<entity>/$management`: renewing locks, settling by lock token, peeking, scheduling, sessions.

Names and fields are those of https://learn.microsoft.com/azure/service-bus-messaging/service-bus-amqp-request-response
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast
from uuid import UUID

from msgspec import Struct

from bench.brokers.servicebus.emulator.faults import LOCK_LOST, SESSION_LOCK_LOST, Failure
from bench.brokers.servicebus.emulator.message import parse
from bench.brokers.servicebus.emulator.namespace import NotFound, SessionNeeded
from bench.brokers.servicebus.emulator.queue import Entry, LockLost, Outcome, Queue
from bench.brokers.servicebus.emulator.sessions import SessionLockLost
from bench.brokers.servicebus.emulator.settlement import settled
from bench.brokers.servicebus.emulator.values import Array, Malformed, Timestamp, Value

if TYPE_CHECKING:
    from bench.brokers.servicebus.emulator.broker import Broker

Body = dict[Value, Value]
MESSAGE_NOT_FOUND = "com.microsoft:message-not-found"


class Reply(Struct, frozen=True):
    status: int
    description: str
    body: Value = None
    condition: str | None = None


OK = Reply(200, "OK")


def execute(broker: Broker, path: str, operation: str, body: Body) -> Reply:
    act = OPERATIONS.get(operation.removeprefix("com.microsoft:"))
    if act is None:
        return Reply(501, f"{operation} is not supported by this emulator", condition="amqp:not-implemented")
    try:
        return act(broker, path, body)
    except NotFound as error:
        return Reply(404, str(error), condition="amqp:not-found")
    except LockLost:
        return _failed(Failure(LOCK_LOST, applied=False))
    except SessionLockLost:
        return _failed(Failure(SESSION_LOCK_LOST, applied=False))
    except SessionNeeded as error:
        return Reply(400, f"{error} requires sessions", condition="amqp:not-allowed")
    except (KeyError, TypeError, AttributeError, Malformed) as error:
        return Reply(400, f"{operation}: {error!r}", condition="com.microsoft:argument-error")


def _failed(failure: Failure) -> Reply:
    return Reply(failure.status, failure.text, condition=failure.condition)


# Messages -------------------------------------------------------------------------------------------------------------


def _renew_lock(broker: Broker, path: str, body: Body) -> Reply:
    queue, now = broker.namespace.queue(path), broker.now()
    tokens = cast("list[UUID]", _several(body["lock-tokens"]))
    if (failure := broker.faults.failing_renewal(path)) is not None and not failure.applied:
        return _failed(failure)
    if any(token not in queue.locked for token in tokens):
        raise LockLost
    until = [queue.renew(token, now) for token in tokens]
    broker.renewals += len(tokens)
    if failure is not None:
        return _failed(failure)
    return Reply(200, "OK", {"expirations": Array(_time(broker, each) for each in until)})


def _update_disposition(broker: Broker, path: str, body: Body) -> Reply:
    queue = broker.namespace.queue(path)
    outcome = cast("Outcome", str(body["disposition-status"]))
    reason, description = _text(body.get("deadletter-reason")), _text(body.get("deadletter-description"))
    for token in cast("list[UUID]", _several(body["lock-tokens"])):
        failure = settled(queue, token, outcome, reason, description, broker.faults.failing_settlement(path))
        if failure is not None:
            return _failed(failure)
    return OK


def _receive_by_sequence_number(broker: Broker, path: str, body: Body) -> Reply:
    queue, now = broker.namespace.queue(path), broker.now()
    found = [queue.deferred(int(cast("int", number))) for number in _several(body["sequence-numbers"])]
    entries = [entry for entry in found if entry is not None]
    if len(entries) < len(found):
        return Reply(404, "Message not found.", condition=MESSAGE_NOT_FOUND)
    deletes = body.get("receiver-settle-mode") == 0
    messages: list[Value] = []
    for entry in entries:
        token = None if deletes else queue.lock(entry, None, now)
        told: Body = {"message": _shown(broker, entry, broker.told(entry.until) if token else None)}
        if token is not None:
            told["lock-token"] = token
        else:
            queue.remove(entry)
        messages.append(told)
    return Reply(200, "OK", {"messages": messages})


def _peek_message(broker: Broker, path: str, body: Body) -> Reply:
    first, count = int(cast("int", body["from-sequence-number"])), int(cast("int", body["message-count"]))
    found = broker.namespace.queue(path).peeked(first, count, _text(body.get("session-id")))
    if not found:
        return Reply(204, "There are no messages.", condition=MESSAGE_NOT_FOUND)
    return Reply(200, "OK", {"messages": [{"message": _shown(broker, entry, None)} for entry in found]})


def _schedule_message(broker: Broker, path: str, body: Body) -> Reply:
    raws = [cast("Body", each)["message"] for each in _several(body["messages"])]
    messages = [parse(cast("bytes", raw)) for raw in raws]
    numbers = broker.namespace.send(path, messages, broker.now())
    broker.transfers["in"] += len(messages)
    return Reply(200, "OK", {"sequence-numbers": Array(numbers)})


def _cancel_scheduled_message(broker: Broker, path: str, body: Body) -> Reply:
    queue = broker.namespace.queue(path)
    for number in _several(body["sequence-numbers"]):
        if not queue.cancel(int(cast("int", number))):
            return Reply(404, "Message not found.", condition=MESSAGE_NOT_FOUND)
    return OK


def _shown(broker: Broker, entry: Entry, until: float | None) -> bytes:
    state = "active" if entry.state == "locked" else entry.state
    return entry.message.delivered(entry.sequence, broker.told(entry.enqueued), entry.failed, until, state)


# Sessions -------------------------------------------------------------------------------------------------------------


def _renew_session_lock(broker: Broker, path: str, body: Body) -> Reply:
    queue, now = broker.namespace.queue(path), broker.now()
    if (failure := broker.faults.failing_renewal(path)) is not None and not failure.applied:
        return _failed(failure)
    until = queue.sessions.renew(str(body["session-id"]), now, queue.options.lock)
    broker.session_renewals += 1
    return _failed(failure) if failure is not None else Reply(200, "OK", {"expiration": _time(broker, until)})


def _set_session_state(broker: Broker, path: str, body: Body) -> Reply:
    queue, session, state = broker.namespace.queue(path), str(body["session-id"]), body["session-state"]
    _must_be_held(queue, session, broker.now())
    queue.sessions.states[session] = None if state is None else cast("bytes", state)
    return OK


def _get_session_state(broker: Broker, path: str, body: Body) -> Reply:
    queue, session = broker.namespace.queue(path), str(body["session-id"])
    _must_be_held(queue, session, broker.now())
    return Reply(200, "OK", {"session-state": queue.sessions.states.get(session)})


def _must_be_held(queue: Queue, session: str, now: float) -> None:
    if not queue.sessions.is_held(session, now):
        raise SessionLockLost(session)


OPERATIONS: dict[str, Callable[[Broker, str, Body], Reply]] = {
    "renew-lock": _renew_lock,
    "update-disposition": _update_disposition,
    "receive-by-sequence-number": _receive_by_sequence_number,
    "peek-message": _peek_message,
    "schedule-message": _schedule_message,
    "cancel-scheduled-message": _cancel_scheduled_message,
    "renew-session-lock": _renew_session_lock,
    "set-session-state": _set_session_state,
    "get-session-state": _get_session_state,
}


def _several(value: Value) -> list[Value]:
    if isinstance(value, Array | list):
        return list(value)
    raise TypeError(f"an array was expected, not {type(value).__name__}")


def _text(value: Value) -> str | None:
    return None if value is None else str(value)


def _time(broker: Broker, at: float) -> Timestamp:
    return Timestamp(int(broker.told(at) * 1000))
