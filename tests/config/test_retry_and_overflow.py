"""What becomes of failed tries, and of watchers that are too far behind."""

from __future__ import annotations

import pytest

from bridge.config.model import SUBSCRIBER_QUEUE_SIZE


def stream_with(good, text):
    return good.replace("kind: directory", f"kind: directory\n    {text}")


def test_a_failed_try_is_repeated_in_this_process_unless_the_broker_is_to_deliver_it_again(load_text, good):
    assert load_text(good).streams["inbox"].retry.mode == "process"
    chosen = load_text(stream_with(good, "retry: {mode: broker, delay: 2s}")).streams["inbox"].retry
    assert (chosen.mode, chosen.delay) == ("broker", 2.0)


def test_another_mode_is_refused_with_those_that_there_are(problem_of, good):
    shown = problem_of(stream_with(good, "retry: {mode: brocker}"))
    assert "`mode`: expected process or broker, saw text 'brocker'" in shown
    assert "did you mean `broker`?" in shown


def test_nobody_is_too_far_behind_by_default(load_text, good):
    stream = load_text(good).streams["inbox"]
    assert (stream.overflow, stream.queue_size) == ("pause", None)


@pytest.mark.parametrize(
    ("text", "size"),
    [("overflow: fail", SUBSCRIBER_QUEUE_SIZE), ("overflow: fail\n    subscriber_queue_size: 10", 10)],
)
def test_overflow_bounds_how_far_a_python_watcher_may_be_behind(load_text, good, text, size):
    assert load_text(stream_with(good, text)).streams["inbox"].queue_size == size


@pytest.mark.parametrize("overflow", ["", "overflow: pause\n    "])
def test_a_queue_size_that_nothing_asks_for_is_refused(problem_of, good, overflow):
    shown = problem_of(stream_with(good, f"{overflow}subscriber_queue_size: 10"))
    assert "streams.inbox: `subscriber_queue_size` (10) means nothing without `overflow: fail`" in shown
    assert "Remove it, or add `overflow: fail`" in shown


def test_a_queue_holds_at_least_one_event(problem_of, good):
    shown = problem_of(stream_with(good, "overflow: fail\n    subscriber_queue_size: 0"))
    assert "`subscriber_queue_size`: expected a whole number of at least 1" in shown
