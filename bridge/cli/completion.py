"""`headrace completion`, and what shells ask for when Tab is pressed."""

from __future__ import annotations

import os
from contextlib import redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from bridge.cli.output import say

if TYPE_CHECKING:
    from bridge.config.model import Config

VARIABLE: Final = "_HEADRACE_COMPLETE"
"""Set by the scripts when they ask; its value says which shell does."""

Shell = Annotated[
    Literal["bash", "zsh", "fish"], typer.Argument(metavar="SHELL", help="bash, zsh or fish.", show_default=False)
]


def completion(shell: Shell) -> None:
    """Print a script with which a shell completes commands, options and names of watchers.

    \b
    Examples:
      headrace completion bash > ~/.local/share/bash-completion/completions/headrace
      headrace completion zsh > "${fpath[1]}/_headrace"
      headrace completion fish > ~/.config/fish/completions/headrace.fish
    """
    from typer._completion_shared import get_completion_script

    say(get_completion_script(prog_name="headrace", complete_var=VARIABLE, shell=shell))


def is_asked() -> bool:
    """Whether a shell asks what could be typed, and nobody wants a command to run."""
    return VARIABLE in os.environ


def prepare() -> None:
    """The answers get the form that the scripts expect."""
    from typer._completion_classes import completion_init

    completion_init()


def watcher_ids(incomplete: str) -> list[str]:
    """Ids in the configuration of this folder that begin so; none where it can't be read."""
    config = _config()
    return [] if config is None else sorted(w.id for w in config.watchers if w.id.startswith(incomplete))


def stream_names(incomplete: str) -> list[str]:
    """The same for streams."""
    config = _config()
    return [] if config is None else sorted(name for name in config.streams if name.startswith(incomplete))


def _config() -> Config | None:
    """Whatever is wrong with it is not said here: a person is in the middle of a line."""
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        try:
            from bridge.cli.opening import config_of

            return config_of(None, check=False)
        except (Exception, SystemExit):
            return None
