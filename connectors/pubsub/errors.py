"""The client's errors, told apart by who has to act. The cause is always kept.

A request that settles many messages is answered as a whole. What became of each is in the details of its error where
the subscription delivers exactly once: an ErrorInfo whose metadata has a word for each ack id that failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from google.auth import exceptions as auth
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2
from grpc import StatusCode
from grpc.aio import AioRpcError
from msgspec import Struct

from bridge.core.errors import HeadraceError, Refused, Transient

_STATUS: Final = "grpc-status-details-bin"
_WORDS_MOST: Final = 300

_FOR_PEOPLE: Final = {
    StatusCode.NOT_FOUND: "create it, or correct its name (a subscription that was deleted is gone with its messages)",
    StatusCode.PERMISSION_DENIED: "grant the role that docs/connectors/pubsub.md names to the account of this process",
    StatusCode.UNAUTHENTICATED: "give the process valid credentials (docs/connectors/pubsub.md says where from)",
    StatusCode.INVALID_ARGUMENT: "it is taken for wrong as it is",
    StatusCode.FAILED_PRECONDITION: "a subscription that is detached, or pushes, can't be pulled",
    StatusCode.UNIMPLEMENTED: "is that Pub/Sub?",
}
"""What trying again does not mend, and what does."""


class CredentialsRefused(Refused):
    """There are no credentials, or Google does not take them."""


def is_for_people(error: AioRpcError) -> bool:
    """Whether trying again is useless until somebody has done something."""
    return error.code() in _FOR_PEOPLE


def translated(error: BaseException, doing: str) -> HeadraceError:
    """An error of ours for one of the client's, with what we were doing."""
    if isinstance(error, HeadraceError):
        return error
    said = f"{doing}: {told(error)}"
    if isinstance(error, AioRpcError):
        hint = _FOR_PEOPLE.get(error.code())
        return Transient(said) if hint is None else Refused(f"{said}; {hint}")
    if isinstance(error, auth.DefaultCredentialsError):
        return CredentialsRefused(f"{said}; {_FOR_PEOPLE[StatusCode.UNAUTHENTICATED]}")
    if isinstance(error, auth.RefreshError) and not error.retryable:
        return CredentialsRefused(f"{said}; {_FOR_PEOPLE[StatusCode.UNAUTHENTICATED]}")
    return Transient(said)


def told(error: BaseException) -> str:
    """Its name and its words, on one line."""
    if isinstance(error, AioRpcError):
        name, words = error.code().name, error.details() or ""
    elif isinstance(error, auth.GoogleAuthError):  # its further arguments may be whole answers
        name, words = type(error).__name__, str(error.args[0]) if error.args else ""
    else:
        name, words = type(error).__name__, str(error)
    words = " ".join(words.split())[:_WORDS_MOST]
    return f"{name}: {words or 'no more is known'}"


# What became of each ack id ------------------------------------------------------------------------------------------


class Verdict(Struct, frozen=True):
    """What a failed request means for its ack ids. `again`: as it was. `halves`: some are unknown, not told which.

    `lost`: their lease is over. What is in none of these is settled.
    """

    lost: frozenset[str] = frozenset()
    again: Sequence[str] = ()
    halves: bool = False


_PASSES: Final = frozenset({
    StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED, StatusCode.INTERNAL, StatusCode.ABORTED,
    StatusCode.RESOURCE_EXHAUSTED, StatusCode.UNKNOWN, StatusCode.CANCELLED, StatusCode.UNAUTHENTICATED,
})  # fmt: skip
"""A request that ended so is sent again. (After UNAUTHENTICATED with a fresh token.)"""


def verdict_of(error: AioRpcError, ids: Sequence[str]) -> Verdict | None:
    """None: the request is refused as a whole, and would be again."""
    words = words_of(error)
    passes = error.code() in _PASSES
    if words:
        lost = frozenset(i for i in ids if i in words and not words[i].startswith("TRANSIENT_"))
        again = [i for i in ids if words.get(i, "TRANSIENT_" if passes else "").startswith("TRANSIENT_")]
        return Verdict(lost, again)
    if passes:
        return Verdict(again=ids)
    if error.code() is StatusCode.INVALID_ARGUMENT:
        return Verdict(halves=True) if len(ids) > 1 else Verdict(lost=frozenset(ids))
    return None


def words_of(error: AioRpcError) -> Mapping[str, str]:
    """By ack id; empty where the service says nothing of single ones."""
    for key, value in error.trailing_metadata() or ():
        if key == _STATUS:
            return _words(value if isinstance(value, bytes) else value.encode())
    return {}


def _words(status: bytes) -> Mapping[str, str]:
    info = error_details_pb2.ErrorInfo()
    try:
        for detail in status_pb2.Status.FromString(status).details:
            if detail.Unpack(info):
                return dict(info.metadata)
    except DecodeError:
        pass
    return {}
