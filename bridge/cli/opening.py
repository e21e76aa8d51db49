"""From the command line to a configuration and a store."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import typer

from bridge.cli.endings import FINDINGS, WrongCall
from bridge.cli.output import note

if TYPE_CHECKING:
    from bridge.config.model import Config
    from bridge.store.reader import Reader

DEFAULT: Final = "headrace.yaml"
VARIABLE: Final = "HEADRACE_CONFIG"


class Opened(NamedTuple):
    """A store to ask; `config` None where the store was named itself."""

    reader: Reader
    config: Config | None


def config_paths(given: Sequence[Path] | None) -> list[Path]:
    """What was given, else what the environment names, else the file in this folder. Raises WrongCall."""
    if given:
        return list(given)
    named = [Path(path) for path in os.environ.get(VARIABLE, "").split(os.pathsep) if path]
    if named:
        return named
    if not os.path.exists(DEFAULT):
        raise WrongCall(
            f"there is no {DEFAULT} in {_here()}: name a configuration (a file or a folder), go to the folder that "
            f"holds it, or set {VARIABLE}"
        )
    return [Path(DEFAULT)]


def config_of(given: Sequence[Path] | None, *, check: bool) -> Config:
    """The configuration. Raises WrongCall, ConfigError. What user code prints while it is imported is no answer."""
    paths = config_paths(given)
    with redirect_stdout(sys.stderr):
        from bridge.wiring import load_config

        return load_config(paths, check=check)


def opened(given: Sequence[Path] | None, url: str | None) -> Opened:
    """The store that was named, else that of the configuration. Raises WrongCall, StoreRefused."""
    if url is None:
        config = _config_for_its_store(given)
        url = config.store.url
    elif given:
        raise WrongCall("--store names the store itself: leave the configuration out, or --store")
    else:
        config = None
    from bridge.wiring import open_reader

    return Opened(open_reader(url), config)


def _config_for_its_store(given: Sequence[Path] | None) -> Config:
    from bridge.config.problems import ConfigError

    try:
        return config_of(given, check=False)
    except WrongCall as error:
        raise WrongCall(f"{error}; or name the store itself: --store sqlite:///headrace.db") from None
    except ConfigError as error:
        from bridge.cli.problems import complain_of

        complain_of(error)
        note("the configuration is read for the address of its store: --store URL does without")
        raise typer.Exit(FINDINGS) from None


def reader_of(given: Sequence[Path] | None, url: str | None) -> Reader:
    """As `opened`, where the configuration doesn't matter beyond its store."""
    return opened(given, url).reader


def _here() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "this folder, which is gone"
