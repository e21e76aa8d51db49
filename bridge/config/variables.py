"""`${NAME}`, `${NAME:-default}` and `${file:PATH}` in scalars: once, never twice, and never silently empty.

| written | gives |
|---|---|
| `${NAME}` | the variable's text; set but empty is empty text; not set is an error |
| `${NAME:-text}` | the text where the variable is not set or empty, as in a shell |
| `${file:PATH}` | the file's text less one newline at its end; a relative path begins at the YAML file's folder |
| `$$` | `$` |
| `$USER`, `pa$word`, a `$` at the end | itself |

What comes in is text and is not looked at again, so it can't change the structure and can't hold variables.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from bridge.config.nodes import Scalar
from bridge.config.suggest import nearest
from bridge.core.units import format_size

LARGEST_SECRET: Final = 64 * 1024

_DOLLAR: Final = re.compile(r"\$\$|\$\{([^}]*)(\}?)")
_VARIABLE: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_FORMS: Final = "what works is ${NAME}, ${NAME:-default} and ${file:PATH}; $$ stands for a $"
_EXPRESSION: Final = re.compile(r"\s*(?:event|trigger|meta|headers)\s*[.\[]")
_EVENT: Final = "expressions over the event work in `params`, `tags` and `key`; elsewhere ${NAME} is a variable"
_EACH: Final = re.compile(r"\s*each\b")
_EACH_HINT: Final = "`each` is the item of a watcher with `for_each`: ${each.name}, in values of that watcher"


class Filled(NamedTuple):
    """A scalar after substitution. `origins` is what came in, like `${PORT}`; empty where nothing did.

    `values` is what each of them gave.
    """

    text: str
    is_plain: bool
    origins: tuple[str, ...] = ()
    values: tuple[str, ...] = ()


class Unfilled(NamedTuple):
    """Why it could not be done. `part` is what is to blame, as written."""

    message: str
    hint: str
    part: str = ""


def read_secret_file(path: Path) -> str:
    """The text of a regular file of at most 64 KiB. Raises OSError or ValueError, without any of its content."""
    with open(path, "rb", opener=_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("not a regular file")
        data = file.read(LARGEST_SECRET + 1)
    if len(data) > LARGEST_SECRET:
        raise ValueError(f"larger than {format_size(LARGEST_SECRET)}")
    return data.decode()


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a pipe without a writer must not hang us


class Variables:
    """Where values come from. `used` gathers every variable that the configuration names."""

    def __init__(self, env: Mapping[str, str], read_secret: Callable[[Path], str]) -> None:
        self.env = env
        self._read_secret = read_secret
        self.used: set[str] = set()

    def fill(self, scalar: Scalar) -> Filled | Unfilled:
        if "$" not in scalar.text:
            return Filled(scalar.text, scalar.is_plain)
        parts: list[str] = []
        origins: list[str] = []
        values: list[str] = []
        end = 0
        for found in _DOLLAR.finditer(scalar.text):
            parts.append(scalar.text[end : found.start()])
            end = found.end()
            if found[0] == "$$":
                parts.append("$")
                continue
            value = self._value(found[1], found[2], scalar.place.source.folder)
            if isinstance(value, str) and not _is_text(value):
                value = Unfilled(f"{_origin(found[1])} holds bytes that are no text", "it must be UTF-8 without U+0000")
            if isinstance(value, Unfilled):
                return value._replace(part=found[0])
            parts.append(value)
            values.append(value)
            origins.append(_origin(found[1]))
        parts.append(scalar.text[end:])
        return Filled("".join(parts), scalar.is_plain and not origins, tuple(origins), tuple(values))

    def _value(self, inside: str, closed: str, folder: Path) -> str | Unfilled:
        if not closed:
            return Unfilled("a ${ without its }", _FORMS)
        if inside.startswith("file:"):
            return self._from_file(inside.removeprefix("file:"), folder)
        found = _VARIABLE.fullmatch(inside)
        if found is None:
            hint = _EACH_HINT if _EACH.match(inside) else _EVENT if _EXPRESSION.match(inside) else _FORMS
            return Unfilled(f"${{{_shortened(inside)}}} is not understood", hint)
        name, default = found[1], found[2]
        self.used.add(name)
        value = self.env.get(name)
        if default is None:
            return self._missing(name) if value is None else value
        if "${" in default:
            return Unfilled(f"the default of ${{{name}:-…}} holds another variable", "a default is plain text")
        return value or default

    def _missing(self, name: str) -> Unfilled:
        close = nearest(name, self.env)
        hint = f"did you mean ${{{close}}}? " if close else ""
        return Unfilled(
            f"the environment variable {name} is not set", f"{hint}Set it, or give a default: ${{{name}:-…}}"
        )

    def _from_file(self, name: str, folder: Path) -> str | Unfilled:
        shown = f"${{file:{_shortened(name)}}}"
        if not name.strip() or "${" in name:
            return Unfilled(f"{shown} names no file", _FORMS)
        try:
            text = self._read_secret(folder / name)
        except UnicodeDecodeError:
            return Unfilled(f"{shown}: the file is not UTF-8 text", "")
        except OSError as error:
            return Unfilled(f"{shown} can't be read: {error.strerror or type(error).__name__}", f"looked in {folder}")
        except ValueError as error:
            return Unfilled(f"{shown} can't be read: {error}", "")
        if len(text.encode(errors="replace")) > LARGEST_SECRET:
            return Unfilled(f"{shown} can't be read: larger than {format_size(LARGEST_SECRET)}", "")
        return text[: -2 if text.endswith("\r\n") else -1] if text.endswith("\n") else text


def _is_text(value: str) -> bool:
    """Whether every store and every target can take it: Python keeps odd bytes of the environment as surrogates."""
    return "\0" not in value and not any("\ud800" <= c <= "\udfff" for c in value)


def _origin(inside: str) -> str:
    """How the source of a value is shown: without its default, which may be a secret."""
    return f"${{{inside.partition(':-')[0]}}}"


def _shortened(text: str) -> str:
    return text.partition(":")[0][:40] + "…" if len(text) > 40 else text
