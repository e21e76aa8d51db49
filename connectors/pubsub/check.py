"""What can be found wrong with the options of a stream before anything is connected to."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from bridge.core.units import format_duration
from connectors.pubsub.options import SECURE, PubSubOptions, is_plain, subscription_of, target_of, topic_of

EMULATOR: Final = "PUBSUB_EMULATOR_HOST"
"""What Google's own clients look at, but for the asynchronous ones: those would go to the real service."""

_PROJECT: Final = r"(?:[a-z0-9.-]+:)?[a-z][a-z0-9-]{2,28}[a-z0-9]|[0-9]+"
_NAME: Final = re.compile(r"(?!goog)[A-Za-z][A-Za-z0-9._~+%-]{2,254}")
_HOST_PORT: Final = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[^\s:/\[\]]+):([0-9]{1,5})")
_PORTS: Final = 65_535


def problems_of(options: PubSubOptions, environment: Mapping[str, str] = os.environ) -> Sequence[str]:
    """Start-up problems, as sentences."""
    problems = [*_names(options), *_endpoint(options), *_times(options)]
    return [*problems, *refused_environment(options, environment)]


def refused_environment(options: PubSubOptions, environment: Mapping[str, str]) -> Iterator[str]:
    """Whoever sets the variable of the emulator means the emulator; going to Google then would be a bad surprise."""
    host = environment.get(EMULATOR)
    if host and options.endpoint is None:
        yield (
            f"{EMULATOR} is set to {host!r}, and the stream has no `endpoint`: write `endpoint: ${{{EMULATOR}}}` to "
            "use the emulator, or unset the variable to use Google's service"
        )


def _names(options: PubSubOptions) -> Iterator[str]:
    subscription = subscription_of(options)
    if "/" in options.subscription and options.project is not None:
        yield "`project` is given twice: `subscription` is a whole name; leave `project` out"
    if problem := name_problem(subscription, "subscriptions", options):
        yield f"`subscription`: {problem}"
    if options.dead_letter is not None:
        topic = topic_of(options, options.dead_letter)
        if problem := name_problem(topic, "topics", options):
            yield f"`dead_letter.topic`: {problem}"


def name_problem(name: str, kind: str, options: PubSubOptions) -> str:
    """Why nothing can be called this; empty where something can. Projects of an emulator have any name."""
    parts = name.split("/")
    if len(parts) != 4 or parts[0] != "projects" or parts[2] != kind:
        return f"{name!r} is no name: write projects/PROJECT/{kind}/NAME, or the last part of it beside `project`"
    if not is_plain(options) and not re.fullmatch(_PROJECT, parts[1]):
        return f"{parts[1]!r} can't be the id of a project: 6 to 30 small letters, digits and '-'"
    if not _NAME.fullmatch(parts[3]):
        return (
            f"{parts[3]!r} can't be a name: 3 to 255 letters, digits and -._~+%, beginning with a letter and not with "
            "'goog'"
        )
    return ""


def _endpoint(options: PubSubOptions) -> Iterator[str]:
    if options.endpoint is not None:
        found = _HOST_PORT.fullmatch(target_of(options))
        if found is None or not 0 < int(found[1]) <= _PORTS:
            yield (
                f"`endpoint` {options.endpoint!r} is neither HOST:PORT (an emulator, in the clear) nor "
                f"{SECURE}HOST[:PORT] (a regional endpoint, like {SECURE}europe-west1-pubsub.googleapis.com)"
            )
    if is_plain(options):
        for name in ("credentials_file", "ca_file"):
            if getattr(options, name) is not None:
                yield f"`{name}` and a plain `endpoint` {options.endpoint!r}: it would not be used; leave one out"
    for name in ("credentials_file", "ca_file"):
        path = getattr(options, name)
        if path is not None and not os.path.isfile(path):
            yield f"`{name}` {path}: there is no such file"


def _times(options: PubSubOptions) -> Iterator[str]:
    if options.ack_deadline != int(options.ack_deadline):
        yield f"`ack_deadline` {format_duration(options.ack_deadline)}: Pub/Sub knows whole seconds"
    if options.retry_delay_max < options.retry_delay:
        yield (
            f"`retry_delay_max` {format_duration(options.retry_delay_max)} is less than `retry_delay` "
            f"{format_duration(options.retry_delay)}: raise it"
        )
