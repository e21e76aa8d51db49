"""What can be found wrong with the options of a stream before anything is connected to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import structlog

from bridge.core.errors import Refused
from bridge.core.units import format_duration
from connectors.kafka.codecs import codec_warning, missing_codecs
from connectors.kafka.membership import REVOKED_WITHIN
from connectors.kafka.options import KafkaOptions, Sasl, Tls, start_of
from connectors.kafka.security import ssl_context
from connectors.kafka.tokens import token_problems

log = structlog.get_logger("headrace.kafka")

TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_HOST_PORT: Final = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[^\s:/\[\]]+):([0-9]{1,5})")
_PORTS: Final = 65_535


def problems_of(options: KafkaOptions) -> Sequence[str]:
    """Start-up problems, as sentences. A codec that is missing is a warning in the log."""
    if warning := codec_warning(missing_codecs()):
        log.warning(warning)
    problems = [*_servers(options), *_topics(options), *_start(options), *_times(options), *_dead_letters(options)]
    if options.tls is not None:
        problems += _tls(options.tls)
    if options.sasl is not None:
        problems += _sasl(options.sasl)
    return problems


def _servers(options: KafkaOptions) -> Iterator[str]:
    for server in options.bootstrap_servers:
        found = _HOST_PORT.fullmatch(server)
        if found is None or not 0 < int(found[1]) <= _PORTS:
            yield (
                f"`bootstrap_servers`: {server!r} is not HOST:PORT: write it like broker-1.example.com:9092, an IPv6 "
                "address in brackets"
            )
    if len(set(options.bootstrap_servers)) < len(options.bootstrap_servers):
        yield "`bootstrap_servers` names a server twice: leave one out"


def _topics(options: KafkaOptions) -> Iterator[str]:
    if bool(options.topics) == (options.topic_pattern is not None):
        what = "both are there" if options.topics else "there is neither"
        yield f"a stream reads `topics` or what fits `topic_pattern`, and {what}: write one of them"
    for topic in options.topics:
        if problem := topic_problem(topic):
            yield f"`topics`: {problem}"
    if len(set(options.topics)) < len(options.topics):
        yield "`topics` names a topic twice: leave one out"
    if options.topic_pattern is not None:
        try:
            re.compile(options.topic_pattern)
        except re.error as error:
            yield (
                f"`topic_pattern` {options.topic_pattern!r} is no regular expression: {error}; it is held against "
                r"whole names, like orders\..*"
            )


def topic_problem(topic: str) -> str:
    """Why no topic can be called this; empty where one can."""
    if TOPIC.fullmatch(topic) and topic not in (".", ".."):
        return ""
    pattern = "; a pattern goes into `topic_pattern`" if re.search(r"[*+?|(\[\\]", topic) else ""
    return f"{topic!r} can't be the name of a topic: letters, digits, '.', '_' and '-', 249 at most{pattern}"


def _start(options: KafkaOptions) -> Iterator[str]:
    if options.start is None:
        return  # needed for a first start alone, and only the group's coordinator knows whether this is one
    try:
        start_of(options)
    except ValueError as error:
        yield str(error)


def _times(options: KafkaOptions) -> Iterator[str]:
    session, heartbeat = options.session_timeout, options.heartbeat_interval
    if heartbeat > session / 3:
        yield (
            f"`heartbeat_interval` {format_duration(heartbeat)} is more than a third of `session_timeout` "
            f"{format_duration(session)}: two lost heartbeats would end the membership; lower it to "
            f"{format_duration(session / 3)} or less"
        )
    if options.rebalance_timeout < heartbeat + REVOKED_WITHIN:
        yield (
            f"`rebalance_timeout` {format_duration(options.rebalance_timeout)} is too short: a member hears of a "
            f"rebalance with its next heartbeat ({format_duration(heartbeat)}), and then commits what is resolved "
            f"(up to {format_duration(REVOKED_WITHIN)}); allow for both"
        )
    if options.request_timeout <= options.fetch_max_wait:
        yield (
            f"`request_timeout` {format_duration(options.request_timeout)} is not longer than `fetch_max_wait` "
            f"{format_duration(options.fetch_max_wait)}, for which the broker may hold a fetch back: raise it"
        )
    if options.max_partition_fetch_bytes > options.fetch_max_bytes:
        yield "`max_partition_fetch_bytes` is more than `fetch_max_bytes`, which bounds all partitions: lower it"
    if options.group_instance_id is not None and not TOPIC.fullmatch(options.group_instance_id):
        yield (
            f"`group_instance_id` {options.group_instance_id!r}: letters, digits, '.', '_' and '-', 249 at most; each "
            "instance has one of its own, like headrace-${HOSTNAME}"
        )


def _dead_letters(options: KafkaOptions) -> Iterator[str]:
    if options.dead_letter is None:
        return
    topic = options.dead_letter.topic
    if problem := topic_problem(topic):
        yield f"`dead_letter.topic`: {problem}"
    again = "so every dead letter would be read as a message again: name another topic"
    if topic in options.topics:
        yield f"`dead_letter.topic` {topic!r} is one of the `topics` that this stream reads, {again}"
    elif options.topic_pattern is not None and _fits(options.topic_pattern, topic):
        pattern = f"`topic_pattern` {options.topic_pattern!r}"
        yield f"`dead_letter.topic` {topic!r} fits {pattern}, {again}, or narrow the pattern"
    if options.dead_letter.replication_factor == 0:
        yield "`dead_letter.replication_factor` 0: write how many brokers keep the topic; -1 is the cluster's default"


def _fits(pattern: str, topic: str) -> bool:
    try:
        return re.fullmatch(pattern, topic) is not None
    except re.error:
        return False


# Who we are ----------------------------------------------------------------------------------------------------------


def _tls(tls: Tls) -> Iterator[str]:
    if tls.key_file is not None and tls.cert_file is None:
        yield "`tls.key_file` without `tls.cert_file`: the certificate that the key belongs to is missing"
    try:
        ssl_context(tls)
    except Refused as error:
        yield str(error)


def _sasl(sasl: Sasl) -> Iterator[str]:
    named = sasl.username is not None or sasl.password is not None
    if sasl.mechanism == "OAUTHBEARER":
        if named:
            yield "`sasl`: OAUTHBEARER takes a `token`, and no `username` and `password`: remove them"
        if sasl.token is None:
            yield "`sasl`: OAUTHBEARER needs `token`, with a `provider` or with `msk_region`"
        else:
            yield from token_problems(sasl.token)
        return
    missing = [name for name in ("username", "password") if getattr(sasl, name) is None]
    if missing:
        yield f"`sasl`: {sasl.mechanism} needs {' and '.join(f'`{name}`' for name in missing)}"
    if sasl.token is not None:
        yield f"`sasl`: {sasl.mechanism} takes no `token`: remove it, or write `mechanism: OAUTHBEARER`"
