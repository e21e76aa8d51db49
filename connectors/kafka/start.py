"""Where reading begins: looked at once, before the group is joined.

first start    no partition has an offset, and the store knows of no earlier one: `start` decides, for every partition,
               and what it decided is committed at once, so that a restart never decides again
later          a partition without an offset (it is new, or the offset expired) is read from its beginning
another store  the offset was committed on behalf of a store that knows more than this one, or of another: refused, as
               what that store forgot would never come again. `--rewind` goes back, `--accept` goes on

Nothing here moves an offset that stands, but for `--rewind`; `--accept` puts the mark of this store beside it.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import structlog
from aiokafka import AIOKafkaConsumer, OffsetAndMetadata, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import GroupLoadInProgressError, KafkaError, for_code
from aiokafka.protocol.metadata import MetadataRequest
from msgspec import Struct

from bridge.core.errors import OwnershipLost, StartRefused, Transient
from bridge.core.retry import Backoff
from bridge.ports import Ledger
from connectors.kafka.closing import stop_within
from connectors.kafka.errors import told, translated, translating
from connectors.kafka.lanes import Mark, lane_text, mark_of
from connectors.kafka.options import KafkaOptions, start_of
from connectors.kafka.security import client_settings

log = structlog.get_logger("headrace.kafka")

CLUSTER = "cluster"
"""The place that is no lane: the id of the cluster."""

_ASKED_AGAIN: Final = Backoff(delay=0.1, factor=2.0, max=2.0, jitter=0.5)
_CLOSED_WITHIN: Final = 5.0


async def begin(admin: AIOKafkaAdminClient, options: KafkaOptions, ledger: Ledger | None) -> str:
    """Checks and settles where reading begins; returns the cluster's id. Raises StartRefused where a person has to
    decide, else Transient.
    """
    with translating("looking at the cluster"):
        cluster = await cluster_id(admin)
        partitions = await partitions_of(admin, options)
    if ledger is not None:
        _require_same_cluster(cluster, ledger)
    committed = await committed_of(admin, options, partitions)
    if ledger is not None and (doubtful := _doubtful(committed, ledger)):
        await _resolve(doubtful, partitions, options, ledger)
    elif not committed and partitions and (ledger is None or not ledger.places):
        await _first_start(admin, partitions, options, ledger)
    return cluster


# The cluster, its topics, the group's offsets ------------------------------------------------------------------------


async def cluster_id(admin: AIOKafkaAdminClient) -> str:
    """What the cluster calls itself; empty where it doesn't say."""
    described = (await admin._send_request(MetadataRequest([], False))).to_object()
    return str(described.get("cluster_id") or "")


async def partitions_of(admin: AIOKafkaAdminClient, options: KafkaOptions) -> list[TopicPartition]:
    """The partitions of the topics that are read. Raises StartRefused for a topic that can't be."""
    if options.topic_pattern is not None:
        described = [t for t in await described_topics(admin, None) if is_wanted(options.topic_pattern, t)]
    else:
        described = await described_topics(admin, options.topics)
    for topic in described:
        if topic["error_code"]:
            name = for_code(topic["error_code"]).__name__
            raise StartRefused(
                f"topic {topic['topic']!r} can't be read ({name}): create it, correct its name, or grant Describe and "
                "Read on it; `headrace validate --connect` names topics like it"
            )
    return [TopicPartition(t["topic"], p["partition"]) for t in described for p in t["partitions"]]


async def described_topics(admin: AIOKafkaAdminClient, names: Sequence[str] | None) -> list[dict[str, Any]]:
    """As `describe_topics`, which has brokers make a topic that is not there, unless they are told not to."""
    answer = await admin._send_request(MetadataRequest(None if names is None else [*names], False))
    topics: list[dict[str, Any]] = answer.to_object()["topics"]
    return topics


def is_wanted(pattern: str, topic: Mapping[str, Any]) -> bool:
    """Whole names only, and never Kafka's own topics."""
    return not topic["is_internal"] and re.fullmatch(pattern, topic["topic"]) is not None


async def committed_of(
    admin: AIOKafkaAdminClient, options: KafkaOptions, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, OffsetAndMetadata]:
    """The offsets of the group, with what is written beside them; a partition that has none is left out.

    Asks again while the group's coordinator is not ready, for `request_timeout` at most; raises Transient then.
    """
    wanted = list(partitions)
    if not wanted:
        return {}
    reason = "no answer"
    try:
        async with asyncio.timeout(options.request_timeout):
            for attempt in itertools.count(1):
                try:
                    return await _asked(admin, options.group_id, wanted)
                except KafkaError as error:
                    if not error.retriable:
                        raise translated(error, f"reading the offsets of group {options.group_id!r}") from error
                    reason = told(error)
                await asyncio.sleep(_ASKED_AGAIN.after(attempt, random.random()))  # noqa: S311
    except TimeoutError:
        pass
    raise Transient(f"reading the offsets of group {options.group_id!r}: {reason}")


async def _asked(
    admin: AIOKafkaAdminClient, group: str, wanted: list[TopicPartition]
) -> dict[TopicPartition, OffsetAndMetadata]:
    """A coordinator that can't tell, as it still loads the group, answers for no partition, and the client takes that
    for no offsets. It names every partition that it was asked for, and -1 where there is no offset.
    """
    found = await admin.list_consumer_group_offsets(group, partitions=wanted)
    if any(partition not in found for partition in wanted):
        raise GroupLoadInProgressError("the group's coordinator is not ready")
    return {partition: place for partition, place in found.items() if place.offset >= 0}


def _require_same_cluster(cluster: str, ledger: Ledger) -> None:
    known = ledger.places.get(CLUSTER)
    if known and cluster and known != cluster and not ledger.accept:
        raise StartRefused(
            f"this is another cluster (its id is {cluster}, and was {known}): offsets and run keys of the one mean "
            "nothing in the other. Correct `bootstrap_servers`, or raise `generation` and run with --accept for this "
            "stream"
        )


# An offset of which the store knows nothing --------------------------------------------------------------------------


class Doubt(Struct, frozen=True):
    """Why an offset can't be gone on from."""

    partition: TopicPartition
    offset: int
    why: str


def _doubtful(committed: Mapping[TopicPartition, OffsetAndMetadata], ledger: Ledger) -> list[Doubt]:
    doubts: list[Doubt] = []
    unmarked = 0
    sequence = ledger.sequence()
    for partition, place in sorted(committed.items()):
        mark = mark_of(place.metadata)
        if mark is None:
            unmarked += 1
        elif mark.store != ledger.store:
            doubts.append(Doubt(partition, place.offset, f"it was committed for the store {mark.store}"))
        elif mark.sequence > sequence:
            why = f"it was committed after commit {mark.sequence} of this store"
            doubts.append(Doubt(partition, place.offset, f"{why}, which ends with {sequence}"))
    if unmarked:
        log.info("offsets without a mark of a store, set by another tool: they count", partitions=unmarked)
    return doubts


async def _resolve(
    doubtful: Sequence[Doubt], partitions: Sequence[TopicPartition], options: KafkaOptions, ledger: Ledger
) -> None:
    if ledger.rewind:
        return await _rewind(doubtful, partitions, options, ledger)
    if ledger.accept:
        log.warning("going on from offsets of another store, as was accepted", partitions=len(doubtful))
        return await _accept(doubtful, partitions, options, ledger)
    first = doubtful[0]
    others = f" (and {len(doubtful) - 1} more)" if len(doubtful) > 1 else ""
    raise StartRefused(
        f"group {options.group_id!r} has offset {first.offset} for {lane_text(first.partition)}{others}, but "
        f"{first.why}: the store is {ledger.store}, an older copy or another one, and has forgotten what was settled "
        "since. Put the right store back; or run with --rewind for this stream to read again what this store may not "
        "know (runs that it knows are not repeated), or with --accept to go on from there"
    )


async def _accept(
    doubtful: Sequence[Doubt], partitions: Sequence[TopicPartition], options: KafkaOptions, ledger: Ledger
) -> None:
    """Marks the offsets as this store's, so that the next start does not doubt those that have not moved by then."""
    async with _LoneMember(options) as alone:
        try:
            await _commit_alone(alone, partitions, {d.partition: d.offset for d in doubtful}, options, ledger)
        except OwnershipLost:
            log.warning("the group has members: its offsets keep the mark of the other store", group=options.group_id)


async def _rewind(
    doubtful: Sequence[Doubt], partitions: Sequence[TopicPartition], options: KafkaOptions, ledger: Ledger
) -> None:
    """Back to what the store last kept, and to the beginning where it kept nothing; never forward.

    What retention has deleted behind a place is reported as a gap when it is to be read.
    """
    async with _LoneMember(options) as alone:
        with translating("looking up where the partitions begin"):
            beginnings = await alone.beginning_offsets([d.partition for d in doubtful])
        kept = {d.partition: int(ledger.places.get(lane_text(d.partition), beginnings[d.partition])) for d in doubtful}
        back = {d.partition: min(d.offset, kept[d.partition]) for d in doubtful}
        try:
            await _commit_alone(alone, partitions, back, options, ledger)
        except OwnershipLost as error:
            what = "its offsets can't be moved: stop its other members first"
            raise Transient(f"group {options.group_id!r} has members, {what}") from error
    for d in doubtful:
        log.warning("rewound", lane=lane_text(d.partition), offset=d.offset, to=back[d.partition])


# The first start -----------------------------------------------------------------------------------------------------


async def _first_start(
    admin: AIOKafkaAdminClient, partitions: Sequence[TopicPartition], options: KafkaOptions, ledger: Ledger | None
) -> None:
    """Whoever comes first decides: offsets that are there when ours are refused were set by another first start."""
    async with _LoneMember(options) as alone:
        with translating("looking up where the partitions begin and end"):
            beginnings = await alone.beginning_offsets(partitions)
            ends = await alone.end_offsets(partitions)
            if options.start is None:
                raise StartRefused(_choices(options, beginnings, ends))
            starts = await _starts(alone, options, beginnings, ends)
        try:
            await _commit_alone(alone, partitions, starts, options, ledger)
        except OwnershipLost as error:
            if await committed_of(admin, options, partitions):
                log.info("another member was first, and has set the offsets", group_id=options.group_id)
                return
            what = "and none of them has set offsets for these topics: give this stream a group of its own"
            raise Transient(f"group {options.group_id!r} has members, {what}") from error
    log.info("first start", group_id=options.group_id, start=options.start, records=_count(starts, ends))


async def _starts(
    alone: AIOKafkaConsumer,
    options: KafkaOptions,
    beginnings: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    start = start_of(options)
    match start.kind:
        case "earliest":
            return dict(beginnings)
        case "latest":
            return dict(ends)
        case "offset":
            return {p: min(max(start.value, beginnings[p]), ends[p]) for p in beginnings}
        case _:
            found = await alone.offsets_for_times(dict.fromkeys(beginnings, start.value))
            return {p: at.offset if (at := found.get(p)) is not None else ends[p] for p in beginnings}


def _choices(
    options: KafkaOptions, beginnings: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> str:
    records = _count(beginnings, ends)
    return (
        f"`start` is missing: group {options.group_id!r} has no offsets yet, so say where to begin. `start: earliest` "
        f"reads the {records:,} records that the topics hold now (up to that many: transactions and compaction leave "
        f"holes), `start: latest` none of them, a time like `start: 2026-11-30T00:00:00Z` those written since, and "
        f"`start: <offset>` those from that offset on"
    )


def _count(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> int:
    return sum(max(0, ends[p] - start) for p, start in starts.items())


# Committing while nobody is in the group -----------------------------------------------------------------------------


class _LoneMember:
    """A client that may commit for the group as long as the group has no member."""

    def __init__(self, options: KafkaOptions) -> None:
        self._options = options
        self._client: AIOKafkaConsumer | None = None

    async def __aenter__(self) -> AIOKafkaConsumer:
        self._client = AIOKafkaConsumer(
            **client_settings(self._options),
            group_id=self._options.group_id,
            enable_auto_commit=False,
            isolation_level=self._options.isolation,
        )
        try:
            with translating("connecting to the brokers"):
                await self._client.start()
        except BaseException:
            await self.__aexit__()
            raise
        return self._client

    async def __aexit__(self, *_: object) -> None:
        if self._client is not None:
            await stop_within(_CLOSED_WITHIN, self._client)


async def _commit_alone(
    alone: AIOKafkaConsumer,
    partitions: Sequence[TopicPartition],
    places: Mapping[TopicPartition, int],
    options: KafkaOptions,
    ledger: Ledger | None,
) -> None:
    """Raises OwnershipLost where the group has members."""
    text = Mark(ledger.store, ledger.sequence()).text if ledger is not None else ""
    alone.assign(partitions)
    with translating(f"committing offsets of group {options.group_id!r}"):
        async with asyncio.timeout(options.request_timeout):  # the client would look for a coordinator for ever
            await alone.commit({p: OffsetAndMetadata(offset, text) for p, offset in places.items()})
