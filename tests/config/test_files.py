"""One file, a folder of files, and what can be wrong with them before a line is read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bridge.config.files import files_of, suites_of
from bridge.config.load import ConfigError, load

STORE = "store: sqlite:///headrace.db\n"


def failed(paths, kinds) -> str:
    with pytest.raises(ConfigError) as raised:
        load(paths, kinds=kinds, env={})
    return str(raised.value)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_folder_is_read_in_the_order_of_its_names_and_merged(load_text, good):
    store, rest = good.split("targets:")
    targets, streams = ("targets:" + rest).split("streams:")
    config = load_text(
        {"b.yml": "streams:" + streams, "a.yaml": store, "c.yaml": targets, "notes.txt": "{{", ".x.yaml": "{"}
    )
    assert config.files == ("conf/a.yaml", "conf/b.yml", "conf/c.yaml")
    assert [w.id for w in config.watchers] == ["eu_orders"]


@pytest.mark.parametrize("section", ["streams", "targets", "assets"])
def test_a_name_in_two_files_names_both_places(problem_of, good, section):
    name = {"streams": "inbox", "targets": "shell", "assets": "eu_orders"}[section]
    second = f"{section}:\n  {name}: {{}}\n"
    line = good.splitlines().index(f"  {name}:") + 1
    assert problem_of({"a.yaml": good, "b.yaml": second}) == (
        f"conf/b.yaml:2:3: {section}.{name} is defined twice: the first is at conf/a.yaml:{line}:3\n"
        f"   2 |   {name}: {{}}\n"
        f"     |   {'^' * len(name)}\n"
        "   give one of them another name"
    )


def test_a_store_in_two_files_names_both_places(problem_of, good):
    shown = problem_of({"a.yaml": good, "b.yaml": STORE})
    assert shown.startswith("conf/b.yaml:1:1: `store` is defined twice: the first is at conf/a.yaml:1:1\n")


def test_a_file_that_is_broken_hides_no_problem_of_the_others_and_makes_up_none(problems_of, good):
    broken = "streams:\n  inbox: {\n"
    rest = good.split("streams:")[0] + "assets:" + good.split("assets:")[1].replace("job:", "jbo:")
    found = problems_of({"a.yaml": rest, "b.yaml": broken})
    assert [p.splitlines()[0] for p in found] == [
        "conf/a.yaml:13:11: `jbo` is not a key of assets.eu_orders.watchers[].run",
        "conf/b.yaml:2:11: the text ends in the middle of this",
    ]


def test_an_empty_file_among_others_is_refused(problem_of, good):
    assert problem_of({"a.yaml": good, "b.yaml": "# streams:\n"}).startswith("conf/b.yaml: the file is empty")


def test_a_file_that_is_named_twice_is_read_once(kinds, good):
    Path("c.yaml").write_text(good)
    assert load([Path("c.yaml"), Path("."), Path("./c.yaml")], kinds=kinds, env={}).files == ("c.yaml",)


def test_no_path_at_all_is_refused(kinds):
    assert failed([], kinds).startswith("configuration: no file was given")


def test_a_missing_file_says_where_it_was_looked_for(kinds, tmp_path):
    assert failed([Path("nope.yaml")], kinds) == f"nope.yaml: there is no such file\n   looked in {tmp_path}"


def test_a_folder_without_yaml_is_refused(kinds):
    Path("conf").mkdir()
    Path("conf/readme.md").write_text("x")
    assert failed([Path("conf")], kinds).startswith("conf: a folder without any *.yaml or *.yml file")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_says_so(kinds):
    Path("c.yaml").write_text(STORE)
    Path("c.yaml").chmod(0)
    assert "c.yaml: can't be read: Permission denied" in failed([Path("c.yaml")], kinds)


def test_a_path_that_no_system_knows_is_a_problem(kinds):
    assert "can't be read" in failed([Path("a\0b")], kinds)
    assert "can't be read" in failed([Path("x" * 5000)], kinds)


def test_a_file_over_four_mebibytes_is_refused(kinds):
    Path("c.yaml").write_text("# " + "x" * (4 * 1024 * 1024))
    assert failed([Path("c.yaml")], kinds) == "c.yaml: larger than 4MiB\n   split it into a folder of files"


def test_bytes_that_are_not_utf_8_have_a_place(kinds):
    Path("c.yaml").write_bytes("store: x\nname: 'Gr\u00fc\u00dfe'\n".encode("latin-1"))
    assert failed([Path("c.yaml")], kinds) == (
        "c.yaml:2:10: not UTF-8: byte 0xfc\n"
        "   2 | name: 'Gr·\n"
        "     |          ^\n"
        "   save the file with the encoding UTF-8"
    )


def test_utf_16_is_not_utf_8(kinds):
    Path("c.yaml").write_text(STORE, encoding="utf-16")
    assert failed([Path("c.yaml")], kinds).startswith("c.yaml:1:1: not UTF-8")


# The blocks as a whole -----------------------------------------------------------------------------------------------


def test_a_store_is_needed(problem_of, good):
    assert problem_of(good.replace(STORE, "")) == (
        "c.yaml: `store` is missing\n   add a line like `store: sqlite:///headrace.db`"
    )


@pytest.mark.parametrize("section", ["streams", "targets", "assets"])
def test_a_block_whose_content_is_commented_out_is_refused(problems_of, section):
    assert (
        f"c.yaml:2:1: `{section}`: expected a mapping, saw nothing\n"
        f"   2 | {section}:\n"
        f"     | {'^' * len(section)}\n"
        "   remove it, or define something below it"
    ) in problems_of(f"{STORE}{section}:\n#  a: {{}}\n")


def test_a_store_may_be_a_url_or_a_mapping(load_text, good):
    assert load_text(good).store.url == "sqlite:///headrace.db"
    longer = (
        "store:\n  url: sqlite:////var/lib/h.db\n  max_size: 2GiB\n  retention: {finished: 7d}\n  dedupe_horizon: 40d\n"
    )
    store = load_text(good.replace(STORE, longer)).store
    assert (store.url, store.max_size) == ("sqlite:////var/lib/h.db", 2 * 1024**3)
    assert (store.retention.finished, store.retention.open) == (7 * 86400, 90 * 86400)
    assert store.dedupe_horizon == 40 * 86400


@pytest.mark.parametrize(
    ("store", "words"),
    [
        ("sqlite://headrace.db", "three slashes"),
        ("headrace.db", "like sqlite:///headrace.db"),
        ("postgresql://u@h/db", "a store on PostgreSQL is known, but not available in this version"),
        ("{max_size: 1GiB}", "`url` is missing in store"),
        ("{url: sqlite:///x.db, dedupe_horizon: 1s}", "expected a duration of at least 1h"),
        ("{url: sqlite:///x.db, encryption: x}", "`encryption` is known, but not available in this version"),
        ("[a]", "expected a URL or a mapping, saw a list"),
        ("5", "expected text that is not empty, saw the number 5"),
        ('""', "expected text that is not empty"),
    ],
)
def test_a_store_that_can_not_be_is_refused(problem_of, good, store, words):
    assert words in problem_of(good.replace("sqlite:///headrace.db", store, 1))


# Tests ---------------------------------------------------------------------------------------------------------------


def test_a_configuration_may_hold_tests_whatever_is_in_them(load_text, good):
    assert load_text(good + "tests:\n  - message: {body: {password: '${NOT_A_VARIABLE}', a: .inf}}\n").watchers
    assert load_text({"a.yaml": good + "tests: []\n", "b.yaml": "tests: [{a: 1}]\n"}).watchers


@pytest.mark.parametrize(
    ("tests", "message"),
    [
        ("{a: 1}", "`tests`: expected a list of tests, saw a mapping"),
        ("", "`tests`: expected a list of tests, saw nothing"),
        ("[a]", "`tests`: expected a mapping, saw text 'a'"),
    ],
)
def test_tests_are_a_list_of_mappings(problem_of, good, tests, message):
    assert message in problem_of(good + f"tests: {tests}\n")


def test_the_suites_of_a_folder_are_those_with_the_name_of_one():
    Path("conf").mkdir()
    for name in ("b_test.yml", "a_test.yaml", "orders.yaml", "test.yaml", ".x_test.yaml", "x_test.json"):
        Path("conf", name).write_text("{}")
    assert suites_of(Path("conf")) == [Path("conf/a_test.yaml"), Path("conf/b_test.yml")]
    assert suites_of(Path("conf/orders.yaml")) == [Path("conf/orders.yaml")]
    assert files_of(Path("conf")) == [Path("conf/orders.yaml"), Path("conf/test.yaml")]
