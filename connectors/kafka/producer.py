"""Reads topics as a member of a consumer group, and commits what is resolved. One life, from open to close.

aiokafka rebalances eagerly: every rebalance takes all partitions away and gives some back, read on from the committed
offset. So an assignment is an epoch, and here is what happens around it:

    revoked    the group learns it first (`Lanes.revoked`); what is resolved is committed, within a bound
    assigned   offsets are fetched with their metadata, every partition gets a new epoch (`Lanes.assigned`) and a seek
    polled     what comes for a partition that has no epoch yet is put back by a seek

A paused partition stays out of `getmany` and keeps what the client has fetched of it, one response at most: the
client's own `pause` throws that away and fetches it again. Membership hangs on the heartbeats of the client's own task,
never on how often a poll is pulled.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Hashable, Mapping, Sequence
from typing import Final, cast

import structlog
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError, NoOffsetForPartitionError, OffsetOutOfRangeError

from bridge.core.errors import IllegalStep, Refused
from bridge.core.model import AdvanceBatch, AdvanceItem, Meta, Poll, Slice
from bridge.core.retry import Backoff
from bridge.ports import Lanes, Ledger
from bridge.shared_stream import SharedStreamProducer
from connectors.kafka.chatter import calm_down
from connectors.kafka.closing import guard_commits, leave_while_joining, stop_within
from connectors.kafka.consumer import broken_off, consumer_of, position_of, require_alive
from connectors.kafka.errors import told, translated, translating
from connectors.kafka.lanes import Held, Record, identity_of, meta_of, settlement_of, stretch_of
from connectors.kafka.membership import Membership
from connectors.kafka.options import KafkaOptions
from connectors.kafka.passing import Gaps
from connectors.kafka.reaching import reach
from connectors.kafka.security import client_settings
from connectors.kafka.silence import Silence
from connectors.kafka.start import CLUSTER, begin

log = structlog.get_logger("headrace.kafka")

Fetched = dict[TopicPartition, list[ConsumerRecord[bytes, bytes]]]

_IDLE_MS: Final = 1000
"""How long a poll waits for records before it looks at what else there is to do."""
_TIDY_EVERY: Final = 5.0
_CLOSED_WITHIN: Final = 5.0
_NOBODYS: Final = TopicPartition("", 0)
"""Stands for "of no partition": to the client an empty list means all of them (B14)."""
_AGAIN: Final = Backoff(delay=1.0, factor=2.0, max=60.0)


class KafkaProducer(SharedStreamProducer):
    """See the head of the file. Nothing connects before `open_batches` is pulled."""

    def __init__(self, options: KafkaOptions) -> None:
        self._options = options
        self._lanes: Lanes | None = None
        self._ledger: Ledger | None = None
        self._admin: AIOKafkaAdminClient | None = None
        self._consumer: AIOKafkaConsumer | None = None
        self._members: Membership | None = None
        self._cluster = ""
        self._tidied = 0.0
        self._tombstones = 0
        self._gaps: Gaps | None = None
        self._silence = Silence()

    def take_lanes(self, lanes: Lanes) -> None:
        self._lanes = lanes

    def take_ledger(self, ledger: Ledger) -> None:
        self._ledger = ledger

    # Opening and closing ---------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        options = self._options
        calm_down()
        self._admin = AIOKafkaAdminClient(**client_settings(options))
        await reach(self._admin, options)
        self._cluster = await begin(self._admin, options, self._ledger)
        self._members = Membership(self._admin, options, self._lanes, self._ledger)
        self._consumer = consumer = consumer_of(options)
        self._members.consumer = consumer
        self._gaps = Gaps(options, self._members, consumer)
        with translating("joining the group"):
            await consumer.start()
            guard_commits(consumer)
            if options.topic_pattern is not None:
                consumer.subscribe(pattern=f"^(?:{options.topic_pattern})$", listener=self._members)
            else:
                consumer.subscribe(topics=list(options.topics), listener=self._members)

    async def aclose(self) -> None:
        """Leaves the group and closes the connections; brokers that don't answer are not waited for (B05)."""
        consumer, self._consumer = self._consumer, None
        admin, self._admin = self._admin, None
        if self._members is not None:
            self._members.consumer = None  # nothing is taken over any more
        try:
            if consumer is not None:
                if admin is not None:
                    await leave_while_joining(admin, consumer, self._options.group_id)
                await stop_within(_CLOSED_WITHIN, consumer)
        finally:
            if admin is not None:
                await stop_within(_CLOSED_WITHIN, admin)

    # Polling ---------------------------------------------------------------------------------------------------------

    async def open_batches(self) -> AsyncGenerator[Poll, None]:
        await self._open()
        while True:
            poll = await self._next()
            if poll is not None:
                yield poll

    async def open_stream(self) -> AsyncIterator[tuple[bytes, Record]]:
        """The same, one by one."""
        async for poll in self.open_batches():
            for body, payload in zip(poll.bodies, poll.payloads, strict=True):
                yield body, payload

    async def _next(self) -> Poll | None:
        """One round of `getmany`; None where nothing came, or where something else had to be done first."""
        members = self._membership
        members.check()
        require_alive(self._client)
        now = asyncio.get_running_loop().time()
        await self._ahead.pass_over(now)
        await self._tidy(now)
        members.changed.clear()
        wanted, wait = self._wanted(now)
        try:
            fetched = await self._fetch(wanted, wait)
        except OffsetOutOfRangeError as error:
            await self._ahead.meet(error.args[0], now)
            return None
        except NoOffsetForPartitionError:
            return None  # the client asked before the seek of its assignment: that one has settled it
        except KafkaError as error:
            raise translated(error, "reading") from error
        except Exception as error:
            raise self._unreadable(error) from error
        return self._poll(fetched) if fetched else None

    async def _fetch(self, wanted: Sequence[TopicPartition], wait: int) -> Fetched:
        """A call that leaves partitions out ends as soon as one of them may be read. (It waits for nothing but records
        to be there: cancelled, it has taken none.)
        """
        call = self._client.getmany(*wanted, timeout_ms=wait, max_records=self._options.poll_records)
        if not wanted:
            return cast("Fetched", await call)
        fetching = asyncio.create_task(call, name="getmany")
        changed = asyncio.create_task(self._membership.changed.wait(), name="changed")
        try:
            await asyncio.wait({fetching, changed}, return_when=asyncio.FIRST_COMPLETED)
            return fetching.result() if fetching.done() else {}
        finally:
            fetching.cancel()
            changed.cancel()

    def _wanted(self, now: float) -> tuple[Sequence[TopicPartition], int]:
        """The partitions to read, none named where all are meant, and how long to wait in ms."""
        wait = _IDLE_MS
        held = self._membership.held.values()
        if not any(h.paused or h.rests_until for h in held):
            return (), wait
        wanted: list[TopicPartition] = []
        for h in held:
            if h.rests_until > now:
                wait = min(wait, int((h.rests_until - now) * 1000) + 1)
            elif not h.paused:
                h.rests_until = 0.0
                wanted.append(h.partition)
        return wanted or (_NOBODYS,), wait

    def _poll(self, fetched: Fetched) -> Poll | None:
        slices: list[Slice] = []
        bodies: list[bytes] = []
        payloads: list[Record] = []
        deliver = self._options.tombstones == "deliver"
        for partition, records in fetched.items():
            held = self._membership.held.get(partition)
            if held is None or held.paused or held.rests_until or records[0].offset < held.delivered:
                self._put_back(partition, held, records[0].offset)
                continue
            stretch = stretch_of(held, records, deliver_tombstones=deliver)
            self._tombstones += stretch.tombstones
            if stretch.values:
                start = len(bodies)
                bodies += stretch.values
                payloads += stretch.payloads
                slices.append(Slice(partition, start, len(bodies), held.epoch))
                held.delivered = stretch.payloads[-1].offset + 1
            held.position = records[-1].offset + 1
        return Poll(slices, bodies, payloads) if bodies else None

    def _put_back(self, partition: TopicPartition, held: Held | None, offset: int) -> None:
        """They were read before their assignment was taken over, in front of where that one begins, or by a call that
        began before the partition was told to wait.
        """
        if partition in self._client.assignment():
            self._client.seek(partition, offset if held is None else held.delivered)

    def _unreadable(self, error: Exception) -> Refused:
        """The client itself could not take a record apart: it can't be passed over without losing its whole batch."""
        at = broken_off(self._client) or f"one of {len(self._membership.held)} partitions"
        return Refused(
            f"a record in {at} can't be taken apart ({told(error)}): nothing is committed past it. Look at it with "
            "another tool; to pass it over, stop this stream and move the offset of its group behind it"
        )

    # Settling --------------------------------------------------------------------------------------------------------

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        await self._settle([batch])

    async def advance_lanes(self, batches: Sequence[tuple[Hashable, AdvanceBatch]]) -> None:
        await self._settle([batch for _, batch in batches])

    async def _settle(self, batches: Sequence[Sequence[AdvanceItem]]) -> None:
        """One commit for all of them; what a watcher failed is read again, with all that is behind it."""
        settlements = [settlement_of(batch) for batch in batches]
        await self._membership.commit({s.held: s.next for s in settlements if s.next is not None})
        for settlement in settlements:
            if settlement.again is not None and self._membership.is_current(settlement.held):
                self._read_again(settlement.held, settlement.again)

    def _read_again(self, held: Held, offset: int) -> None:
        failures = held.failures + 1 if held.fails_at == offset else 1
        again = self._membership.hold(held.partition, offset)
        again.paused = held.paused
        again.fails_at, again.failures = offset, failures
        again.rests_until = asyncio.get_running_loop().time() + _AGAIN.after(failures)

    async def _tidy(self, now: float) -> None:
        """Offsets go past what needs no settling, such as the marker that ends a transaction (B12)."""
        if now - self._tidied < _TIDY_EVERY:
            return
        for held in list(self._membership.held.values()):
            if held.is_drained and not held.rests_until:
                held.position = max(held.position, await position_of(self._client, held.partition))
        every = self._membership.held.values()
        await self._membership.pass_over({h: h.position for h in every if h.is_drained and h.position > h.committed})
        self._tidied = asyncio.get_running_loop().time()

    def pause(self, lanes: Sequence[Hashable]) -> None:
        self._set_paused(lanes, paused=True)

    def resume(self, lanes: Sequence[Hashable]) -> None:
        self._set_paused(lanes, paused=False)

    def _set_paused(self, lanes: Sequence[Hashable], *, paused: bool) -> None:
        if self._members is None:
            return
        for lane in lanes:
            held = self._members.held.get(cast("TopicPartition", lane))
            if held is not None:
                held.paused = paused
        if not paused:
            self._members.changed.set()

    # Telling ---------------------------------------------------------------------------------------------------------

    def get_advance_lane(self, broker_payload: Record) -> TopicPartition:
        return broker_payload.held.partition

    def identity(self, broker_payload: Record) -> str:
        return identity_of(broker_payload)

    def describe(self, broker_payload: Record) -> Meta:
        return meta_of(broker_payload)

    def places(self) -> Mapping[str, str]:
        if self._members is None:
            return {}
        return {**self._members.places, CLUSTER: self._cluster} if self._cluster else dict(self._members.places)

    def report(self) -> Mapping[str, object]:
        """Partitions, lag, and what was lost; `lag` in records up to the end that may be read, where it is known."""
        members = self._members
        if members is None or self._consumer is None:
            return {}
        lag = {held.lane: self._lag(held) for held in members.held.values()}
        report: dict[str, object] = {
            "group": self._options.group_id,
            "partitions": len(lag),
            "lag": sum(n for n in lag.values() if n is not None),
            "lags": lag,
            "rebalances": members.rebalances,
            "tombstones": self._tombstones,
            "lost": self._ahead.lost,
            "gaps": [gap.words for gap in self._ahead.told],
        }
        now = time.monotonic()
        silent = self._silence.trouble(self._consumer, members.held, self._options, now)
        if silent is not None:
            report["trouble"] = silent
        elif members.strangers:
            report["trouble"] = (
                f"{members.strangers} partitions came with offsets that another store had committed: bridges of one "
                "consumer group have to share one store, or one message may become two runs"
            )
        return report

    def _lag(self, held: Held) -> int | None:
        client = self._client
        if held.partition not in client.assignment():
            return None
        committed_only = self._options.isolation == "read_committed"
        end = client.last_stable_offset(held.partition) if committed_only else client.highwater(held.partition)
        return None if end is None else max(0, end - held.next)

    @property
    def _client(self) -> AIOKafkaConsumer:
        if self._consumer is None:
            raise IllegalStep("the stream is not open")
        return self._consumer

    @property
    def _membership(self) -> Membership:
        if self._members is None:
            raise IllegalStep("the stream was never opened")
        return self._members

    @property
    def _ahead(self) -> Gaps:
        if self._gaps is None:
            raise IllegalStep("the stream was never opened")
        return self._gaps
