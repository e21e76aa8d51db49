"""What is written below `assets`: an asset, its watchers, and their runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final

from msgspec import Meta, Struct

from bridge.config import later
from bridge.config.model import Count, Name, OnError, Positive
from bridge.config.nodes import Node
from bridge.config.shapes import Looks, fields_of

FILTER: Final = ("match", "when", "reject", "on_error")
"""The keys of a declarative watcher."""

PYTHON: Final = ("trigger", "kwargs")
"""The keys of a Python watcher."""

_Mapping = Looks(dict[str, Any])


class RunBlock(Struct, frozen=True, kw_only=True):
    """What is written for the run that a match asks for."""

    LATER: ClassVar[Mapping[str, str]] = later.RUN

    target: Name
    job: Name
    params: Annotated[Node, _Mapping] | None = None
    tags: Annotated[Node, Looks(dict[str, str | int | float | bool])] | None = None
    key: Annotated[Node, Looks(str)] | None = None
    key_ttl: Positive | None = None


class WatcherBlock(Struct, frozen=True, kw_only=True):
    """What is written for a watcher."""

    LATER: ClassVar[Mapping[str, str]] = later.WATCHER

    stream: Name
    run: Annotated[Node, Looks(RunBlock)]
    name: Name | None = None
    id: Name | None = None
    enabled: bool = True
    match: Annotated[Node, _Mapping] | None = None
    when: Annotated[Node, Looks(str)] | None = None
    reject: Annotated[Node, Looks(str | dict[str, Any])] | None = None
    on_error: OnError = "no_match"
    trigger: Name | None = None
    kwargs: Annotated[Node, _Mapping] | None = None
    max_attempts: Count | None = None
    for_each: Annotated[Node, Looks(Annotated[list[dict[str, Any]], Meta(min_length=1)])] | None = None


class AssetBlock(Struct, frozen=True, kw_only=True):
    """What is written below the name of an asset."""

    watchers: Annotated[Node, Looks(Annotated[list[WatcherBlock], Meta(min_length=1)])]
    description: str | None = None


ASSET_FIELDS: Final = fields_of(AssetBlock)
WATCHER_FIELDS: Final = fields_of(WatcherBlock)
RUN_FIELDS: Final = fields_of(RunBlock)
