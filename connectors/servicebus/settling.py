"""What an advance asks for, and how it is said to the broker.

Each message is settled on the link that it came on. Where that link is gone, its lock lasts all the same, and the
broker takes the settlement as a management request over any other link to the entity.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from azure.servicebus._common.constants import DEADLETTERNAME
from azure.servicebus._pyamqp.error import AMQPError
from azure.servicebus._pyamqp.outcomes import Accepted, Modified, Rejected

from bridge.core.errors import Transient
from bridge.core.model import AdvanceBatch, AdvanceItem, AdvanceOutcome, Rejection
from connectors.servicebus.errors import is_lost, told
from connectors.servicebus.link import Link
from connectors.servicebus.messages import Delivery, Message

LONGEST_REASON: Final = 4096
"""Characters of a dead letter's reason, and of its description (learn.microsoft.com, "Service Bus quotas")."""
_TOKENS_AT_ONCE: Final = 100


class Verdict(NamedTuple):
    """What the broker is told of a message: `what` is the word of management requests for it."""

    what: str
    reason: str = ""
    description: str = ""

    @property
    def state(self) -> Any:
        """As a disposition has it."""
        if self.what == "completed":
            return Accepted()
        if self.what == "abandoned":
            return Modified(delivery_failed=True, undeliverable_here=False, message_annotations=None)
        info = {b"DeadLetterReason": self.reason, b"DeadLetterErrorDescription": self.description}
        return Rejected(error=AMQPError(condition=DEADLETTERNAME, description=self.description, info=info))

    @property
    def details(self) -> dict[str, str] | None:
        """As a management request has them."""
        if self.what != "suspended":
            return None
        return {"deadletter-reason": self.reason, "deadletter-description": self.description}


COMPLETE: Final = Verdict("completed")
ABANDON: Final = Verdict("abandoned")


def runs_of(batch: Sequence[AdvanceItem]) -> Sequence[tuple[AdvanceOutcome, list[Message]]]:
    """A batch as runs; one that comes item by item is taken as runs of one."""
    if isinstance(batch, AdvanceBatch):
        return batch.runs
    return [(outcome, [payload]) for payload, outcome in batch]


def verdict_of(outcome: AdvanceOutcome) -> Verdict | None:
    """None: it failed, and is to come again later."""
    if outcome.failed:
        return None
    if not outcome.rejected:
        return COMPLETE
    return Verdict("suspended", *_dead_letter(outcome.rejections))


def _dead_letter(rejections: Sequence[Rejection]) -> tuple[str, str]:
    """The first reason as the reason, and all of them, with who said so, as the description."""
    if not rejections:
        return "rejected", "a watcher has rejected it"
    lines = [
        f"{each.watcher}: {each.reason}"
        + (f" after {each.attempts} attempts" if each.attempts > 1 else "")
        + (f": {each.error}" if each.error else "")
        for each in rejections
    ]
    return (rejections[0].reason or "rejected")[:LONGEST_REASON], "\n".join(lines)[:LONGEST_REASON]


class Settler:
    """`links` are those open to the entity; `within` bounds one exchange, in seconds."""

    def __init__(self, links: Callable[[], Iterable[Link]], within: float) -> None:
        self._links = links
        self._within = within

    async def settle(self, messages: Sequence[Message], verdict: Verdict) -> list[Message]:
        """Returns those whose lock is lost. Raises Transient where it can't tell; what is settled is remembered."""
        left = [message for message in messages if not message.is_settled]
        lost = await self._settle_once(left, verdict) if left else []
        if not lost:
            return []
        again = [message for message, tried in lost if message.handle is not tried]
        dead = [message for message, tried in lost if message.handle is tried]
        if again:  # the same message has come once more meanwhile, with a lock that lives
            dead += [message for message, _ in await self._settle_once(again, verdict)]
        return dead

    async def _settle_once(self, messages: Sequence[Message], verdict: Verdict) -> list[tuple[Message, Delivery]]:
        """Those whose lock is lost, each with the delivery that was tried."""
        by_link: dict[Link, list[tuple[Message, Delivery]]] = defaultdict(list)
        for message in messages:
            by_link[message.handle.link].append((message, message.handle))
        lost: list[tuple[Message, Delivery]] = []
        for link, pairs in by_link.items():
            here = [pair for pair in pairs if pair[1].id in link.unsettled] if link.is_open else []
            if here:
                lost += await self._on(link, here, verdict)
            if len(here) < len(pairs):
                lost += await self._managed([pair for pair in pairs if pair not in here], verdict)
        return lost

    async def _on(
        self, link: Link, pairs: Sequence[tuple[Message, Delivery]], verdict: Verdict
    ) -> list[tuple[Message, Delivery]]:
        try:
            answers = await link.settle([delivery for _, delivery in pairs], verdict.state, self._within)
        except Transient:
            raise
        except Exception as error:
            raise Transient(f"settling {len(pairs)} messages: {told(error)}") from error
        lost: list[tuple[Message, Delivery]] = []
        unclear: Exception | None = None
        for message, delivery in pairs:
            refusal = answers.refused.get(delivery.id)
            if refusal is None:
                message.is_settled = True
            elif is_lost(refusal):
                lost.append((message, delivery))
            else:
                unclear = refusal
        if unclear is not None:
            raise Transient(f"settling messages: {told(unclear)}") from unclear
        return lost

    async def _managed(
        self, pairs: Sequence[tuple[Message, Delivery]], verdict: Verdict
    ) -> list[tuple[Message, Delivery]]:
        """A request is for many, but says of the first lost lock only that there is one: then each is asked for."""
        lost: list[tuple[Message, Delivery]] = []
        for start in range(0, len(pairs), _TOKENS_AT_ONCE):
            some = pairs[start : start + _TOKENS_AT_ONCE]
            if await self._requested(some, verdict):
                continue
            if len(some) == 1:
                lost += some
                continue
            lost += [pair for pair in some if not await self._requested([pair], verdict)]
        return lost

    async def _requested(self, pairs: Sequence[tuple[Message, Delivery]], verdict: Verdict) -> bool:
        """False: a lock is lost, and nothing more is known."""
        link = next((link for link in self._links() if link.is_open), None)
        if link is None:
            raise Transient("no link to the broker is open to settle messages over")
        try:
            tokens = [delivery.token for _, delivery in pairs]
            await link.requests.settle(verdict.what, tokens, verdict.details, self._within)
        except Transient:
            raise
        except Exception as error:
            if is_lost(error):
                return False
            raise Transient(f"settling {len(pairs)} messages by request: {told(error)}") from error
        for message, _ in pairs:
            message.is_settled = True
        return True
