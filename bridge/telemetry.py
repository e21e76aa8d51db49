"""What the program says of itself: JSON lines on standard error when nobody watches, text with colour on a terminal."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import MutableMapping
from datetime import UTC, datetime
from typing import Any, Final, TextIO

import msgspec
import structlog


def configure(level: str = "info", *, stream: TextIO | None = None, as_json: bool | None = None) -> None:
    """Sets up logging for the process. `as_json` None: by whether the stream is a terminal."""
    out = stream if stream is not None else sys.stderr
    json = as_json if as_json is not None else not out.isatty()
    number = getattr(logging, level.upper())
    shown: list[Any] = [_JsonLine()] if json else [structlog.processors.add_log_level, *_ON_A_TERMINAL]
    structlog.configure(
        processors=shown,
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=lambda *name: _Logger(out, *name),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(handlers=[_Forward()], level=max(number, logging.WARNING), force=True)


_ON_A_TERMINAL: Final = (
    structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False),
    structlog.dev.ConsoleRenderer(colors=not os.environ.get("NO_COLOR")),
)


class _Logger(structlog.WriteLogger):
    """Writes lines and knows its name."""

    def __init__(self, out: TextIO, name: str = "") -> None:
        super().__init__(out)
        self.name = name


class _JsonLine:
    """The last and only processor: an event becomes one line. A run request may be a line, so its cost counts."""

    def __init__(self) -> None:
        self._second = 0
        self._prefix = ""
        self._encode = msgspec.json.Encoder(enc_hook=repr).encode

    def __call__(self, logger: _Logger, name: str, event: MutableMapping[str, Any]) -> str:
        if event.get("exc_info"):
            event = structlog.processors.format_exc_info(None, name, event)
        else:
            event.pop("exc_info", None)  # there was no exception, and no need to say so
        line = {"timestamp": self._now(), "level": name, "logger": logger.name, **event}
        try:
            return self._encode(line).decode()
        except (TypeError, ValueError):  # a text that is no UTF-8, a number that is no JSON
            return self._encode({key: ascii(value) for key, value in line.items()}).decode()

    def _now(self) -> str:
        """RFC 3339 in UTC; the part that changes once a second is kept."""
        now = time.time()
        second = int(now)
        if second != self._second:
            self._second, self._prefix = second, datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        return f"{self._prefix}.{int((now - second) * 1e6):06d}Z"


class _Forward(logging.Handler):
    """What libraries and asyncio log comes out in the same form."""

    def emit(self, record: logging.LogRecord) -> None:
        say = structlog.get_logger(record.name)
        say.log(record.levelno, record.getMessage(), exc_info=record.exc_info)
