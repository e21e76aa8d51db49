"""The composition root: the only module that names concrete classes."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NoReturn, Protocol
from uuid import uuid4

import msgspec
from msgspec import Struct

import connectors
from bridge import targets
from bridge.config.decoding import read_schema
from bridge.config.load import Kinds, load
from bridge.config.model import Config, StreamConfig, TargetConfig, WatcherConfig
from bridge.config.problems import ConfigError
from bridge.core.commands import Limits
from bridge.core.errors import Refused
from bridge.core.model import Plan
from bridge.core.retry import Backoff
from bridge.core.units import format_duration
from bridge.decode.decoder import Decoder, decoder_of
from bridge.filters.recipe import Recipe
from bridge.filters.router import FilterRouter
from bridge.filters.watch import Declared
from bridge.importing import load_class, told
from bridge.ports import KeepsPlaces, Lends, StreamKind
from bridge.runtime.accounts import Meant
from bridge.runtime.clock import SystemClock
from bridge.runtime.dispatcher import Dispatcher, TargetRuntime
from bridge.runtime.line import CLAIM_EVERY
from bridge.runtime.persister import Persister
from bridge.runtime.process import (
    EXIT_REFUSED,
    EXIT_UNFINISHED,
    Process,
    ProcessSpec,
    stop_on_signals,
    tune_interpreter,
)
from bridge.runtime.runner import WatcherSpec
from bridge.runtime.schemas import SchemaRegistry, SchemaTeacher
from bridge.runtime.supervisor import StreamSpec
from bridge.shared_stream import has_identity
from bridge.store.options import InstanceId, Retention, StoreOptions
from bridge.store.reader import Reader, open_reader
from bridge.store.sql import SqlStore, open_store
from bridge.store.sqlite import locate
from bridge.triggers import BaseEventTrigger

__all__ = ["Config", "ConfigError", "Explained", "explain", "load_config", "open_reader", "problems_of", "run"]

SHOWN_EVERY: Final = 1.0
"""Seconds between two looks of whoever watches."""

KINDS: Final = Kinds(streams=connectors.KINDS, targets=targets.KINDS)


def load_config(paths: Sequence[Path], *, check: bool = True) -> Config:
    """Reads a configuration with the environment of this process. Raises ConfigError.

    With `check` the kinds look at what their options name. Modules that lie beside the configuration can be imported.
    """
    for path in paths:
        folder = str((path if path.is_dir() else path.parent).resolve())
        if folder not in sys.path:
            sys.path.append(folder)
    return load(paths, kinds=KINDS, env=os.environ, check=check)


def problems_of(config: Config) -> list[str]:
    """What only shows when user code is imported and made: sentences, empty where all is well."""
    problems: list[str] = []
    for watcher in config.watchers:
        if watcher.trigger is not None and watcher.enabled:
            try:
                _trigger_of(watcher)()
            except Refused as error:
                problems.append(f"watcher {watcher.id!r}: {error}")
            except (Exception, SystemExit) as error:
                problems.append(f"watcher {watcher.id!r}: {watcher.trigger} can't be made: {told(error)}")
    return [*problems, *filter(None, map(_uncountable, config.streams.values()))]


def _uncountable(stream: StreamConfig) -> str:
    """Why the tries at a message of this stream can't be counted over its deliveries, where they must be."""
    if stream.retry.mode == "process":
        return ""
    try:
        can_tell = has_identity(KINDS.streams[stream.kind]().build(stream.options))
    except Exception as error:
        return f"streams.{stream.name}: its producer can't be made: {told(error)}"
    if can_tell:
        return ""
    return (
        f"streams.{stream.name}: `retry: {{mode: broker}}` needs messages with an identity, or a message that always "
        "fails would come again for ever: give the producer an identity(), or leave `mode` out"
    )


class Explained(Struct, frozen=True):
    """What a stream or target promises, for `headrace show`."""

    kind: str
    guarantee: str
    notes: tuple[str, ...] = ()


def explain(config: Config) -> dict[str, Explained]:
    """By `streams.<name>` and `targets.<name>`: how the promise is kept there."""
    told: dict[str, Explained] = {}
    for name, stream in config.streams.items():
        kind = KINDS.streams[stream.kind]()
        producer = kind.build(stream.options)
        can_tell = has_identity(producer)
        notes = (
            "settled only after everything that a message caused is durable",
            "run keys from the messages' own identity" if can_tell else "no identity: a redelivery is a second run",
            *([_lending(producer.lease, stream)] if isinstance(producer, Lends) else ()),
            *kind.notes(stream.options),
        )
        told[f"streams.{name}"] = Explained(stream.kind, "one run" if can_tell else "at least once", notes)
    with TemporaryDirectory(prefix="headrace-") as state:  # a target that is never launched keeps nothing there
        for name, target in config.targets.items():
            built = KINDS.targets[target.kind]().build(name, target.options, os.path.join(state, name))
            told[f"targets.{name}"] = Explained(target.kind, built.guarantee)
    return told


def _lending(lease: float, stream: StreamConfig) -> str:
    return f"lent for {format_duration(lease)} and renewed until settled, at most {stream.max_outstanding} at a time"


# One process ---------------------------------------------------------------------------------------------------------


class Display(Protocol):
    """Shows a person how the process goes. Neither call may block: both are made on the main loop."""

    def show(self, status: Mapping[str, object]) -> None: ...
    def close(self) -> None: ...


class Said(Struct, frozen=True):
    """What a person says at a start. `accept`: ids of watchers that come back with another definition, and streams
    whose source is another one, or whose broker was told of another store: this is meant. `rewind`: streams that go
    back to the places which the store knows.
    """

    accept: frozenset[str] = frozenset()
    rewind: frozenset[str] = frozenset()


def run(config: Config, *, accept: Iterable[str] = (), rewind: Iterable[str] = (), watch: Display | None = None) -> int:
    """Runs until a signal; returns the exit code. `accept`, `rewind`: see `Said`. `watch` is told once a second.

    Raises StoreRefused, or Refused for a place for dead letters that can't be used, before anything was started.
    """
    code = asyncio.run(_run(config, Said(frozenset(accept), frozenset(rewind)), watch))
    if code == EXIT_UNFINISHED:
        leave(code)
    return code


def leave(code: int) -> NoReturn:
    """The time to stop ran out: the interpreter would wait for threads whose call to a disk has not returned."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


async def _run(config: Config, said: Said, watch: Display | None) -> int:
    stopping = stop_on_signals(abort)
    store = await open_store_of(config)
    try:
        await store.register(
            {w.id: w.definition for w in config.watchers},
            {s.name: _kind_source(s) for s in config.streams.values()},
            said.accept,
        )
        process = compose(config, store, stopping, said)
        await process.open_relays()
    except BaseException:
        await store.aclose(clean=True)
        raise
    tune_interpreter()
    code = await (process.run() if watch is None else _watched(process, watch))
    if code == EXIT_REFUSED and process.refusal is not None:
        raise process.refusal
    return code


async def _watched(process: Process, watch: Display) -> int:
    telling = asyncio.create_task(_tell(process, watch), name="tell")
    try:
        return await process.run()
    finally:
        telling.cancel()
        watch.show(process.status())
        watch.close()


async def _tell(process: Process, watch: Display) -> None:
    while True:
        watch.show(process.status())
        await asyncio.sleep(SHOWN_EVERY)


def abort(number: int) -> None:
    """A second signal: the end, at once. What was not settled comes again."""
    os._exit(128 + number)


async def open_store_of(config: Config) -> SqlStore:
    """Opens the store for this process alone. Raises StoreRefused."""
    instance = InstanceId(uuid4().hex[:12], socket.gethostname(), os.getpid(), version("headrace"))
    settings = config.store
    retention = msgspec.convert(msgspec.structs.asdict(settings.retention), Retention)
    options = StoreOptions(settings.max_size, retention, settings.dedupe_horizon)
    return await open_store(settings.url, instance=instance, options=options)


NOTHING_SAID: Final = Said()


def compose(
    config: Config, store: SqlStore, stopping: asyncio.Event | None = None, said: Said = NOTHING_SAID
) -> Process:
    """A process that can run, on a store that is open and knows the configuration's watchers and sources."""
    clock = SystemClock()
    roll = random.random
    persister = Persister(store, clock, roll)
    state = f"{locate(config.store.url)}.targets"
    runtimes = {name: _target(target, os.path.join(state, name)) for name, target in config.targets.items()}
    dispatcher = Dispatcher(store, persister, runtimes, clock, roll)
    spec = ProcessSpec(
        streams=[_stream(config, s, said) for s in config.streams.values()],
        disabled=_disabled(config),
        heartbeat=config.instance.heartbeat,
        stop_timeout=config.instance.stop_timeout,
    )
    return Process(spec, store, persister, dispatcher, clock, roll, stopping)


def _disabled(config: Config) -> frozenset[str]:
    reader: Reader = open_reader(config.store.url)
    asked = {w.id for w in reader.watchers() if w.disabled}
    return frozenset(asked | {w.id for w in config.watchers if not w.enabled})


def _target(config: TargetConfig, state: str) -> TargetRuntime:
    retry = config.retry
    return TargetRuntime(
        target=KINDS.targets[config.kind]().build(config.name, config.options, state),
        max_in_flight=config.max_in_flight,
        retry=Backoff(retry.delay, retry.factor, retry.max, retry.jitter),
        attempts=retry.attempts,
        timeout=config.timeout,
        claim_every=CLAIM_EVERY,
    )


# One stream ----------------------------------------------------------------------------------------------------------


def source_of(stream: StreamConfig) -> str:
    """The part of run keys that says where a message comes from; a raised generation makes all of it new."""
    source = _kind_source(stream)
    return source if stream.generation == 1 else f"{source}#{stream.generation}"


def _kind_source(stream: StreamConfig) -> str:
    return KINDS.streams[stream.kind]().source(stream.options)


def keeps_places(stream: StreamConfig) -> bool:
    """Whether there is a place at the stream's source that it could go back from."""
    return isinstance(KINDS.streams[stream.kind]().build(stream.options), KeepsPlaces)


def _stream(config: Config, stream: StreamConfig, said: Said) -> StreamSpec:
    kind: StreamKind = KINDS.streams[stream.kind]()
    mine = [w for w in config.watchers if w.stream == stream.name]
    decoder = decoder_of_stream(stream)
    declared = declared_of(config, stream)
    source = source_of(stream)
    retry = stream.retry
    if problem := _uncountable(stream):
        raise Refused(problem)

    def router(disabled: frozenset[str]) -> FilterRouter:
        return router_of(declared, stream, decoder, disabled)

    return StreamSpec(
        name=stream.name,
        key=source,
        source=source,
        producer=lambda: kind.build(stream.options),
        router=router,
        watchers=tuple(_watcher(w, stream, decoder) for w in mine if w.trigger is not None),
        declared=tuple(d.plan.watcher for d in declared),
        limits=Limits(
            retry=Backoff(retry.delay, retry.factor, retry.max, retry.jitter),
            max_outstanding=stream.max_outstanding,
            max_outstanding_bytes=stream.max_outstanding_bytes,
            retry_mode=retry.mode,
            max_retrying=stream.max_retrying,
            queue_size=stream.queue_size,
            max_advancing=stream.max_advancing,
            advance_max=kind.bounds.advance_max,
        ),
        cohort_grace_period=stream.cohort_grace_period,
        decoder=decoder,
        teacher=_teacher(stream),
        relay=kind.relay(stream.options) if kind.relay is not None else None,
        meant=Meant(rewind=stream.name in said.rewind, accept=stream.name in said.accept),
    )


def declared_of(config: Config, stream: StreamConfig) -> list[Declared]:
    """The declarative watchers of a stream, in the order of the configuration."""
    return [
        Declared(_plan(w, stream), w.condition, w.params, w.reject, w.on_error, w.tags, w.key)
        for w in config.watchers
        if w.stream == stream.name and w.trigger is None
    ]


def decoder_of_stream(stream: StreamConfig) -> Decoder | None:
    """None for plain JSON. Raises Refused; the configuration has been held to the same."""
    return decoder_of(stream.decode, max_body=stream.max_body, read=read_schema)


def router_of(
    declared: Iterable[Declared], stream: StreamConfig, decoder: Decoder | None, disabled: frozenset[str] = frozenset()
) -> FilterRouter:
    strict = stream.is_strict and decoder is None  # a decoder sees to that itself
    return FilterRouter(declared, max_body=stream.max_body, disabled=disabled, decoder=decoder, strict=strict)


def _teacher(stream: StreamConfig) -> SchemaTeacher | None:
    avro = stream.decode.avro
    if avro is None or avro.registry is None:
        return None
    clock = SystemClock()
    return SchemaTeacher(SchemaRegistry(avro.registry, clock), clock, random.random)


def _plan(watcher: WatcherConfig, stream: StreamConfig) -> Plan:
    return Plan(
        watcher=watcher.id,
        asset=watcher.asset,
        target=watcher.target,
        job=watcher.job,
        tags=watcher.tags.constant or b"{}",
        max_attempts=watcher.max_attempts or stream.max_attempts,
        key_ttl=watcher.key_ttl,
    )


def _watcher(watcher: WatcherConfig, stream: StreamConfig, decoder: Decoder | None) -> WatcherSpec:
    return WatcherSpec(
        plan=_plan(watcher, stream),
        make=_trigger_of(watcher),
        recipe=Recipe(watcher.params, watcher.tags, watcher.key),
        ack_timeout=stream.ack_timeout,
        decoder=decoder,
        strict=stream.is_strict,
    )


def _trigger_of(watcher: WatcherConfig) -> Callable[[], BaseEventTrigger]:
    found: type[BaseEventTrigger] = load_class(watcher.trigger or "", "trigger", BaseEventTrigger)
    if found.filter_shared_stream is BaseEventTrigger.filter_shared_stream:
        raise Refused(
            f"`trigger` {watcher.trigger!r} has no filter_shared_stream(): triggers that only run() alone are not "
            "available in this version"
        )
    kwargs = dict(watcher.kwargs)
    return lambda: found(**kwargs)
