"""`include`: other files and folders, relative to the file that names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.config.load import load


@pytest.fixture
def parts(good: str) -> dict[str, str]:
    """The good configuration, cut into its blocks."""
    store, rest = good.split("targets:")
    targets, rest = rest.split("streams:")
    streams, assets = rest.split("assets:")
    return {
        "store": store,
        "targets": "targets:" + targets,
        "streams": "streams:" + streams,
        "assets": "assets:" + assets,
    }


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_files_and_folders_are_read_as_one_document(load_text, parts, tmp_path):
    write(tmp_path, {
        "more/streams.yaml": parts["streams"],
        "more/assets/eu.yml": parts["assets"],
        "more/assets/.hidden.yaml": "{",
        "more/assets/eu_test.yaml": "tests: []\n",
        "targets.yaml": parts["targets"],
    })  # fmt: skip
    config = load_text(parts["store"] + "include: [more/streams.yaml, more/assets, targets.yaml]\n")
    assert config.files == ("c.yaml", "more/streams.yaml", "more/assets/eu.yml", "targets.yaml")
    assert [w.id for w in config.watchers] == ["eu_orders"]


def test_an_included_file_includes_relative_to_itself(load_text, parts, tmp_path):
    write(tmp_path, {
        "a/b.yaml": parts["targets"] + "include: [../c/d.yaml]\n",
        "c/d.yaml": parts["streams"] + "include: [e.yaml]\n",
        "c/e.yaml": parts["assets"],
    })  # fmt: skip
    config = load_text(parts["store"] + "include: [a/b.yaml]\n")
    assert config.files == ("c.yaml", "a/b.yaml", "a/../c/d.yaml", "a/../c/e.yaml")


def test_a_file_is_read_once_and_a_circle_does_no_harm(kinds, parts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rest = parts["streams"] + parts["assets"]
    write(tmp_path, {
        "a.yaml": parts["store"] + "include: [b.yaml, ./b.yaml, a.yaml, .]\n",
        "b.yaml": parts["targets"] + rest + "include: [a.yaml, ../" + tmp_path.name + "/b.yaml]\n",
    })  # fmt: skip
    assert load([Path("a.yaml"), Path("b.yaml")], kinds=kinds, env={}).files == ("a.yaml", "b.yaml")


def test_a_variable_may_name_what_is_included(load_text, parts, tmp_path, good):
    write(tmp_path, {"eu.yaml": "".join(parts.values())})
    assert load_text("include: ['${REGION}.yaml']\n", env={"REGION": "eu"}).files == ("c.yaml", "eu.yaml")


def test_a_file_that_is_missing_is_a_problem_where_it_is_named(problem_of, good, tmp_path):
    assert problem_of(good + "include:\n  - nope.yaml\n") == (
        "c.yaml:20:5: `include`: nope.yaml: there is no such file\n"
        "   20 |   - nope.yaml\n"
        "      |     ^^^^^^^^^\n"
        f"   looked in {tmp_path}"
    )


def test_what_a_missing_file_may_hold_is_not_missed(problem_of, good):
    text = good.replace("stream: inbox", "stream: elsewhere") + "include: [nope.yaml]\n"
    assert "there is no such file" in problem_of(text)


@pytest.mark.parametrize(
    ("include", "message"),
    [
        ("nope.yaml", "`include`: expected a list of files and folders, saw text 'nope.yaml'"),
        ("[5]", "`include`: expected text that is not empty, saw the number 5"),
        ("[[a]]", "`include`: expected text that is not empty, saw a list"),
        ("['${NOPE}']", "the environment variable NOPE is not set"),
        ("[empty]", "`include`: empty: a folder without any *.yaml or *.yml file"),
        ("[tests]", "`include`: tests: a folder without any *.yaml or *.yml file"),
        ("[tests/a_test.yaml]", "a test suite (*_test.yaml) is no part of a configuration"),
        ('["a\\u0000b"]', "U+0000"),
    ],
)  # fmt: skip
def test_other_entries_are_refused_where_they_stand(problem_of, good, tmp_path, include, message):
    (tmp_path / "empty").mkdir()
    write(tmp_path, {"tests/a_test.yaml": "tests: []\n"})
    shown = problem_of(good + f"include: {include}\n")
    assert shown.startswith("c.yaml:19:")
    assert message in shown


def test_a_name_in_two_files_names_both_places(problem_of, parts, good, tmp_path):
    write(tmp_path, {"more.yaml": parts["streams"]})
    shown = problem_of(good + "include: [more.yaml]\n")
    assert shown.startswith("more.yaml:2:3: streams.inbox is defined twice: the first is at c.yaml:7:3\n")


def test_problems_of_an_included_file_have_its_name(problem_of, parts, tmp_path):
    write(tmp_path, {"more/streams.yaml": parts["streams"].replace("path:", "pth:")})
    text = parts["store"] + parts["targets"] + parts["assets"] + "include: [more]\n"
    assert problem_of(text).startswith("more/streams.yaml:4:5: `pth` is not a key of streams.inbox\n")


def test_a_test_suite_is_never_taken_for_a_configuration(kinds, good, tmp_path, monkeypatch, problem_of):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"conf/a.yaml": good, "conf/a_test.yaml": "tests: []\n", "conf/b_test.yml": "{"})
    assert load([Path("conf")], kinds=kinds, env={}).files == ("conf/a.yaml",)
    from bridge.config.load import ConfigError

    with pytest.raises(ConfigError) as raised:
        load([Path("conf/a_test.yaml")], kinds=kinds, env={})
    assert str(raised.value) == (
        "conf/a_test.yaml: a test suite (*_test.yaml) is no part of a configuration\n"
        "   `headrace test` reads it; give it another name if it is a configuration"
    )
