"""MessagePack as JSON text: bytes as base64, timestamps in RFC 3339 (to the microsecond), keys as texts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isfinite
from typing import Final, NoReturn

import msgspec

from bridge.decode.json import DecodeFault
from bridge.decode.text import fault, written

# A float whose exponent is all ones. The bytes may stand for something else as well: then the values are looked at.
_UNREAL: Final = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]|\xca[\x7f\xff][\x80-\xff]")


def read(body: bytes) -> bytes:
    """One value, as JSON text. Raises DecodeFault."""
    value = _value(body)
    if _UNREAL.search(body) and any(isinstance(each, float) and not isfinite(each) for each in _all_within(value)):
        raise fault("number", "a number is NaN or infinite, which JSON has not")
    return written(value)


def _value(body: bytes) -> object:
    try:
        value: object = _decode(body)
    except DecodeFault:
        raise
    except RecursionError as error:
        raise fault("too_deep", "nested deeper than 100 levels") from error
    except msgspec.ValidationError as error:
        reason = "number" if "range" in str(error) else "malformed"  # of a timestamp: nothing else is validated
        raise fault(reason, f"not MessagePack: {error}") from error
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        words = str(error).removeprefix("MessagePack data is malformed: ")
        raise fault("encoding" if "UTF-8" in words else "malformed", f"not MessagePack: {words}") from error
    return value


def _refuse(code: int, _data: memoryview) -> NoReturn:
    raise fault("malformed", f"an extension of type {code}: of these only timestamps (type -1) are read")


_decode = msgspec.msgpack.Decoder(ext_hook=_refuse).decode


def _all_within(value: object) -> Iterator[object]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        yield each
        if isinstance(each, dict):
            waiting += each.keys()
            waiting += each.values()
        elif isinstance(each, list | tuple):
            waiting += each
