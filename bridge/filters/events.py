"""A poll as events: the JSON text of each, and the message that it came in.

Where a stream declares plain JSON a body is its event, and nothing is copied. Other formats make one event of a
message, several (a batch), or none (a message that is known to mean nothing).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from bridge.core.model import Context, Fault, Poll
from bridge.core.units import format_size
from bridge.decode.cloudevents import Headers
from bridge.decode.decoder import Decoder
from bridge.decode.json import DecodeFault, decode_whole, encoding_fault, is_utf8
from bridge.language.view import View


class Events(Struct, eq=False):
    """`texts` are the events; `owners` has the index of each one's message, ascending, `ordinals` its place in that.

    `faults` are by event, `lost` by message: nothing of those is an event. `attributes` are by event, where an envelope
    had some. `is_plain`: each message is one event, and their indexes are the same.
    """

    texts: Sequence[bytes]
    owners: Sequence[int]
    ordinals: Sequence[int]
    attributes: dict[int, Mapping[str, object]]
    faults: dict[int, Fault]
    lost: dict[int, Fault]
    ignored: dict[str, int]
    is_plain: bool


class _Zeros(Sequence[int]):
    """As many noughts as anybody asks for."""

    def __getitem__(self, index: object) -> int:  # type: ignore[override]  # no slices of it are needed
        return 0

    def __len__(self) -> int:
        return 0


_ZEROS = _Zeros()


def opened(poll: Poll, context: Context, decoder: Decoder | None, max_body: int) -> Events:
    """The events of a poll. Raises nothing but what `context.describe` raises."""
    if decoder is None:
        faults = _unreadable(poll, max_body)
        return Events(poll.bodies, range(len(poll.bodies)), _ZEROS, {}, faults, {}, {}, True)
    events = Events([], [], [], {}, {}, {}, {}, False)
    for index, (body, payload) in enumerate(zip(poll.bodies, poll.payloads, strict=True)):
        headers = context.describe(payload).headers if decoder.uses_headers else ()
        _open_one(events, index, body, headers, decoder, max_body)
    return events


def _open_one(
    events: Events,
    index: int,
    body: bytes,
    headers: Headers,
    decoder: Decoder,
    max_body: int,
) -> None:
    if len(body) > max_body:
        events.lost[index] = too_big(body, max_body)
        return
    try:
        decoded = decoder.events(body, headers)
    except DecodeFault as error:
        events.lost[index] = error.fault
        return
    if decoded.ignored:
        events.ignored[decoded.ignored] = events.ignored.get(decoded.ignored, 0) + 1
    texts, owners, ordinals = events.texts, events.owners, events.ordinals
    assert isinstance(texts, list)
    assert isinstance(owners, list)
    assert isinstance(ordinals, list)
    for n, event in enumerate(decoded.events):
        if event.attributes is not None:
            events.attributes[len(texts)] = event.attributes
        texts.append(event.text)
        owners.append(index)
        ordinals.append(n)


def _unreadable(poll: Poll, max_body: int) -> dict[int, Fault]:
    fits = poll.size <= max_body or max(map(len, poll.bodies)) <= max_body
    if fits and is_utf8(poll.bodies):
        return {}
    faults = (
        (index, too_big(body, max_body) if len(body) > max_body else encoding_fault(body))
        for index, body in enumerate(poll.bodies)
    )
    return {index: fault for index, fault in faults if fault is not None}


def too_big(body: bytes, max_body: int) -> Fault:
    return Fault("too_big", f"{len(body)} bytes, and `max_body` is {format_size(max_body)}")


class Views:
    """The views of a poll's events, each made when it is first asked for. Called, it gives that of event `index`."""

    __slots__ = ("_context", "_events", "_known", "_poll", "index")

    def __init__(self, events: Events, poll: Poll, context: Context) -> None:
        self.index = 0
        self._events = events
        self._poll = poll
        self._context = context
        self._known: dict[int, View] = {}

    def __call__(self) -> View:
        index = self.index
        view = self._known.get(index)
        if view is None:
            events = self._events
            payload = self._poll.payloads[events.owners[index]]
            view = View(events.texts[index], payload, self._context, events.attributes.get(index))
            self._known[index] = view
        return view


# One message, for a Python watcher ------------------------------------------------------------------------------------


class Opened(NamedTuple):
    """An event as a Python filter gets it, and what its run request may be made of."""

    event: Any
    view: View


def opened_whole(
    body: bytes, payload: object, context: Context, decoder: Decoder | None, *, strict: bool = False
) -> list[Opened]:
    """The events of one message, decoded whole; none where the message is known to mean nothing.

    Raises DecodeFault, and what `context.describe` raises.
    """
    if decoder is None:
        return [Opened(decode_whole(body, strict=strict), View(body, payload, context))]
    headers = context.describe(payload).headers if decoder.uses_headers else ()
    return [
        Opened(decode_whole(event.text), View(event.text, payload, context, event.attributes))
        for event in decoder.events(body, headers).events
    ]
