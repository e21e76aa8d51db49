"""Brokers that are restarted, killed, or out of reach."""

from __future__ import annotations

import time

import pytest
from aiokafka.errors import KafkaError

from bench.brokers import topics
from bench.brokers.fixtures import NewTopic
from bench.brokers.kafka import Kafka, ThreeKafkas
from bench.brokers.proxy import Proxy
from bench.brokers.serving import Broker
from bench.brokers.topics import apart
from tests.integration.kafka_faults import truth
from tests.integration.kafka_faults.bridging import AUDIENCE, TRIGGERS, WANTS, KafkaBridge
from tests.integration.kafka_faults.feeding import body, feeding
from tests.integration.kafka_faults.lengths import either

pytestmark = pytest.mark.integration

PARTITIONS = 4
GOES_ON_WITHIN = 30.0
"""Seconds from the moment that the broker is back. The machine may be busy: alone it takes one or two."""


def goes_on(bridge: KafkaBridge) -> None:
    before = bridge.requests()
    bridge.wait("it goes on by itself", lambda: bridge.requests() > before, GOES_ON_WITHIN)


@pytest.mark.timeout(either(110, 400))
def test_a_broker_that_is_restarted_and_killed_under_load_costs_nothing(bridge: KafkaBridge, own_kafka: Kafka) -> None:
    rounds = either(1, 6)
    apart(topics.create(own_kafka.bootstrap, "orders", PARTITIONS))
    bridge.python(TRIGGERS)
    bridge.reads(own_kafka.bootstrap, "orders", watchers=AUDIENCE)
    bridge.start()
    with feeding(
        bridge.environment(), own_kafka.bootstrap, "orders", PARTITIONS, either(300, 1000), rounds * either(12, 16)
    ) as feed:
        goes_on(bridge)
        for _ in range(rounds):
            own_kafka.restart()
            goes_on(bridge)
            own_kafka.kill()
            time.sleep(0.5)
            own_kafka.start()
            goes_on(bridge)
        confirmed = feed.confirmed(within=60)
    bridge.settles(within=60)
    assert bridge.stop() == 0
    assert len(apart(truth.written(own_kafka.bootstrap, "orders"))) >= confirmed > 0
    bridge.has_done(WANTS)


@pytest.mark.timeout(either(110, 300))
def test_a_cluster_that_loses_the_leader_and_the_coordinator_goes_on(
    bridge: KafkaBridge, three_kafkas: ThreeKafkas
) -> None:
    """Every broker leads a partition, and one of them coordinates the group: that one is killed, and comes back."""
    bootstrap = three_kafkas.bootstrap
    apart(topics.create(bootstrap, "orders", 3, 3))
    bridge.python(TRIGGERS)
    bridge.reads(bootstrap, "orders", watchers=AUDIENCE)
    bridge.start()
    with feeding(bridge.environment(), bootstrap, "orders", 3, 300, either(10, 60)) as feed:
        goes_on(bridge)
        node = apart(_coordinator(bootstrap, bridge.group))
        three_kafkas.node(node).kill()
        goes_on(bridge)
        others = ",".join(broker.bootstrap for broker in three_kafkas.brokers if broker.is_running)
        bridge.wait("others lead", lambda: apart(_leaders(others)).isdisjoint({node, -1}), GOES_ON_WITHIN)
        goes_on(bridge)
        three_kafkas.node(node).start()
        confirmed = feed.confirmed(within=90)
    bridge.settles(within=60)
    assert bridge.stop() == 0
    assert len(apart(truth.written(bootstrap, "orders"))) >= confirmed > 0
    bridge.has_done(WANTS)


async def _coordinator(bootstrap: str, group: str) -> int:
    async with topics.admin(bootstrap) as client:
        return int(await client.find_coordinator(group))


async def _leaders(bootstrap: str) -> set[int]:
    try:
        async with topics.admin(bootstrap) as client:
            (found,) = await client.describe_topics(["orders"])
            return {each["leader"] for each in found["partitions"]}
    except KafkaError:  # it asked the one that is dead
        return {-1}


# Out of reach --------------------------------------------------------------------------------------------------------


def test_a_stop_while_no_broker_answers_ends_within_its_deadline(
    bridge: KafkaBridge, kafka: Broker, proxied_kafka: Proxy, topic: NewTopic
) -> None:
    """B05. Nothing is outstanding, so the end is a clean one."""
    name = topic.now()
    bridge.reads(kafka.bootstrap, name, watchers={"all": {}}, by=proxied_kafka.bootstrap, stop_timeout="6s")
    bridge.start()
    apart(topics.send(kafka.bootstrap, name, [body(n) for n in range(10)]))
    bridge.settles(within=20)
    proxied_kafka.cut()
    time.sleep(1.0)
    began = time.monotonic()
    bridge.signal()
    assert bridge.ended(within=15) == 0
    assert time.monotonic() - began < 7.0
    bridge.has_done({"all": lambda n: True})


@pytest.mark.parametrize("how", ["cut", "stalled"])
def test_a_stop_that_can_not_tell_the_broker_what_is_done_exits_with_4_and_loses_nothing(
    how: str, bridge: KafkaBridge, kafka: Broker, proxied_kafka: Proxy, topic: NewTopic
) -> None:
    """B05. The runs are stored, their offsets are not committed: they come again, and are known."""
    name = topic.now()
    bridge.python(HOLDING)
    watchers = {"all": {}, "holding": {"trigger": "my_triggers:Holding"}}
    bridge.reads(kafka.bootstrap, name, watchers=watchers, by=proxied_kafka.bootstrap, stop_timeout="6s")
    bridge.start()
    apart(topics.send(kafka.bootstrap, name, [body(n) for n in range(10)]))
    bridge.wait("nine are stored", lambda: (bridge.requests("all"), bridge.requests("holding")) == (10, 0))
    if how == "cut":
        proxied_kafka.cut()
    else:
        proxied_kafka.stall()
    (bridge.folder / "let-go").touch()
    bridge.wait("the rest is stored", lambda: bridge.requests("holding") == 10)
    began = time.monotonic()
    bridge.signal()
    assert bridge.ended(within=15) == 4
    assert time.monotonic() - began < 7.0
    proxied_kafka.restore()
    proxied_kafka.resume()
    if how == "cut":  # what was on its way through a stalled network arrives in the end
        assert bridge.lag() == 10
    bridge.start()
    bridge.settles(within=30)
    assert bridge.stop() == 0
    bridge.has_done({"all": lambda n: True, "holding": lambda n: True})


HOLDING = """
    class Holding(Filter):
        async def filter_shared_stream(self, stream):
            async for event in stream:
                while not Path("let-go").exists():
                    await asyncio.sleep(0.02)
                yield TriggerEvent(event)
"""


def test_a_broker_that_is_not_there_at_the_start_is_waited_for(
    bridge: KafkaBridge, kafka: Broker, proxied_kafka: Proxy, topic: NewTopic
) -> None:
    name = topic.now()
    bridge.reads(kafka.bootstrap, name, watchers={"all": {}}, by=proxied_kafka.bootstrap)
    apart(topics.send(kafka.bootstrap, name, [body(n) for n in range(10)]))
    proxied_kafka.cut()
    bridge.start()
    bridge.wait("it has tried", lambda: bridge.said("stream failed, started again later"))
    trouble = bridge.wait("it says so", lambda: str(bridge.health()[1].get("trouble") or ""))
    assert proxied_kafka.bootstrap in trouble
    assert not bridge.health()[0]
    proxied_kafka.restore()
    bridge.settles(within=30)
    bridge.wait("it is well again", lambda: bridge.health()[0])
    assert bridge.stop() == 0
    bridge.has_done({"all": lambda n: True})


def test_a_broker_that_goes_away_for_a_while_makes_the_stream_unhealthy_and_is_waited_for(
    bridge: KafkaBridge, kafka: Broker, proxied_kafka: Proxy, topic: NewTopic
) -> None:
    """For longer than a session, and silently: connections stay, nothing comes. Nor does the log fill up."""
    name = topic.now()
    stream = {"session_timeout": "3s", "request_timeout": "3s"}
    bridge.reads(kafka.bootstrap, name, watchers={"all": {}}, by=proxied_kafka.bootstrap, stream=stream)
    bridge.start()
    apart(topics.send(kafka.bootstrap, name, [body(n) for n in range(5)]))
    bridge.settles(within=20)
    proxied_kafka.stall()
    apart(topics.send(kafka.bootstrap, name, [body(n) for n in range(5, 10)]))
    bridge.wait("it says so", lambda: "no broker answers" in str(bridge.health()[1].get("trouble")), within=30)
    time.sleep(either(0.0, 60.0))
    assert not bridge.health()[0]
    proxied_kafka.resume()
    bridge.settles(within=40)
    bridge.wait("it is well again", lambda: bridge.health()[0])
    assert bridge.stop() == 0
    bridge.has_done({"all": lambda n: True})
    assert len([line for line in bridge.log() if str(line.get("logger")).startswith("aiokafka")]) < 40
