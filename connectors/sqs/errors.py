"""The errors of SQS and of the client, told apart by who has to act. The cause is always kept.

SQS has two names for most of its errors: that of the JSON protocol (`QueueDoesNotExist`) and an older one
(`AWS.SimpleQueueService.NonExistentQueue`). The client raises with the older one, entries of a batch have either.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from botocore import exceptions as client
from botocore.exceptions import ClientError

from bridge.core.errors import HeadraceError, Refused, Transient

_OLDER: Final = "AWS.SimpleQueueService."
_MISSING: Final = frozenset({"QueueDoesNotExist", "NonExistentQueue"})
_CREDENTIALS: Final = frozenset({
    "ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "UnrecognizedClientException",
    "SignatureDoesNotMatch", "InvalidSignatureException", "InvalidAccessKeyId", "MissingAuthenticationToken",
    "MissingAuthenticationTokenException", "IncompleteSignature", "IncompleteSignatureException", "InvalidToken",
    "NotAuthorized", "RequestExpired", "InvalidSecurity", "AuthFailure", "OptInRequired",
})  # fmt: skip
_DENIED: Final = frozenset({"AccessDenied", "AccessDeniedException", "AuthorizationError", "UnauthorizedOperation"})
_OVER_LIMIT: Final = frozenset({"OverLimit"})
_DEAD_HANDLE: Final = frozenset({"ReceiptHandleIsInvalid", "MessageNotInflight", "InvalidReceiptHandle"})
_TOO_LONG: Final = frozenset({"BatchRequestTooLong"})
_PASSES: Final = frozenset({
    "RequestThrottled", "ThrottlingException", "Throttling", "RequestLimitExceeded", "TooManyRequestsException",
    "InternalError", "InternalFailure", "InternalServerError", "ServiceUnavailable", "RequestTimeout", "KmsThrottled",
    "KMS.ThrottlingException",
})  # fmt: skip
_NO_KEYS: Final = (
    client.NoCredentialsError, client.PartialCredentialsError, client.CredentialRetrievalError,
    client.TokenRetrievalError, client.ProfileNotFound,
)  # fmt: skip


class CredentialsRefused(Refused):
    """AWS does not know us, or not any more: what we hold has to be found anew."""


class QueueMissing(Refused):
    """There is no such queue, or we may not know of it."""


class TooLong(Refused):
    """The entries of a batch are larger together than SQS takes."""


def code_of(error: ClientError) -> str:
    """In its newer form where it has two."""
    said: Mapping[str, Any] = error.response.get("Error", {})
    return plain(str(said.get("Code", "")))


def plain(code: str) -> str:
    """`AWS.SimpleQueueService.NonExistentQueue` -> `NonExistentQueue`."""
    return code.removeprefix(_OLDER).rpartition("#")[2]


# A call that failed --------------------------------------------------------------------------------------------------


def translated(error: BaseException, doing: str) -> HeadraceError:
    """An error of ours for one of the client's, with what we were doing."""
    if isinstance(error, HeadraceError):
        return error
    said = f"{doing}: {told(error)}"
    if isinstance(error, ClientError):
        return _of_service(error, said)
    if isinstance(error, _NO_KEYS):
        return CredentialsRefused(f"{said}; give the process credentials (docs/connectors/sqs.md says where from)")
    if isinstance(error, client.NoRegionError):
        return Refused(f"{said}; write `region`, or set AWS_REGION")
    if isinstance(error, TimeoutError):
        return Transient(f"{doing}: no answer in time")
    if isinstance(error, client.ConnectionError | client.HTTPClientError | OSError):
        return Transient(said)
    if isinstance(error, client.BotoCoreError):
        return Refused(said)  # something that it will not even send
    return Transient(said)


def _of_service(error: ClientError, said: str) -> HeadraceError:
    code = code_of(error)
    if code in _MISSING:
        return QueueMissing(f"{said}; is it deleted, in another region, or in another account?")
    if code in _CREDENTIALS:
        return CredentialsRefused(f"{said}; new credentials are looked for by themselves, tried again all the time")
    if code not in _PASSES and (code in _DENIED or code.startswith(("Kms", "KMS."))):
        return Refused(f"{said}; grant it to the identity of this stream (docs/connectors/sqs.md lists the rights)")
    if code in _OVER_LIMIT:
        return Transient(
            f"{said}; SQS lends 120,000 messages of a queue at once, and 20,000 of a FIFO one: other consumers of this "
            "queue hold them"
        )
    if code in _TOO_LONG:
        return TooLong(said)
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) or 0)
    if code in _PASSES or status >= 500 or status in (0, 408, 429):
        return Transient(said)
    return Refused(said)


def told(error: BaseException) -> str:
    """The code and words of SQS, or the name and words of the client's own error. No request is quoted."""
    if isinstance(error, ClientError):
        said: Mapping[str, Any] = error.response.get("Error", {})
        return f"{code_of(error) or 'an error without a code'}: {said.get('Message') or 'no more is known'}"
    words = " ".join(str(error).split()) or "no more is known"
    return f"{type(error).__name__}: {words}"


# An entry of a batch that failed -------------------------------------------------------------------------------------


class Verdict(Enum):
    """What to do about an entry that a batch has left undone."""

    DEAD = "its receipt handle counts no more"
    AGAIN = "it may work another time"
    REFUSED = "it will never be taken"


def verdict_of(failed: Mapping[str, Any]) -> Verdict:
    """By its code first: some say that a bad handle is no fault of the sender's."""
    code, words = plain(str(failed.get("Code", ""))), str(failed.get("Message") or "").lower()
    if code in _DEAD_HANDLE:
        return Verdict.DEAD
    if code in ("InvalidParameterValue", "InvalidParameterCombination") and (
        "handle" in words or "expired" in words or "not available for visibility" in words
    ):
        return Verdict.DEAD
    if code in _PASSES or not failed.get("SenderFault", False):
        return Verdict.AGAIN
    return Verdict.REFUSED
