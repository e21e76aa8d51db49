"""A Config as plain data with every default filled in, for people: secrets masked, units written out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, get_args, get_origin

import msgspec
from msgspec import Struct

from bridge.config.decoding import written_decode
from bridge.config.model import Config, StreamConfig, WatcherConfig
from bridge.config.reading import KeyPath
from bridge.config.secrecy import MASK, without_url_passwords
from bridge.core.units import Duration, Size, format_duration, format_size

_DURATION: Final = get_args(Duration)[1]
_SIZE: Final = get_args(Size)[1]


def effective(config: Config) -> dict[str, Any]:
    """What the configuration comes to: mappings, lists and scalars, in the structure that a user writes.

    A value that came in through `${...}`, or whose key names a secret, is shown as `***` with where it is from.
    """
    shown = _Shown(config.masked)
    return {
        "store": shown.struct(config.store, ("store",)),
        "instance": shown.struct(config.instance, ("instance",)),
        "targets": {name: shown.kinded(target, ("targets", name)) for name, target in config.targets.items()},
        "streams": {name: shown.stream(stream, ("streams", name)) for name, stream in config.streams.items()},
        "assets": _assets(config, shown),
    }


def _assets(config: Config, shown: _Shown) -> dict[str, Any]:
    assets: dict[str, Any] = {}
    for watcher in config.watchers:
        described = {"description": watcher.description} if watcher.description else {}
        asset = assets.setdefault(watcher.asset, {**described, "watchers": []})
        number = len(asset["watchers"])
        asset["watchers"].append(_watcher(watcher, ("assets", watcher.asset, "watchers", number), shown))
    return assets


def _watcher(watcher: WatcherConfig, path: KeyPath, shown: _Shown) -> dict[str, Any]:
    def value(key: str, own: object, *above: str) -> object:
        return shown.value(own, None, (*path, *above, key))

    written = watcher.written
    filtering: dict[str, Any] = {key: written[key] for key in ("match", "when", "reject") if key in written}
    if watcher.trigger is not None:
        filtering = {"trigger": value("trigger", watcher.trigger), "kwargs": written.get("kwargs", {})}
    else:
        filtering["on_error"] = watcher.on_error
    keyed: dict[str, Any] = {}
    if "key" in written:
        ttl = shown.value(watcher.key_ttl, Duration, (*path, "run", "key_ttl"))
        keyed = {"key": written["key"], "key_ttl": ttl}
    return {
        # What an expression asks for of an item of `for_each` stays there for it; the rest is in its place by now.
        **({"for_each": [written["each"]]} if "each" in written else {}),
        "name": value("name", watcher.name),
        "id": value("id", watcher.id),
        "stream": value("stream", watcher.stream),
        **filtering,
        "enabled": watcher.enabled,
        "max_attempts": watcher.max_attempts,
        "run": {
            "target": value("target", watcher.target, "run"),
            "job": value("job", watcher.job, "run"),
            "params": written.get("params", {}),
            "tags": written.get("tags", {}),
            **keyed,
        },
    }


class _Shown:
    """Values as they may be shown."""

    def __init__(self, masked: Mapping[KeyPath, str]) -> None:
        self._masked = {**masked, **{_without_layer(path): text for path, text in masked.items()}}

    def stream(self, config: StreamConfig, path: KeyPath) -> dict[str, Any]:
        """A stream: `decode` and `unwrap` in the words of those who write them."""
        *wrappers, last = written_decode(config.decode)
        decode = self.value(last, None, (*path, "decode"))
        both = {
            "decode": [*wrappers, decode] if wrappers else decode,
            "unwrap": self.value(list(config.decode.unwrap), None, (*path, "unwrap")),
        }
        every = self.kinded(config, path)
        return {"kind": every.pop("kind"), **{key: both.get(key, value) for key, value in every.items()}, **both}

    def kinded(self, config: Struct, path: KeyPath) -> dict[str, Any]:
        """A stream or target: its kind, the kind's keys, and those that all have."""
        own = self.struct(config, path, without=("name", "options"))
        options = self.struct(getattr(config, "options"), path)  # noqa: B009
        return {"kind": own.pop("kind"), **options, **own}

    def struct(self, value: Struct, path: KeyPath, without: tuple[str, ...] = ()) -> dict[str, Any]:
        return {
            info.encode_name: self.value(getattr(value, info.name), info.type, (*path, info.encode_name))
            for info in msgspec.structs.fields(value)
            if info.name not in without
        }

    def value(self, value: object, annotation: Any, path: KeyPath) -> Any:
        masked = self._masked.get(path)
        if masked is not None:
            return masked
        if isinstance(value, Struct):
            return self.struct(value, path)
        if isinstance(value, str):
            return without_url_passwords(value)
        if isinstance(value, Mapping):
            return {str(k): self.value(v, _inner(annotation, -1), (*path, str(k))) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(item, _inner(annotation, 0), (*path, n)) for n, item in enumerate(value)]
        if isinstance(value, set | frozenset):
            # Its order is not that of the file, so one secret among the items hides them all.
            is_masked = any(known[: len(path)] == path for known in self._masked)
            return [MASK if is_masked else with_unit(item, _inner(annotation, 0)) for item in sorted(value)]
        return with_unit(value, annotation)


def _without_layer(path: KeyPath) -> KeyPath:
    """The path of an option of `decode`, wherever in a list its format stands."""
    is_in_list = path[:1] == ("streams",) and path[2:3] == ("decode",) and len(path) > 4 and isinstance(path[3], int)
    return (*path[:3], *path[4:]) if is_in_list else path


def with_unit(value: object, annotation: Any) -> object:
    """A duration or a size, told by the type of its field, as it is written; anything else as it is."""
    unit = _unit(annotation)
    if unit is None or isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return format_duration(value) if unit is _DURATION else format_size(int(value))


def _unit(annotation: Any) -> object:
    """What makes the type a duration or a size, itself or as a member of a union."""
    if get_origin(annotation) is Annotated:
        return next((m for m in annotation.__metadata__ if m in (_DURATION, _SIZE)), None) or _unit(
            annotation.__origin__
        )
    return next((unit for member in get_args(annotation) if (unit := _unit(member)) is not None), None)


def _inner(annotation: Any, number: int) -> Any:
    """The type of a collection's items, None where it says nothing."""
    if get_origin(annotation) is Annotated:
        annotation = annotation.__origin__
    arguments = [a for a in get_args(annotation) if a is not type(None)]
    return arguments[number] if arguments else None
