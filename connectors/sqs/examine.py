"""`headrace validate --connect`: a look at the real queues. It takes no message, sends none and makes nothing.

What it can't know without taking a message: whether we may receive, and decrypt. Whether we may delete, and set
visibility timeouts, it asks with a receipt handle that belongs to no message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from bridge.core.errors import HeadraceError, Refused
from bridge.ports import Finding
from connectors.sqs import judging
from connectors.sqs.client import Account, Client, url_of
from connectors.sqs.errors import CredentialsRefused, QueueMissing
from connectors.sqs.judging import error, warning
from connectors.sqs.options import SqsOptions
from connectors.sqs.places import Queue, queue_of

WITHIN: Final = 20.0
_CALL: Final = 6.0
_NO_HANDLE: Final = "headrace-validate-connect"
_PROBES: Final = {
    "sqs:DeleteMessage": ("delete_message_batch", {}),
    "sqs:ChangeMessageVisibility": ("change_message_visibility_batch", {"VisibilityTimeout": 0}),
}


async def examine(options: SqsOptions) -> list[Finding]:
    """What is wrong there, errors first. Never raises for anything that SQS does."""
    look = _Look(options)
    try:
        async with asyncio.timeout(WITHIN):
            await look.take()
    except TimeoutError:
        look.found.append(
            error(
                f"SQS has not answered everything within {WITHIN:g} s; the last question was: {look.doing}",
                "what follows it was not looked at: is `endpoint` or the network right?",
            )
        )
    finally:
        await look.close()
    return sorted(look.found, key=lambda finding: finding.severity)


class _Look:
    """`found` grows; `doing` is what is being asked."""

    def __init__(self, options: SqsOptions) -> None:
        self.found: list[Finding] = []
        self.doing = "who are we"
        self._options = options
        self._account = Account(options)
        self._client = Client(self._account, 2)

    async def take(self) -> None:
        options = self._options
        try:
            await self._client.open()
        except HeadraceError as failure:
            self.found.append(error(str(failure)))
            return
        queue = queue_of(options.queue)
        self.doing = f"is there a queue {queue.name!r}"
        url = await self._url(queue, "queue")
        if url is not None:
            attributes = await self._attributes(url, queue, "queue")
            if attributes is not None:
                self.found += judging.of_queue(queue, attributes, options)
                self.doing = "may we delete"
                await self._look_at_rights(url, queue)
        if options.dead_letter is not None:
            place = queue_of(options.dead_letter.queue)
            self.doing = f"is there a queue {place.name!r}"
            url = await self._url(place, "dead_letter.queue")
            attributes = None if url is None else await self._attributes(url, place, "dead_letter.queue")
            if attributes is not None:
                self.found += judging.of_dead_letters(place, attributes)
        if said := self._account.skew.trouble:
            self.found.append(warning(said))
        if any(finding.severity == "error" for finding in self.found):
            await self._say_who()

    async def close(self) -> None:
        await self._client.close()

    async def _url(self, queue: Queue, key: str) -> str | None:
        try:
            return await url_of(self._client, queue)
        except QueueMissing:
            self.found.append(judging.of_missing(queue, key, await self._others(), self._where))
        except HeadraceError as failure:
            self._failed(failure, key, "sqs:GetQueueUrl")
        return None

    async def _attributes(self, url: str, queue: Queue, key: str) -> Mapping[str, str] | None:
        """None where it is not there; nothing in it where we may not ask, which nothing else needs."""
        try:
            answer = await self._client.call("get_queue_attributes", _CALL, QueueUrl=url, AttributeNames=["All"])
        except QueueMissing:
            self.found.append(judging.of_missing(queue, key, await self._others(), self._where))
            return None
        except HeadraceError as failure:
            if isinstance(failure, Refused) and not isinstance(failure, CredentialsRefused):
                message = f"we may not see how queue {queue.name!r} is set up: what follows from it was not looked at"
                self.found.append(warning(message, "sqs:GetQueueAttributes would show; nothing else needs it"))
                return {}
            self._failed(failure, key, "sqs:GetQueueAttributes")
            return None
        attributes: Mapping[str, str] = answer.get("Attributes") or {}
        return attributes

    async def _look_at_rights(self, url: str, queue: Queue) -> None:
        """The handle is of no message, so that the answer is a refusal of it alone where we may."""
        for right, (operation, more) in _PROBES.items():
            entry = {"Id": "0", "ReceiptHandle": _NO_HANDLE, **more}
            try:
                await self._client.call(operation, _CALL, QueueUrl=url, Entries=[entry])
            except HeadraceError as failure:
                if isinstance(failure, Refused):
                    message = f"we may not use {right} on queue {queue.name!r}: {failure}"
                    self.found.append(error(message, f"grant {right} to the identity of this stream"))

    def _failed(self, failure: HeadraceError, key: str, right: str) -> None:
        hint = f"{right} on it is needed" if type(failure) is Refused else ""
        self.found.append(error(f"`{key}`: {failure}", hint))

    async def _others(self) -> list[str]:
        """Names of queues that are there, where we may list them."""
        with suppress(HeadraceError):
            answer = await self._client.call("list_queues", _CALL)
            return [url.rpartition("/")[2] for url in answer.get("QueueUrls") or ()]
        return []

    @property
    def _where(self) -> str:
        endpoint = self._options.endpoint
        return f"at {endpoint}" if endpoint is not None else f"in region {self._account.region or 'of the default'}"

    async def _say_who(self) -> None:
        """Which identity it is that may not: AWS alone can tell, and an emulator is not asked."""
        if self._options.endpoint is not None:
            return
        self.doing = "who are we"
        with suppress(Exception):
            async with asyncio.timeout(_CALL):
                sts: Any
                async with self._account.session.create_client("sts", region_name=self._account.region) as sts:
                    who = await sts.get_caller_identity()
            self.found.append(warning(f"we are {who['Arn']}", "errors above are about what this identity may do"))
