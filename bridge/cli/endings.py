"""How a command ends: its exit code, and what is said of an error. Nobody sees a stack who has not asked for one."""

from __future__ import annotations

import os
import sys
import traceback
from contextvars import ContextVar
from typing import Final

from bridge.cli.output import complain
from bridge.core.errors import HeadraceError, Refused, StoreRefused, StoreUnavailable

OK: Final = 0
FINDINGS: Final = 1
"""The answer is no: problems in the configuration, not healthy, nothing of that name, could not be done; a defect."""
USAGE: Final = 2
ENVIRONMENT: Final = 3
INTERRUPTED: Final = 130

LOG_LEVEL: Final = "HEADRACE_LOG_LEVEL"
_level: Final = ContextVar("level", default="")


class WrongCall(HeadraceError):
    """The command line can't be understood, or lacks something."""


class Unmet(HeadraceError):
    """What was asked for is not there, or can't be done as things are."""


def log_at(level: str | None = None) -> None:
    """The log level of this command, by default that of the environment: at `debug` a defect shows its stack."""
    _level.set((os.environ.get(LOG_LEVEL, "") if level is None else level).lower())


def code_of(error: Exception) -> int:
    """Says what went wrong on standard error, and returns the exit code."""
    if not isinstance(error, HeadraceError):
        return _unexpected(error)
    from bridge.config.problems import ConfigError

    if isinstance(error, ConfigError):
        from bridge.cli.problems import complain_of

        complain_of(error)
        return FINDINGS
    complain(str(error))
    if isinstance(error, StoreRefused | StoreUnavailable | Refused):
        return ENVIRONMENT
    return USAGE if isinstance(error, WrongCall) else FINDINGS


def _unexpected(error: Exception) -> int:
    """A defect, ours or that of a library: one line. The stack is shown when the log level is `debug`."""
    if _level.get() == "debug":
        traceback.print_exception(error, file=sys.stderr)
    complain(
        f"unexpected {type(error).__name__}: {error or 'no reason given'}. This is a defect of headrace: please report "
        f"it to its maintainers, with what `headrace version` prints and the stack ({LOG_LEVEL}=debug shows it)"
    )
    return FINDINGS
