"""What aiokafka logs comes through once a minute of each kind."""

from __future__ import annotations

import logging

from connectors.kafka.chatter import EVERY, Calm, calm_down


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def line(text: str, *values: object, name: str = "aiokafka") -> logging.LogRecord:
    return logging.LogRecord(name, logging.ERROR, "client.py", 1, text, values, None)


def test_one_line_of_a_kind_is_let_through_whatever_its_values_are() -> None:
    calm = Calm(Clock())
    shown = [calm.filter(line("Unable connect to node with id %s", node)) for node in (1, 2, 1)]
    assert shown == [True, False, False]
    assert calm.filter(line("Marking the coordinator dead"))
    assert calm.filter(line("Unable connect to node with id %s", 1, name="aiokafka.conn"))


def test_the_next_one_after_a_minute_says_how_many_were_held_back() -> None:
    clock = Clock()
    calm = Calm(clock)
    for _ in range(5):
        calm.filter(line("Failed fetch messages from %s", 1))
    clock.now = EVERY
    again = line("Failed fetch messages from %s", 1)
    assert calm.filter(again)
    assert again.getMessage() == "Failed fetch messages from 1 (4 more like this since the last one)"
    clock.now = 2 * EVERY
    alone = line("Failed fetch messages from %s", 1)
    assert calm.filter(alone)
    assert alone.getMessage() == "Failed fetch messages from 1"


def test_it_is_put_on_all_loggers_of_the_client_once_and_on_no_other() -> None:
    calm_down()
    calm_down()
    for name in ("aiokafka", "aiokafka.cluster", "aiokafka.consumer.group_coordinator"):
        assert [type(each) for each in logging.getLogger(name).filters] == [Calm]
    assert not logging.getLogger("asyncio").filters
