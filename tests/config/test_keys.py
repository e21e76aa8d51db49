"""Unknown, misplaced, missing and not yet available keys: never ignored, always sent to the right place."""

from __future__ import annotations

import pytest

from bridge.config import later

WATCHER = "      - stream: inbox\n"


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ("match:", "filters:", "`filters` is not a key of assets.eu_orders.watchers[]", "did you mean `match`?"),
        ("match:", "Match:", "`Match` is not a key of assets.eu_orders.watchers[]", "did you mean `match`?"),
        ("path:", "maxFile: 1KiB\n    path:", "`maxFile` is not a key of streams.inbox", "did you mean `max_file`?"),
        ("path:", "max-body: 1KiB\n    path:", "`max-body` is not a key of streams.inbox", "did you mean `max_body`?"),
        ("streams:", "stream: x\nstreams:", "`stream` is not a key of the configuration",
         "it belongs in assets.<name>.watchers[]; or did you mean `streams`?"),
        ("kind: directory", "kind: directory\n    jitter: 0.1", "`jitter` is not a key of streams.inbox",
         "it belongs one level down, in streams.inbox.retry"),
        ("kind: directory", "kind: directory\n    user: x", "`user` is not a key of streams.inbox",
         "it belongs one level down, in streams.inbox.login"),
        ("kind: directory", "kind: directory\n    retry: {ack_timeout: 3s}",
         "`ack_timeout` is not a key of streams.inbox.retry",
         "it belongs further up, in streams.inbox"),
        ("kind: directory", "kind: directory\n    login: {user: a, settle: 1s}",
         "`settle` is not a key of streams.inbox.login",
         "it belongs further up, in streams.inbox"),
        ("kind: directory", "kind: directory\n    max_in_flight: 4", "`max_in_flight` is not a key of streams.inbox",
         "it belongs in targets.<name>"),
        ("job: process", "job: process\n          enabled: false",
         "`enabled` is not a key of assets.eu_orders.watchers[].run",
         "it belongs further up, in assets.eu_orders.watchers[]"),
        (WATCHER, WATCHER + "        tags: {a: b}\n", "`tags` is not a key of assets.eu_orders.watchers[]",
         "it belongs in assets.<name>.watchers[].run"),
        ("    watchers:", "    enabled: false\n    watchers:", "`enabled` is not a key of assets.eu_orders",
         "it belongs in assets.<name>.watchers[]"),
        ("streams:", "ack_timeout: 5m\nstreams:", "`ack_timeout` is not a key of the configuration",
         "it belongs in streams.<name>"),
        ("streams:", "instance: {drain: 5s}\nstreams:", "`drain` is not a key of instance",
         "the keys here are heartbeat, stop_timeout"),
        ("streams:", "zzz: 1\nstreams:", "`zzz` is not a key of the configuration",
         "the keys here are store, targets, streams, assets, instance, defaults, include, tests"),
        ("streams:", "'': 1\nstreams:", "`` is not a key of the configuration",
         "the keys here are store, targets, streams, assets, instance, defaults, include, tests"),
        ("kind: directory", "kind: directory\n    dead_leter: {}", "`dead_leter` is not a key of streams.inbox",
         "did you mean `dead_letter`? It is known, but not available in this version"),
    ],
)  # fmt: skip
def test_a_key_in_the_wrong_place_is_sent_to_the_right_one(problem_of, good, old, new, message, hint):
    shown = problem_of(good.replace(old, new, 1)).splitlines()
    assert shown[0].endswith(": " + message)
    assert shown[-1] == "   " + hint


PLACES = {
    "TOP": ("streams:", "{key}: {{}}\nstreams:"),
    "STORE": ("store: sqlite:///headrace.db", "store: {{url: sqlite:///headrace.db, {key}: x}}"),
    "INSTANCE": ("streams:", "instance: {{{key}: x}}\nstreams:"),
    "STREAM": ("kind: directory", "kind: directory\n    {key}: x"),
    "WATCHER": (WATCHER, WATCHER + "        {key}: x\n"),
    "RUN": ("job: process", "job: process\n          {key}: x"),
    "TARGET": ("kind: command", "kind: command\n    {key}: x"),
}


@pytest.mark.parametrize(("table", "key"), [(table, key) for table in PLACES for key in getattr(later, table)])
def test_what_comes_later_is_refused_by_name(problem_of, good, table, key):
    old, new = PLACES[table]
    shown = problem_of(good.replace(old, new.format(key=key), 1))
    assert f"`{key}` is known, but not available in this version" in shown
    assert "did you mean" not in shown


@pytest.mark.parametrize("kind", ["kafka", "sqs", "pubsub", "servicebus", "http", "python"])
def test_a_kind_of_stream_that_comes_later_is_refused_by_name(problem_of, good, kind):
    text = good.replace("kind: directory", f"kind: {kind}")
    assert f"the kind '{kind}' is known, but not available in this version" in problem_of(text)


@pytest.mark.parametrize("kind", ["airflow", "prefect", "dagster", "webhook"])
def test_a_kind_of_target_that_comes_later_is_refused_by_name(problem_of, good, kind):
    shown = problem_of(good.replace("kind: command", f"kind: {kind}"))
    assert f"the kind '{kind}' is known, but not available in this version" in shown
    assert "the kinds are command, log" in shown


def test_values_that_come_later_are_refused_by_name(problem_of, good):
    shown = problem_of(good.replace("kind: directory", "kind: directory\n    on_done: archive"))
    assert "`archive` is known, but not available in this version" in shown


def test_an_unknown_kind_gets_a_suggestion(problem_of, good):
    assert problem_of(good.replace("kind: directory", "kind: Directry")) == (
        "c.yaml:8:11: there is no kind 'Directry' of streams\n"
        "   8 |     kind: Directry\n"
        "     |           ^^^^^^^^\n"
        "   did you mean `directory`?"
    )


def test_a_kind_that_is_missing_is_reported_with_what_there_is(problem_of, good):
    assert problem_of(good.replace("    kind: directory\n", "")) == (
        "c.yaml:7:3: `kind` is missing in streams.inbox\n"
        "   7 |   inbox:\n"
        "     |   ^^^^^\n"
        "   the kinds are directory, queue"
    )


@pytest.mark.parametrize("key", ["type", "knd", "Kind"])
def test_another_word_for_kind_is_one_problem_and_not_two(problem_of, good, key):
    shown = problem_of(good.replace("    kind: directory", f"    {key}: directory"))
    assert shown.startswith(f"c.yaml:8:5: `{key}` is not a key of streams.inbox\n")
    assert shown.endswith("did you mean `kind`?")


def test_a_kind_whose_package_is_missing_says_so(problem_of, good):
    shown = problem_of(good.replace("kind: directory", "kind: queue"))
    assert "the kind 'queue' can't be loaded: No module named 'aioqueue'" in shown


def test_common_keys_are_checked_even_where_the_kind_is_unknown(problems_of, good):
    text = good.replace("kind: directory", "kind: nope\n    max_attempts: 0\n    weight: ${NOPE}")
    messages = [p.splitlines()[0] for p in problems_of(text)]
    assert messages == [
        "c.yaml:8:11: there is no kind 'nope' of streams",
        "c.yaml:9:19: `max_attempts`: expected a whole number of at least 1, saw the number 0",
        "c.yaml:10:13: the environment variable NOPE is not set",
    ]


def test_a_missing_key_is_reported_at_its_block_with_what_it_is_for(problem_of, good):
    assert problem_of(good.replace("    path: inbox\n", "")) == (
        "c.yaml:7:3: `path` is missing in streams.inbox\n"
        "   7 |   inbox:\n"
        "     |   ^^^^^\n"
        "   the folder that files are dropped into"
    )


def test_a_misspelled_required_key_is_one_problem_and_not_two(problem_of, good):
    assert "did you mean `path`?" in problem_of(good.replace("path:", "pathh:"))


def test_what_the_kind_itself_refuses_is_shown_at_the_block(problem_of, good):
    text = good.replace("path: inbox", "path: inbox\n    lines: true\n    on_done: delete")
    assert problem_of(text).startswith("c.yaml:7:3: streams.inbox: `lines` can't go with `on_done: delete`\n")


def test_what_the_kind_finds_on_this_machine_is_shown_at_the_block_unless_nobody_asks(problem_of, load_text, good):
    text = good.replace("path: inbox", "path: missing/inbox")
    assert "streams.inbox: the folder missing/inbox does not exist" in problem_of(text)
    assert load_text(text, check=False).streams["inbox"].options.path == "missing/inbox"


@pytest.mark.parametrize("path", ["unreadable", "odd"])
def test_what_the_system_says_about_a_source_is_shown_at_the_block(problem_of, good, path):
    shown = problem_of(good.replace("path: inbox", f"path: {path}"))
    assert shown.startswith(f"c.yaml:7:3: streams.inbox: {path}")


def test_a_source_that_can_not_be_had_stops_nobody_who_does_not_read_it(load_text, good):
    config = load_text(good.replace("path: inbox", "path: unreadable"), check=False)
    assert config.watchers[0].stream == "inbox"


@pytest.mark.parametrize("block", ["streams", "targets"])
def test_a_stream_or_target_is_a_mapping(problems_of, good, block):
    name = {"streams": "inbox", "targets": "shell"}[block]
    found = problems_of(good.replace(f"{block}:\n", f"{block}:\n  second: directory\n"))
    assert [p.splitlines()[0].split(": ", 1)[1] for p in found] == [
        "`second`: expected a mapping, saw text 'directory'"
    ]
    assert name not in found[0]


def test_two_streams_with_one_source_name_both(problem_of, good):
    text = good.replace("assets:", "  other:\n    kind: directory\n    path: inbox\nassets:")
    assert problem_of(text) == (
        "c.yaml:10:3: streams.other reads the same source as streams.inbox (c.yaml:7:3)\n"
        "   10 |   other:\n"
        "      |   ^^^^^\n"
        "   they would take each other's messages: let all the watchers share one of them"
    )


@pytest.mark.parametrize("name", ["a b", "a/b", "a~b", "'*'", "-a", "a\u200bb", "'${X}'", "''", "x" * 200])
@pytest.mark.parametrize("old", ["inbox:", "shell:", "eu_orders:"])
def test_names_hold_nothing_that_breaks_a_run_key(problems_of, good, old, name):
    found = problems_of(good.replace(f"  {old}", f"  {name}:", 1))
    assert [p for p in found if "can't be the name of" in p and "none of / ~ *" in p]


def test_a_thousand_problems_are_listed_and_the_rest_is_counted(load_text, good):
    from bridge.config.load import ConfigError

    text = good + "".join(
        f"      - {{xyz{n}: 1, stream: inbox, name: n{n}, run: {{target: shell, job: j}}}}\n" for n in range(1200)
    )
    with pytest.raises(ConfigError) as raised:
        load_text(text)
    assert len(raised.value.problems) == 1000
    assert str(raised.value).endswith("and 201 more problems")  # the first watcher lacks a name
