"""What the commands that talk to a broker themselves have in common: `validate --connect`, `send` and `tail`."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Final, NamedTuple

import structlog

from bridge.cli.endings import LOG_LEVEL, Unmet
from bridge.config.model import Config, StreamConfig
from bridge.config.suggest import did_you_mean, listed
from bridge.ports import StreamKind
from bridge.wiring import KINDS

_CLIENTS: Final = ("aiokafka", "aiobotocore", "azure", "botocore", "google", "grpc")


class Named(NamedTuple):
    """A stream and what its kind can do."""

    stream: StreamConfig
    kind: StreamKind


def stream_called(name: str, config: Config) -> Named:
    """Raises Unmet for one that is not there."""
    stream = config.streams.get(name)
    if stream is None:
        hint = did_you_mean(name, config.streams, f"the streams are {listed(config.streams)}")
        raise Unmet(f"there is no stream {name!r}; {hint if config.streams else 'the configuration has none'}")
    return Named(stream, kind_of(stream))


def kind_of(stream: StreamConfig) -> StreamKind:
    with redirect_stdout(sys.stderr):
        return KINDS.streams[stream.kind]()


@contextmanager
def quiet() -> Iterator[None]:
    """What went wrong is the answer of the command; what a client's library logs of it beside that is left out.

    Unless the log level of the environment is `debug`.
    """
    if os.environ.get(LOG_LEVEL, "").lower() == "debug":
        yield
        return
    loggers = [logging.getLogger(name) for name in _CLIENTS]
    levels = [logger.level for logger in loggers]
    configured = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        structlog.configure(**configured)
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
