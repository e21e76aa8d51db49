"""`defaults`: what streams, watchers and targets share."""

from __future__ import annotations

import pytest

from bridge.decode.options import Decoding

RUN = "run: {target: shell, job: process}"


def shared(good: str, defaults: str) -> str:
    """The good configuration with lines below `defaults`."""
    return good + "defaults:\n" + "".join(f"  {line}\n" for line in defaults.splitlines())


def watchers(good: str, *written: str, defaults: str = "{}") -> str:
    text = good.split("assets:")[0] + "assets:\n  eu:\n    watchers:\n"
    return text + "".join(f"      - {{{w}}}\n" for w in written) + f"defaults: {{watchers: {defaults}}}\n"


def test_a_stream_has_what_it_lacks_from_the_defaults(load_text, good):
    text = shared(good, "streams: {max_attempts: 9, decode: text, retry: {delay: 2s, max: 1m}}")
    text = text.replace("path: inbox", "path: inbox\n    ack_timeout: 1m\n    retry: {max: 2m}")
    stream = load_text(text).streams["inbox"]
    assert (stream.max_attempts, stream.ack_timeout, stream.decode) == (9, 60.0, Decoding("text"))
    assert (stream.retry.delay, stream.retry.max, stream.retry.factor) == (2.0, 120.0, 2.0)


def test_a_key_of_its_own_wins(load_text, good):
    text = shared(good, "streams: {max_attempts: 9}").replace("path: inbox", "path: inbox\n    max_attempts: 3")
    assert load_text(text).streams["inbox"].max_attempts == 3


def test_a_kind_may_be_shared(load_text, good):
    text = shared(good, "streams: {kind: directory}\ntargets: {kind: command}")
    config = load_text(text.replace("    kind: directory\n", "").replace("    kind: command\n", ""))
    assert (config.streams["inbox"].kind, config.targets["shell"].kind) == ("directory", "command")


def test_a_default_for_targets_stands_before_the_default_of_their_kind(load_text, good):
    target = load_text(shared(good, "targets: {timeout: 7s, retry: {attempts: 2}}")).targets["shell"]
    assert (target.timeout, target.options.timeout, target.retry.attempts) == (7.0, 7.0, 2)


def test_watchers_share_what_they_take_and_run(load_text, good):
    defaults = "{stream: inbox, match: {kind: order}, on_error: reject, run: {target: shell, job: j, tags: {team: a}}}"
    first, second = load_text(
        watchers(
            good,
            "name: a",
            "name: b, match: {region: eu}, on_error: no_match, run: {job: k, tags: {x: 1}}",
            defaults=defaults,
        )
    ).watchers
    assert (first.stream, first.job, first.on_error) == ("inbox", "j", "reject")
    assert first.written["match"] == {"kind": "order"}
    assert (second.job, second.target, second.on_error) == ("k", "shell", "no_match")
    assert second.written["match"] == {"region": "eu", "kind": "order"}
    assert second.tags.constant == b'{"team":"a","x":1}'


def test_a_default_condition_and_one_of_its_own_must_both_hold(load_text, good):
    text = watchers(good, f"stream: inbox, when: event.a, {RUN}", defaults="{match: {kind: order}}")
    assert len(load_text(text).watchers[0].condition.parts) == 2


def test_lists_are_taken_as_a_whole(load_text, good):
    text = watchers(good, f"stream: inbox, match: {{a: [1]}}, {RUN}", defaults="{match: {a: [2, 3]}}")
    assert load_text(text).watchers[0].written["match"] == {"a": [1]}


def test_a_python_watcher_has_no_use_for_conditions_and_others_for_no_kwargs(load_text, good):
    defaults = "{match: {a: 1}, when: event.b, reject: event.c, on_error: reject, kwargs: {x: 1}}"
    python, plain = load_text(
        watchers(
            good,
            f"name: p, stream: inbox, trigger: my.Big, kwargs: {{y: 2}}, {RUN}",
            f"name: q, stream: inbox, {RUN}",
            defaults=defaults,
        )
    ).watchers
    assert (python.condition, python.reject, python.on_error) == (None, None, "no_match")
    assert python.kwargs == {"x": 1, "y": 2}
    assert (plain.kwargs, plain.on_error) == ({}, "reject")
    assert plain.condition is not None


def test_a_trigger_may_be_shared_by_watchers_without_conditions(load_text, good):
    defaults = "{stream: inbox, trigger: my.Big, kwargs: {x: 1}}"
    python, plain = load_text(
        watchers(good, f"name: p, {RUN}", f"name: q, match: {{a: 1}}, {RUN}", defaults=defaults)
    ).watchers
    assert (python.trigger, python.kwargs) == ("my.Big", {"x": 1})
    assert (plain.trigger, plain.kwargs) == (None, {})


def test_how_long_a_key_counts_waits_for_a_key(load_text, good):
    defaults = "{stream: inbox, run: {target: shell, job: j, key_ttl: 1h}}"
    keyed, plain = load_text(
        watchers(good, "name: k, run: {key: '${event.id}'}", "name: p", defaults=defaults)
    ).watchers
    assert (keyed.key_ttl, plain.key_ttl, plain.key) == (3600.0, None, None)


def test_watchers_that_share_have_the_definition_of_those_that_do_not(load_text, good):
    alone = watchers(good, "stream: inbox, match: {a: 1}, run: {target: shell, job: j, params: {p: 1}}")
    defaults = "{stream: inbox, match: {a: 1}, run: {target: shell, params: {p: 1}}}"
    together = watchers(good, "run: {job: j}", defaults=defaults)
    assert load_text(alone).watchers[0].definition == load_text(together).watchers[0].definition


def test_defaults_stand_in_one_file_for_all(load_text, problem_of, good):
    defaults = "defaults: {streams: {max_attempts: 9}}\n"
    assert load_text({"a.yaml": defaults, "b.yaml": good}).streams["inbox"].max_attempts == 9
    shown = problem_of({"a.yaml": defaults, "b.yaml": good + "defaults: {}\n"})
    assert "`defaults` is defined twice: the first is at conf/a.yaml:1:1" in shown


# What is wrong with a default, once and at its own place -------------------------------------------------------------

THREE = [f"name: {name}, stream: inbox, {RUN}" for name in "abc"]


@pytest.mark.parametrize(
    ("defaults", "message", "hint"),
    [
        ("{strem: inbox}", "`strem` is not a key of defaults.watchers", "did you mean `stream`?"),
        ("{run: {jbo: x}}", "`jbo` is not a key of defaults.watchers.run", "did you mean `job`?"),
        ("{max_runs_per_minute: 5}", "`max_runs_per_minute` is known, but not available", ""),
        ("{name: a}", "`name` can't be shared", "every watcher has its own"),
        ("{id: a}", "`id` can't be shared", "every watcher has its own"),
        ("{enabled: 1}", "`enabled`: expected true or false, saw the number 1", ""),
        ("{on_error: ignore}", "`on_error`: expected no_match or reject, saw text 'ignore'", ""),
        ("{match: {}}", "`match` is empty", ""),
        ("{match: {a: {}}}", "an empty block", ""),
        ("{when: event.a = 1}", "=", "=="),
        ("{reject: evnt.a}", "there is no `evnt` here", "did you mean `event`?"),
        ("{kwargs: {a: 1}, trigger: a.B, when: event.a}", "`when` beside `trigger`", ""),
        ("{run: {params: {a: '${evnt.a}'}}}", "there is no `evnt` here", "did you mean `event`?"),
        ("{run: {params: [a]}}", "`params`: expected a mapping, saw a list", ""),
        ("{run: {tags: {a: [1]}}}", "`a`: expected text, a number, true or false, saw a list", ""),
        ("{run: {key_ttl: 5}}", "`key_ttl`: expected a duration of more than zero, saw the number 5", ""),
        ("{max_attempts: '${NOPE}'}", "the environment variable NOPE is not set", ""),
        ("[a]", "`watchers`: expected a mapping, saw a list", ""),
    ],
)
def test_a_default_that_is_wrong_is_reported_once(problem_of, good, defaults, message, hint):
    shown = problem_of(watchers(good, *THREE, defaults=defaults))
    assert shown.startswith("c.yaml:16:")
    assert message in shown
    assert hint in shown


@pytest.mark.parametrize(
    ("defaults", "message"),
    [
        ("streams: {stream: x}", "`stream` is not a key of defaults.streams"),
        ("streams: {path: x}", "`path` is not a key of defaults.streams"),
        ("streams: {dead_letter: x}", "`dead_letter` is known, but not available in this version"),
        ("streams: {max_body: 5}", "`max_body`: expected a size of at least 1B, saw the number 5"),
        ("streams: {retry: {dely: 5s}}", "`dely` is not a key of defaults.streams.retry"),
        ("streams: {retry: {delay: 10m}}", "defaults.streams.retry: `delay` (10m) is longer than `max` (5m)"),
        ("streams: {decode: {avro: {}}}", "defaults.streams.decode.avro: it takes `schemas`"),
        ("streams: {decode: avro}", "defaults.streams.decode: avro needs to know what its messages look like"),
        ("streams: {decode: text, unwrap: s3}", "defaults.streams.unwrap: s3 goes with `decode: json` alone"),
        ("targets: {max_in_flight: 0}", "`max_in_flight`: expected a whole number of at least 1"),
        ("targets: {command: [x]}", "`command` is not a key of defaults.targets"),
        ("target: {}", "`target` is not a key of defaults"),
        ("streams: 5", "`streams`: expected a mapping, saw the number 5"),
        ("targets:", "`targets`: expected a mapping, saw nothing"),
    ],
)
def test_a_default_of_streams_or_targets_that_is_wrong_is_reported_once(problem_of, good, defaults, message):
    text = good.replace("streams:\n", "  two: {kind: log}\nstreams:\n  two: {kind: directory, path: two}\n", 1)
    shown = problem_of(shared(text, defaults))
    assert shown.startswith("c.yaml:2")
    assert message in shown


def test_a_kind_that_is_no_kind_is_reported_once(problem_of, good):
    text = good.replace("    kind: directory\n", "").replace("streams:\n", "streams:\n  two: {path: two}\n")
    assert "there is no kind 'nope' of streams" in problem_of(shared(text, "streams: {kind: nope}"))


def test_a_default_that_nobody_uses_is_still_looked_at(problem_of, good):
    text = watchers(good, f"stream: inbox, when: event.a, {RUN}", defaults="{when: event.a =}")
    assert problem_of(text).startswith("c.yaml:14:")


def test_what_defaults_do_not_make_whole_is_missing_at_the_watcher(problems_of, good):
    text = watchers(good, "name: a, stream: inbox", "name: b, stream: inbox", defaults="{run: {target: shell}}")
    assert [p.splitlines()[0] for p in problems_of(text)] == [
        "c.yaml:13:9: `job` is missing in assets.eu.watchers[].run",
        "c.yaml:14:9: `job` is missing in assets.eu.watchers[].run",
    ]


def test_the_secrets_of_defaults_stay_secret(problem_of, load_text, good):
    text = watchers(good, f"stream: inbox, trigger: a.B, {RUN}", defaults="{kwargs: {token: hunter2}, nme: x}")
    assert "hunter2" not in problem_of(text)
    config = load_text(text.replace(", nme: x", ""))
    assert config.watchers[0].written["kwargs"] == {"token": "***"}
    assert config.watchers[0].kwargs == {"token": "hunter2"}


def test_there_is_a_hint_for_what_others_call_it(problem_of, good):
    assert "did you mean `defaults`?" in problem_of(good + "common: {}\n")
