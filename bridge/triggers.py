"""The public API for watchers written in Python.

The names and signatures are those of Airflow 3.3's event triggers (`airflow.triggers.base`): a trigger written for a
shared stream there runs here once its imports are changed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Hashable
from typing import Any

import structlog

from bridge.shared_stream import SharedStreamProducer

__all__ = ["BaseEventTrigger", "BaseTrigger", "TriggerEvent"]


class TriggerEvent:
    """What a filter yields for an event that should start a run. `payload` must be JSON by nature."""

    __slots__ = ("payload",)

    def __init__(self, payload: Any) -> None:
        self.payload = payload

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TriggerEvent) and self.payload == other.payload

    __hash__ = None  # type: ignore[assignment]  # the payload may be a dict

    def __repr__(self) -> str:
        return f"TriggerEvent<{self.payload!r}>"


class BaseTrigger(ABC):
    """What every trigger has: a description of itself, a logger, and a clean-up."""

    def __init__(self, **kwargs: Any) -> None:  # noqa: B027  # meant to be empty, and to be called
        """Takes keyword arguments and keeps none: a trigger sets its own attributes."""

    @property
    def log(self) -> Any:
        """A logger with the usual methods (`self.log.info("saw %s", name)`), named like the class."""
        return structlog.get_logger(f"{type(self).__module__}.{type(self).__qualname__}")

    @abstractmethod
    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The import path of the class and the keyword arguments that make an equal one."""

    @abstractmethod
    def run(self) -> AsyncIterator[TriggerEvent]:
        """Runs alone, without a shared stream. An async generator."""

    async def cleanup(self) -> None:
        """Called once when the watcher stops, however it stops. Its errors are logged and go no further."""
        return


class BaseEventTrigger(BaseTrigger):
    """A trigger that may share one stream with others of an equal key."""

    def shared_stream_key(self) -> Hashable | None:
        """Triggers whose keys compare equal share one producer. Read once, when the watcher starts."""
        return None

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> SharedStreamProducer:
        """Builds the producer; it must not connect here, but in `open_stream`."""
        raise NotImplementedError(f"{cls.__name__} does not implement create_shared_stream_producer")

    @classmethod
    def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[Any]:
        """A stream without settlement (at most once)."""
        raise NotImplementedError(f"{cls.__name__} does not implement open_shared_stream")

    def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        """Iterates the shared stream and yields a TriggerEvent for each event that should start a run.

        What is yielded between one pull and the next belongs to the event pulled first. An async generator.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement filter_shared_stream")
