"""What must never be shown. A field is secret by its name, a value because it came in through `${...}`."""

from __future__ import annotations

import difflib
import re
from functools import lru_cache
from typing import Final

MASK: Final = "***"

_SECRET_WORDS: Final = frozenset({
    "password", "passwd", "passphrase", "pwd", "pass", "secret", "secrets", "token", "credential", "credentials",
    "authorization", "cookie", "apikey", "key", "keys", "sas", "dsn", "jwt", "bearer",
})  # fmt: skip
_SECRET_ENDINGS: Final = ("password", "passwd", "secret", "token", "apikey")
# The last word says what the value is: the name of a file with a password in it is no password.
_HARMLESS_LAST: Final = frozenset({
    "file", "path", "folder", "dir", "url", "uri", "name", "id", "type", "kind", "ttl", "timeout",
    "size", "length", "count", "limit", "header", "field",
})  # fmt: skip
# `key` means many things on a broker, most of them no secret.
_HARMLESS_KEYS: Final = frozenset({
    "partition", "ordering", "routing", "primary", "sort", "group", "run", "business", "dedupe",
    "message", "foreign", "stream",
})  # fmt: skip
_LIKELY: Final = (
    "password", "passwd", "passphrase", "secret", "token", "credentials", "authorization", "apikey",
)  # fmt: skip
_LIKE: Final = 0.83
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_URL_PASSWORD: Final = re.compile(r"://[^/\s:@'\"]*:(?![0-9]{1,5}/)([^\s'\"]+)@")
_WHOLE_VARIABLE: Final = re.compile(r"\$\{(?:[A-Za-z_][A-Za-z0-9_.]*|file:[^}$]*)\}")


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """`db_password`, `apiToken`, `X-Api-Key`: yes. `password_file`, `partition_key`: no."""
    words = [word.lower() for word in _WORDS.findall(name[:200])]
    if not words or words[-1] in _HARMLESS_LAST:
        return False
    if words[-1] in ("key", "keys"):
        return len(words) < 2 or words[-2] not in _HARMLESS_KEYS
    return not _SECRET_WORDS.isdisjoint(words) or words[-1].endswith(_SECRET_ENDINGS)


@lru_cache(maxsize=4096)
def may_be_secret_name(name: str) -> bool:
    """The same for a name that may be misspelled: `pasword`. For what is only quoted, and not used."""
    if is_secret_name(name):
        return True
    words = [word.lower() for word in _WORDS.findall(name[:200])]
    return any(difflib.get_close_matches(word, _LIKELY, n=1, cutoff=_LIKE) for word in words if len(word) > 3)


def is_secret_group(name: str) -> bool:
    """`credentials`: below it there are fields with names of their own, and these are no secrets."""
    return name.lower() in ("credentials", "credential", "secrets", "keys")


def is_only_a_reference(text: str) -> bool:
    """`${NAME}`, `${file:PATH}` or `${event.a}` and nothing else: says where the secret is, and not the secret."""
    return _WHOLE_VARIABLE.fullmatch(text) is not None


def url_passwords(text: str) -> list[tuple[int, int]]:
    """Where in the text the password of a URL is: pairs of start and end."""
    if "://" not in text:
        return []
    return [found.span(1) for found in _URL_PASSWORD.finditer(text)]


def without_url_passwords(text: str) -> str:
    """The text with the password of every URL in it masked."""
    for start, end in reversed(url_passwords(text)):
        text = text[:start] + MASK + text[end:]
    return text


# A file that can't be parsed has no fields yet: names are looked for in its text instead -----------------------------

_NAMED: Final = re.compile(r"""["']?([A-Za-z_][\w.-]*)["']?[ \t]*:(?=[ \t]|$)[ \t]*""")
_INDENT: Final = re.compile(r"[ \t]*(?:-[ \t]+)*")
_LOOK_BACK: Final = 200


def guessed_secret(lines: list[str], index: int) -> tuple[int, int] | None:
    """The part of `lines[index]` that may be a secret, going by names in the text alone."""
    line = lines[index]
    for found in _NAMED.finditer(line[:10_000]):
        if may_be_secret_name(found[1]) and found.end() < len(line):
            return None if is_only_a_reference(line[found.end() :].strip()) else (found.end(), len(line))
    indent = _indent(line)
    for above in range(index - 1, max(-1, index - _LOOK_BACK), -1):
        text = lines[above]
        if not text.strip() or (_indent(text) >= indent and line.strip()):
            continue
        indent = min(indent, _indent(text))
        names = [found[1] for found in _NAMED.finditer(text[:10_000])]
        if names and may_be_secret_name(names[-1]):
            return (0, len(line))
        if indent == 0:
            break
    return None


def _indent(line: str) -> int:
    found = _INDENT.match(line)
    return len(found[0].expandtabs()) if found else 0
