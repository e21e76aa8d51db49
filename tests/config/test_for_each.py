"""`for_each`: a watcher that is written once and read for every item of a list."""

from __future__ import annotations

import time
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.config.holes import holes_of, parts_of
from bridge.language.text import text_of_node

RUN = "run: {target: shell, job: process}"
TWO = "[{region: eu, least: 100, names: [a, b]}, {region: us, least: 2.50, names: [c]}]"


def each(good: str, *lines: str, items: str = TWO, name: str = "${each.region}") -> str:
    """One watcher with `for_each` in line 13, and `lines` from line 16."""
    head = good.split("assets:")[0] + f"assets:\n  all:\n    watchers:\n      - for_each: {items}\n"
    named = f"        name: {name}\n" if name else ""
    rest = lines if any(line.startswith(("run", "stream")) for line in lines) else (*lines, RUN)
    stream = "" if any(line.startswith("stream") for line in lines) else "        stream: inbox\n"
    return head + named + stream + "".join(f"        {line}\n" for line in rest)


def test_there_is_a_watcher_for_every_item(load_text, good):
    eu, us = load_text(each(good, 'match: {region: "${each.region}"}')).watchers
    assert [(w.id, w.name, w.asset) for w in (eu, us)] == [("all.eu", "eu", "all"), ("all.us", "us", "all")]
    assert [text_of_node(w.condition) for w in (eu, us)] == ['event.region == "eu"', 'event.region == "us"']


def test_a_value_alone_keeps_its_type(load_text, good):
    items = "[{n: a, f: yes, t: '5', i: 5, d: 2.5, b: true, z: null, l: [1, x], m: {p: q}}]"
    keys = ", ".join(f'{key}: "${{each.{key}}}"' for key in "ftidbzlm")
    (watcher,) = load_text(each(good, "trigger: my.Big", f"kwargs: {{{keys}}}", items=items, name="${each.n}")).watchers
    assert watcher.kwargs == {
        "f": "yes", "t": "5", "i": 5, "d": 2.5, "b": True, "z": None, "l": [1, "x"], "m": {"p": "q"},
    }  # fmt: skip


def test_a_value_in_text_is_pasted_as_it_is_written(load_text, good):
    items = "[{n: a, i: 1.50, b: true, t: 'x y'}]"
    lines = ("trigger: my.Big", "kwargs: {a: '<${each.i}|${each.b}|${each.t}>', b: '${each.i}0'}")
    (watcher,) = load_text(each(good, *lines, items=items, name="w-${each.n}-x")).watchers
    assert (watcher.name, watcher.kwargs) == ("w-a-x", {"a": "<1.50|true|x y>", "b": "1.500"})


def test_every_scalar_of_a_watcher_may_hold_one(load_text, good):
    items = "[{n: a, stream: inbox, target: shell, on: false, most: 7, do: reject, ttl: 1h}]"
    lines = (
        "stream: ${each.stream}", "id: i-${each.n}", "enabled: ${each.on}", "max_attempts: ${each.most}",
        "on_error: ${each.do}",
        "run: {target: '${each.target}', job: 'j-${each.n}', key: '${event.id}', key_ttl: '${each.ttl}'}",
    )  # fmt: skip
    (w,) = load_text(each(good, *lines, items=items, name="${each.n}")).watchers
    assert (w.id, w.stream, w.enabled, w.max_attempts, w.on_error) == ("i-a", "inbox", False, 7, "reject")
    assert (w.target, w.job, w.key_ttl) == ("shell", "j-a", 3600.0)


def test_deeper_values_are_reached_by_their_path(load_text, good):
    items = "[{c: {name: eu, limits: {high: 5}}}, {c: {name: us, limits: {high: 6}}}]"
    lines = ("match: {limit: '${each.c.limits.high}'}", "when: event.a < each.c.limits.high")
    eu, us = load_text(each(good, *lines, items=items, name="${each.c.name}")).watchers
    assert (eu.name, us.name) == ("eu", "us")
    assert text_of_node(us.condition) == "event.limit == 6 && event.a < 6"


def test_in_expressions_the_item_is_a_root(load_text, good):
    lines = (
        "when: event.amount > each.least && event.name in each.names",
        "reject: event.region != each.region",
        "run:",
        "  target: shell",
        "  job: j",
        "  params: {r: '${each.region}', l: '${each.least}', t: 'x-${each.region}', n: '${each.names}'}",
        "  tags: {region: '${each.region}'}",
        "  key: ${each.region}-${event.id}",
        "  key_ttl: 1h",
    )
    eu, us = load_text(each(good, *lines)).watchers
    assert text_of_node(eu.condition) == 'event.amount > 100 && event.name in ["a", "b"]'
    assert "2.5" in text_of_node(us.condition)
    assert text_of_node(us.reject) == 'event.region != "us"'
    assert eu.params.constant == b'{"r":"eu","l":100,"t":"x-eu","n":["a","b"]}'
    assert us.tags.constant == b'{"region":"us"}'
    assert us.key.render(b'{"id": "1"}', None) == "us-1"


def test_a_condition_or_a_block_may_be_the_item_s(load_text, good):
    items = "[{n: a, when: event.a == 1, params: {p: '${event.b}', q: 1}}, {n: b, when: event.c, params: {}}]"
    lines = ("when: ${each.when}", "run: {target: shell, job: j, params: '${each.params}'}")
    a, b = load_text(each(good, *lines, items=items, name="${each.n}")).watchers
    assert [text_of_node(w.condition) for w in (a, b)] == ["event.a == 1", "event.c"]
    assert a.params.uses == frozenset({("b",)})
    assert b.params.constant == b"{}"


def test_a_number_that_no_event_can_have_is_found_where_it_is_asked_for(problem_of, good):
    shown = problem_of(each(good, "when: event.a == each.x", items="[{region: eu, x: .inf}]"))
    assert shown.startswith("c.yaml:13:36: a number that JSON does not know")


def test_numbers_are_exact_in_expressions(load_text, good):
    items = "[{n: a, x: 0.1234567890123456789012345}]"
    (watcher,) = load_text(each(good, "when: event.a > each.x", items=items, name="${each.n}")).watchers
    assert watcher.condition.right.value == Decimal("0.1234567890123456789012345")


def test_variables_work_in_items_once(load_text, good):
    items = "[{n: '${A}', m: 'x-${B}', l: '$$${A}', d: 'cost$'}]"
    keys = "kwargs: {m: '${each.m}', n: '<${each.m}>', l: '${each.l}', k: 'a-${each.l}', d: '${each.d}{A}'}"
    text = each(good, "trigger: my.Big", keys, items=items, name="${each.n}")
    (watcher,) = load_text(text, env={"A": "a", "B": "${A} $$"}).watchers
    assert watcher.name == "a"
    assert watcher.kwargs == {"m": "x-${A} $$", "n": "<x-${A} $$>", "l": "$a", "k": "a-$a", "d": "cost${A}"}


def test_a_doubled_dollar_is_no_hole(load_text, good):
    (eu, _) = load_text(each(good, "trigger: my.Big", "kwargs: {a: '$${each.region}'}")).watchers
    assert eu.kwargs == {"a": "${each.region}"}


def test_other_watchers_of_the_asset_are_read_as_ever(load_text, good):
    text = each(good) + f"      - {{name: rest, stream: inbox, {RUN}}}\n"
    assert [w.id for w in load_text(text).watchers] == ["all.eu", "all.us", "all.rest"]


def test_defaults_may_ask_for_the_item(load_text, good):
    text = each(good, "run: {job: j}") + (
        "defaults: {watchers: {match: {region: '${each.region}'}, when: event.a > each.least, run: {target: shell, "
        "params: {r: '${each.region}'}}}}\n"
    )
    eu, us = load_text(text).watchers
    assert text_of_node(eu.condition) == 'event.region == "eu" && event.a > 100'
    assert us.params.constant == b'{"r":"us"}'


def test_a_single_item_needs_nothing_to_tell_it_by(load_text, good):
    assert load_text(each(good, items="[{region: eu}]", name="only")).watchers[0].id == "all.only"


# What a watcher does -------------------------------------------------------------------------------------------------


def test_a_watcher_has_the_definition_of_one_that_is_written_out(load_text, good):
    (eu, _) = load_text(each(good, 'match: {region: "${each.region}"}')).watchers
    alone = each(good, "match: {region: eu}", items="[{region: eu}]")
    assert load_text(alone).watchers[0].definition == eu.definition


def test_the_definition_covers_what_expressions_ask_for_and_nothing_else(load_text, good):
    def definition(item: str) -> str:
        items = f"[{{region: eu, {item}}}]"
        text = each(good, "when: event.a > each.least", items=items)
        return load_text(text, env={"T": "1", "U": "2"}).watchers[0].definition

    assert definition("least: 1") == definition("least: 1, other: 2")
    assert definition("least: 1") != definition("least: 2")
    assert definition("least: '${T}'") != definition("least: '${U}'")


# What is wrong, once for its place -----------------------------------------------------------------------------------


def test_what_no_item_has_is_reported_once_with_a_suggestion(problem_of, good):
    assert problem_of(each(good, 'match: {a: "${each.regoin}"}')) == (
        "c.yaml:16:21: no item of `for_each` has `regoin`\n"
        '   16 |         match: {a: "${each.regoin}"}\n'
        "      |                     ^^^^^^^^^^^^^^\n"
        "   did you mean `region`?"
    )


@pytest.mark.parametrize(
    ("line", "column", "hint"),
    [
        ("when: event.a == each.regoin", 31, "did you mean `region`?"),
        ("reject: each.regoin == event.a", 22, "did you mean `region`?"),
        ("run: {target: shell, job: j, params: {a: 'x ${each.regoin}'}}", 60, "did you mean `region`?"),
        ("run: {target: shell, job: j, tags: {a: '${each.regoin}'}}", 56, "did you mean `region`?"),
        ("run: {target: shell, job: j, key: '${event.a}${each.regoin}', key_ttl: 1h}", 61, "did you mean `region`?"),
        ("run: {target: shell, job: 'j-${each.regoin}'}", 38, "did you mean `region`?"),
        ("run: {target: '${each.regoin}', job: j}", 24, "did you mean `region`?"),
        ("enabled: ${each.regoin}", 18, "did you mean `region`?"),
        ("id: ${each.regoin}", 13, "did you mean `region`?"),
        ("stream: ${each.zzz}", 17, "the items have region, least, names"),
        ("match: ${each.regoin}", 16, "did you mean `region`?"),
        ("match: {a: '${each.region.x}'}", 21, "the items have "),
        ("match: {a: '${each.}'}", 21, "what works is ${each.name}"),
        ("match: {a: '${each}'}", 21, "what works is ${each.name}"),
        ("match: {a: '${each.a-b}'}", 21, "what works is ${each.name}"),
        ("match: {a: '${ each.region }'}", 21, "what works is ${each.name}"),
        ("match: {a: '${each.region:-x}'}", 21, "what works is ${each.name}"),
        ("match: {a: 'x ${each.region'}", 23, "what works is ${each.name}"),
    ],
)
def test_whatever_asks_for_it_says_so_once(problem_of, good, line, column, hint):
    lines = (line,) if line.startswith(("run", "stream")) else (line, RUN)
    text = each(good, *lines, RUN) if line.startswith("stream") else each(good, *lines)
    shown = problem_of(text)
    assert shown.startswith(f"c.yaml:{15 if line.startswith('stream') else 16}:{column}: "), shown
    assert hint in shown


def test_an_item_that_lacks_what_others_have_is_named(problem_of, good):
    items = "[{region: eu, least: 1}, {region: us}]"
    for line in ("when: event.a > each.least", "match: {a: '${each.least}'}", "match: {a: 'x-${each.least}'}"):
        shown = problem_of(each(good, line, items=items))
        assert shown.startswith("c.yaml:13:44: this item of `for_each` has no `least`\n"), shown
        assert "at c.yaml:16:" in shown
        assert shown.endswith(" asks for it")


def test_a_value_that_is_wrong_is_reported_at_the_item(problems_of, good):
    items = "[{region: eu, stream: inbox}, {region: us, stream: inbix}, {region: a b, stream: inbox}]"
    found = problems_of(each(good, "stream: ${each.stream}", "name: ${each.region}", RUN, items=items, name=""))
    assert [p.splitlines()[0] for p in found] == [
        "c.yaml:13:70: there is no stream 'inbix'",
        "c.yaml:13:87: 'a b' can't be the name of a watcher",
    ]


def test_a_value_that_is_pasted_is_reported_at_the_item_too(problem_of, good):
    shown = problem_of(each(good, items="[{region: eu}, {region: u s}]", name="orders-${each.region}"))
    assert shown.startswith("c.yaml:13:43: 'orders-u s' can't be the name of a watcher")


@pytest.mark.parametrize(
    ("value", "message"),
    [("[a]", "a list can't be put into text"), ("{a: b}", "a mapping can't be put into text"),
     ("", "nothing can't be put into text"), ("'a${b'", "a ${ without its }")],
)  # fmt: skip
def test_what_is_no_text_is_not_pasted(problem_of, good, value, message):
    shown = problem_of(each(good, "match: {a: 'x-${each.v}'}", items=f"[{{region: eu, v: {value}}}]"))
    assert shown.startswith("c.yaml:13:3")
    assert message in shown


def test_two_items_of_one_name_are_found_at_the_second(problem_of, good):
    shown = problem_of(each(good, items="[{region: eu}, {region: eu}]"))
    assert shown.startswith("c.yaml:13:43: all has two watchers called `eu`: the first is at c.yaml:13:29")


@pytest.mark.parametrize(
    ("lines", "name", "message", "hint"),
    [
        ((), "same", "c.yaml:14:15: all watchers of this `for_each` would be called the same", "${each.region}"),
        (("id: same",), "${each.region}", "c.yaml:16:13: all watchers of this `for_each` would be called the same", ""),
        ((), "", "c.yaml:13:9: a watcher with `for_each` and without `name`", "name: orders_${each.region}"),
    ],
)
def test_names_and_ids_must_differ(problem_of, good, lines, name, message, hint):
    shown = problem_of(each(good, *lines, name=name))
    assert shown.startswith(message)
    assert hint in shown


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ("[]", "`for_each`: expected a list of at least one mapping, saw a list"),
        ("{a: b}", "`for_each`: expected a list of at least one mapping, saw a mapping"),
        ("eu", "`for_each`: expected a list of at least one mapping, saw text 'eu'"),
        ("", "`for_each`: expected a list of at least one mapping, saw nothing"),
        ("[{region: eu}, us]", "`for_each`: expected a mapping, saw text 'us'"),
        ("[{region: eu, a-b: 1}]", "'a-b' can't be the name of a value of `for_each`"),
        ("[{region: '${NOPE}'}]", "the environment variable NOPE is not set"),
        (f"[{'{region: eu},' * 10_001}]", "`for_each`: expected at most 10,000 items, saw 10,001"),
    ],
)
def test_a_list_that_can_not_be_used_says_why(problem_of, good, items, message):
    assert message in problem_of(each(good, items=items))


def test_a_mistake_in_the_template_is_one_problem(problems_of, good):
    lines = ("mtch: {}", "when: event.a =", "run: {target: shel, job: j, params: {a: '${evnt.b}'}}")
    assert [p.splitlines()[0].split(":")[1] for p in problems_of(each(good, *lines))] == ["16", "17", "18", "18"]


def test_without_for_each_there_is_no_item(problem_of, good):
    shown = problem_of(good.replace("[eu, uk]", '"${each.region}"'))
    assert "${each.region} is not understood" in shown
    assert "`each` is the item of a watcher with `for_each`" in shown
    assert "for_each" in problem_of(good.replace("match: {region: [eu, uk]}", "when: event.a == each.b"))


def test_many_items_that_are_all_wrong_cost_no_minutes(problems_of, good):
    items = "[" + ", ".join(f"{{region: r{n}}}" for n in range(5000)) + "]"
    started = time.process_time()
    assert len(problems_of(each(good, "run: {target: '${each.region}', job: j}", items=items))) == 100
    assert time.process_time() - started < 20


# Secrets -------------------------------------------------------------------------------------------------------------


def test_a_secret_of_an_item_stays_secret_wherever_it_goes(load_text, problem_of, good):
    items = "[{region: eu, token: hunter2-XYZZY}]"
    text = each(good, "trigger: my.Big", "kwargs: {a: '${each.token}', b: 'x ${each.token}'}", items=items)
    watcher = load_text(text).watchers[0]
    assert watcher.kwargs == {"a": "hunter2-XYZZY", "b": "x hunter2-XYZZY"}
    assert watcher.written["kwargs"] == {"a": "***", "b": "***"}
    for line in ("enabled: ${each.token}", "id: a ${each.token}", "match: {a: ['${each.token}', '${each.token}']}"):
        assert "XYZZY" not in problem_of(each(good, line, items=items))
    for line in ("stream: ${each.token}", "run: {target: '${each.token}', job: j}"):
        rest = (RUN,) if line.startswith("stream") else ()
        assert "XYZZY" not in problem_of(each(good, line, *rest, items=items))


def test_a_secret_in_an_expression_is_not_shown(load_text, good):
    items = "[{region: eu, token: hunter2-XYZZY, v: '${V}'}]"
    lines = ("when: event.a == each.token || event.b == each.v",)
    watcher = load_text(each(good, *lines, items=items), env={"V": "hunter2-XYZZY"}).watchers[0]
    assert watcher.written["each"] == {"token": "***", "v": "${V}"}
    assert "XYZZY" not in repr(watcher)


# Properties ----------------------------------------------------------------------------------------------------------


@given(st.text(alphabet="$e{}ach.x ", max_size=20) | st.text(max_size=10))
def test_text_and_holes_together_are_the_text(text):
    parts, holes = parts_of(text), holes_of(text)
    assert len([part for part in parts if isinstance(part, tuple)]) == len(holes)
    written = iter(holes)
    assert "".join(part if isinstance(part, str) else next(written) for part in parts) == text


def test_ten_thousand_watchers_load_in_seconds(load_text, good):
    items = "".join(f"          - {{n: w{n}, region: r{n % 50}, least: {n}}}\n" for n in range(10_000))
    lines = ('match: {region: "${each.region}", kind: order}',)
    text = each(good, *lines, items="\n" + items.rstrip("\n"), name="${each.n}")
    started = time.process_time()
    assert len(load_text(text).watchers) == 10_000
    assert time.process_time() - started < 60  # about 5 s of CPU, most of it the parser's


def test_a_value_that_does_not_fit_an_expression_is_told_with_its_item(problem_of, good):
    items = "[" + ", ".join(f"{{n: w{n}, least: {'[oops]' if n == 7 else n}}}" for n in range(12)) + "]"
    text = each(good, "when: event.amount >= each.least", items=items, name="${each.n}")
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "for_each" in line)
    column = text.splitlines()[line - 1].index("{n: w7") + 1
    told = problem_of(text)
    assert "`each.least` is a list, which has no order" in told
    assert f"`each` is the item at c.yaml:{line}:{column}" in told


def test_an_expression_that_fits_no_item_is_told_once(problem_of, good):
    items = "[" + ", ".join(f"{{n: w{n}, least: [oops]}}" for n in range(12)) + "]"
    told = problem_of(each(good, "when: event.amount >= each.least", items=items, name="${each.n}"))
    assert told.count("`each` is the item at") == 1
