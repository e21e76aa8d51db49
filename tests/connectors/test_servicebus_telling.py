"""The client's errors as words and as ours, and what locks and clocks tell."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import Any

import pytest
from azure.servicebus import exceptions as azure
from azure.servicebus._pyamqp.error import AMQPConnectionError, AMQPLinkError, ErrorCondition

from bridge.core.errors import OwnershipLost, Refused, Transient
from connectors.servicebus.errors import Silent, is_lost, is_no_session, kind_of, translated, translating, trouble_of
from connectors.servicebus.health import Health, lock_trouble
from connectors.servicebus.judging import Settings, judged
from connectors.servicebus.options import ServiceBusOptions
from connectors.servicebus.receiving import pause_after


def link_error(condition: bytes, description: str = "words") -> AMQPLinkError:
    return AMQPLinkError(condition=condition, description=description)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (link_error(ErrorCondition.LinkDetachForced), "detached"),
        (link_error(ErrorCondition.NotFound), "no_entity"),
        (link_error(ErrorCondition.UnauthorizedAccess), "not_authorized"),
        (link_error(ErrorCondition.NotAllowed), "not_allowed"),
        (link_error(b"com.microsoft:session-lock-lost"), "lock_lost"),
        (AMQPConnectionError(ErrorCondition.SocketError, description="reset"), "connection"),
        (azure.MessagingEntityDisabledError(), "no_entity"),
        (azure.ServiceBusAuthenticationError(), "not_authorized"),
        (azure.OperationTimeoutError(), "timeout"),
        (TimeoutError(), "timeout"),
        (ConnectionRefusedError(), "connection"),
        (Silent("x"), "silent"),
        (ZeroDivisionError(), "other"),
    ],
)
def test_every_error_is_counted_under_a_word(error: BaseException, kind: str) -> None:
    assert kind_of(error) == kind


def test_a_lost_lock_is_lost_by_whichever_way_it_is_told() -> None:
    assert is_lost(azure.MessageLockLostError())
    assert is_lost(azure.SessionLockLostError())
    assert is_lost(link_error(b"com.microsoft:message-lock-lost"))
    assert not is_lost(link_error(ErrorCondition.LinkDetachForced))


def test_that_there_is_no_session_is_no_error() -> None:
    assert is_no_session(azure.OperationTimeoutError())
    assert is_no_session(azure.SessionCannotBeLockedError())
    assert is_no_session(link_error(b"com.microsoft:timeout"))
    assert not is_no_session(azure.MessagingEntityNotFoundError())


def test_trouble_says_what_to_do() -> None:
    needs = link_error(ErrorCondition.NotAllowed, "an entity that requires sessions can't have such a receiver")
    assert "set `sessions: true`" in trouble_of(needs, "orders")
    assert "there is no orders" in trouble_of(link_error(ErrorCondition.NotFound), "orders")
    assert "the claim Listen" in trouble_of(link_error(ErrorCondition.UnauthorizedAccess), "orders")
    assert "can't be reached" in trouble_of(ConnectionRefusedError("refused"), "orders")


def test_errors_are_told_apart_by_who_has_to_act_and_keep_their_cause() -> None:
    assert isinstance(translated(azure.MessagingEntityNotFoundError(), "sending"), Refused)
    assert isinstance(translated(azure.MessageSizeExceededError(), "sending"), Refused)
    assert isinstance(translated(azure.MessageLockLostError(), "settling"), OwnershipLost)
    assert type(translated(azure.ServiceBusServerBusyError(), "sending")) is Transient
    cause = ConnectionResetError("x")
    with pytest.raises(Transient, match=r"^sending: ") as caught, translating("sending"):
        raise cause
    assert caught.value.__cause__ is cause
    with pytest.raises(asyncio.CancelledError), translating("sending"):
        raise asyncio.CancelledError


# Clocks and locks ----------------------------------------------------------------------------------------------------


def options_of(**keys: Any) -> ServiceBusOptions:
    return ServiceBusOptions(queue="orders", namespace="n.servicebus.windows.net", **keys)


def test_a_lock_that_fits_is_no_trouble() -> None:
    assert lock_trouble(60.0, options_of(lock_duration=60.0)) is None
    assert lock_trouble(56.0, options_of(lock_duration=60.0)) is None
    assert lock_trouble(30.0, options_of()) is None


def test_a_longer_lock_is_none_where_nobody_has_said_how_long_it_is() -> None:
    assert lock_trouble(60.0, options_of()) is None
    assert lock_trouble(300.0, options_of()) is None
    assert lock_trouble(310.0, options_of()) is not None  # no entity has one: a clock is wrong


@pytest.mark.parametrize("lasts", [20.0, 45.0, -100.0])
def test_a_lock_that_does_not_fit_is_told_with_both_figures(lasts: float) -> None:
    said = lock_trouble(lasts, options_of(lock_duration=30.0))
    assert said is not None
    assert f"lasts {lasts:.0f} s by this machine's clock, `lock_duration` says 30 s" in said


def test_a_message_from_the_future_tells_that_the_clock_is_behind_and_one_from_now_that_it_is_not() -> None:
    health = Health("orders", options_of())
    health.saw(None, int((time.time() + 60) * 1000), 10.0)
    assert "60 s in the future" in (health.trouble(has_links=True) or "")
    health.saw(None, int(time.time() * 1000), 12.0)
    assert health.trouble(has_links=True) is None


def test_a_stream_without_a_link_is_in_trouble_and_well_again_with_one() -> None:
    health = Health("orders", options_of())
    health.broke(link_error(ErrorCondition.NotFound))
    assert "there is no orders" in (health.trouble(has_links=False) or "")
    assert health.trouble(has_links=True) is None
    health.is_up()
    assert health.trouble(has_links=False) is None
    assert dict(health.breaks) == {"no_entity": 1}


def test_a_link_that_breaks_is_no_trouble_for_a_moment() -> None:
    health = Health("orders", options_of())
    health.broke(ConnectionResetError("reset"))
    assert health.trouble(has_links=False) is None


def test_a_link_is_tried_again_within_20_seconds() -> None:
    assert pause_after(1, lambda: 0.0) == 0.5
    assert max(pause_after(n, lambda: 0.999) for n in range(1, 200)) <= 18.0


# Settings of the entity ----------------------------------------------------------------------------------------------


def messages(settings: Settings, **keys: Any) -> list[tuple[str, str]]:
    return [(finding.severity, finding.message) for finding in judged(settings, options_of(**keys))]


def test_settings_that_fit_are_not_spoken_of() -> None:
    fine = Settings(timedelta(seconds=60), False, 10, "Active")
    assert messages(fine) == messages(fine, lock_duration=60.0) == messages(Settings()) == []


def test_a_lock_that_the_entity_does_not_have_is_an_error() -> None:
    (severity, said), *_ = messages(Settings(timedelta(seconds=60)), lock_duration=30.0)
    assert (severity, "lasts 1m, and `lock_duration` says 30s" in said) == ("error", True)
    assert messages(Settings(timedelta(seconds=10)))[0][0] == "error"


def test_sessions_are_required_or_they_are_not() -> None:
    assert "requires sessions" in messages(Settings(requires_session=True))[0][1]
    assert "does not require sessions" in messages(Settings(requires_session=False), sessions=True)[0][1]
    assert messages(Settings(requires_session=True), subqueue="dead_letter") == []


def test_few_deliveries_a_disabled_entity_and_one_that_forwards_are_told() -> None:
    assert messages(Settings(max_delivery_count=2))[0][0] == "warning"
    assert "nothing can be received" in messages(Settings(status="ReceiveDisabled"))[0][1]
    assert "none stays" in messages(Settings(forwards_to="other"))[0][1]
