"""What starts runs."""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple, Protocol

from bridge.ports.stores import Claim


class Launched(NamedTuple):
    """What a target said. `state` is `started` where it doesn't tell how the run ends."""

    state: Literal["started", "succeeded", "failed_run"]
    run_id: str = ""
    url: str = ""
    error: str = ""


class Target(Protocol):
    """What starts runs. `launch` is called with the same claim again after a failure or a crash, so it must be keyed.

    It raises `Transient` (tried again with back-off, bounded) or `Refused` (never again: `failed`); anything else
    counts as Transient and is logged with its stack. It bounds itself by `timeout` seconds.
    """

    kind: ClassVar[str]
    guarantee: ClassVar[str]  # one of: keyed, looked-up, at least once
    timeout: float

    async def launch(self, claim: Claim) -> Launched: ...
    async def aclose(self) -> None: ...
