"""What a client says of a delivery, and what it is answered.

With the receiver settle mode `second` it sends its outcome unsettled and waits: the answer is a disposition that is
settled and has the same outcome. A lock that is lost is answered with `rejected` and its condition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from proton import Condition, Delivery

from bench.brokers.servicebus.emulator.faults import LOCK_LOST, Failure
from bench.brokers.servicebus.emulator.queue import LockLost, Outcome, Queue

if TYPE_CHECKING:
    from bench.brokers.servicebus.emulator.broker import Broker
    from bench.brokers.servicebus.emulator.connection import Client

NAMES: dict[int, str] = {
    Delivery.ACCEPTED: "accepted",
    Delivery.REJECTED: "rejected",
    Delivery.RELEASED: "released",
    Delivery.MODIFIED: "modified",
}
GONE = Failure(LOCK_LOST, applied=False)


def settle(broker: Broker, client: Client, queue: Queue, delivery: Delivery) -> None:
    state = delivery.remote_state
    if state not in NAMES:
        if delivery.settled:
            delivery.settle()
        return
    broker.dispositions[NAMES[state]] += 1
    waits = not delivery.settled
    broker.unsettled_dispositions += waits
    is_silent = waits and broker.faults.is_silent("dispositions", queue.path)
    failure = _apply(broker, queue, delivery) if not is_silent or broker.faults.is_applied_in_silence else None
    if not waits:
        delivery.settle()
    elif not is_silent:
        broker.answer(client, lambda: _answer(delivery, failure))


def _apply(broker: Broker, queue: Queue, delivery: Delivery) -> Failure | None:
    """Why not, if not."""
    failure = None if delivery.settled else broker.faults.failing_settlement(queue.path)
    outcome, reason, description = _outcome(delivery)
    return settled(queue, delivery.token, outcome, reason, description, failure)


def settled(
    queue: Queue, token: UUID, outcome: Outcome, reason: str | None, description: str | None, failure: Failure | None
) -> Failure | None:
    """Why not, if not. `failure` is one that tests have asked for: with a lock that is said to be lost, it is lost."""
    try:
        if failure is None or failure.applied:
            queue.settle(token, outcome, reason, description)
        elif failure.condition == LOCK_LOST:
            queue.lose(token)
    except LockLost:
        return GONE
    return failure


def _outcome(delivery: Delivery) -> tuple[Outcome, str | None, str | None]:
    """With the reason and the description of a dead letter."""
    state = delivery.remote_state
    if state == Delivery.ACCEPTED:
        return "completed", None, None
    if state == Delivery.RELEASED:
        return "released", None, None
    if state == Delivery.MODIFIED:
        return "defered" if delivery.remote.undeliverable else "abandoned", None, None
    info = delivery.remote.condition.info if delivery.remote.condition is not None else None
    told = {str(key): str(value) for key, value in info.items() if value is not None} if isinstance(info, dict) else {}
    return "suspended", told.get("DeadLetterReason"), told.get("DeadLetterErrorDescription")


def _answer(delivery: Delivery, failure: Failure | None) -> None:
    state = delivery.remote_state
    if failure is not None:
        delivery.local.condition = Condition(failure.condition, failure.text)
        state = Delivery.REJECTED
    elif state == Delivery.MODIFIED:
        delivery.local.failed = True
        delivery.local.undeliverable = delivery.remote.undeliverable
    delivery.update(state)
    delivery.settle()
