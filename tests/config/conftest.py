"""Kinds that exist nowhere else, and a way to load text as the files of a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import pytest
from msgspec import Meta, Struct

from bridge.config.load import Config, ConfigError, Kinds, load
from bridge.config.variables import read_secret_file
from bridge.core.units import Duration, Size
from bridge.ports import StreamKind, TargetKind

GOOD = """\
store: sqlite:///headrace.db
targets:
  shell:
    kind: command
    command: [./run.sh]
streams:
  inbox:
    kind: directory
    path: inbox
assets:
  eu_orders:
    watchers:
      - stream: inbox
        match: {region: [eu, uk]}
        run:
          target: shell
          job: process
          params: {order: "${event.order_id}"}
"""


class Login(Struct, frozen=True, kw_only=True):
    user: str
    password: str = ""


class FolderOptions(Struct, frozen=True, kw_only=True):
    path: Annotated[str, Meta(min_length=1, description="the folder that files are dropped into")]
    settle: Annotated[Duration, Meta(ge=0)] = 1.0
    max_file: Annotated[Size, Meta(ge=1)] = 64 * 1024 * 1024
    lines: bool = False
    on_done: Annotated[Literal["move", "delete"], Meta(extra={"later": ("archive",)})] = "move"
    patterns: list[str] = []
    only: frozenset[str] = frozenset()
    login: Login | None = None
    weight: Annotated[float, Meta(ge=0, le=1)] | None = None

    def __post_init__(self) -> None:
        if self.lines and self.on_done == "delete":
            raise ValueError("`lines` can't go with `on_done: delete`")


class CommandOptions(Struct, frozen=True, kw_only=True):
    command: Annotated[list[str], Meta(min_length=1)]
    env: dict[str, str] = {}
    timeout: Duration = 3600.0
    api_token: str = ""


def _never(*_: object) -> Any:
    raise AssertionError("loading a configuration builds nothing")


def _source(options: FolderOptions) -> str:
    if options.path == "unreadable":
        raise PermissionError("unreadable, says the system")
    return options.path


def _folder_problems(options: FolderOptions) -> Sequence[str]:
    if options.path == "odd":
        raise ValueError("odd, says the system")
    return [f"the folder {options.path} does not exist"] if options.path.startswith("missing") else []


def _missing_package() -> StreamKind:
    raise ModuleNotFoundError("No module named 'aioqueue'")


KINDS = Kinds(
    streams={
        "directory": lambda: StreamKind(FolderOptions, _never, _source, _folder_problems),
        "queue": _missing_package,
    },
    targets={"command": lambda: TargetKind(CommandOptions, _never), "log": lambda: TargetKind(Empty, _never)},
)


class Empty(Struct, frozen=True):
    pass


class LoadText(Protocol):
    def __call__(self, text: str | Mapping[str, str], *, env: Mapping[str, str] = ..., check: bool = ...) -> Config: ...


@pytest.fixture
def good() -> str:
    """A small configuration without a problem."""
    return GOOD


@pytest.fixture
def kinds() -> Kinds:
    return KINDS


@pytest.fixture(scope="session")
def kinds_once() -> Kinds:
    """The same for fixtures that live longer than a test."""
    return KINDS


@pytest.fixture
def load_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LoadText:
    """Loads text as `c.yaml`, or several texts by name as the files of the folder `conf`."""
    monkeypatch.chdir(tmp_path)

    def load_(text: str | Mapping[str, str], *, env: Mapping[str, str] | None = None, check: bool = True) -> Config:
        path = Path("c.yaml")
        if isinstance(text, str):
            path.write_text(text, encoding="utf-8")
        else:
            path = Path("conf")
            path.mkdir(exist_ok=True)
            for name, part in text.items():
                (path / name).write_text(part, encoding="utf-8")
        return load([path], kinds=KINDS, env=env or {}, read_secret=read_secret_file, check=check)

    return load_


@pytest.fixture
def problems_of(load_text: LoadText) -> Callable[..., list[str]]:
    """The rendered problems of a configuration that has some."""

    def problems(text: str | Mapping[str, str], **options: Any) -> list[str]:
        with pytest.raises(ConfigError) as raised:
            load_text(text, **options)
        assert str(raised.value) == "\n\n".join(p.render() for p in raised.value.problems)
        return [problem.render() for problem in raised.value.problems]

    return problems


@pytest.fixture
def problem_of(problems_of: Callable[..., list[str]]) -> Callable[..., str]:
    """The rendered problem of a configuration that has exactly one."""

    def problem(text: str | Mapping[str, str], **options: Any) -> str:
        found = problems_of(text, **options)
        assert len(found) == 1, "\n\n".join(found)
        return found[0]

    return problem
