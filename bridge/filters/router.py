"""The declarative watchers of a group as one router: a poll in, its records and faults out.

Five passes over a poll, each a loop inside the interpreter or the decoder and not one of ours, because at 0.3 µs an
event the loop is what costs:

1. size and encoding of every body; where the stream declares a format other than JSON, its events as JSON;
2. the fields in use, decoded; an event that the decoder refuses is read again, alone, to say why;
3. one look-up per shape;
4. of the few watchers that are found, what a look-up can't tell;
5. for the few events that match: the whole document, strictly, and the params of each watcher.

So an event that matches nothing is proved to be UTF-8, and to be well-formed as far as a decoder that skips must look;
what becomes a record is proved whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from msgspec import Struct

from bridge.core.model import Context, Fault, Outcome, Poll, Routed
from bridge.decode.decoder import Decoder
from bridge.decode.json import DecodeFault, decode, decode_whole, faults_of
from bridge.filters.buckets import Candidate
from bridge.filters.events import Views, opened
from bridge.filters.index import Candidates, Found, Index
from bridge.filters.records import Recorder, Refusals
from bridge.filters.shapes import Table
from bridge.filters.watch import Declared, Watch
from bridge.language.values import Fail

__all__ = ["Declared", "FilterRouter", "Outcome"]

MOST_ASKED: Final = 64
"""Watchers that are asked, each, about an event that lacks a field of their key. More of them are counted together."""

NOWHERE: Final = Context()


class FilterRouter:
    """A `bridge.ports.Router`. `max_body` in bytes; `strict` refuses duplicate keys in every event, and is slow.

    Records of one event come in the order in which its watchers were added. Without watchers only size and encoding are
    looked at: then the bodies are decoded by whoever pulls them. `decoder` None: bodies are JSON. Watchers with an id
    in `disabled` are known and not asked.
    """

    def __init__(
        self,
        watchers: Iterable[Declared],
        *,
        max_body: int,
        disabled: Collection[str] = (),
        decoder: Decoder | None = None,
        strict: bool = False,
    ) -> None:
        self._max_body = max_body
        self._decoder = decoder
        self._strict = strict
        self._index = Index()
        self._declared: dict[str, Declared] = {}
        self._watches: dict[str, Watch] = {}
        self._gone: dict[str, Outcome] = {}
        self._added = 0
        self._heavy = 0  # watchers that walk lists
        self._is_hot = False
        self.ignored: Counter[str] = Counter()
        """Messages that the decoder knows to mean nothing, by reason."""
        for declared in watchers:
            self._declared[declared.plan.watcher] = declared
            if declared.plan.watcher not in disabled:
                self.enable(declared.plan.watcher)

    # Watchers come and go ---------------------------------------------------------------------------------------------

    def add(self, declared: Declared) -> None:
        """A new watcher, asked about every poll from now on."""
        self._declared[declared.plan.watcher] = declared
        self.enable(declared.plan.watcher)

    def remove(self, watcher: str) -> None:
        """It is forgotten; what was counted of it stays."""
        self.disable(watcher)
        del self._declared[watcher]

    def enable(self, watcher: str) -> None:
        """It is asked about every poll from now on, behind all others. Without effect on one that is."""
        if watcher in self._watches:
            return
        watch = Watch(self._declared[watcher], self._added)
        self._added += 1
        self._heavy += watch.is_heavy
        self._watches[watcher] = watch
        self._index.add(watch)

    def disable(self, watcher: str) -> None:
        """It is asked no more. Without effect on one that isn't."""
        watch = self._watches.pop(watcher, None)
        if watch is not None:
            self._heavy -= watch.is_heavy
            self._index.remove(watch)
            self._gone[watcher] = _sum(self._gone.get(watcher), watch.outcome)

    @property
    def size(self) -> int:
        return len(self._watches)

    @property
    def watchers(self) -> Sequence[str]:
        return tuple(self._watches)

    @property
    def is_heavy(self) -> bool:
        """Some watcher walks lists: a short text with nested macros takes as long as a long one."""
        return self._heavy > 0

    @property
    def matched(self) -> dict[str, int]:
        """Run requests so far, by watcher; those that made none are left out."""
        return {name: outcome.matched for name, outcome in self.outcomes().items() if outcome.matched}

    def outcomes(self) -> dict[str, Outcome]:
        """What became of events so far, by watcher; those of which nothing is to be told are left out."""
        self._index.settle()
        found = dict(self._gone)
        for name, watch in self._watches.items():
            found[name] = _sum(found.get(name), watch.outcome)
        return {name: outcome for name, outcome in found.items() if outcome != _NOTHING}

    # A poll -----------------------------------------------------------------------------------------------------------

    def route(self, poll: Poll, context: Context = NOWHERE) -> Routed:
        """Records and faults, by index ascending. Total: any bytes are a record, a fault or nothing.

        Raises nothing but what `context.describe` raises.
        """
        self._index.refresh()
        events = opened(poll, context, self._decoder, self._max_body)
        if events.ignored:
            self.ignored.update(events.ignored)
        faults = events.faults
        whole = self._read_whole(events.texts) if self._is_hot and not faults else None
        loose: list[int] = []
        fields = self._read(events.texts, faults, loose) if whole is None else whole
        views = Views(events, poll, context)
        refusals: Refusals = {}
        matches = self._confirmed(self._index.candidates(fields, loose, views, faults), fields, faults, views, refusals)
        if matches or refusals:
            self._check(matches, refusals, events.texts, faults, is_decoded=whole is not None)
        self._is_hot = 2 * len(matches) > len(events.texts) and not self._strict and self._index.reads_fields
        if events.is_plain and not matches and not refusals:
            return Routed(faults=dict(sorted(faults.items())) if faults else faults)
        return Recorder(events, poll, views, fields, self._index.projection).routed(matches, refusals)

    def verdicts(self, poll: Poll, context: Context = NOWHERE) -> dict[int, Candidates]:
        """The watchers that match, by event, and nothing else: neither strictness nor records, as a measure of both."""
        self._index.refresh()
        events = opened(poll, context, self._decoder, self._max_body)
        loose: list[int] = []
        fields = self._read(events.texts, events.faults, loose)
        views = Views(events, poll, context)
        found = self._index.candidates(fields, loose, views, events.faults)
        return self._confirmed(found, fields, events.faults, views, {})

    def _read_whole(self, texts: Sequence[bytes]) -> Sequence[Struct] | None:
        """Where most events match, each is decoded once and whole. None: not all are objects with what is expected."""
        try:
            return self._index.projection.of_all(list(map(decode, texts)))
        except Exception:
            return None

    def _read(self, texts: Sequence[bytes], faults: dict[int, Fault], loose: list[int]) -> Sequence[Struct]:
        """The fields in use of each event; the blank fields of one that has none. Adds to `faults` and `loose`."""
        projection = self._index.projection
        if not self._index.reads_fields:
            return [projection.blank] * len(texts)
        if faults:
            texts = [b"{}" if index in faults else text for index, text in enumerate(texts)]
        read = self._read_strictly if self._strict else projection.decode
        found: list[Struct] = []
        rest = iter(texts)
        while True:
            try:
                found.extend(map(read, rest))  # what was read before an error stays, and `rest` is behind it
                return found
            except Exception:
                index = len(found)
                loose.append(index)
                found.append(self._read_alone(index, texts[index], faults))

    def _read_strictly(self, text: bytes) -> Struct:
        decode_whole(text, strict=True)
        return self._index.projection.decode(text)

    def _read_alone(self, index: int, text: bytes, faults: dict[int, Fault]) -> Struct:
        """What the projection refused: a fault, no object, another kind of field, or behind a byte order mark."""
        try:
            document = decode_whole(text, strict=self._strict)
        except DecodeFault as error:
            faults[index] = error.fault
            return self._index.projection.blank
        return self._index.projection.loosely(document)

    # Verdicts ---------------------------------------------------------------------------------------------------------

    def _confirmed(
        self, found: Found, fields: Sequence[Struct], faults: dict[int, Fault], views: Views, refusals: Refusals
    ) -> dict[int, Candidates]:
        """The watchers that match, of the events that can be read. Adds to `refusals`, and counts the others."""
        if self._index.is_sure and not faults and not found.doubtful:
            return found.candidates
        matches: dict[int, Candidates] = {}
        for index, candidates in found.candidates.items():
            if index in faults:
                continue
            views.index = index
            try:
                kept = self._kept(candidates, fields[index], views, refusals)
            except DecodeFault as error:  # an interpreted condition looks at the whole document
                faults[index] = error.fault
                refusals.pop(index, None)
                continue
            if kept:
                matches[index] = kept
        for index, tables in found.doubtful.items():
            if index in faults:
                continue
            views.index = index
            asked = {candidate.watch for candidate in found.candidates.get(index, ())}
            try:
                self._weigh(tables, asked, fields[index], views, refusals)
            except DecodeFault as error:
                faults[index] = error.fault
                matches.pop(index, None)
                refusals.pop(index, None)
        return matches

    def _kept(self, candidates: Candidates, fields: Struct, views: Views, refusals: Refusals) -> list[Candidate]:
        """Those that hold; the others are counted. Raises DecodeFault."""
        kept: list[Candidate] = []
        for candidate in candidates:
            truth = candidate.ask(self._index.projection, fields, views)
            if truth is True:
                kept.append(candidate)
            elif truth is not False:
                self._note(candidate.watch, truth, views.index, refusals)
        return kept

    def _note(self, watch: Watch, truth: Fail | None, index: int, refusals: Refusals) -> None:
        """An event of which a watcher can't say whether it wants it."""
        if truth is None:
            watch.missing += 1
            return
        watch.note_error(truth.message)
        if watch.is_rejecting:
            refusals.setdefault(index, []).append((watch, truth.message))

    def _weigh(
        self, tables: Sequence[Table], asked: set[Watch], fields: Struct, views: Views, refusals: Refusals
    ) -> None:
        """An event that lacks what the key of some watchers is made of, or has something else there: it is no match."""
        for table in tables:
            doubt, is_wrong = table.doubt(fields, views)
            if doubt is None:
                continue
            watches = doubt.watches
            if len(watches) > MOST_ASKED:
                error = _words(next(iter(watches)).ask(self._index.projection, fields, views)) if is_wrong else None
                doubt.count(error)
                watches = doubt.rejecting if error is not None else {}
            for watch in watches:
                if watch not in asked:
                    asked.add(watch)
                    truth = watch.ask(self._index.projection, fields, views)
                    if truth is None or isinstance(truth, Fail):
                        self._note(watch, truth, views.index, refusals)

    def _check(
        self,
        matches: dict[int, Candidates],
        refusals: Refusals,
        texts: Sequence[bytes],
        faults: dict[int, Fault],
        *,
        is_decoded: bool,
    ) -> None:
        """What becomes a record must be right as a whole. Moves what isn't to `faults`."""
        indexes = list(matches) if not refusals else sorted({*matches, *refusals})
        mine = texts if len(indexes) == len(texts) else [texts[i] for i in indexes]
        for place, fault in faults_of(mine, strict=self._strict, is_decoded=is_decoded).items():
            faults[indexes[place]] = fault
            matches.pop(indexes[place], None)
            refusals.pop(indexes[place], None)


def _words(truth: object) -> str | None:
    return truth.message if isinstance(truth, Fail) else None


_NOTHING: Final = Outcome()


def _sum(some: Outcome | None, more: Outcome) -> Outcome:
    if some is None:
        return more
    return Outcome(
        some.matched + more.matched,
        some.missing + more.missing,
        some.errors + more.errors,
        some.rejected + more.rejected,
        more.last_error or some.last_error,
    )
