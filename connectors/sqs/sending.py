"""Messages to a queue, ten in a call, and one answer each: what the relay and `headrace send` share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bridge.core.errors import HeadraceError, Refused, Transient
from connectors.sqs.client import Client
from connectors.sqs.errors import TooLong, Verdict, plain, verdict_of
from connectors.sqs.letters import Entry, batches_of


class EntryRefused(Refused):
    """SQS will never take this message; of the queue it says nothing."""


Said = str | HeadraceError
"""The id of the message, once SQS has it; else what went wrong with it."""


async def send_all(client: Client, url: str, entries: Sequence[Entry], most: int, *, stops: bool = False) -> list[Said]:
    """One answer for each, in order. With `stops` nothing is sent behind a failure, so the list may be shorter."""
    said: list[Said] = []
    for batch in batches_of(list(enumerate(entries)), most):
        said += await _sent(client, url, [entry for _, entry in batch])
        if stops and any(isinstance(each, HeadraceError) for each in said):
            break
    return said


async def _sent(client: Client, url: str, batch: Sequence[Entry]) -> list[Said]:
    entries = [{"Id": str(index), **entry.said} for index, entry in enumerate(batch)]
    try:
        answer = await client.call("send_message_batch", QueueUrl=url, Entries=entries)
    except TooLong as error:
        if len(batch) == 1:
            return [error]
        return [said for entry in batch for said in await _sent(client, url, [entry])]
    except HeadraceError as error:
        return [error] * len(batch)
    answers: dict[int, Said] = {int(each["Id"]): str(each["MessageId"]) for each in answer.get("Successful") or ()}
    answers |= {int(each["Id"]): _failure(each) for each in answer.get("Failed") or ()}
    return [answers.get(index, Transient("SQS has not told what became of it")) for index in range(len(batch))]


def _failure(failed: Mapping[str, Any]) -> HeadraceError:
    code, words = plain(str(failed.get("Code", "?"))), str(failed.get("Message") or "no more is known")
    said = f"{code}: {words}"
    if verdict_of(failed) is Verdict.AGAIN:
        return Transient(said)
    if code == "BatchRequestTooLong" or "shorter than" in words or "too long" in words.lower():
        return TooLong(said)
    return EntryRefused(said)
