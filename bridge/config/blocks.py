"""The blocks `streams` and `targets`: keys that all have, and keys of the kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple, TypeVar

from msgspec import Struct

from bridge.config import later
from bridge.config.decoding import DecodingBlock, Senseless, decoding_of, read_schema
from bridge.config.fields import BAD, Field, Fields, construct, refuse
from bridge.config.model import StreamConfig, TargetConfig
from bridge.config.nodes import Entry, walk
from bridge.config.nodes import Mapping as MappingNode
from bridge.config.reading import Reading, Where, quoted, shown
from bridge.config.shapes import AsNode, fields_of, shape_of
from bridge.config.suggest import VERY_CLOSE, did_you_mean, listed, nearest
from bridge.core.errors import HeadraceError
from bridge.core.units import format_size
from bridge.decode.options import Decoding
from bridge.ports import StreamKind, TargetKind


class Kinds(NamedTuple):
    """The kinds of stream and target that there are. Each is imported when it is called for, and not before."""

    streams: Mapping[str, Callable[[], StreamKind]]
    targets: Mapping[str, Callable[[], TargetKind]]


AnyKind = TypeVar("AnyKind", StreamKind, TargetKind)

_OWN: Final = frozenset({"name", "kind", "options"})
KIND: Final = Field("kind", "kind", AsNode(str), False, "", lambda: None, "kind")

_DECODING: Final = fields_of(DecodingBlock)
_OF_STREAMS: Final = fields_of(StreamConfig, _OWN | {"decode"})
STREAM_FIELDS: Final = Fields((*_DECODING.by_name.values(), *_OF_STREAMS.by_name.values()), _OF_STREAMS.later)
TARGET_FIELDS: Final = fields_of(TargetConfig, _OWN)


def read_streams(
    entries: Iterable[Entry], kinds: Kinds, reading: Reading, *, check: bool
) -> dict[str, tuple[StreamConfig, str]]:
    """The streams that could be read, by name, each with what the broker calls its source."""
    found: dict[str, tuple[StreamConfig, str]] = {}
    for entry in entries:
        where = _of_section("streams", entry)
        kind, config = _read_kinded(entry, where, StreamConfig, kinds.streams, later.STREAM_KINDS, reading)
        if kind is None or config is None:
            continue
        _check_sizes(config, entry, where, reading)
        if check:
            _check(kind, config, entry, where, reading)
            _check_decoder(config, entry, reading)
        found[config.name] = (config, _source_of(kind, config, entry, where, reading, check=check))
    return found


def shares_of(streams: Mapping[str, tuple[StreamConfig, str]], kinds: Kinds) -> dict[str, str]:
    """What a stream must not have in common with another of its kind, by name: its source, if the kind says no more."""
    shares: dict[str, str] = {}
    for name, (config, source) in streams.items():
        share = kinds.streams[config.kind]().share
        try:
            shares[name] = source if share is None else share(config.options)
        except (HeadraceError, OSError, ValueError):  # as with the source, which has been told of
            shares[name] = source
    return shares


def read_targets(entries: Iterable[Entry], kinds: Kinds, reading: Reading, *, check: bool) -> dict[str, TargetConfig]:
    """The targets that could be read, by name."""
    found: dict[str, TargetConfig] = {}
    for entry in entries:
        where = _of_section("targets", entry)
        kind, config = _read_kinded(entry, where, TargetConfig, kinds.targets, later.TARGET_KINDS, reading)
        if kind is None or config is None:
            continue
        if check:
            _check(kind, config, entry, where, reading)
        found[config.name] = config
    return found


Configured = TypeVar("Configured", StreamConfig, TargetConfig)


def _read_kinded(
    entry: Entry,
    where: Where,
    made: type[Configured],
    kinds: Mapping[str, Callable[[], AnyKind]],
    known_later: Sequence[str],
    reading: Reading,
) -> tuple[AnyKind | None, Configured | None]:
    node = entry.value
    if not isinstance(node, MappingNode):
        refuse(node, "a mapping", where, reading, f"with a `kind`: {listed(kinds)}")
        return None, None
    common: Fields = STREAM_FIELDS if made is StreamConfig else TARGET_FIELDS
    name, kind = _read_kind(node, where, kinds, known_later, reading)
    if kind is None:
        _read_without_kind(node, where, common, reading)
        return None, None
    return kind, _combined(entry, node, where, made, common, (name, kind.options, defaults_of(kind)), reading)


def defaults_of(kind: StreamKind | TargetKind) -> dict[str, Any]:
    """Defaults of keys that all kinds have, as far as they are this kind's own."""
    if isinstance(kind, TargetKind):
        return {}
    return {"max_outstanding": kind.bounds.max_outstanding, "max_advancing": kind.bounds.max_advancing}


def _combined(
    entry: Entry,
    node: MappingNode,
    where: Where,
    made: type[Configured],
    common: Fields,
    kind: tuple[str, type[Struct], Mapping[str, Any]],
    reading: Reading,
) -> Configured | None:
    """The keys that all have and those of the kind, read together.

    `kind` is its name, the Struct of its keys, and its defaults for those that all have.
    """
    options: Fields = fields_of(kind[1])
    fields = Fields((KIND, *{**common.by_name, **options.by_name}.values()), {**common.later, **options.later})
    values = fields.read(node, where, reading)
    if not values.is_complete:
        return None
    built = construct(kind[1], _only(_attributes(options), values.good), where, reading)
    if built is BAD:
        return None
    # A key that the kind declares too goes to both, and the kind's own default holds for both.
    shared = {key: getattr(built, key) for key in _attributes(common) & _attributes(options)}
    own = {**kind[2], **_only(_attributes(common) - shared.keys(), values.good)}
    own |= {key: value for key, value in shared.items() if value is not None}
    if made is StreamConfig and not _put_decoding(own, node, where, reading):
        return None
    config = construct(made, {**own, "name": entry.key.text, "kind": kind[0], "options": built}, where, reading)
    return config if isinstance(config, made) else None


def _put_decoding(own: dict[str, Any], node: MappingNode, where: Where, reading: Reading) -> bool:
    """Puts a Decoding in the place of what is written for `decode` and `unwrap`; False with a problem."""
    decoding = read_decoding(own, node, where, reading)
    own.pop("unwrap", None)
    if decoding is None:
        return False
    own["decode"] = decoding
    return True


def read_decoding(values: Mapping[str, Any], node: MappingNode, where: Where, reading: Reading) -> Decoding | None:
    """What the values of `decode` and `unwrap` mean together; None with a problem."""
    decoding = decoding_of(values.get("decode", "json"), values.get("unwrap", []))
    if not isinstance(decoding, Senseless):
        return decoding
    message = f"{where.prefix}{decoding.key}: {decoding.message}"
    reading.problem(node.entries[decoding.key].value.place, message, decoding.hint)
    return None


def _only(keys: AbstractSet[str], values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key in keys}


def _read_kind(
    node: MappingNode,
    where: Where,
    kinds: Mapping[str, Callable[[], AnyKind]],
    known_later: Sequence[str],
    reading: Reading,
) -> tuple[str, AnyKind | None]:
    entry = node.entries.get("kind")
    if entry is None:
        _miss_kind(node, where, kinds, reading)
        return "", None
    place = entry.value.place
    at = where.field("kind", entry.key.place)
    name = shape_of(str).read(entry.value, at, reading)
    if not isinstance(name, str):
        return "", None
    text = reading.masked.get(at.path) or quoted(name)
    if name not in kinds and name in known_later:
        reading.problem(place, f"the kind {text} {later.NOT_YET}", f"the kinds are {listed(kinds)}")
    elif name not in kinds:
        hint = did_you_mean(name, kinds, f"the kinds are {listed(kinds)}")
        reading.problem(place, f"there is no kind {text} of {where.path[0]}", hint)
    else:
        try:
            return name, kinds[name]()
        except ImportError as error:
            reading.problem(place, f"the kind {text} can't be loaded: {error}", "is a package missing?")
    return name, None


def _miss_kind(node: MappingNode, where: Where, kinds: Iterable[str], reading: Reading) -> None:
    meant = next((entry.key for name, entry in node.entries.items() if nearest(name, ("kind",), VERY_CLOSE)), None)
    if meant is None:
        reading.problem(where.owner, f"`kind` is missing in {where.label}", f"the kinds are {listed(kinds)}")
    else:
        reading.problem(meant.place, f"`{shown(meant.text)}` is not a key of {where.label}", "did you mean `kind`?")


def _read_without_kind(node: MappingNode, where: Where, common: Fields, reading: Reading) -> None:
    """Whatever can be said while the kind's own keys are not known."""
    known = {name: entry for name, entry in node.entries.items() if name in common}
    common.read(MappingNode(known, node.place), where, reading)
    for name, entry in node.entries.items():
        if name not in common and name != "kind":
            for scalar in walk(entry.value):
                reading.fill(scalar, where.field(name, entry.key.place))


def _attributes(fields: Fields) -> set[str]:
    return {field.attribute for field in fields.by_name.values()}


def _of_section(section: str, entry: Entry) -> Where:
    return Where((section,), entry.key.place).named(entry.key.text, entry.key.place)


def _check_sizes(config: StreamConfig, entry: Entry, where: Where, reading: Reading) -> None:
    if config.max_body > config.max_outstanding_bytes:
        reading.problem(
            where.owner,
            f"{where.label}: one body may be larger ({format_size(config.max_body)}) than all outstanding ones "
            f"together ({format_size(config.max_outstanding_bytes)})",
            "lower `max_body`, or raise `max_outstanding_bytes`",
        )


def _source_of(
    kind: StreamKind, config: StreamConfig, entry: Entry, where: Where, reading: Reading, *, check: bool
) -> str:
    try:
        return kind.source(config.options)
    except (HeadraceError, OSError, ValueError) as error:
        if check:
            reading.foreign(entry.key.place, f"{where.label}: {error}")
        return f"?{config.name}"  # equal to no other


def _check(
    kind: StreamKind | TargetKind,
    config: StreamConfig | TargetConfig,
    entry: Entry,
    where: Where,
    reading: Reading,
) -> None:
    try:
        sentences = kind.check(config.options)
    except (HeadraceError, OSError, ValueError) as error:
        sentences = (str(error),)
    for sentence in sentences:
        reading.foreign(entry.key.place, f"{where.label}: {sentence}")


def _check_decoder(config: StreamConfig, entry: Entry, reading: Reading) -> None:
    """Whether the decoder can be made: its files are there and make sense, its packages are installed."""
    if config.decode in (Decoding(), Decoding(strict=True)):
        return
    from bridge.decode.decoder import decoder_of  # every start would pay for it, and most streams are JSON

    try:
        decoder_of(config.decode, max_body=config.max_body, read=read_schema)
    except (HeadraceError, OSError, ValueError) as error:
        entries = entry.value.entries if isinstance(entry.value, MappingNode) else {}
        blamed = next((entries[key] for key in ("decode", "unwrap") if key in entries), entry)
        reading.foreign(blamed.key.place, str(error))
