"""What the program says of itself: JSON lines on standard error when nobody watches, text with colour on a terminal."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, Final, TextIO

import msgspec
import structlog

LEVELS: Final = ("debug", "info", "warning", "error")


def configure(level: str = "info", *, stream: TextIO | None = None, as_json: bool | None = None) -> None:
    """Sets up logging for the process. `as_json` None: by whether the stream is a terminal."""
    out = stream if stream is not None else sys.stderr
    json = as_json if as_json is not None else not out.isatty()
    number = getattr(logging, level.upper())
    shown: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if json:
        shown += [structlog.processors.format_exc_info, _to_json]
    else:
        shown.append(structlog.dev.ConsoleRenderer(colors=True))
    structlog.configure(
        processors=shown,
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=out),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(handlers=[_Forward()], level=max(number, logging.WARNING), force=True)


def _to_json(_: object, __: str, event: MutableMapping[str, Any]) -> str:
    return msgspec.json.encode(event, enc_hook=repr, order="deterministic").decode("utf-8", "replace")


class _Forward(logging.Handler):
    """What libraries and asyncio log comes out in the same form."""

    def emit(self, record: logging.LogRecord) -> None:
        say = structlog.get_logger(record.name)
        say.log(record.levelno, record.getMessage(), exc_info=record.exc_info)
