"""The client's errors, and what they say of single ack ids."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from google.auth.exceptions import DefaultCredentialsError, RefreshError, TransportError
from google.protobuf.any_pb2 import Any as AnyPb
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from grpc import StatusCode
from grpc.aio import AioRpcError, Metadata

from bridge.core.errors import Refused, Transient
from connectors.pubsub.errors import CredentialsRefused, Verdict, told, translated, verdict_of

IDS = ["a", "b", "c"]


def refusal(code: StatusCode, words: Mapping[str, str] | None = None, details: str = "said so") -> AioRpcError:
    trailing = Metadata()
    if words is not None:
        detail = AnyPb()
        detail.Pack(ErrorInfo(metadata=dict(words)))
        trailing.add("grpc-status-details-bin", Status(code=9, details=[detail]).SerializeToString())
    return AioRpcError(code, Metadata(), trailing, details)


def test_each_id_has_a_word_of_its_own_where_a_subscription_delivers_exactly_once() -> None:
    error = refusal(
        StatusCode.FAILED_PRECONDITION,
        {"a": "PERMANENT_FAILURE_INVALID_ACK_ID", "b": "TRANSIENT_FAILURE_UNORDERED_ACK_ID"},
    )
    assert verdict_of(error, IDS) == Verdict(frozenset("a"), ["b"])


def test_ids_without_a_word_are_sent_again_where_the_whole_request_may_have_failed() -> None:
    error = refusal(StatusCode.UNAVAILABLE, {"a": "PERMANENT_FAILURE_INVALID_ACK_ID"})
    assert verdict_of(error, IDS) == Verdict(frozenset("a"), ["b", "c"])


@pytest.mark.parametrize("code", [StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED, StatusCode.UNAUTHENTICATED])
def test_a_request_that_failed_as_a_whole_is_sent_again(code: StatusCode) -> None:
    assert verdict_of(refusal(code), IDS) == Verdict(again=IDS)


def test_an_unknown_id_is_looked_for_by_halves() -> None:
    error = refusal(StatusCode.INVALID_ARGUMENT)
    assert verdict_of(error, IDS) == Verdict(halves=True)
    assert verdict_of(error, ["a"]) == Verdict(frozenset("a"))


def test_a_subscription_that_is_gone_refuses_the_whole_request() -> None:
    assert verdict_of(refusal(StatusCode.NOT_FOUND), IDS) is None


def test_details_that_are_no_message_are_no_words() -> None:
    trailing = Metadata()
    trailing.add("grpc-status-details-bin", b"\xff\xff\xff")
    assert verdict_of(AioRpcError(StatusCode.UNAVAILABLE, Metadata(), trailing), IDS) == Verdict(again=IDS)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (refusal(StatusCode.UNAVAILABLE), Transient),
        (refusal(StatusCode.NOT_FOUND), Refused),
        (refusal(StatusCode.PERMISSION_DENIED), Refused),
        (DefaultCredentialsError("none were found"), CredentialsRefused),
        (RefreshError("invalid_grant"), CredentialsRefused),
        (RefreshError("try later", retryable=True), Transient),
        (TransportError("no route"), Transient),
        (TimeoutError(), Transient),
    ],
)
def test_errors_are_told_apart_by_who_has_to_act(error: Exception, kind: type[Exception]) -> None:
    assert type(translated(error, "pulling")) is kind


def test_what_is_said_is_short_and_on_one_line() -> None:
    said = told(refusal(StatusCode.UNAVAILABLE, details="no\n  connection " + "x" * 1000))
    assert said.startswith("UNAVAILABLE: no connection xxx")
    assert len(said) < 350


def test_the_further_arguments_of_a_credentials_error_are_not_told() -> None:
    """They hold the whole answer of the token server."""
    assert "secret" not in told(RefreshError("invalid_grant", {"assertion": "secret"}))
