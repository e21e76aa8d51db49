"""Stopping clients whose brokers may not answer.

aiokafka's `stop` waits for its brokers, and given up half-way it leaves tasks behind: heartbeats above all, which keep
a member in its group that nobody reads for. So a client that has not stopped in time is cut off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import structlog
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import IllegalGenerationError, KafkaConnectionError
from aiokafka.protocol.group import LeaveGroupRequest

log = structlog.get_logger("headrace.kafka")

_OWNERS: Final = ("_coordinator", "_fetcher", "_sender", "_client", "client")
_TASKS: Final = (
    "_coordination_task", "_heartbeat_task", "_commit_refresh_task", "_fetch_task", "_sender_task", "_sync_task",
)  # fmt: skip
_GONE_WITHIN: Final = 0.5
_LEFT_WITHIN: Final = 1.0


async def stop_within(seconds: float, client: AIOKafkaConsumer | AIOKafkaProducer | AIOKafkaAdminClient) -> None:
    """Stops a client; errors are logged. After so many seconds, or when this is cancelled, it is cut off.

    A task of its own: `stop` may raise CancelledError when nobody was cancelled but a fetch of the client's.
    """
    stop = client.close if isinstance(client, AIOKafkaAdminClient) else client.stop
    stopping = asyncio.create_task(stop(), name="stop")
    try:
        await asyncio.wait({stopping}, timeout=seconds)
        if stopping.done() and not stopping.cancelled() and stopping.exception() is None:
            return
        log.warning("a client was cut off", client=type(client).__name__, reason=_reason(stopping))
        for _ in range(2):  # a task that was cancelled may wait once more, for others of them
            if tasks := _cut(client, stopping):
                await asyncio.wait(tasks, timeout=_GONE_WITHIN)
    except asyncio.CancelledError:
        _cut(client, stopping)
        raise


def guard_commits(consumer: AIOKafkaConsumer) -> None:
    """What the client lacks: a commit that it repeats belongs to the assignment that it was meant for. Under a later
    one it would move back what another member has committed since.

    And one that was given up goes on in the client, and fails when nobody waits for it any more: asyncio would log that
    as a defect, with its stack.
    """
    coordinator: Any = consumer._coordinator
    commit = coordinator._do_commit_offsets

    async def current(assignment: Any, offsets: object) -> None:
        if not assignment.active:
            raise IllegalGenerationError("the partitions were assigned anew meanwhile")
        await commit(assignment, offsets)

    def heard(assignment: Any, offsets: object) -> asyncio.Future[None]:
        committing: asyncio.Future[None] = asyncio.ensure_future(current(assignment, offsets))
        committing.add_done_callback(lambda done: done.cancelled() or done.exception())
        return committing

    coordinator._do_commit_offsets = heard


async def leave_while_joining(admin: AIOKafkaAdminClient, consumer: AIOKafkaConsumer, group: str) -> None:
    """Takes back a wish to join that the group has not answered yet. Bounded, and never raises.

    The client leaves only a group that it is in. Stopped in between it would be a member that nobody is, and the next
    rebalance would wait for it until its session is over. Its own connection is busy with that wish.
    """
    coordinator: Any = consumer._coordinator
    if coordinator is None or coordinator._group_instance_id is not None or not coordinator.member_id:
        return
    if coordinator.generation > 0 and not consumer._subscription.reassignment_in_progress:
        return
    with suppress(Exception):
        async with asyncio.timeout(_LEFT_WITHIN):
            node = coordinator.coordinator_id
            if node is None:
                node = await admin.find_coordinator(group)
            await admin._send_request(LeaveGroupRequest(group, coordinator.member_id), node)


def _reason(stopping: asyncio.Task[None]) -> str:
    if not stopping.done():
        return "its brokers don't answer"
    error = None if stopping.cancelled() else stopping.exception()
    return f"{type(error).__name__}: {error}" if error is not None else "it was waiting for its brokers"


def _cut(client: Any, stopping: asyncio.Task[None]) -> list[asyncio.Task[Any]]:
    """What the last part of its `stop` does, without waiting for anybody. Returns the tasks that are not done yet."""
    tasks = [task for task in (stopping, *_tasks(client)) if not task.done()]
    for task in tasks:
        task.cancel()
    if (unsent := getattr(client, "_message_accumulator", None)) is not None:
        unsent.fail_all(KafkaConnectionError("the client is closed"))
    inner = getattr(client, "_client", None) or getattr(client, "client", None)
    for connection in list(getattr(inner, "_conns", {}).values()):
        connection.close()
    return tasks


def _tasks(client: Any) -> Iterator[asyncio.Task[Any]]:
    """All that the parts of a client have started. They have no name for it that is meant for others."""
    for owner in (getattr(client, name, None) for name in _OWNERS):
        for name in _TASKS:
            task = getattr(owner, name, None)
            if task is not None:
                yield task
        yield from list(getattr(owner, "_pending_tasks", ()))
