"""The errors of SQS and of its client, as ours; and entries of batches that failed."""

from __future__ import annotations

import pytest
from botocore import exceptions as client
from botocore.exceptions import ClientError

from bridge.core.errors import Refused, Transient
from connectors.sqs.errors import (
    CredentialsRefused,
    QueueMissing,
    TooLong,
    Verdict,
    translated,
    verdict_of,
)


def said(code: str, status: int = 400, message: str = "words") -> ClientError:
    response = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(response, "ReceiveMessage")  # type: ignore[arg-type]


@pytest.mark.parametrize("code", ["QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"])
def test_a_queue_that_is_not_there_has_two_names_for_it(code: str) -> None:
    assert type(translated(said(code), "reading")) is QueueMissing


@pytest.mark.parametrize(
    "code", ["ExpiredToken", "InvalidClientTokenId", "UnrecognizedClientException", "InvalidSecurity"]
)
def test_credentials_that_aws_refuses_are_looked_for_again(code: str) -> None:
    assert type(translated(said(code, 403), "reading")) is CredentialsRefused


@pytest.mark.parametrize(
    "error", [client.NoCredentialsError(), client.CredentialRetrievalError(provider="x", error_msg="y")]
)
def test_credentials_that_are_not_found_are_told_with_where_to_read_about_them(error: Exception) -> None:
    ours = translated(error, "reading")
    assert type(ours) is CredentialsRefused
    assert "docs/connectors/sqs.md" in str(ours)


@pytest.mark.parametrize("code", ["AccessDenied", "AccessDeniedException", "KmsAccessDenied", "KmsDisabled"])
def test_a_right_that_is_missing_is_refused_with_what_to_do(code: str) -> None:
    ours = translated(said(code, 403), "reading")
    assert type(ours) is Refused
    assert "grant it" in str(ours)


@pytest.mark.parametrize(
    "error",
    [said("RequestThrottled"), said("ThrottlingException", 400), said("KmsThrottled"), said("InternalError", 500),
     said("Odd", 503), TimeoutError(), OSError("x"), client.EndpointConnectionError(endpoint_url="http://x"),
     client.ReadTimeoutError(endpoint_url="http://x"), client.ConnectionClosedError(endpoint_url="http://x")],
)  # fmt: skip
def test_what_may_pass_is_transient(error: Exception) -> None:
    assert type(translated(error, "reading")) is Transient


def test_too_many_messages_in_flight_is_told_with_the_limits() -> None:
    ours = translated(said("OverLimit", 403), "reading")
    assert type(ours) is Transient
    assert "120,000" in str(ours)
    assert "20,000" in str(ours)


def test_a_batch_that_is_too_long_is_told_apart() -> None:
    assert type(translated(said("AWS.SimpleQueueService.BatchRequestTooLong"), "sending")) is TooLong


# Entries of a batch --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("ReceiptHandleIsInvalid", "The input receipt handle is invalid."),
        ("AWS.SimpleQueueService.MessageNotInflight", ""),
        ("InvalidParameterValue", "Value x for parameter ReceiptHandle is invalid. Reason: The handle has expired."),
        ("InvalidParameterValue", "Message does not exist or is not available for visibility timeout change."),
    ],
)  # fmt: skip
@pytest.mark.parametrize("fault", [True, False])
def test_a_handle_that_counts_no_more_is_known_by_its_code_whoever_is_blamed(
    code: str, message: str, *, fault: bool
) -> None:
    assert verdict_of({"Id": "0", "SenderFault": fault, "Code": code, "Message": message}) is Verdict.DEAD


def test_an_entry_that_is_no_fault_of_ours_may_work_another_time() -> None:
    assert verdict_of({"Id": "0", "SenderFault": False, "Code": "Odd"}) is Verdict.AGAIN
    assert verdict_of({"Id": "0", "SenderFault": True, "Code": "RequestThrottled"}) is Verdict.AGAIN


def test_any_other_fault_of_the_sender_is_final() -> None:
    entry = {"Id": "0", "SenderFault": True, "Code": "InvalidMessageContents", "Message": None}
    assert verdict_of(entry) is Verdict.REFUSED
