"""YAML 1.2: what is read, and what is refused with a place and plain words."""

from __future__ import annotations

import pytest


def test_a_problem_is_shown_with_its_line_a_caret_and_what_to_do(problem_of, good):
    assert problem_of(good.replace("    command:", "    comand:")) == (
        "c.yaml:5:5: `comand` is not a key of targets.shell\n"
        "   5 |     comand: [./run.sh]\n"
        "     |     ^^^^^^\n"
        "   did you mean `command`?"
    )


def test_all_problems_are_reported_at_once_in_the_order_of_the_file(problems_of, good):
    text = good.replace("kind: command", "kind: comand").replace("path:", "pth:").replace("target: shell", "target: x")
    assert [p.split(":")[1] for p in problems_of(text)] == ["4", "9", "16"]


def test_no_and_on_are_text(load_text, good):
    config = load_text(good.replace("[eu, uk]", "[no, on, NO, 1_000, 0755, 2024-01-01, 1:30]"))
    assert config.watchers[0].condition.values == ("no", "on", "NO", "1_000", "0755", "2024-01-01", "1:30")


def test_numbers_bools_and_text_keep_their_type(load_text, good):
    config = load_text(good.replace("[eu, uk]", '[1, 2.5, true, "3", -4, 1e3]'))
    assert config.watchers[0].condition.values == (1, 2.5, True, "3", -4, 1000.0)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("a:\n\tb: 1\n", "2:1", "a tab"),
        ("a: b: c\n", "1:5", "a colon that does not fit here"),
        ("a: 1\nb\nc: 2\n", "2:1", "a key without a colon"),
        ("a:\n  b: 1\n c: 2\n", "3:2", "does not line up"),
        ('a: "abc\nb: 2\n', "1:4", "a quote that is never closed"),
        ("a: 'it's'\n", "1:8", "more text after the end of a value"),
        ("a: {b: 1\nc: 2\n", "1:4", "a { that is not closed by }"),
        ("a: [b, c\nd: 2\n", "1:4", "a [ that is not closed by ]"),
        ("q: {a: ${X}}\n", "1:9", "a bracket inside of text"),
        ("a: @x\n", "1:4", "text can't start with @"),
        ('a: "\\d"\n', "1:6", "\\d means nothing in double quotes"),
        ("a: 1\n- b\n", "2:1", "does not line up"),
        ("a: - b\n", "1:4", "a list can't begin here"),
        ("a: |x\n  b\n", "1:5", "the text begins on the next line"),
        ("a: }\n", "1:4", "} where a value should be"),
        ("a: *nope\n", "1:4", "there is no anchor &nope"),
        ("a: *\n", "1:5", "start the name of an anchor"),
        ("a: 1\n---\nb: 2\n", "2:1", "a second document"),
        ("a: !foo 1\n", "1:4", "YAML tags"),
        ("a: !!python/object:os.system 1\n", "1:4", "YAML tags"),
        ("a: !x!y 1\n", "1:4", "YAML tags"),
        ("a: ! 1\n", "1:4", "YAML tags"),
        ("a: !m {b: 1}\n", "1:4", "YAML tags"),
        ("%YAML 1.1\n---\na: no\n", "1:1", "YAML 1.2"),
        ("%YAML 3.0\n---\na: no\n", "1:1", "not YAML 1.2"),
        ("%TAG ! tag:x,2000:\n---\na: 1\n", "1:1", "YAML tags"),
        ("a: b\x07c\n", "1:5", "a control character (0x07)"),
        ('a: "\\uD800"\n', "1:4", "half a surrogate pair"),
        ('a: "x\\0"\n', "1:4", "the character U+0000"),
        ('a: "\\UFFFFFFFF"\n', "1:1", "is not valid YAML"),
        ("? [a]\n: 1\n", "1:3", "a key must be a single text"),
        ("a: &x 1\nb: &x 2\n", "2:4", "the anchor &x is there twice"),
        ("a: &x [*x]\n", "1:8", "&x contains itself"),
        ("<<: 1\n", "1:5", "`<<` takes a mapping"),
    ],
)
def test_broken_yaml_gets_a_place_and_plain_words(problems_of, text, place, words):
    assert [p for p in problems_of(text) if p.startswith(f"c.yaml:{place}: ") and words in p]


def test_a_tab_is_made_visible(problem_of):
    assert problem_of("store:\n\turl: x\n") == (
        "c.yaml:2:1: a tab, where YAML takes only spaces\n   2 | →url: x\n     | ^\n   indent with spaces"
    )


def test_the_end_of_the_text_is_shown_on_its_last_line(problem_of):
    assert problem_of("a:\n  - b\n  - {c: 1,\n\n\n").startswith("c.yaml:3:11: the text ends in the middle")


# Duplicate keys ------------------------------------------------------------------------------------------------------


def test_a_key_that_is_there_twice_names_both_lines(problem_of, good):
    text = good + "    watchers:\n      - {stream: inbox, run: {target: shell, job: x}}\n"
    assert problem_of(text) == (
        "c.yaml:19:5: `watchers` is there twice, in lines 12 and 19\n"
        "   19 |     watchers:\n"
        "      |     ^^^^^^^^\n"
        "   remove one of them, or merge them"
    )


def test_a_key_that_is_there_twice_in_a_nested_filter_is_found(problem_of, good):
    text = good.replace("{region: [eu, uk]}", "{a: {region: eu, region: uk}}")
    assert "`region` is there twice, in lines 14 and 14" in problem_of(text)


def test_a_quoted_key_is_the_same_key(problem_of, good):
    assert "`region` is there twice" in problem_of(good.replace("{region:", '{"region": eu, region:'))


def test_two_merge_keys_in_one_mapping_are_refused(problem_of, good):
    text = good.replace("match: {region: [eu, uk]}", "match: {<<: {a: 1}, <<: {b: 1}}")
    assert "`<<` is there twice" in problem_of(text)


def test_a_merge_key_may_be_overridden_on_purpose(load_text, good):
    text = good + (
        "  us_orders:\n    watchers:\n"
        "      - &us {stream: inbox, name: a, match: {region: us, kind: x}, run: {target: shell, job: us}}\n"
        "      - {<<: *us, name: b, match: {region: ca}}\n"
    )
    last = load_text(text).watchers[-1]
    assert (last.id, last.job, last.written["match"]) == ("us_orders.b", "us", {"region": "ca"})


def test_the_first_of_several_merged_mappings_wins(load_text, good):
    text = good.replace("match: {region: [eu, uk]}", "match: {<<: [{a: 1}, {a: 2, b: 3}], c: 4}")
    assert load_text(text).watchers[0].written["match"] == {"c": 4, "a": 1, "b": 3}


def test_a_quoted_merge_key_is_a_key(load_text, good):
    assert (
        load_text(good.replace("{order:", '{"<<":')).watchers[0].params.render(b'{"order_id":1}', None) == b'{"<<":1}'
    )


def test_a_wrong_key_that_comes_in_through_an_alias_is_reported_once_where_it_stands(problem_of, good):
    text = good.split("      - stream")[0] + (
        "      - name: a\n        stream: inbox\n        run: &run {target: shell, jbo: x}\n"
        "      - {stream: inbox, name: b, run: *run}\n"
    )
    assert problem_of(text).startswith("c.yaml:15:35: `jbo` is not a key of")


# Bounds --------------------------------------------------------------------------------------------------------------


def test_an_alias_bomb_is_refused_before_it_grows(problem_of):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert "the aliases of this file stand for more than 200,000 values" in problem_of("\n".join(lines))


@pytest.mark.parametrize("text", ["[" * 100 + "]" * 100, "a: " + "{b: " * 100 + "}" * 100, "- " * 100 + "x"])
def test_nesting_has_a_bound(problems_of, text):
    assert "nested deeper than 64 levels" in problems_of(text)[0]


def test_nesting_through_aliases_has_the_same_bound(problem_of):
    deep = "[" * 40 + "]" * 40
    assert "with what *x stands for, nested deeper than 64" in problem_of(f"a: &x {deep}\nb: {'[' * 40}*x{']' * 40}\n")


def test_a_long_line_is_cut_around_the_caret(problem_of, good):
    text = good.replace("params: {", "params: {" + ", ".join(f"p{n}: {n}" for n in range(200)) + ", bad: .inf, ")
    shown = problem_of(text).splitlines()
    assert len(shown[1]) < 200
    assert shown[1][shown[2].index("^") :].startswith(".inf")


def test_the_caret_stands_right_below_wide_characters(problem_of, good):
    shown = problem_of(good.replace("{region: [eu, uk]}", "{名前: x, b: []}")).splitlines()
    assert shown[1] == "   14 |         match: {名前: x, b: []}"
    assert shown[2] == "      |" + " " * 26 + "^"  # the two characters take four columns


# The whole file ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "~\n", "\ufeff"])
def test_an_empty_file_is_refused(problem_of, text):
    assert problem_of(text).startswith("c.yaml: the file is empty")


@pytest.mark.parametrize(
    ("text", "saw"), [("- a\n", "saw a list"), ("a:1\n", "saw text 'a:1'"), ("5", "saw the number 5")]
)
def test_a_file_that_is_no_mapping_is_refused(problem_of, text, saw):
    assert f"expected a mapping with store, streams, targets and assets, {saw}" in problem_of(text)


def test_a_byte_order_mark_and_windows_line_ends_are_fine(load_text, good):
    assert len(load_text("\ufeff" + good.replace("\n", "\r\n")).watchers) == 1
