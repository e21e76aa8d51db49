"""The remote control of the fake: what tests break, and what they ask. One JSON object a line, each way.

Every method of `Control` is synchronous and returns when it has happened, within a millisecond: it may be called from
a test's loop. Subscriptions by their whole names; faults stay until `mend`, unless they say how often.
"""

from __future__ import annotations

import asyncio
import base64
import socket
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from bench.brokers.pubsub.faults import Fault, Faults, Temporary

if TYPE_CHECKING:
    from bench.brokers.pubsub.fake import Fake

PATIENCE = 10.0


class Refused(Exception):
    """The fake could not do it; the text is its own."""


class Control:
    def __init__(self, port: int) -> None:
        self._lock = threading.Lock()
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self._file = self._socket.makefile("rb")

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def expire(self, subscription: str) -> int:
        """All its leases end: how many there were."""
        return int(self._do("expire", subscription=subscription))

    def fail_acks(self, count: int, how: Temporary = "permanent") -> None:
        """The next `count` ids that are acked or extended, on an exactly-once subscription."""
        self._do("fail_acks", count=count, how=how)

    def fail_calls(self, method: str, status: str, times: int | None = None) -> None:
        """`method` as `Acknowledge`, `StreamingPull`, or `*`; `status` as `UNAVAILABLE`."""
        self._do("fail_calls", method=method, status=status, times=times)

    def end_streams(self, status: str = "UNAVAILABLE") -> int:
        """All open streams end with a status, `OK` among them: how many there were."""
        return int(self._do("end_streams", status=status))

    def silent(self) -> None:
        """Nothing is delivered and nothing answered; connections and streams stay."""
        self._do("silent")

    def speak(self) -> None:
        self._do("speak")

    def duplicate(self, messages: int = 1) -> None:
        """The next so many messages without ordering key are delivered a second time at once."""
        self._do("duplicate", messages=messages)

    def reorder(self) -> None:
        """Each response has its messages in reverse."""
        self._do("reorder")

    def skew(self, seconds: float) -> None:
        """Messages are published in the future, or in the past."""
        self._do("skew", seconds=seconds)

    def slow(self, seconds: float) -> None:
        """Every call waits so long before it is looked at."""
        self._do("slow", seconds=seconds)

    def mend(self) -> None:
        self._do("mend")

    def stats(self) -> dict[str, Any]:
        """`calls` by method; `streams` open now, `opened` ever; for each of `subscriptions` figures, `lent`, `left`."""
        return dict(self._do("stats"))

    def unacked(self, subscription: str) -> list[bytes]:
        """The data of what nobody has acked, lent or not."""
        return [base64.b64decode(each) for each in self._do("unacked", subscription=subscription)]

    def deliveries(self, subscription: str) -> Mapping[str, int]:
        """Of what nobody has acked yet, by message id."""
        return dict(self._do("deliveries", subscription=subscription))

    def _do(self, what: str, **words: Any) -> Any:
        with self._lock:
            self._socket.sendall(msgspec.json.encode({"do": what, **words}) + b"\n")
            answer = msgspec.json.decode(self._file.readline())
        if "refused" in answer:
            raise Refused(answer["refused"])
        return answer.get("done")


# The side of the fake ------------------------------------------------------------------------------------------------


async def serve_control(fake: Fake, port: int) -> None:
    """Returns when it listens."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            asked = msgspec.json.decode(line)
            try:
                answer = {"done": _done(fake, asked.pop("do"), asked)}
            except Exception as error:
                answer = {"refused": f"{type(error).__name__}: {error}"}
            writer.write(msgspec.json.encode(answer) + b"\n")
            await writer.drain()
        writer.close()

    await asyncio.start_server(talk, "127.0.0.1", port, limit=1 << 24)


def _done(fake: Fake, what: str, words: dict[str, Any]) -> Any:
    faults, now = fake.faults, time.monotonic()
    match what:
        case "fail_acks":
            faults.acks += [words["how"]] * words["count"]
        case "fail_calls":
            faults.calls[words["method"]] = Fault(words["status"], words["times"])
        case "end_streams":
            fake.ends |= {stream: str(words["status"]) for stream in fake.streams}
        case "silent":
            faults.speaks.clear()
        case "speak":
            faults.speaks.set()
        case "duplicate":
            faults.doubles = words["messages"]
        case "reorder":
            faults.reorders = True
        case "skew":
            faults.skew = words["seconds"]
        case "slow":
            faults.slow = words["seconds"]
        case "mend":
            faults.speaks.set()
            counted, fake.faults = faults.counted, Faults()
            fake.faults.counted = counted
        case _:
            return _told(fake, what, words, now)
    fake.kick()
    return len(fake.streams)


def _told(fake: Fake, what: str, words: dict[str, Any], now: float) -> Any:
    if what == "stats":
        return {
            "calls": dict(fake.faults.counted),
            "streams": len(fake.streams),
            "opened": fake.opened,
            "subscriptions": {
                name: {**msgspec.structs.asdict(each.figures), "lent": each.lent, "left": len(each.unacked)}
                for name, each in fake.subscriptions.items()
            },
        }
    subscription = fake.subscriptions[words["subscription"]]
    match what:
        case "expire":
            ended = subscription.expire(now)
            fake.kick()
            return ended
        case "unacked":
            return [base64.b64encode(held.message.data).decode() for held in subscription.unacked]
        case "deliveries":
            return {held.message.message_id: held.deliveries for held in subscription.unacked}
    raise ValueError(f"there is no {what!r}")
