"""What a user writes for a stream of kind `kafka`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

from bridge.core.units import Duration, Size
from bridge.language.times import timestamp_of
from bridge.language.values import Fail

Text = Annotated[str, Meta(min_length=1)]
FilePath = Annotated[str, Meta(min_length=1, extra={"is_path": True}, description="the path of a PEM file")]
"""A relative one begins at the folder of the YAML file that it stands in."""
Positive = Annotated[Duration, Meta(gt=0)]


class Tls(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """TLS to the brokers. Paths to PEM files; without `ca_file` the system's certificates count.

    `verify` false accepts any certificate, and then only the network keeps others away.
    """

    ca_file: FilePath | None = None
    cert_file: FilePath | None = None
    key_file: FilePath | None = None
    key_password: Text | None = None
    check_hostname: bool = True
    verify: bool = True

    def __repr__(self) -> str:
        return "Tls(…)"


class Token(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where OAUTHBEARER tokens come from: `provider`, an import path of a class that is made with `kwargs` and has
    `async def token() -> str` (aiokafka's AbstractTokenProvider), or `msk_region` for IAM on Amazon MSK.
    """

    provider: Text | None = None
    kwargs: dict[str, Any] = {}
    msk_region: Text | None = None

    def __repr__(self) -> str:
        return "Token(…)"


class Sasl(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who we are. `username` and `password` for PLAIN and SCRAM, `token` for OAUTHBEARER.

    Without `tls` a password (PLAIN) or a token travels in the clear: `validate --connect` warns of it.
    """

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
    username: Text | None = None
    password: Text | None = None
    token: Token | None = None

    def __repr__(self) -> str:
        return f"Sasl({self.mechanism!r}, …)"


class DeadLetterTopic(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The topic that dead letters are copied to. With `create` it is made where it does not exist."""

    topic: Text
    create: bool = False
    partitions: Annotated[int, Meta(ge=1)] = 1
    replication_factor: Annotated[int, Meta(ge=-1)] = -1  # -1: the cluster's default


class KafkaOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`topics` or `topic_pattern` (a regular expression for whole names), read as a member of `group_id`.

    `cluster` is the part of run keys that says which cluster it is: by default the bootstrap servers as written, so
    give it (their old list) before you change these. `start` says where a group without any offset begins: `earliest`,
    `latest`, an RFC 3339 time, or an offset; there is no default. `on_gap`: what to do when retention has deleted
    records that were not read: go on behind the gap, or stop. `discovery`: how soon a new topic or partition is seen.
    A member that is not heard of for `session_timeout` has left; `rebalance_timeout` is what all of them have to come
    together again.
    """

    bootstrap_servers: Annotated[list[Text], Meta(min_length=1)]
    group_id: Text
    topics: list[Text] = []
    topic_pattern: Text | None = None
    cluster: Text | None = None
    start: Annotated[int, Meta(ge=0)] | Text | None = None
    on_gap: Literal["resume", "stop"] = "resume"
    tombstones: Literal["skip", "deliver"] = "skip"
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    dead_letter: DeadLetterTopic | None = None
    tls: Tls | None = None
    sasl: Sasl | None = None
    discovery: Positive = 30.0
    session_timeout: Positive = 45.0
    heartbeat_interval: Positive = 3.0
    rebalance_timeout: Positive = 60.0
    request_timeout: Positive = 30.0
    group_instance_id: Text | None = None
    client_id: Text = "headrace"
    client_rack: Text | None = None
    fetch_max_wait: Positive = 0.5
    fetch_min_bytes: Annotated[int, Meta(ge=1)] = 1
    fetch_max_bytes: Annotated[Size, Meta(ge=1024)] = 50 * 1024 * 1024
    max_partition_fetch_bytes: Annotated[Size, Meta(ge=1024)] = 1024 * 1024
    poll_records: Annotated[int, Meta(ge=1)] = 500

    def __repr__(self) -> str:
        return "KafkaOptions(…)"  # may hold a password


class Start(Struct, frozen=True):
    """Where a group without offsets begins. `value` is an offset, or a time in ms since 1970; else 0."""

    kind: Literal["earliest", "latest", "timestamp", "offset"]
    value: int = 0


STARTS: Final = "`earliest`, `latest`, a time like 2026-11-30T00:00:00Z, or an offset"
_NS_IN_MS: Final = 1_000_000


def start_of(options: KafkaOptions) -> Start:
    """What `start` says. Raises ValueError, with a sentence, where it says nothing that can be understood."""
    start = options.start
    if start is None:
        raise ValueError(f"`start` is missing: say where a group without offsets begins, with {STARTS}")
    if isinstance(start, int):
        return Start("offset", start)
    if start == "earliest":
        return Start("earliest")
    if start == "latest":
        return Start("latest")
    time = timestamp_of(start)
    if isinstance(time, Fail):
        raise ValueError(f"`start` {start!r} is none of these: {STARTS}")
    return Start("timestamp", max(0, time.ns // _NS_IN_MS))  # Kafka counts from 1970, and so takes none before


def check(options: KafkaOptions) -> Sequence[str]:
    """Start-up problems, as sentences; connects to nothing."""
    from connectors.kafka.check import problems_of  # which needs the options

    return problems_of(options)
