"""Streams that would take each other's messages: of one source, or of what the kind says is less than that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from bridge.config.load import ConfigError, Kinds, load
from bridge.ports import StreamKind


class TopicOptions(Struct, frozen=True, kw_only=True):
    cluster: str
    group: str


def share(options: TopicOptions) -> str:
    if options.group == "odd":
        raise ValueError("odd, says the kind")
    return f"{options.cluster} {options.group}"


@pytest.fixture
def loaded(kinds: Kinds, tmp_path: Path) -> Callable[..., list[str]]:
    """The problems of two streams that read these (cluster, group)."""

    def load_two(first: tuple[str, str], second: tuple[str, str], share: Any = share) -> list[str]:
        kind = StreamKind(TopicOptions, lambda _: None, lambda options: options.cluster, share=share)  # type: ignore[arg-type, return-value]
        streams = "".join(
            f"  {name}: {{kind: topic, cluster: {cluster}, group: {group}}}\n"
            for name, (cluster, group) in {"one": first, "two": second}.items()
        )
        path = tmp_path / "c.yaml"
        path.write_text(f"store: sqlite:///headrace.db\nstreams:\n{streams}")
        try:
            load([path], kinds=kinds._replace(streams={**kinds.streams, "topic": lambda: kind}), env={})
        except ConfigError as error:
            return [problem.message for problem in error.problems]
        return []

    return load_two


def test_two_streams_of_one_source_may_read_it_side_by_side_where_their_kind_says_so(loaded: Any) -> None:
    assert loaded(("c", "a"), ("c", "b")) == []
    assert loaded(("c", "a"), ("d", "a")) == []


def test_two_streams_that_share_what_they_must_not_are_refused(loaded: Any) -> None:
    (message,) = loaded(("c", "a"), ("c", "a"))
    assert message.startswith("streams.two reads the same source as streams.one")


def test_where_a_kind_says_nothing_the_source_must_not_be_shared(loaded: Any) -> None:
    assert len(loaded(("c", "a"), ("c", "b"), share=None)) == 1


def test_where_a_kind_can_not_say_the_source_must_not_be_shared(loaded: Any) -> None:
    assert len(loaded(("c", "odd"), ("c", "odd"))) == 1
