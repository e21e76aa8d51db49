"""What is written for a stream of kind `servicebus`: problems are told before anything is connected to."""

from __future__ import annotations

from typing import Any

import pytest

from connectors.servicebus import KIND
from connectors.servicebus.naming import entity_of, parts_of, source_of
from connectors.servicebus.options import ServiceBusOptions, check

KEY = "c2VjcmV0IG9mIG91cnM="
STRING = f"Endpoint=sb://Orders.servicebus.windows.net/;SharedAccessKeyName=reader;SharedAccessKey={KEY}"


def options_of(**keys: Any) -> ServiceBusOptions:
    return ServiceBusOptions(**{"queue": "orders", "connection_string": STRING, **keys})


def the_problem(**keys: Any) -> str:
    problems = check(options_of(**keys))
    assert len(problems) == 1, problems
    return problems[0]


def test_what_is_needed_is_enough() -> None:
    assert list(check(options_of())) == []
    assert list(check(options_of(queue=None, topic="events", subscription="billing"))) == []
    assert list(check(options_of(connection_string=None, namespace="orders.servicebus.windows.net"))) == []
    assert list(check(options_of(sessions=True, max_sessions=20, lock_duration=60.0))) == []


def test_a_stream_reads_a_queue_or_a_subscription() -> None:
    assert "there is neither" in the_problem(queue=None)
    assert "both are there" in the_problem(topic="events", subscription="all")
    assert "`topic` 'events' is read by a subscription" in the_problem(queue=None, topic="events")
    assert "belongs to a topic" in the_problem(subscription="all")


def test_dead_letters_are_named_by_their_own_key() -> None:
    assert "`subqueue: dead_letter`" in the_problem(queue="orders/$DeadLetterQueue")
    assert entity_of(options_of(subqueue="dead_letter")) == "orders/$DeadLetterQueue"
    assert "leave out `sessions`" in the_problem(subqueue="dead_letter", sessions=True)


@pytest.mark.parametrize("name", ["/orders", "orders?", "", " orders", "x" * 261])
def test_a_name_that_no_entity_can_have_is_shown(name: str) -> None:
    assert repr(name) in the_problem(queue=name)


def test_credentials_are_given_in_one_way() -> None:
    assert "there is neither" in the_problem(connection_string=None)
    assert "both are there" in the_problem(namespace="orders.servicebus.windows.net")
    assert "fully qualified" in the_problem(connection_string=None, namespace="sb://orders.servicebus.windows.net/")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("orders", "Name=value"),
        ("SharedAccessKeyName=a;SharedAccessKey=b", "no Endpoint"),
        ("Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=a", "neither SharedAccessKeyName"),
    ],
)
def test_a_connection_string_that_is_none_is_told_without_being_quoted(text: str, what: str) -> None:
    said = the_problem(connection_string=text)
    assert what in said
    assert text not in said


def test_a_connection_string_for_one_entity_reads_that_one() -> None:
    assert list(check(options_of(connection_string=f"{STRING};EntityPath=orders"))) == []
    assert "for 'invoices' alone" in the_problem(connection_string=f"{STRING};EntityPath=invoices")


def test_a_lock_lasts_what_an_entity_can_have() -> None:
    assert "5s to 5m" in the_problem(lock_duration=600.0)
    assert options_of().lease == 30.0
    assert options_of(lock_duration=60.0).lease == 60.0


def test_receivers_and_sessions_are_two_ways_to_read_more() -> None:
    assert "`max_sessions`" in the_problem(sessions=True, receivers=4)


def test_no_secret_is_shown() -> None:
    assert KEY not in repr(options_of())
    assert KEY not in source_of(options_of())
    assert KEY not in " ".join(check(options_of(queue=None, lock_duration=1.0)))


def test_the_source_is_the_namespace_and_the_entity_however_they_are_written() -> None:
    assert source_of(options_of()) == "servicebus:orders.servicebus.windows.net/orders"
    assert source_of(options_of(connection_string=None, namespace="ORDERS.servicebus.windows.net")) == source_of(
        options_of(queue="Orders")
    )
    subscription = options_of(queue=None, topic="Events", subscription="Billing")
    assert source_of(subscription) == "servicebus:orders.servicebus.windows.net/events/subscriptions/billing"


def test_a_connection_string_is_taken_apart() -> None:
    parts = parts_of(
        "Endpoint=sb://127.0.0.1:5672;SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true;"
    )
    assert parts == ("127.0.0.1:5672", "", True)
    assert parts_of("Endpoint=sb://h/;SharedAccessSignature=SharedAccessSignature sr=x&sig=y=").host == "h"


def test_making_a_producer_connects_to_nothing_and_tells_its_lease() -> None:
    producer = KIND.build(options_of(lock_duration=60.0))
    assert producer.lease == 60.0  # type: ignore[attr-defined]  # it lends
    assert KIND.bounds.max_outstanding == 500


def test_show_says_what_a_stream_is() -> None:
    assert "messages in any order" in KIND.notes(options_of())
    assert "each session is a lane, 8 at once" in KIND.notes(options_of(sessions=True))
