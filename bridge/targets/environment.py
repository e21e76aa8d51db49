"""What a command is told through its environment, and whether it can be found at all.

    HEADRACE_RUN_KEY HEADRACE_WATCHER HEADRACE_ASSET HEADRACE_JOB
    HEADRACE_PARAMS          all params as a JSON object (what standard input holds as well), up to 64 KiB
    HEADRACE_PARAM_<NAME>    a param that is text, a number or a bool (`true`, `false`)

`<NAME>` is the param's name in capitals, with `_` for everything but ASCII letters and digits. Two params that would
share a name have none; null, lists and mappings, and what is too long or holds a NUL, are in the JSON only.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

import msgspec

from bridge.core.errors import Refused
from bridge.decode.json import decimal_of
from bridge.ports import Claim

LONGEST: Final = 64 * 1024
"""Bytes of one variable: Linux refuses to start a program with one of 128 KiB or more."""
MOST: Final = 256 * 1024
"""Bytes of all variables of params together: with arguments and the rest of the environment the limit may be 1 MiB."""

_decode: Final = msgspec.json.Decoder(dict[str, object], float_hook=decimal_of).decode  # 1.10 stays 1.10


def environment_of(claim: Claim) -> dict[str, str]:
    """The variables of a run. Raises Refused for params that are no JSON object."""
    try:
        params = _decode(claim.params)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused(f"the params are not a JSON object: {error}") from error
    told = {
        "HEADRACE_RUN_KEY": claim.run_key,
        "HEADRACE_WATCHER": claim.watcher,
        "HEADRACE_ASSET": claim.asset,
        "HEADRACE_JOB": claim.job,
    }
    variables = {name: _plain(value) for name, value in told.items()}
    if len(claim.params) <= LONGEST:
        variables["HEADRACE_PARAMS"] = claim.params.decode()
    return _with_params(variables, params)


def _with_params(variables: dict[str, str], params: Mapping[str, object]) -> dict[str, str]:
    texts: dict[str, str | None] = {}
    for key, value in params.items():
        name = variable_name(key)
        texts[name] = None if name in texts else _text(value)
    room = MOST
    for name, text in texts.items():
        if text is None:
            continue
        size = len(text.encode("utf-8", "replace"))
        if size <= LONGEST and size <= room:
            room -= size
            variables[name] = text
    return variables


def variable_name(param: str) -> str:
    """`order-id` -> `HEADRACE_PARAM_ORDER_ID`."""
    return "HEADRACE_PARAM_" + "".join(c.upper() if c.isascii() and c.isalnum() else "_" for c in param)


def _text(value: object) -> str | None:
    if isinstance(value, str):
        return value if "\0" not in value else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | Decimal) else None


def _plain(text: str) -> str:
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


# Before anything runs ------------------------------------------------------------------------------------------------


def problems_of(command: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """What no system would take, as sentences."""
    problems = []
    if not command or not command[0].strip():
        problems.append("`command` needs a program as its first item")
    if any("\0" in part for part in command) or any("\0" in value for value in env.values()):
        problems.append("`command` and `env` can't hold a NUL")
    problems += [
        f"`env`: {name!r} can't be the name of a variable" for name in env if not name or set(name) & {"=", "\0"}
    ]
    return problems


def startup_problems(command: Sequence[str], cwd: str | None, env: Mapping[str, str]) -> list[str]:
    """What would make every run fail as things are now, as sentences."""
    if cwd is not None and not os.path.isdir(cwd):
        return [f"`cwd`: {cwd} is not a folder"]
    program = command[0]
    if os.sep not in program:
        if shutil.which(program, path=env.get("PATH", os.defpath)) is None:
            return [f"`command`: {program} is not found on PATH, or can't be executed: install it, or write its path"]
        return []
    path = os.path.join(cwd or "", program)
    if not os.path.isfile(path):
        return [f"`command`: there is no file {os.path.abspath(path)} (relative paths start at `cwd`)"]
    if not os.access(path, os.X_OK):
        return [f"`command`: {os.path.abspath(path)} is not executable: chmod +x, or name its interpreter first"]
    return []
