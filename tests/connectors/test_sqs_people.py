"""Copies of dead letters, what people send, and `validate --connect`, against what speaks the protocol of SQS."""

from __future__ import annotations

from typing import Any

import pytest

from bench.brokers.sqs import queues
from bench.brokers.sqs.faults import Faults
from bench.brokers.sqs.fixtures import NewQueue
from bridge.core.errors import Refused, Transient
from bridge.ports import Letter, Outgoing
from connectors.sqs import KIND, SqsOptions
from connectors.sqs.options import DeadLetterQueue
from connectors.sqs.places import queue_of
from connectors.sqs.relay import QueueRelay, relay_of

pytestmark = pytest.mark.integration


def options_of(queue: str, endpoint: str, **keys: Any) -> SqsOptions:
    return SqsOptions(**{"queue": queue, "endpoint": endpoint, "region": "eu-central-1", **keys})


# Dead letters --------------------------------------------------------------------------------------------------------


def relay_for(options: SqsOptions) -> QueueRelay:
    relay = relay_of(options)
    assert relay is not None
    return relay


def letter(number: int, **changes: Any) -> Letter:
    known: dict[str, Any] = {
        "number": number, "id": f"id-{number}", "watcher": "w", "stream": "s", "identity": f"m-{number}",
        "position": f"m-{number}", "body": b'{"a": 1}', "key": None, "headers": (), "timestamp": None,
        "reason": "rejected", "error": "", "attempts": 1, "created_at": 0.0,
    }  # fmt: skip
    return Letter(**{**known, **changes})


@pytest.mark.parametrize("fifo", [False, True])
async def test_dead_letters_are_copied_and_each_is_answered_for(
    queue: NewQueue, sqs_faults: Faults, *, fifo: bool
) -> None:
    read, dead = await queue(fifo=fifo), await queue(fifo=fifo)
    relay = relay_for(options_of(read, sqs_faults.url, dead_letter=DeadLetterQueue(queue=dead)))
    await relay.open()
    letters = [letter(n, key=b"g" if n % 2 else b"h") for n in range(12)]
    letters.append(letter(12, body=b"\xff"))
    letters.append(letter(13, body=b"x" * 1024 * 1024))
    assert list(await relay.send(letters)) == [None] * 14
    await relay.aclose()
    copies = await queues.take(sqs_faults.target, dead, 14)
    ids = {each["MessageAttributes"]["headrace-message-id"]["StringValue"]: each for each in copies}
    assert set(ids) == {f"m-{n}" for n in range(14)}
    assert ids["m-0"]["Body"] == '{"a": 1}'
    assert ids["m-13"]["MessageAttributes"]["headrace-body"]["StringValue"] == "reference"


async def test_a_copy_that_is_sent_again_to_a_fifo_queue_is_there_once(queue: NewQueue, sqs_faults: Faults) -> None:
    read, dead = await queue(fifo=True), await queue(fifo=True)
    relay = relay_for(options_of(read, sqs_faults.url, dead_letter=DeadLetterQueue(queue=dead)))
    await relay.open()
    for _ in range(2):
        assert await relay.send([letter(1)]) == [None]
    await relay.aclose()
    assert len(await queues.take(sqs_faults.target, dead, 5)) == 1


async def test_some_copies_of_a_call_may_fail_and_the_others_are_there(queue: NewQueue, sqs_faults: Faults) -> None:
    read, dead = await queue(), await queue()
    relay = relay_for(options_of(read, sqs_faults.url, dead_letter=DeadLetterQueue(queue=dead)))
    await relay.open()
    sqs_faults.fail_entries("SendMessageBatch", 1, "InternalError")
    passing, *others = await relay.send([letter(n) for n in range(3)])
    assert isinstance(passing, Transient)
    assert others == [None, None]
    sqs_faults.fail_entries("SendMessageBatch", 1, "InvalidMessageContents", sender_fault=True)
    [refused] = await relay.send([letter(4)])
    assert isinstance(refused, Refused)
    sqs_faults.fail_calls("SendMessageBatch", "AccessDeniedException", status=403, times=1)
    [denied] = await relay.send([letter(5)])
    assert isinstance(denied, Transient)  # a right can be granted: the copy waits for it
    await relay.aclose()


async def test_a_dead_letter_queue_that_is_not_there_is_refused(queue: NewQueue, sqs_faults: Faults) -> None:
    relay = relay_for(options_of(await queue(), sqs_faults.url, dead_letter=DeadLetterQueue(queue="gone")))
    with pytest.raises(Refused, match="'gone' does not exist"):
        await relay.open()
    await relay.aclose()


# For people ----------------------------------------------------------------------------------------------------------


async def test_what_a_person_sends_is_there(queue: NewQueue, sqs_faults: Faults) -> None:
    url = await queue()
    assert KIND.sender is not None
    sender = KIND.sender(options_of(url, sqs_faults.url))
    positions = await sender.send([Outgoing(b"a", headers=(("source", b"shop"),)), Outgoing(b"b")])
    await sender.aclose()
    found = {each["Body"]: each for each in await queues.take(sqs_faults.target, url, 2)}
    assert [found["a"]["MessageId"], found["b"]["MessageId"]] == list(positions)
    assert found["a"]["MessageAttributes"]["source"]["StringValue"] == "shop"


async def test_what_is_refused_while_sending_says_how_many_are_there(queue: NewQueue, sqs_faults: Faults) -> None:
    assert KIND.sender is not None
    sender = KIND.sender(options_of(await queue(), sqs_faults.url))
    sqs_faults.fail_calls("SendMessageBatch", "AccessDeniedException", status=403)
    with pytest.raises(Refused, match="0 of 2 messages were confirmed"):
        await sender.send([Outgoing(b"a"), Outgoing(b"b")])
    await sender.aclose()


async def test_validate_finds_nothing_wrong_where_nothing_is(queue: NewQueue, sqs_faults: Faults) -> None:
    url, dead = await queue(redrive=20), await queue()
    assert KIND.examine is not None
    assert list(await KIND.examine(options_of(url, sqs_faults.url, dead_letter=DeadLetterQueue(queue=dead)))) == []
    assert sqs_faults.calls["ReceiveMessage"] == 0


async def test_validate_tells_what_is_missing_and_what_is_set_up_badly(queue: NewQueue, sqs_faults: Faults) -> None:
    url = await queue(redrive=2)
    assert KIND.examine is not None
    options = options_of(url, sqs_faults.url, dead_letter=DeadLetterQueue(queue=queue_of(url).name[:-1]))
    missing, redrive = await KIND.examine(options)
    assert missing.severity == "error"
    assert "`dead_letter.queue`: there is no queue" in missing.message
    assert queue_of(url).name in missing.hint
    assert "after 2 receives" in redrive.message


async def test_validate_tells_which_right_is_missing(queue: NewQueue, sqs_faults: Faults) -> None:
    url = await queue()
    assert KIND.examine is not None
    sqs_faults.fail_calls("DeleteMessageBatch", "AccessDeniedException", status=403)
    [finding] = await KIND.examine(options_of(url, sqs_faults.url))
    assert finding.severity == "error"
    assert "grant sqs:DeleteMessage" in finding.hint
    sqs_faults.mend()
    sqs_faults.fail_calls("GetQueueAttributes", "AccessDeniedException", status=403)
    [finding] = await KIND.examine(options_of(url, sqs_faults.url))
    assert finding.severity == "warning"
    assert "sqs:GetQueueAttributes" in finding.hint
