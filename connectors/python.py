"""The stream kind `python`: a producer of the user's own, or that of a trigger, by its import path.

Nothing is imported before a configuration names it. The module must be importable by the process: installed, or in a
folder on PYTHONPATH.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from bridge.core.errors import Refused
from bridge.importing import load_class, parts_of, told
from bridge.ports import StreamKind
from bridge.shared_stream import SharedStreamProducer
from bridge.triggers import BaseEventTrigger


class PythonOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`class` is `package.module:Class` (or `package.module.Class`), `kwargs` what it is made with.

    `source` names what it reads, for run keys: by default the class's own `source_id`, else made of `class` and
    `kwargs`, so that changing these makes old messages new ones. Keep it when you move the class.
    """

    import_path: Annotated[str, Meta(min_length=1)] = field(name="class")
    kwargs: dict[str, Any] = {}
    source: Annotated[str, Meta(min_length=1)] | None = None


def build(options: PythonOptions) -> SharedStreamProducer:
    """A fresh producer, not connected. Raises Refused with a sentence that says what to correct."""
    return _made(_class_of(options), options)


def source(options: PythonOptions) -> str:
    """See PythonOptions. Raises Refused if the class can't be had."""
    if options.source:
        return options.source
    offered = getattr(_class_of(options), "source_id", None)
    if callable(offered):
        try:
            offered = offered(dict(options.kwargs))
        except Exception as error:
            raise Refused(f"{options.import_path}.source_id(kwargs) raised {told(error)}") from error
    if isinstance(offered, str) and offered:
        return offered
    if offered is not None:
        raise Refused(
            f"{options.import_path}.source_id must be text, or a classmethod that takes the kwargs as a dict and "
            f"returns text; it gave {offered!r}"
        )
    try:
        kwargs = msgspec.json.encode(options.kwargs, order="deterministic")
    except (TypeError, ValueError) as error:
        raise Refused(f"the `kwargs` of {options.import_path} are not plain data: {error}") from error
    return f"python:{':'.join(parts_of(options.import_path))}:{hashlib.sha256(kwargs).hexdigest()[:16]}"


def check(options: PythonOptions) -> Sequence[str]:
    """Start-up problems, as sentences. Imports the module and makes a producer, which must not connect by that."""
    try:
        source(options)
        build(options)
    except Refused as error:
        return [str(error)]
    return []


def _class_of(options: PythonOptions) -> type[Any]:
    return load_class(options.import_path, "class", SharedStreamProducer, BaseEventTrigger)


# Making the producer -------------------------------------------------------------------------------------------------


def _made(found: type[Any], options: PythonOptions) -> SharedStreamProducer:
    kwargs = dict(options.kwargs)
    try:
        if issubclass(found, BaseEventTrigger):
            _require_factory(found, options.import_path)
            made: object = found.create_shared_stream_producer(kwargs)
        else:
            made = found(**kwargs)
    except Refused:
        raise
    except Exception as error:
        raise Refused(f"{options.import_path} can't be made with the `kwargs` given: {told(error)}") from error
    if not isinstance(made, SharedStreamProducer):
        raise Refused(
            f"{options.import_path}.create_shared_stream_producer returned an instance of {type(made).__name__}, "
            "which does not inherit from bridge.shared_stream.SharedStreamProducer"
        )
    return made


def _require_factory(trigger: type[BaseEventTrigger], path: str) -> None:
    if _defines(trigger, "create_shared_stream_producer"):
        return
    if _defines(trigger, "open_shared_stream"):
        lacks = "has open_shared_stream() only: a stream without settlement"
    else:
        lacks = "has no stream to share, only run()"
    raise Refused(
        f"`class` {path!r} {lacks}; support for such triggers comes later. Until then give it a "
        "create_shared_stream_producer(kwargs)"
    )


def _defines(trigger: type[BaseEventTrigger], method: str) -> bool:
    """It has a method of its own where BaseEventTrigger only says that there is none."""
    return inspect.getattr_static(trigger, method) is not inspect.getattr_static(BaseEventTrigger, method)


KIND = StreamKind(options=PythonOptions, build=build, source=source, check=check)
