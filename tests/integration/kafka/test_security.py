"""Getting in, and not getting in: TLS, SASL, rights. The locks are those of a real Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from aiokafka import TopicPartition

from bench.brokers import topics
from bench.brokers.secured import SecuredKafka, token
from bridge.core.errors import Refused, Transient
from connectors.kafka.options import Sasl, Tls, Token

if TYPE_CHECKING:
    from conftest import Members

pytestmark = pytest.mark.integration


class Provider:
    """Gives fresh tokens, after those that were put into `bad`; `asked` counts."""

    asked = 0
    bad: tuple[str, ...] = ()

    def __init__(self, user: str) -> None:
        self.user = user

    async def token(self) -> str:
        Provider.asked += 1
        return Provider.bad[Provider.asked - 1] if Provider.asked <= len(Provider.bad) else token(self.user)


@pytest.fixture(autouse=True)
def provider(monkeypatch: pytest.MonkeyPatch) -> type[Provider]:
    """Named by an import path in the options, and the tests are no package."""
    monkeypatch.setattr("bench.brokers.secured.Provider", Provider, raising=False)
    Provider.asked, Provider.bad = 0, ()
    return Provider


@pytest.fixture
async def secured(secured_kafka: SecuredKafka, members: Any) -> AsyncIterator[Members]:
    async with AsyncExitStack() as stack:
        yield type(members)(secured_kafka.bootstrap, stack)


@pytest.fixture
async def orders(secured_kafka: SecuredKafka, secured: Members) -> str:
    """A topic of two records that `reader` and `CN=client` may read as a member of the group."""
    name = f"orders-{uuid4().hex[:8]}"
    await topics.create(secured_kafka.bootstrap, name)
    await topics.send(secured_kafka.bootstrap, name, [b"a", b"b"])
    for user in ("reader", "CN=client"):
        await secured_kafka.allow(user, topic=name)
        await secured_kafka.allow(user, group=secured.group)
    return name


def who(kafka: SecuredKafka, mechanism: Any, user: str = "reader", password: str | None = None) -> Sasl:
    if mechanism == "OAUTHBEARER":
        return Sasl(mechanism=mechanism, token=Token(provider="bench.brokers.secured:Provider", kwargs={"user": user}))
    return Sasl(mechanism=mechanism, username=user, password=password or kafka.passwords[user])


async def reads(members: Members, topic: str, **options: Any) -> None:
    member = members(topic, settles=True, **options)
    await member.got(2)
    await member.reports(lag=0)
    await member.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
async def test_each_mechanism_gets_in_with_tls(
    secured_kafka: SecuredKafka, secured: Members, orders: str, mechanism: str
) -> None:
    secured.bootstrap = secured_kafka.sasl_tls
    tls = Tls(ca_file=str(secured_kafka.certificates.ca))
    await reads(secured, orders, tls=tls, sasl=who(secured_kafka, mechanism))


@pytest.mark.parametrize("mechanism", ["PLAIN", "OAUTHBEARER"])
async def test_and_without(secured_kafka: SecuredKafka, secured: Members, orders: str, mechanism: str) -> None:
    secured.bootstrap = secured_kafka.sasl
    await reads(secured, orders, sasl=who(secured_kafka, mechanism))


async def test_a_certificate_of_ours_gets_in(secured_kafka: SecuredKafka, secured: Members, orders: str) -> None:
    secured.bootstrap = secured_kafka.mutual_tls
    own = secured_kafka.certificates
    tls = Tls(ca_file=str(own.ca), cert_file=str(own.client), key_file=str(own.locked_key), key_password=own.password)
    await reads(secured, orders, tls=tls)


async def test_a_certificate_of_nobody_we_know_is_refused(
    secured_kafka: SecuredKafka, secured: Members, orders: str
) -> None:
    secured.bootstrap = secured_kafka.tls
    error = await secured(orders, tls=Tls()).ended()
    assert isinstance(error, Refused)
    assert "tls.ca_file" in str(error)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
async def test_a_wrong_password_is_refused_and_not_told(
    secured_kafka: SecuredKafka, secured: Members, orders: str, mechanism: str
) -> None:
    secured.bootstrap = secured_kafka.sasl
    error = await secured(orders, sasl=who(secured_kafka, mechanism, password="hunter2-wrong")).ended()
    assert isinstance(error, Refused)
    assert "correct `sasl`" in str(error)
    assert secured_kafka.sasl in str(error)
    assert "hunter2" not in str(error)


async def test_a_mechanism_that_is_not_taken_is_refused(kafka: Any, members: Members) -> None:
    error = await members("orders", sasl=Sasl(mechanism="PLAIN", username="a", password="b")).ended()
    assert isinstance(error, Refused)
    assert "asks for no SASL" in str(error)


async def test_a_topic_that_we_may_not_read_is_refused_with_what_to_do(
    secured_kafka: SecuredKafka, secured: Members, orders: str
) -> None:
    secured.bootstrap = secured_kafka.sasl
    error = await secured(orders, sasl=who(secured_kafka, "PLAIN", "nobody")).ended()
    assert isinstance(error, Refused)
    assert orders in str(error)
    assert "grant" in str(error)


async def test_a_topic_that_we_may_only_look_at_is_refused_with_what_to_do(
    secured_kafka: SecuredKafka, secured: Members
) -> None:
    name = f"looked-at-{uuid4().hex[:8]}"
    await topics.create(secured_kafka.bootstrap, name)
    await secured_kafka.allow("reader", "DESCRIBE", topic=name)
    await secured_kafka.allow("reader", group=secured.group)
    secured.bootstrap = secured_kafka.sasl
    error = await secured(name, sasl=who(secured_kafka, "PLAIN")).ended()
    assert isinstance(error, Refused)
    assert name in str(error)
    assert "grant" in str(error)


async def test_a_group_that_we_may_not_join_is_refused_with_what_to_do(
    secured_kafka: SecuredKafka, secured: Members, orders: str
) -> None:
    secured.bootstrap = secured_kafka.sasl
    other = f"other-{uuid4().hex[:8]}"
    error = await secured(orders, sasl=who(secured_kafka, "PLAIN"), group_id=other).ended()
    assert isinstance(error, Refused)
    assert other in str(error)
    assert "grant" in str(error)


async def test_a_right_that_is_taken_away_while_reading_is_told(
    secured_kafka: SecuredKafka, secured: Members, orders: str
) -> None:
    """The client goes on asking by itself; the stream has to say what is wrong."""
    secured.bootstrap = secured_kafka.sasl
    member = secured(orders, sasl=who(secured_kafka, "PLAIN"), settles=True)
    await member.got(2)
    await secured_kafka.forbid("reader", orders)
    error = await member.ended()
    assert isinstance(error, Refused)
    assert orders in str(error)
    assert "grant" in str(error)


# Tokens --------------------------------------------------------------------------------------------------------------


async def test_a_token_is_asked_for_anew_at_every_connection(
    secured_kafka: SecuredKafka, secured: Members, orders: str, provider: type[Provider]
) -> None:
    """B07: and never kept."""
    secured.bootstrap = secured_kafka.sasl
    member = secured(orders, sasl=who(secured_kafka, "OAUTHBEARER"), settles=True)
    await member.got(2)
    asked = provider.asked
    assert asked >= 3
    client = member.producer._consumer
    assert client is not None
    for connection in list(client._client._conns.values()):
        connection.close()  # as a broker does when the session of a token is over
    await topics.send(secured_kafka.bootstrap, orders, [b"c"])
    await member.got(3)
    assert member.bodies == [b"a", b"b", b"c"]
    assert provider.asked > asked


async def test_a_token_that_is_not_taken_is_tried_again(
    secured_kafka: SecuredKafka, secured: Members, orders: str, provider: type[Provider]
) -> None:
    """B07: never a permanent stop."""
    secured.bootstrap = secured_kafka.sasl
    provider.bad = (token("reader", lifetime=-60.0),) * 2  # for the client, and for finding out what was wrong
    error = await secured(orders, sasl=who(secured_kafka, "OAUTHBEARER")).ended()
    assert isinstance(error, Transient)
    assert "token" in str(error)
    await reads(secured, orders, sasl=who(secured_kafka, "OAUTHBEARER"))


async def test_a_token_that_expired_once_while_reading_loses_nothing(
    secured_kafka: SecuredKafka, secured: Members, orders: str, provider: type[Provider]
) -> None:
    secured.bootstrap = secured_kafka.sasl
    member = secured(orders, sasl=who(secured_kafka, "OAUTHBEARER"), settles=True)
    await member.got(2)
    provider.asked, provider.bad = 0, (token("reader", lifetime=-60.0),)
    client = member.producer._consumer
    assert client is not None
    for connection in list(client._client._conns.values()):
        connection.close()
    await topics.send(secured_kafka.bootstrap, orders, [b"c"])
    try:
        await member.got(3)
    except Transient:  # it may end the life of the stream, and the next one goes on
        await member.close()
        member = secured(orders, sasl=who(secured_kafka, "OAUTHBEARER"), settles=True)
        await member.got(1)
    await member.has(TopicPartition(orders, 0))
    assert member.bodies[-1] == b"c"
    await asyncio.sleep(0)
