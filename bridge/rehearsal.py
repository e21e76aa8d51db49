"""What the watchers of a stream would make of a message, without a broker, a store or a run.

The message goes the way that it goes in `headrace run`: through the stream's decoder and the compiled router. Beside
it the slow interpreter evaluates the same conditions and tells what each clause saw. Should the two ever disagree,
that is a defect of ours, and said.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from bridge.config.model import Config, StreamConfig
from bridge.core.model import Context, Fault, Meta, Poll, Record, Reject, Routed, Run, Slice
from bridge.decode.decoder import Decoder
from bridge.decode.json import DecodeFault, decode_whole
from bridge.filters.events import Events, opened
from bridge.filters.records import FILTER_ERROR, REJECTED
from bridge.filters.router import Declared
from bridge.language.ir import AllOf, Expr
from bridge.language.trace import Traced, trace, verdict
from bridge.language.values import Fail, Truth
from bridge.language.view import View
from bridge.runtime.clock import SystemClock
from bridge.runtime.schemas import SchemaRegistry, UnusableSchema
from bridge.wiring import declared_of, decoder_of_stream, router_of

Verdict = Literal["match", "no_match", "missing_field", "error", "reject", "dead_letter", "python"]
"""`reject`: the watcher's own `reject` holds; `dead_letter`: any other. `python`: only its code knows."""

_EVERY: Final = AllOf(())


class Sample(Struct, frozen=True):
    """A message as a producer would hand it over."""

    body: bytes
    meta: Meta = Meta("")


class Asked(Struct, frozen=True):
    """What the conditions of a watcher said of one event. `reject` None: there is none, or it was not asked."""

    condition: Traced
    truth: Truth
    reject: Traced | None = None
    reject_truth: Truth = False

    @property
    def error(self) -> str:
        """Why it can't be said whether the watcher takes the event; "" where it can."""
        return next((truth.message for truth in (self.truth, self.reject_truth) if isinstance(truth, Fail)), "")


class Outcome(Struct, frozen=True):
    """What a watcher makes of the message. `reason` and `error` are those of a dead letter.

    `runs` in their order; their `tags` are filled in. `asked` has an item for each event of the message, none where it
    could not be read. `defect` says how the compiled filter and the traced one differ: then we are wrong.
    """

    watcher: str
    verdict: Verdict
    reason: str = ""
    error: str = ""
    runs: tuple[Run, ...] = ()
    asked: tuple[Asked, ...] = ()
    defect: str = ""


class Rehearsed(Struct, frozen=True):
    """`fault`: nobody can read it, and it is a dead letter for all. `events`: how many the message is.

    `ignored`: why it is none. `flaw`: it is no strict JSON, which no watcher was interested enough to notice.
    `outcomes` by watcher, of those that were asked for.
    """

    fault: Fault | None
    events: int
    outcomes: Mapping[str, Outcome]
    ignored: str = ""
    flaw: Fault | None = None


class NeedsSchema(Exception):
    """The message names a schema that is not known here; `schema_id` is what a registry calls it."""

    def __init__(self, schema_id: int) -> None:
        super().__init__(schema_id)
        self.schema_id = schema_id


class Stage:
    """The watchers of one stream, disabled ones included. Raises Refused where the stream can't be decoded."""

    def __init__(self, config: Config, stream: StreamConfig) -> None:
        self.stream = stream
        self.declared: Mapping[str, Declared] = {d.plan.watcher: d for d in declared_of(config, stream)}
        self.python = tuple(w.id for w in config.watchers if w.stream == stream.name and w.trigger is not None)
        self.decoder: Decoder | None = decoder_of_stream(stream)
        self._router = router_of(self.declared.values(), stream, self.decoder)
        self._asked_for: set[int] = set()

    def rehearse(self, sample: Sample, now: float, watchers: Collection[str] | None = None) -> Rehearsed:
        """`now` in seconds since 1970; `watchers` names those that are asked for, by default all.

        Raises NeedsSchema.
        """
        self._require_schema(sample)
        poll = Poll([Slice(None, 0, 1)], [sample.body], [sample.meta])
        context = Context(self.stream.name, _itself, now)
        routed = self._router.route(poll, context)
        python = {name: Outcome(name, "python") for name in self.python if watchers is None or name in watchers}
        declared = {name: each for name, each in self.declared.items() if watchers is None or name in watchers}
        fault = routed.faults.get(0)
        if fault is not None:
            refused = {name: Outcome(name, "dead_letter", fault.reason, fault.error) for name in declared}
            return Rehearsed(fault, 0, python | refused)
        events = opened(poll, context, self.decoder, self.stream.max_body)
        views = [
            View(text, sample.meta, context, events.attributes.get(index)) for index, text in enumerate(events.texts)
        ]
        outcomes = {
            name: _outcome(each, _records_of(routed, name), _asked(each, views)) for name, each in declared.items()
        }
        return Rehearsed(None, len(views), outcomes | python, next(iter(events.ignored), ""), self._flaw(events))

    async def learn(self, schema_id: int) -> None:
        """Asks the stream's registry for a schema, once. Raises Transient and Refused."""
        self._asked_for.add(schema_id)
        avro = self.stream.decode.avro
        if self.decoder is None or avro is None or avro.registry is None:
            return
        registry = SchemaRegistry(avro.registry, SystemClock())
        try:
            self.decoder.learn(schema_id, await registry.fetch(schema_id))
        except UnusableSchema as error:
            self.decoder.learn(schema_id, None, str(error))
        finally:
            await registry.aclose()

    def _require_schema(self, sample: Sample) -> None:
        needed = self.decoder.needs(sample.body) if self.decoder is not None else None
        if needed is not None and needed not in self._asked_for:
            raise NeedsSchema(needed)

    def _flaw(self, events: Events) -> Fault | None:
        if not events.is_plain:
            return None
        try:
            decode_whole(events.texts[0], strict=self.stream.is_strict)
        except DecodeFault as error:
            return error.fault
        return None


def _itself(meta: Any) -> Meta:
    """The payload of a sample is its Meta."""
    assert isinstance(meta, Meta)
    return meta


def conditions_of(declared: Declared) -> tuple[Expr, ...]:
    """The conditions of a watcher in the order in which they are asked."""
    return tuple(node for node in (declared.condition, declared.reject) if node is not None)


# One watcher ---------------------------------------------------------------------------------------------------------


def _asked(declared: Declared, views: Sequence[View]) -> tuple[Asked, ...]:
    """Empty where the text can't be read: no watcher wanted it, so the router has not looked either."""
    condition = _EVERY if declared.condition is None else declared.condition
    asked: list[Asked] = []
    for view in views:
        try:
            truth = verdict(condition, view)
            traced = trace(condition, view)
            if truth is True and declared.reject is not None:
                asked.append(Asked(traced, truth, trace(declared.reject, view), verdict(declared.reject, view)))
            else:
                asked.append(Asked(traced, truth))
        except DecodeFault:
            return ()
    return tuple(asked)


def _records_of(routed: Routed, watcher: str) -> list[Run | Reject]:
    return [r for r in routed.records if isinstance(r, Run | Reject) and _watcher_of(r) == watcher]


def _watcher_of(record: Record) -> str:
    return record.plan.watcher if isinstance(record, Run) else record.watcher


def _outcome(declared: Declared, records: Sequence[Run | Reject], asked: tuple[Asked, ...]) -> Outcome:
    watcher, defect = declared.plan.watcher, _defect(declared, records, asked)
    runs = tuple(_with_tags(record) for record in records if isinstance(record, Run))
    reject = next((record for record in records if isinstance(record, Reject)), None)
    if reject is not None:
        verdict: Verdict = "reject" if reject.reason == REJECTED else "dead_letter"
        return Outcome(watcher, verdict, reject.reason, reject.error, runs, asked, defect)
    if runs:
        return Outcome(watcher, "match", runs=runs, asked=asked, defect=defect)
    error = next((each.error for each in asked if each.error), "")
    if error:
        return Outcome(watcher, "error", error=error, asked=asked, defect=defect)
    is_missing = any(each.truth is None for each in asked)
    return Outcome(watcher, "missing_field" if is_missing else "no_match", asked=asked, defect=defect)


def _with_tags(run: Run) -> Run:
    return run if run.tags is not None else msgspec.structs.replace(run, tags=run.plan.tags)


def _defect(declared: Declared, records: Sequence[Run | Reject], asked: tuple[Asked, ...]) -> str:
    """How what the router did differs from what the trace says that it should do; "" where it doesn't."""
    if not asked:
        return ""
    seen: set[Kind] = {_kind_of(record) for record in records}
    due: set[Kind] = {kind for each in asked if (kind := _due(declared, each)) is not None}
    if seen == due:
        return ""
    return f"the compiled filter gives {_named(seen)}, the traced one {_named(due)}"


Kind = Literal["a run", "a reject", "a filter error"]


def _kind_of(record: Run | Reject) -> Kind:
    """A run whose params could not be made is a run to the filter."""
    if isinstance(record, Run):
        return "a run"
    return "a reject" if record.reason == REJECTED else "a filter error" if record.reason == FILTER_ERROR else "a run"


def _due(declared: Declared, asked: Asked) -> Kind | None:
    if asked.error:
        return "a filter error" if declared.on_error == "reject" else None
    if asked.truth is not True:
        return None
    return "a reject" if asked.reject_truth is True else "a run"


def _named(kinds: Collection[Kind]) -> str:
    return " and ".join(sorted(kinds)) if kinds else "nothing"
