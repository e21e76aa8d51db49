"""Watchers: names, ids, references, filters, params, and what makes two of them the same."""

from __future__ import annotations

import re

import pytest

from bridge.language.ir import AllOf
from bridge.language.text import text_of_node

RUN = "run: {target: shell, job: process}"


def assets(good: str, text: str) -> str:
    return good.split("assets:")[0] + "assets:\n" + text


def asset(good: str, *watchers: str, name: str = "eu") -> str:
    return assets(good, f"  {name}:\n    watchers:\n" + "".join(f"      - {{{w}}}\n" for w in watchers))


# Names and ids -------------------------------------------------------------------------------------------------------


def test_the_only_watcher_of_an_asset_is_called_like_the_asset(load_text, good):
    watcher = load_text(asset(good, f"stream: inbox, {RUN}")).watchers[0]
    assert (watcher.id, watcher.name, watcher.asset) == ("eu", "eu", "eu")


def test_a_named_watcher_has_an_id_of_asset_and_name_siblings_or_not(load_text, good):
    one = load_text(asset(good, f"name: big, stream: inbox, {RUN}")).watchers
    two = load_text(asset(good, f"name: big, stream: inbox, {RUN}", f"name: small, stream: inbox, {RUN}")).watchers
    assert [w.id for w in one] == ["eu.big"]
    assert [(w.id, w.name, w.asset) for w in two] == [("eu.big", "big", "eu"), ("eu.small", "small", "eu")]


def test_an_id_stays_when_the_name_changes(load_text, good):
    watcher = load_text(asset(good, f"name: new, id: old, stream: inbox, {RUN}")).watchers[0]
    assert (watcher.id, watcher.name) == ("old", "new")


def test_a_watcher_without_a_name_beside_a_sibling_is_refused(problem_of, good):
    assert problem_of(asset(good, f"name: big, stream: inbox, {RUN}", f"stream: inbox, {RUN}")) == (
        "c.yaml:14:9: a watcher without `name` beside others of eu\n"
        "   14 |       - {stream: inbox, run: {target: shell, job: process}}\n"
        f"      |         {'^' * 51}\n"
        "   give it one; with `id: eu` the run keys of the asset's only watcher stay as they were"
    )


def test_two_watchers_of_an_asset_can_not_have_one_name(problem_of, good):
    text = asset(good, f"name: a, id: x, stream: inbox, {RUN}", f"name: a, id: y, stream: inbox, {RUN}")
    assert problem_of(text).startswith("c.yaml:14:16: eu has two watchers called `a`: the first is at c.yaml:13:16\n")


def test_an_id_that_is_used_twice_names_both_places(problem_of, good):
    text = asset(good, f"name: a, id: x, stream: inbox, {RUN}", f"name: b, id: x, stream: inbox, {RUN}")
    assert problem_of(text).startswith(
        "c.yaml:14:23: the id `x` is taken by the watcher at c.yaml:13:23\n"
        "   14 |       - {name: b, id: x, stream: inbox, run: {target: shell, job: process}}\n"
        "      |                       ^\n"
    )


def test_an_id_may_not_collide_with_one_that_was_made_up(problem_of, good):
    text = asset(good, f"name: b, stream: inbox, {RUN}") + f"  eu.b:\n    watchers:\n      - {{stream: inbox, {RUN}}}\n"
    assert "c.yaml:14:3: the id `eu.b` is taken by the watcher at c.yaml:13:16" in problem_of(text)


@pytest.mark.parametrize("key", ["name", "id"])
@pytest.mark.parametrize("value", ["a b", "a/b", "a~b", "'*'", '"a\\nb"', "'a\tb'", "a\u00a0b", "x" * 129])
def test_names_and_ids_hold_nothing_that_breaks_a_run_key(problem_of, good, key, value):
    shown = problem_of(asset(good, f"{key}: {value}, stream: inbox, {RUN}"))
    assert f"can't be the {key} of a watcher" in shown
    assert "none of / ~ *" in shown


@pytest.mark.parametrize("value", ["a", "A-b_c.d:e@f", "größe", "注文", "1"])
def test_other_names_are_fine(load_text, good, value):
    assert load_text(asset(good, f"name: '{value}', stream: inbox, {RUN}")).watchers[0].name == value


# References ----------------------------------------------------------------------------------------------------------


def test_a_stream_that_is_not_there_gets_a_suggestion(problem_of, good):
    assert problem_of(asset(good, f"stream: inbix, {RUN}")) == (
        "c.yaml:13:18: there is no stream 'inbix'\n"
        "   13 |       - {stream: inbix, run: {target: shell, job: process}}\n"
        "      |                  ^^^^^\n"
        "   did you mean `inbox`?"
    )


def test_a_target_that_is_not_there_is_listed_against_those_that_are(problem_of, good):
    shown = problem_of(asset(good, "stream: inbox, run: {target: airflow, job: x}"))
    assert "there is no target 'airflow'" in shown
    assert "the targets are shell" in shown


def test_a_stream_that_is_wrong_itself_is_still_a_stream(problem_of, good):
    assert "expected a duration" in problem_of(good.replace("path: inbox", "path: inbox\n    settle: 5"))


# Filters and runs ----------------------------------------------------------------------------------------------------


def test_a_watcher_without_match_takes_every_event(load_text, good):
    assert load_text(asset(good, f"stream: inbox, {RUN}")).watchers[0].condition is None


@pytest.mark.parametrize("match", ["", "{}", "~", "[]", "x"])
def test_an_empty_match_is_not_taken_for_every_event(problem_of, good, match):
    assert "c.yaml:14:9: `match` is " in problem_of(good.replace("{region: [eu, uk]}", match))


def test_a_variable_that_is_missing_in_a_filter_is_one_problem(problem_of, good):
    assert "the environment variable NO is not set" in problem_of(good.replace("[eu, uk]", '["${NO}"]'))


def test_problems_of_a_filter_have_a_line_and_a_column(problem_of, good):
    text = good.replace("match: {region: [eu, uk]}", "match:\n          customer:\n            tier: [gold, {a: b}]")
    shown = problem_of(text).splitlines()
    assert shown[0].startswith("c.yaml:16:26: ")
    assert shown[2] == "      |" + " " * 26 + "^" * 6


def test_problems_of_params_point_into_the_text(problem_of, good):
    shown = problem_of(good.replace("${event.order_id}", "${event.order_id} ${evnt.x}")).splitlines()
    assert shown[0].startswith("c.yaml:18:48: ")
    assert shown[2].index("^") == shown[1].index("evnt")


@pytest.mark.parametrize(
    "written", ["${AIRFLOW_URL}", "${HOME:-x}", "${file:/run/secrets/x}", "a ${REGION} b", "${name:-x}"]
)
@pytest.mark.parametrize("block", ["params", "tags"])
def test_the_environment_is_not_to_be_had_in_params_and_tags(problem_of, good, written, block):
    shown = problem_of(
        asset(
            good,
            f'stream: inbox, run: {{target: shell, job: j, {block}: {{a: {{}}, b: "{written}"}}}}'.replace(
                "a: {}, ", ""
            ),
        )
    )
    assert f"in `{block}`, ${{…}} is an expression over the event, and not a variable of the environment" in shown
    part = re.search(r"\$\{[^}]*\}", written)
    assert part is not None
    lines = shown.splitlines()
    assert lines[1][lines[2].index("^") :].startswith(part[0])


def test_a_dollar_that_is_doubled_is_no_expression_in_tags(load_text, good):
    text = asset(
        good, 'stream: inbox, run: {target: shell, job: j, tags: {a: "$${HOME}", b: 5, c: true, d: 1.5, e: x}}'
    )
    assert load_text(text).watchers[0].tags.constant == b'{"a":"${HOME}","b":5,"c":true,"d":1.5,"e":"x"}'


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        ("{a: [1]}", "`a`: expected text, a number, true or false, saw a list"),
        ("{a: }", "the tag `a` has no value"),
        ("[a]", "`tags`: expected a mapping, saw a list"),
    ],
)
def test_tags_are_plain_values(problem_of, good, tags, message):
    assert message in problem_of(asset(good, f"stream: inbox, run: {{target: shell, job: j, tags: {tags}}}"))


@pytest.mark.parametrize("keys", ["match: {a: 1}", "when: event.a", "reject: event.a", "on_error: reject"])
def test_a_watcher_has_conditions_or_a_trigger(problem_of, good, keys):
    text = asset(good, f"stream: inbox, {keys}, trigger: my.Filter, {RUN}")
    assert f"a watcher has `{keys.split(':')[0]}` or `trigger`, not both" in problem_of(text)


def test_match_and_when_must_both_hold(load_text, good):
    def condition(keys: str) -> object:
        return load_text(asset(good, f"stream: inbox, {keys}, {RUN}")).watchers[0].condition

    both = condition("match: {a: 1, b: x}, when: 'event.c > 2 && event.d'")
    assert isinstance(both, AllOf)
    assert [text_of_node(part) for part in both.parts] == [
        text_of_node(part)
        for keys in ("match: {a: 1, b: x}", "when: 'event.c > 2 && event.d'")
        for part in condition(keys).parts
    ]
    one = condition("match: {a: 1}, when: event.b")
    assert [text_of_node(part) for part in one.parts] == ["event.a == 1", "event.b"]


def test_rejects_are_an_expression_or_a_block(load_text, good):
    def watcher(keys: str) -> object:
        return load_text(asset(good, f"stream: inbox, {keys}, {RUN}")).watchers[0]

    text, block = watcher("reject: 'event.a == 1', on_error: reject"), watcher("reject: {a: 1}")
    assert text_of_node(text.reject) == text_of_node(block.reject) == "event.a == 1"
    assert (text.on_error, block.on_error) == ("reject", "no_match")
    assert (text.condition, watcher("match: {a: 1}").reject) == (None, None)


def test_a_problem_of_a_condition_has_its_place(problem_of, good):
    shown = problem_of(good.replace("match: {region: [eu, uk]}", "when: event.a = 1 && x")).splitlines()
    assert shown[0].startswith("c.yaml:14:23: ")
    assert shown[2].index("^") == shown[1].index("= 1")


def test_a_business_key_comes_with_the_time_that_it_counts(load_text, good):
    run = 'run: {target: shell, job: j, key: "${event.id}", key_ttl: 1h}'
    watcher = load_text(asset(good, f"stream: inbox, {run}")).watchers[0]
    assert watcher.key_ttl == 3600.0
    assert watcher.key.render(b'{"id": "a"}', None) == "a"
    plain = load_text(asset(good, f"stream: inbox, {RUN}")).watchers[0]
    assert (plain.key, plain.key_ttl) == (None, None)


@pytest.mark.parametrize(
    ("keys", "message", "hint"),
    [
        ('key: "${event.id}"', "c.yaml:13:54: `key` without `key_ttl`", "like `key_ttl: 1h`"),
        ("key_ttl: 1h", "c.yaml:13:54: `key_ttl` without the `key` that it is for", "add it, or remove this"),
        ('key: "${event.id}", key_ttl: 0s', "`key_ttl`: expected a duration of more than zero", ""),
        ('key: "${event.id}", key_ttl: 60', "`key_ttl`: expected a duration of more than zero", "did you mean 60s?"),
        ("key: [a], key_ttl: 1h", "`key`: expected text, saw a list", ""),
        ('key: "a-${evnt.id}", key_ttl: 1h', "there is no `evnt` here", "did you mean `event`?"),
        ('idempotency_key: "${event.id}"', "`idempotency_key` is not a key of", "did you mean `key`?"),
    ],
)
def test_a_business_key_that_makes_no_sense_is_refused(problem_of, good, keys, message, hint):
    shown = problem_of(asset(good, f"stream: inbox, run: {{target: shell, job: j, {keys}}}"))
    assert message in shown
    assert hint in shown


def test_a_key_is_no_secret(problem_of, load_text, good):
    run = 'run: {target: shell, job: j, key: "x-${event.id}", key_ttl: 1h'
    assert 'key: "x-${event.id}", key_ttl' in problem_of(asset(good, f"stream: inbox, {run}, jb: 1}}"))
    assert load_text(asset(good, f"stream: inbox, {run}}}")).watchers[0].written["key"] == "x-${event.id}"


def test_a_trigger_is_an_import_path_with_arguments(load_text, good):
    text = asset(
        good, f"stream: inbox, trigger: my.filters.Big, kwargs: {{least: 5, names: [a], key: '${{K}}'}}, {RUN}"
    )
    watcher = load_text(text, env={"K": "v"}).watchers[0]
    assert (watcher.trigger, watcher.kwargs) == ("my.filters.Big", {"least": 5, "names": ["a"], "key": "v"})


def test_a_python_watcher_may_send_what_it_yields(load_text, problem_of, good):
    run = 'run: {target: shell, job: j, params: {a: "${trigger.a}", b: "${event.b}"}}'
    assert load_text(asset(good, f"stream: inbox, trigger: my.Big, {run}")).watchers[0].params is not None
    assert "`trigger`" in problem_of(asset(good, f"stream: inbox, {run}"))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("trigger: Big", "'Big' is no import path"),
        ("trigger: 'my.filters.Big()'", "'my.filters.Big()' is no import path"),
        ("trigger: ../my.Big", "is no import path"),
        ("kwargs: {a: 1}", "`kwargs` without a `trigger`"),
        ("trigger: a.B, kwargs: [1]", "`kwargs`: expected a mapping, saw a list"),
        ("enabled: nope", "`enabled`: expected true or false"),
        ("max_attempts: 0", "`max_attempts`: expected a whole number of at least 1"),
    ],
)
def test_other_parts_of_a_watcher_are_checked(problem_of, good, keys, message):
    assert message in problem_of(asset(good, f"stream: inbox, {keys}, {RUN}"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("  eu: [a]\n", "`eu`: expected a mapping, saw a list"),
        ("  eu:\n", "`eu`: expected a mapping, saw nothing"),
        ("  eu: {}\n", "`watchers` is missing in assets.eu"),
        ("  eu: {watchers: []}\n", "`watchers`: expected a list of at least one watcher"),
        ("  eu: {watchers: {stream: inbox}}\n", "expected a list of at least one watcher, saw a mapping"),
        ("  eu: {watchers: [inbox]}\n", "`watchers`: expected a mapping, saw text 'inbox'"),
        ("  eu: {watchers: [{stream: inbox}]}\n", "`run` is missing in assets.eu.watchers[]"),
        ("  eu: {watchers: [{stream: inbox, run: x}]}\n", "`run`: expected a mapping, saw text 'x'"),
        ("  eu: {watchers: [{stream: inbox, run: {target: shell}}]}\n", "`job` is missing in assets.eu.watchers[].run"),
        ("  eu: {watchers: [{stream: inbox, run: {target: shell, job: ''}}]}\n",
         "`job`: expected text that is not empty"),
        ("  eu: {watchers: [{stream: inbox, run: {target: shell, job: j, params: [a]}}]}\n",
         "`params`: expected a mapping"),
        ("  eu: {description: 5, watchers: [{stream: inbox, run: {target: shell, job: j}}]}\n",
         "`description`: expected text"),
    ],
)  # fmt: skip
def test_the_shape_of_an_asset_is_checked(problem_of, good, text, message):
    assert message in problem_of(assets(good, text))


def test_all_problems_of_a_watcher_are_found_together(problems_of, good):
    text = asset(
        good,
        "name: a b, stream: nope, match: {a: {}}, trigger: x, kwargs: 5, enabled: 1, "
        'run: {target: no, params: {x: "${X}"}, tags: 5, jb: x}',
    )
    messages = [p.splitlines()[0].split(": ", 1)[1] for p in problems_of(text)]
    for part in ("can't be the name", "no stream", "empty block", "not both", "no import path", "`kwargs`", "`enabled`",
                 "no target", "over the event", "`tags`", "`jb` is not"):  # fmt: skip
        assert [m for m in messages if part in m], part


# What a watcher does -------------------------------------------------------------------------------------------------


def definition(load_text, text: str, **env: str) -> str:
    found = load_text(text, env=env).watchers[0].definition
    assert re.fullmatch(r"[0-9a-f]{64}", found)
    return found


BASE = (
    'stream: inbox, match: {a: [x], b: 1}, run: {target: shell, job: j, params: {p: "${event.p}", q: 1}, tags: {t: 1}}'
)


BASE_REORDERED = (
    'run: {tags: {t: 1}, params: {q: 1, p: "${event.p}"}, job: j, target: shell}, match: {b: 1, a: [x]}, stream: inbox'
)


@pytest.mark.parametrize(
    "same",
    [
        BASE_REORDERED,
        "name: other, " + BASE,
        "id: other, " + BASE,
        "enabled: false, " + BASE,
        "max_attempts: 9, " + BASE,
        "on_error: no_match, " + BASE,
    ],
)
def test_the_definition_does_not_depend_on_names_and_order(load_text, good, same):
    assert definition(load_text, asset(good, same)) == definition(load_text, asset(good, BASE))


def test_the_definition_survives_renaming_stream_and_asset(load_text, good):
    before = definition(load_text, asset(good, BASE))
    renamed = asset(good.replace("inbox:", "mail:"), BASE.replace("inbox", "mail"), name="other")
    assert definition(load_text, renamed) == before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[x]", "[y]"),
        ("b: 1", 'b: "1"'),
        ("job: j", "job: k"),
        ("q: 1", "q: 2"),
        ("t: 1", "t: 2"),
        (", b: 1", ""),
        ("match:", "when: event.c, match:"),
        ("match:", "reject: event.c, match:"),
        ("match:", "on_error: reject, match:"),
        ("job: j", 'job: j, key: "${event.k}", key_ttl: 1h'),
    ],
)
def test_the_definition_depends_on_what_the_watcher_does(load_text, good, old, new):
    assert definition(load_text, asset(good, BASE.replace(old, new))) != definition(load_text, asset(good, BASE))


def test_the_definition_depends_on_how_long_a_key_counts_and_not_on_how_that_is_written(load_text, good):
    base = BASE.replace("job: j", 'job: j, key: "${event.k}", key_ttl: 1h')
    one = definition(load_text, asset(good, base))
    assert one == definition(load_text, asset(good, base.replace("1h", "60m")))
    assert one != definition(load_text, asset(good, base.replace("1h", "61m")))
    assert one != definition(load_text, asset(good, base.replace("event.k", "event.l")))


def test_the_definition_depends_on_the_source(load_text, good):
    text = asset(good, BASE)
    assert definition(load_text, text.replace("path: inbox", "path: other")) != definition(load_text, text)


def test_the_definition_is_stable_and_free_of_secrets(load_text, good):
    text = asset(good, f'stream: inbox, trigger: a.B, kwargs: {{password: "${{PW}}", token: abc}}, {RUN}')
    one = definition(load_text, text, PW="one")
    assert one == definition(load_text, text, PW="two")
    assert one == definition(load_text, text.replace("abc", "def"), PW="one")
    assert one != definition(load_text, text.replace("a.B", "a.C"), PW="one")
    # The literal keeps a change of the recipe from slipping in: stored definitions are compared with it.
    assert (
        definition(load_text, asset(good, BASE)) == "387049739c6707c4e2250ea3c0faaf91d74e00e1cde6b8a1e1de97d55b965c93"
    )


# Warnings ------------------------------------------------------------------------------------------------------------


def test_what_nobody_uses_is_a_warning(load_text, good):
    text = good.replace("streams:", "  spare:\n    kind: log\nstreams:").replace(
        "assets:", "  idle:\n    kind: directory\n    path: idle\nassets:"
    )
    assert [w.render() for w in load_text(text).warnings] == [
        "c.yaml:6:3: no watcher runs anything on targets.spare\n   6 |   spare:\n     |   ^^^^^",
        "c.yaml:12:3: no watcher reads streams.idle\n   12 |   idle:\n      |   ^^^^\n   it is not opened at all",
    ]


def test_a_stream_whose_watchers_are_all_disabled_is_a_warning(load_text, good):
    text = good.replace("- stream: inbox", "- stream: inbox\n        enabled: false")
    config = load_text(text)
    assert config.watchers[0].enabled is False
    assert [w.message for w in config.warnings] == ["all watchers of streams.inbox are disabled"]


def test_a_stream_with_one_watcher_that_is_enabled_is_in_use(load_text, good):
    text = asset(good, f"name: a, enabled: false, stream: inbox, {RUN}", f"name: b, stream: inbox, {RUN}")
    assert load_text(text).warnings == ()


def test_a_configuration_without_assets_is_a_warning(load_text, good):
    warnings = load_text(good.split("assets:")[0]).warnings
    assert "c.yaml: there is no asset, so nothing will run\n   add `assets` with watchers" in [
        w.render() for w in warnings
    ]


def test_nothing_is_left_to_say_about_a_good_configuration(load_text, good):
    assert load_text(good).warnings == ()
