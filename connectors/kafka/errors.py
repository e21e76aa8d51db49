"""The client's errors, told apart by who has to act. The cause is always kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from aiokafka import errors as kafka

from bridge.core.errors import HeadraceError, OwnershipLost, Refused, Transient
from connectors.kafka.codecs import codec_refused

_LOST = (
    kafka.CommitFailedError,
    kafka.IllegalGenerationError,
    kafka.UnknownMemberIdError,
    kafka.RebalanceInProgressError,
    kafka.IllegalStateError,  # the client's own word for a partition that is no longer assigned
)
_DENIED = (
    kafka.TopicAuthorizationFailedError,
    kafka.GroupAuthorizationFailedError,
    kafka.ClusterAuthorizationFailedError,
    kafka.TransactionalIdAuthorizationFailed,
)
_WRONG = (
    kafka.AuthenticationFailedError,
    kafka.UnsupportedSaslMechanismError,
    kafka.SaslAuthenticationFailed,
    kafka.InconsistentGroupProtocolError,
    kafka.InvalidSessionTimeoutError,
    kafka.InvalidGroupIdError,
    kafka.InvalidTopicError,
)


def translated(error: BaseException, doing: str) -> HeadraceError:
    """An error of ours for one of the client's, with what we were doing."""
    if isinstance(error, HeadraceError):
        return error
    said = f"{doing}: {told(error)}"
    if isinstance(error, _LOST):
        return OwnershipLost(said)
    if isinstance(error, kafka.UnsupportedCodecError):
        return codec_refused(error)
    if isinstance(error, _DENIED):
        return Refused(f"{said}; grant it to the user of this stream (docs/connectors/kafka.md lists the rights)")
    if isinstance(error, _WRONG):
        return Refused(said)
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


def told(error: BaseException) -> str:
    """Its name and its words. aiokafka puts `[Error 29] ` in front, which is of use to those who look it up."""
    words = str(error) or "no more is known"
    return f"{type(error).__name__}: {words}"
