"""Writes each run request to the log and starts nothing: to try a configuration, and to measure what comes before."""

from __future__ import annotations

from typing import ClassVar, Final, Literal

import msgspec
import structlog
from msgspec import Struct

from bridge.core.errors import Refused
from bridge.ports import Claim, Launched, TargetKind

log = structlog.get_logger("headrace.run")

_decode: Final = msgspec.json.Decoder(dict[str, object]).decode
_STARTED: Final = Launched("started")


class LogOptions(Struct, frozen=True):
    """`level` is that of the line."""

    level: Literal["debug", "info", "warning"] = "info"


class LogTarget:
    """At least once: a line can't be taken back, and nobody can be asked whether it was written."""

    kind: ClassVar[str] = "log"
    guarantee: ClassVar[str] = "at least once"

    def __init__(self, name: str, options: LogOptions, _state_dir: str) -> None:
        self.timeout = 10.0
        self._name = name
        self._level: Final = options.level

    async def launch(self, claim: Claim) -> Launched:
        """Suspends nowhere: the line has been handed over when it returns. Costs what structlog costs, some 8 µs."""
        try:
            params = _decode(claim.params)
            tags = _decode(claim.tags) if claim.tags != b"{}" else {}
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Refused(f"params or tags are not a JSON object: {error}") from error
        getattr(log, self._level)(
            "Run requested",
            run_key=claim.run_key,
            target=self._name,
            watcher=claim.watcher,
            job=claim.job,
            params=params,
            tags=tags,
        )
        return _STARTED

    async def aclose(self) -> None:
        """Nothing is open."""


KIND: Final = TargetKind(options=LogOptions, build=LogTarget)
