"""The client's errors, as ours."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import errors as kafka

from bridge.core.errors import OwnershipLost, Refused, StartRefused, Transient
from connectors.kafka.errors import translated, translating


@pytest.mark.parametrize(
    "error",
    [
        kafka.CommitFailedError("x"),
        kafka.IllegalGenerationError("x"),
        kafka.UnknownMemberIdError("x"),
        kafka.RebalanceInProgressError("x"),
        kafka.IllegalStateError("x"),
    ],
)
def test_a_partition_that_went_elsewhere_is_ownership_lost(error: Exception) -> None:
    assert isinstance(translated(error, "committing"), OwnershipLost)


@pytest.mark.parametrize(
    "error", [kafka.TopicAuthorizationFailedError("orders"), kafka.GroupAuthorizationFailedError("group")]
)
def test_a_right_that_is_missing_is_refused_with_what_to_do(error: Exception) -> None:
    ours = translated(error, "reading")
    assert isinstance(ours, Refused)
    assert "grant" in str(ours)


@pytest.mark.parametrize("error", [kafka.InvalidSessionTimeoutError(), kafka.InconsistentGroupProtocolError()])
def test_what_only_a_person_can_correct_is_refused(error: Exception) -> None:
    assert isinstance(translated(error, "joining"), Refused)


def test_a_codec_that_is_missing_is_named_with_what_to_install() -> None:
    ours = translated(kafka.UnsupportedCodecError("Libraries for zstd compression codec not found"), "reading")
    assert isinstance(ours, Refused)
    assert "zstd" in str(ours)
    assert "pip install" in str(ours)


@pytest.mark.parametrize(
    "error",
    [
        kafka.KafkaConnectionError("x"),
        kafka.NotLeaderForPartitionError(),
        kafka.KafkaError("x"),
        OSError("x"),
        TimeoutError(),
    ],
)
def test_anything_else_may_work_another_time(error: Exception) -> None:
    ours = translated(error, "reading")
    assert type(ours) is Transient
    assert str(ours).startswith("reading: ")


def test_ours_stay_what_they_are() -> None:
    ours = StartRefused("as it was")
    assert translated(ours, "whatever") is ours
    with pytest.raises(StartRefused, match=r"^as it was$"), translating("whatever"):
        raise ours


def test_the_cause_is_kept() -> None:
    cause = kafka.KafkaConnectionError("x")
    with pytest.raises(Transient) as caught, translating("reading"):
        raise cause
    assert caught.value.__cause__ is cause


def test_a_cancellation_passes() -> None:
    with pytest.raises(asyncio.CancelledError), translating("reading"):
        raise asyncio.CancelledError
