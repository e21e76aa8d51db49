"""`params`, `tags` and `key` of a run: what is compiled of them, and problems with a caret under what is wrong."""

from __future__ import annotations

import pytest

from bridge.core.model import Context, Meta
from bridge.language.view import View

BODY = b'{"id":"o-1","n":1.10,"tier":"gold"}'
VIEW = View(BODY, None, Context("inbox", lambda _: Meta(position="0", key=b"k"), 0.0))


def run(good, block):
    """The good configuration with another block for its run, and something in front to shift the columns."""
    return good.split("        run:")[0] + f"        run: {{target: shell, job: j, {block}}}\n"


@pytest.fixture
def watcher(load_text, good):
    def load(block):
        (found,) = load_text(run(good, block)).watchers
        return found

    return load


# What is compiled


def test_params_tags_and_a_key_are_compiled(watcher):
    found = watcher(
        """params: {a: "${event.n}", b: 'x ${event.tier.upper()}', c: ["$$5", 1, "${meta.stream}"]}, """
        'tags: {z: "${event.tier}", a: "t-${event.id}", n: 5}, key: "${event.id}-${key}", key_ttl: 1h'
    )
    assert found.params.render(BODY, VIEW) == b'{"a":1.10,"b":"x GOLD","c":["$5",1,"inbox"]}'
    assert found.tags.render(BODY, VIEW) == b'{"a":"t-o-1","n":5,"z":"gold"}'
    assert found.key.render(BODY, VIEW) == "o-1-k"


def test_params_and_tags_that_are_not_written_are_empty(watcher):
    found = watcher("params: {}")
    assert found.params.constant == b"{}"
    assert found.tags.constant == b"{}"
    assert found.key is None


def test_what_python_yields_is_a_root_for_a_trigger_alone(load_text, problem_of, good):
    block = 'params: {a: "${trigger.a}"}, tags: {b: "x ${trigger.b}"}, key: "${trigger.c}", key_ttl: 1h'
    text = run(good, block)
    with_trigger = text.replace("match: {region: [eu, uk]}", "trigger: my.Big")
    (found,) = load_text(with_trigger).watchers
    assert found.params.render_trigger(BODY, None, {"a": 1}) == b'{"a":1}'
    assert found.tags.render_trigger(BODY, None, {"b": 1}) == b'{"b":"x 1"}'
    assert found.key.render_trigger(BODY, None, {"c": 1}) == "1"
    assert "what a Python watcher yields" in problem_of(run(good, 'params: {a: "${trigger.a}"}'))


# Problems


def shown(problem):
    """The part of the line that the carets stand under."""
    line, carets = problem.split("\n")[1:3]
    start = carets.index("^")
    return line[start : start + carets.count("^")]


@pytest.mark.parametrize(
    ("block", "marked", "words"),
    [
        ('params: {a: "${evnt.id}"}', "evnt", "did you mean `event`?"),
        ('params: {a: "order ${event.id} of ${evnt.id}"}', "evnt", "did you mean `event`?"),
        ("params: {a: 'order ''${event.id}'' of ${evnt.id}'}", "evnt", "did you mean `event`?"),
        (r'params: {a: "${event.id == \"x\" && evnt.id}"}', "evnt", "did you mean `event`?"),
        ("params: {a: {b: [1, '${event.id.uper()}']}}", "uper", "upper"),
        ('params: {a: "${}"}', "}", "an empty expression"),
        ('params: {a: "x ${event.id"}', "$", "has no closing `}`"),
        ("params: {a: 'x ${event.id + \"b}'}", '"', "no closing quote"),
        ('params: {a: "x $event.id"}', "$event", "lacks its braces"),
        ('params: {"${event.id}": 1}', '"${event.id}"', "a param's name can't be an expression"),
        ('tags: {a: "t ${evnt.id}"}', "evnt", "did you mean `event`?"),
        ('tags: {"${event.id}": 1}', '"${event.id}"', "a tag's name can't be an expression"),
        ('tags: {a: "${[event.id, 1]}"}', "[event.id, 1]", "is a list"),
        ('key: "a-${evnt.id}", key_ttl: 1h', "evnt", "did you mean `event`?"),
        ('key: "all", key_ttl: 1h', "key", "the same for every event"),
        ('key: "${1 + 1}", key_ttl: 1h', "key", "the same for every event"),
        ("key: 5, key_ttl: 1h", "5", "`key`: expected text, saw the number 5"),
        ('key: ["${event.id}"], key_ttl: 1h', "[", "`key`: expected text, saw a list"),
        ("tags: {a: [1]}", "[", "`a`: expected text, a number, true or false"),
        ("tags: {a: }", "a", "the tag `a` has no value"),
    ],
)
def test_a_problem_is_marked_where_it_stands(problem_of, good, block, marked, words):
    problem = problem_of(run(good, block))
    assert words in problem
    assert shown(problem).startswith(marked)
    assert problem.split("\n")[1].count(block) == 1


@pytest.mark.parametrize(
    "block",
    ["params: {a: {b: 'x ${HOME}'}}", 'tags: {a: "${HOME:-x}"}', 'key: "${event.id}-${HOME}", key_ttl: 1h',
     "params: {a: '${file:/run/x}'}", "params: {a: '${X} ${evnt.b}'}", "params: {a: '${HOME'}",
     "params: {a: \"${HOME:-it's}\"}"],
)  # fmt: skip
def test_the_environment_is_not_to_be_had_in_an_expression(problem_of, good, block):
    problem = problem_of(run(good, block), env={"HOME": "/root"})
    assert "is an expression over the event, and not a variable of the environment" in problem
    assert "/root" not in problem


def test_the_words_of_the_environment_may_stand_in_the_texts_of_an_expression(watcher):
    found = watcher("""params: {a: '${event.id == "${HOME}" ? 1 : 2} $${HOME}'}""")
    assert found.params.render(BODY, VIEW) == b'{"a":"2 ${HOME}"}'


def test_all_problems_are_found_at_once(problems_of, good):
    params = "params: {a: '${a.x} ${b.y}', b: '${HOME}', c: '${event.c'}"
    block = f"{params}, tags: {{t: '${{evnt.x}}', u: []}}, key: 'k', key_ttl: 1h"
    problems = "\n".join(problems_of(run(good, block)))
    for words in ("`a`", "`b`", "environment", "closing `}`", "expected text", "same for every event"):
        assert words in problems


@pytest.mark.parametrize("text", ["hunter2 ${evnt.a}", "${hunter2}", "hunter2 ${", "hunter2 $event"])
@pytest.mark.parametrize(
    "block", ["params: {password: '%s'}", "params: {credentials: {a: ['%s']}}", "tags: {token: '%s'}"]
)
def test_no_problem_shows_a_secret(problem_of, good, block, text):
    rendered = problem_of(run(good, block % text))
    if text != "${hunter2}":  # says where a secret is, and is none
        assert "hunter2" not in rendered
    assert "***" in rendered or text == "${hunter2}"
