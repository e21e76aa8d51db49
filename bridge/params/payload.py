"""What a Python watcher yields and what an expression gives, as strict JSON.

User code made the first, so nothing about it is taken for granted.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from itertools import chain
from typing import Any

import msgspec

from bridge.decode.json import DecodeFault, decode_whole
from bridge.language.errors import ParamError
from bridge.language.numbers import text_of_number
from bridge.language.times import text_of_duration, text_of_timestamp
from bridge.language.values import Duration, Timestamp

_encode = msgspec.json.Encoder(decimal_format="number").encode


def encode_payload(payload: object, path: str) -> bytes:
    """Strict JSON of a value made of what JSON has, and of what has one obvious form in it: dates, UUIDs, enums,
    dataclasses, decimals (as numbers), bytes (as base64). Keys become texts; of two that become the same the last wins.

    Raises ParamError that names `path`, the type of the payload, and what is in the way.
    """
    what = f"a value of type {type(payload).__name__}"
    return _strict(
        lambda: msgspec.to_builtins(payload, str_keys=True, builtin_types=(Decimal,), enc_hook=_plain), path, what
    )


def encode_value(value: object, path: str) -> bytes:
    """Strict JSON of a value as in `values.py`, neither unknown nor a Fail. Numbers keep their digits, timestamps and
    durations become texts, bytes become base64.

    Raises ParamError that names `path` and what is in the way, which computing can bring about: a number that no
    double holds, a list that is nested too deep.
    """
    return _strict(lambda: _builtin(value), path, "a value")


def _strict(make: Callable[[], object], path: str, what: str) -> bytes:
    try:
        plain = make()
        encoded = _encode(plain)
        decode_whole(encoded)
    except DecodeFault as error:
        raise ParamError(path, f"{what} that is no strict JSON: {error.fault.error}") from error
    except UnicodeEncodeError as error:
        raise ParamError(path, f"{what} with a text that holds a lone surrogate") from error
    except RecursionError as error:
        raise ParamError(path, f"{what} that is nested too deep, or contains itself") from error
    except Exception as error:  # the properties of a user's own class may raise anything
        raise ParamError(path, f"{what} can't be written as JSON: {error}") from error
    if b"null" in encoded and not _is_finite(plain):  # which is what the encoder makes of NaN
        raise ParamError(path, f"{what} with a number that is NaN or infinite")
    return encoded


def _builtin(value: object) -> object:
    match value:
        case Decimal():
            return msgspec.Raw(text_of_number(value).encode())
        case Timestamp():
            return text_of_timestamp(value)
        case Duration():
            return text_of_duration(value)
        case bytes():
            return b64encode(value).decode()
        case Mapping():
            return {name: _builtin(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_builtin(item) for item in value]
        case _:
            return value


def _plain(value: object) -> Any:
    """Subclasses of JSON's own types, which the encoder doesn't know; whatever they do on conversion is not asked."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"JSON has nothing like {type(value).__name__}")


def _is_finite(plain: object) -> bool:
    level = [plain]
    while level:
        if any(isinstance(value, float) and not math.isfinite(value) for value in level):
            return False
        level = list(chain.from_iterable(map(_members, level)))
    return True


def _members(plain: object) -> Iterable[object]:
    if isinstance(plain, dict):
        return plain.values()
    return plain if isinstance(plain, (list, tuple, set, frozenset)) else ()
