"""What a kind of stream or target brings along: the entries of the registries."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from msgspec import Struct

from bridge.core.model import Meta
from bridge.ports.streams import Producer, Relay
from bridge.ports.targets import Target


class Finding(NamedTuple):
    """What a look at the real broker has shown: what is wrong, with the value seen, and what to do about it."""

    severity: Literal["error", "warning"]
    message: str
    hint: str = ""


class Outgoing(NamedTuple):
    """A message for `headrace send`. `body` None: it has none, where the broker knows that. `lane`: where to."""

    body: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    lane: str | None = None


class Sender(Protocol):
    """`send` returns the position of each message once the broker has confirmed it. Raises Refused or Transient."""

    async def send(self, messages: Sequence[Outgoing]) -> Sequence[str]: ...
    async def aclose(self) -> None: ...


class Seen(NamedTuple):
    """A message as `headrace tail` shows it. `body` None: it has none."""

    meta: Meta
    body: bytes | None


class Bounds(NamedTuple):
    """Defaults of a kind for the keys of the same name: `advance_max` events of UNORDERED go into one `advance`.

    `max_outstanding` of a kind that lends is what it can renew in time.
    """

    max_outstanding: int = 10_000
    max_advancing: int = 8
    advance_max: int = 500


class StreamKind(NamedTuple):
    """One connector: what its registry entry (`connectors.KINDS`) points to.

    `options` is the Struct of its own keys (fields may be `Duration` and `Size` of `bridge.core.units`); `build`
    makes a fresh producer without connecting; `source` is what the broker calls the source, the part of run keys
    that no rename may change; `check` returns start-up problems as sentences and connects to nothing remote.

    What follows is optional. `share`: what two streams must not have in common, since they would steal each other's
    messages (default: the source). `examine` connects and returns what is wrong there; it takes nothing from the
    stream, and bounds itself. `relay`: where dead letters are copied to, None where the options name no place.
    `sender` and `tail` are for people: `tail` shows messages from now on, or `last` earlier ones first, takes
    nothing from the stream, and runs until it is closed. They raise Refused or Transient. `bounds`: see there. `notes`
    says in half sentences what `headrace show` should tell of a stream with these options.
    """

    options: type[Struct]
    build: Callable[[Any], Producer]
    source: Callable[[Any], str]
    check: Callable[[Any], Sequence[str]] = lambda _options: ()
    share: Callable[[Any], str] | None = None
    examine: Callable[[Any], Awaitable[Sequence[Finding]]] | None = None
    relay: Callable[[Any], Relay | None] | None = None
    sender: Callable[[Any], Sender] | None = None
    tail: Callable[[Any, int], AsyncIterator[Seen]] | None = None
    bounds: Bounds = Bounds()
    notes: Callable[[Any], Sequence[str]] = lambda _options: ()


class TargetKind(NamedTuple):
    """One orchestrator: `build(name, options, state_dir)`; `state_dir` is a folder of the instance for local files."""

    options: type[Struct]
    build: Callable[[str, Any, str], Target]
    check: Callable[[Any], Sequence[str]] = lambda _options: ()
