"""What the facts of a cluster mean for a stream: each function looks at one of them, and returns findings. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from aiokafka import TopicPartition

from bridge.core.units import format_duration, format_size
from bridge.ports import Finding
from connectors.kafka.cluster import Group, Topic
from connectors.kafka.codecs import INSTALL, PACKAGE
from connectors.kafka.lanes import lane_text
from connectors.kafka.options import KafkaOptions

MAX_BYTES: Final = "max.message.bytes"
OURS: Final = "roundrobin"
"""How members of our groups share partitions: the client's default."""

_POLICY: Final = "cleanup.policy"
_SHOWN: Final = 5

Offsets = Mapping[TopicPartition, int]


def error(message: str, hint: str = "") -> Finding:
    return Finding("error", message, hint)


def warning(message: str, hint: str = "") -> Finding:
    return Finding("warning", message, hint)


# Topics --------------------------------------------------------------------------------------------------------------


def of_topic(name: str, topic: Topic | None, others: Sequence[str]) -> Iterator[Finding]:
    """A topic that is read. `others` are the names that we may see."""
    said = "UnknownTopicOrPartitionError" if topic is None else topic.error
    if said == "UnknownTopicOrPartitionError":
        yield error(f"there is no topic {name!r}", near(name, others))
    elif said == "TopicAuthorizationFailedError":
        yield error(f"we may not look at topic {name!r}", "grant Describe and Read on it to the user of this stream")
    elif said:
        yield error(f"topic {name!r} can't be had: {said}", "the log of the brokers says more")
    elif topic is not None:
        yield from _of_partitions(topic)


def _of_partitions(topic: Topic) -> Iterator[Finding]:
    headless = [str(number) for number, leader in topic.leaders.items() if leader < 0]
    if headless:
        yield error(
            f"topic {topic.name!r}: no broker leads partition {listed(headless)} now",
            "nothing comes from there until a broker that keeps it is back",
        )
    if topic.replicas and min(topic.replicas.values()) == 1:
        yield warning(
            f"topic {topic.name!r} is kept by one broker alone (replication factor 1)",
            "while that one is away nothing comes, and what its disk loses is lost; 3 is usual",
        )


def near(name: str, others: Sequence[str]) -> str:
    """What may have been meant."""
    close = difflib.get_close_matches(name, others, 3, 0.6)
    if close:
        return f"did you mean {' or '.join(repr(other) for other in close)}? Else create it"
    few = f" (there are {listed([repr(other) for other in others])})" if others else ", or grant Describe on it"
    return f"create it, or correct its name{few}"


def of_pattern(pattern: str, matched: Sequence[str], seen: int) -> Iterator[Finding]:
    if not matched:
        yield warning(
            f"`topic_pattern` {pattern!r} fits none of the {seen} topics that we may see",
            "it is held against whole names; a topic that is created later is seen within `discovery`",
        )


def of_settings(
    name: str, settings: Mapping[str, str], options: KafkaOptions, missing: Sequence[str]
) -> Iterator[Finding]:
    """`missing` are codecs that can't be read here."""
    codec = settings.get("compression.type", "")
    if codec in missing:
        yield error(
            f"topic {name!r} is compressed with {codec}, and the package {PACKAGE} is not installed",
            f"{INSTALL}; until then nothing of it can be read",
        )
    if "compact" in settings.get(_POLICY, ""):
        kept = "are events as well" if options.tombstones == "deliver" else "are left out"
        yield warning(
            f"topic {name!r} is compacted: of records with one key only the latest may come, and those without a value "
            f"(tombstones) {kept}",
            f"`tombstones: {'skip' if options.tombstones == 'deliver' else 'deliver'}` changes the second",
        )


# Dead letters --------------------------------------------------------------------------------------------------------


def of_dead_letters(
    options: KafkaOptions, topic: Topic | None, settings: Mapping[str, Mapping[str, str]], others: Sequence[str]
) -> Iterator[Finding]:
    """The topic that they are copied to. `settings` are those of all topics, as far as we may see them."""
    place = options.dead_letter
    if place is None:
        return
    if topic is None or topic.error == "UnknownTopicOrPartitionError":
        if not place.create:
            hint = f"{near(place.topic, others)}; with `create: true` it is made at the start"
            yield error(f"there is no topic {place.topic!r} for dead letters", hint)
        return
    if topic.error:
        yield error(
            f"the topic {place.topic!r} for dead letters can't be used: {topic.error}",
            "grant Describe and Write on it to the user of this stream",
        )
        return
    own = settings.get(place.topic, {})
    sizes = {name: int(each.get(MAX_BYTES) or 0) for name, each in settings.items()}
    most = sizes.pop(place.topic, 0)
    largest = max(sizes.values(), default=0)
    if 0 < most < largest:
        yield warning(
            f"the topic {place.topic!r} for dead letters takes {format_size(most)} at most, and a topic that is read "
            f"{format_size(largest)}",
            f"raise its {MAX_BYTES}: what is larger is copied without its body, which `headrace dlq show` has",
        )
    if "compact" in own.get(_POLICY, ""):
        yield error(
            f"the topic {place.topic!r} for dead letters is compacted: it refuses letters without a key, and loses all "
            "but the latest of a key",
            f"set its {_POLICY} to delete",
        )


# The group -----------------------------------------------------------------------------------------------------------


def of_group(options: KafkaOptions, group: Group, topics: frozenset[str], *, is_listed: bool) -> Iterator[Finding]:
    """`topics` are those that this stream reads. `is_listed`: the brokers know it."""
    about = f"group {options.group_id!r}"
    apart = "give this stream a `group_id` of its own"
    if group.error:
        yield error(
            f"{about} can't be looked at: {group.error}", "grant Describe and Read on it to the user of this stream"
        )
    elif group.state == "Dead" and is_listed:
        yield error(f"{about} is used by consumers of the newer protocol, or as another kind of group", apart)
    elif group.members and group.protocol_type != "consumer":
        yield error(f"{about} is used by clients of another kind ({group.protocol_type!r})", apart)
    elif group.members and group.protocol and group.protocol != OURS:
        yield error(
            f"{about} has {len(group.members)} members that share partitions by {group.protocol!r}, we by {OURS!r}: "
            "such a member is not let in",
            f"{apart}, or stop them first",
        )
    else:
        yield from _of_members(about, group, topics, apart)


def _of_members(about: str, group: Group, topics: frozenset[str], apart: str) -> Iterator[Finding]:
    for member in group.members:
        if member.topics is not None and member.topics != topics:
            yield error(
                f"{about} is used with another subscription: {member.client} on {member.host} reads "
                f"{listed(sorted(member.topics))}, and this stream {listed(sorted(topics))}",
                f"{apart}; if that is an earlier version of this stream, stop it first",
            )
            return  # one tells enough


def of_timeouts(options: KafkaOptions, broker: Mapping[str, str]) -> Iterator[Finding]:
    session = options.session_timeout * 1000
    least = int(broker.get("group.min.session.timeout.ms") or 0)
    most = int(broker.get("group.max.session.timeout.ms") or 0)
    if least and session < least:
        bound = f"at least {format_duration(least / 1000)} (group.min.session.timeout.ms)"
    elif most and session > most:
        bound = f"at most {format_duration(most / 1000)} (group.max.session.timeout.ms)"
    else:
        return
    yield error(f"`session_timeout` {format_duration(options.session_timeout)}: the brokers take {bound}", "correct it")


# Offsets -------------------------------------------------------------------------------------------------------------


def of_offsets(options: KafkaOptions, committed: Offsets, begins: Offsets, ends: Offsets) -> Iterator[Finding]:
    """Where the group stands, against what the partitions hold."""
    known = {p: offset for p, offset in committed.items() if p in begins and p in ends}
    if not known:
        yield from _of_first_start(options, begins, ends)
    gaps = [(p, offset) for p, offset in sorted(known.items()) if offset < begins[p]]
    ahead = [(p, offset) for p, offset in sorted(known.items()) if offset > ends[p]]
    if gaps:
        yield _gap(options, gaps, begins)
    if ahead:
        partition, offset = ahead[0]
        yield error(
            f"group {options.group_id!r} stands at offset {offset} of {lane_text(partition)}{_more(ahead)}, behind its "
            f"end ({ends[partition]})",
            "the topic was deleted and made again, or lost records: set the group's offsets (kafka-consumer-groups.sh "
            "--reset-offsets), or take a new `group_id` with a `start`",
        )


def _of_first_start(options: KafkaOptions, begins: Offsets, ends: Offsets) -> Iterator[Finding]:
    if options.start is None and begins:
        records = sum(max(0, ends[p] - begins[p]) for p in begins if p in ends)
        yield error(
            f"group {options.group_id!r} has no offsets yet, and `start` does not say where to begin",
            f"`start: earliest` means {records:,} records (or fewer: transactions and compaction leave holes), "
            "`start: latest` none of them; it may be a time or an offset, too",
        )
    if isinstance(options.start, int):
        outside = [(p, begins[p]) for p in sorted(begins) if p in ends and not begins[p] <= options.start <= ends[p]]
        if outside:
            partition = outside[0][0]
            yield warning(
                f"`start` {options.start} is outside of {lane_text(partition)}{_more(outside)}, which has offsets "
                f"{begins[partition]} to {ends[partition]}",
                "reading begins at the nearer end there",
            )


def _gap(options: KafkaOptions, gaps: Sequence[tuple[TopicPartition, int]], begins: Offsets) -> Finding:
    lost = sum(begins[p] - offset for p, offset in gaps)
    partition, offset = gaps[0]
    message = (
        f"{lost:,} records were deleted before group {options.group_id!r} has read them: {lane_text(partition)} from "
        f"offset {offset} to {begins[partition] - 1}{_more(gaps)}"
    )
    if options.on_gap == "stop":
        return error(message, "`on_gap: stop` keeps the stream from starting: `on_gap: resume` goes on behind the gap")
    return warning(
        message, "`on_gap: resume` goes on behind the gap; a longer retention keeps records until they are read"
    )


# Words ---------------------------------------------------------------------------------------------------------------


def listed(items: Sequence[str]) -> str:
    """The first few."""
    shown = ", ".join(items[:_SHOWN])
    return f"{shown} and {len(items) - _SHOWN} more" if len(items) > _SHOWN else shown or "nothing"


def _more(items: Sequence[object]) -> str:
    return f" (and of {len(items) - 1} more partitions)" if len(items) > 1 else ""
