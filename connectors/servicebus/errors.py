"""The client's errors, told apart by who has to act. The cause is always kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from azure.core.exceptions import AzureError, ClientAuthenticationError
from azure.servicebus import exceptions as azure
from azure.servicebus._pyamqp.error import AMQPException, AuthenticationException, ErrorCondition

from bridge.core.errors import HeadraceError, OwnershipLost, Refused, Transient

_LOST: Final = (azure.MessageLockLostError, azure.SessionLockLostError, azure.MessageNotFoundError)
_DENIED: Final = (
    azure.ServiceBusAuthenticationError,
    azure.ServiceBusAuthorizationError,
    AuthenticationException,
    ClientAuthenticationError,
)
_ENTITY: Final = (azure.MessagingEntityNotFoundError, azure.MessagingEntityDisabledError)
_LOST_CODES: Final = (b"com.microsoft:message-lock-lost", b"com.microsoft:session-lock-lost")
_NO_SESSION_CODES: Final = (b"com.microsoft:timeout", b"com.microsoft:session-cannot-be-locked")
_NEEDS_SESSIONS: Final = "requires sessions"
_NO_SESSIONS: Final = "does not require sessions"


class Silent(Transient):
    """Nothing was heard of the broker for too long."""


class NoSession(HeadraceError):
    """There is no session to be had now: it means nothing."""


def condition_of(error: BaseException) -> bytes:
    """The AMQP condition that an error carries, empty where it has none."""
    condition = getattr(error, "condition", None) or getattr(error, "_condition", None) or b""
    return condition if isinstance(condition, bytes) else str(condition).encode()


def is_lost(error: BaseException) -> bool:
    """The lock of a message or a session is somebody else's, or nobody's, by now."""
    return isinstance(error, (*_LOST, OwnershipLost)) or condition_of(error) in _LOST_CODES


def is_no_session(error: BaseException) -> bool:
    """What the client raises where a session was waited for and none came (B50), or another reader has it."""
    return isinstance(error, (NoSession, azure.OperationTimeoutError, azure.SessionCannotBeLockedError)) or (
        condition_of(error) in _NO_SESSION_CODES
    )


def kind_of(error: BaseException) -> str:
    """A word for the counters of `report()`."""
    condition = condition_of(error)
    if is_lost(error):
        return "lock_lost"
    if isinstance(error, _ENTITY) or condition in (ErrorCondition.NotFound, ErrorCondition.ResourceDeleted):
        return "no_entity"
    if isinstance(error, _DENIED) or condition == ErrorCondition.UnauthorizedAccess:
        return "not_authorized"
    if isinstance(error, Silent):
        return "silent"
    if isinstance(error, TimeoutError | azure.OperationTimeoutError):
        return "timeout"
    if condition in (ErrorCondition.LinkDetachForced, ErrorCondition.UnknownError):
        return "detached"
    if condition == ErrorCondition.NotAllowed or isinstance(error, Refused):
        return "not_allowed"
    return "connection" if isinstance(error, OSError | AMQPException | AzureError) else "other"


def told(error: BaseException) -> str:
    """Its name and its words, in one line of at most 500 characters."""
    words = " ".join(str(error).split()) or "no more is known"
    return f"{type(error).__name__}: {words}"[:500]


def trouble_of(error: BaseException, entity: str) -> str:
    """What a person reads of a stream that has no link: what happened, and what to do about it."""
    kind, words = kind_of(error), " ".join(str(error).split())
    if _NEEDS_SESSIONS in words and _NO_SESSIONS not in words and kind != "no_entity":
        return f"{entity} requires sessions: set `sessions: true` ({told(error)})"
    if kind == "no_entity":
        return f"there is no {entity}, or it is disabled: make it, or correct its name ({told(error)})"
    if kind == "not_authorized":
        return (
            f"{entity} may not be read: the claim Listen, or the role Azure Service Bus Data Receiver, is missing, or "
            f"the credentials are refused ({told(error)})"
        )
    if kind == "not_allowed":
        return f"{entity} can't be read like this: does it require sessions, or not? ({told(error)})"
    return f"{entity} can't be reached ({told(error)})"


def translated(error: BaseException, doing: str) -> HeadraceError:
    """An error of ours for one of the client's, with what we were doing."""
    if isinstance(error, HeadraceError):
        return error
    said = f"{doing}: {told(error)}"
    if is_lost(error):
        return OwnershipLost(said)
    if kind_of(error) in ("no_entity", "not_authorized", "not_allowed"):
        return Refused(f"{said} (docs/connectors/servicebus.md lists the claims and roles)")
    if isinstance(error, azure.MessageSizeExceededError):
        return Refused(f"{said}: a message is larger than the entity takes")
    return Transient(said)


@contextmanager
def translating(doing: str) -> Iterator[None]:
    """Whatever the client raises within leaves as an error of ours. Cancellation passes."""
    try:
        yield
    except HeadraceError:
        raise
    except Exception as error:
        raise translated(error, doing) from error
