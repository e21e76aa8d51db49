"""`${...}` on parsed scalars, once, and never silently empty."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bridge.config.load import ConfigError, load

ENV = {
    "NAME": "inbox",
    "PORT": "8080",
    "EMPTY": "",
    "YES": "true",
    "TRICKY": "a: b #c ${NAME} $$ [x]\n- *y",
    "WAIT": "90s",
    "HEADRACE_LOG_LEVEL": "info",
}


@pytest.fixture
def user(load_text, good):
    """The value of a text field for what is written."""

    def user(written: str, **options) -> str:
        text = good.replace("path: inbox", f"path: inbox\n    login: {{user: '{written}'}}")
        return load_text(text, env=ENV, **options).streams["inbox"].options.login.user

    return user


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("${NAME}", "inbox"),
        ("a-${NAME}-${PORT}-z", "a-inbox-8080-z"),
        ("pa$USERword", "pa$USERword"),
        ("$NAME", "$NAME"),
        ("$", "$"),
        ("a$", "a$"),
        ("$$", "$"),
        ("$${LITERAL}", "${LITERAL}"),
        ("$$${NAME}", "$inbox"),
        ("$$$NAME", "$$NAME"),
        ("${MISSING:-def}", "def"),
        ("${MISSING:-}", ""),
        ("${MISSING:-a:-b $x}", "a:-b $x"),
        ("${EMPTY:-def}", "def"),
        ("${NAME:-def}", "inbox"),
        ("${EMPTY}", ""),
        ("${TRICKY}", "a: b #c ${NAME} $$ [x]\n- *y"),
        ("{NAME}", "{NAME}"),
        ("%{NAME}", "%{NAME}"),
    ],
)
def test_only_the_three_forms_are_substituted(user, written, value):
    assert user(written) == value


@pytest.mark.parametrize(
    ("written", "part", "message", "hint"),
    [
        ("${MISSING}", "${MISSING}", "the environment variable MISSING is not set",
         "Set it, or give a default: ${MISSING:-…}"),
        ("x ${NAMEE} y", "${NAMEE}", "the environment variable NAMEE is not set",
         "did you mean ${NAME}? Set it, or give a default: ${NAMEE:-…}"),
        ("${}", "${}", "${} is not understood", None),
        ("${ NAME }", "${ NAME }", "${ NAME } is not understood", None),
        ("${NAME-x}", "${NAME-x}", "${NAME-x} is not understood", None),
        ("${NAME:?x}", "${NAME:?x}", "${NAME:?x} is not understood", None),
        ("${env:NAME}", "${env:NAME}", "${env:NAME} is not understood", None),
        ("a ${NAME", "${NAME", "a ${ without its }", None),
        ("${A:-${NAME}}", "${A:-${NAME}", "the default of ${A:-…} holds another variable", "a default is plain text"),
        ("${file:}", "${file:}", "${file:} names no file", None),
        ("${file:nope}", "${file:nope}", "${file:nope} can't be read: No such file or directory", ...),
        ("${file:.}", "${file:.}", "${file:.} can't be read: Is a directory", ...),
    ],
)  # fmt: skip
def test_what_can_not_be_substituted_names_the_variable_and_the_place(problem_of, good, written, part, message, hint):
    line = f"    login: {{user: '{written}'}}"
    shown = problem_of(good.replace("    path: inbox", f"    path: inbox\n{line}"), env=ENV).splitlines()
    column = line.index(part) + 1
    assert shown[0] == f"c.yaml:10:{column}: {message}"
    assert shown[2] == "      |" + " " * column + "^" * len(part)
    expected = "what works is ${NAME}, ${NAME:-default} and ${file:PATH}; $$ stands for a $" if hint is None else hint
    assert hint is ... or shown[3] == f"   {expected}"


def test_a_value_can_not_change_the_structure(load_text, good):
    env = {"INJECTED": "x\n    lines: true\n    on_done: delete", "QUOTE": '"}, {"'}
    options = load_text(good.replace("path: inbox", 'path: "${INJECTED}${QUOTE}"'), env=env).streams["inbox"].options
    assert (options.path, options.lines) == (env["INJECTED"] + env["QUOTE"], False)


def test_a_value_from_a_variable_is_held_to_the_type_that_is_asked_for(load_text, good):
    text = good.replace(
        "path: inbox",
        "path: inbox\n    max_attempts: ${PORT}\n    lines: ${YES}\n    ack_timeout: ${WAIT}\n"
        '    login: {user: "${PORT}"}\n    weight: ${W:-0.5}\n    on_done: ${D:-move}',
    )
    stream = load_text(text, env=ENV).streams["inbox"]
    assert (stream.max_attempts, stream.options.lines, stream.ack_timeout) == (8080, True, 90.0)
    assert (stream.options.login.user, stream.options.weight) == ("8080", 0.5)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "max_attempts: ${NAME}",
            "`max_attempts`: expected a whole number of at least 1, but ${NAME} holds something else",
        ),
        ("max_attempts: ${EMPTY}", "`max_attempts`: expected a whole number of at least 1, but ${EMPTY} is empty"),
        (
            "max_attempts: ${A:-zero}",
            "`max_attempts`: expected a whole number of at least 1, but ${A} holds something else",
        ),
        ("lines: ${PORT}", "`lines`: expected true or false, but ${PORT} holds something else"),
        (
            "ack_timeout: ${PORT}",
            "`ack_timeout`: expected a duration of more than zero, but ${PORT} holds something else",
        ),
        ("patterns: ${NAME}", "`patterns`: expected a list, but ${NAME} holds something else"),
        ("on_done: ${NAME}", "`on_done`: expected move or delete, but ${NAME} holds something else"),
    ],
)
def test_a_value_of_the_wrong_type_names_the_variable_and_not_the_value(problem_of, good, line, message):
    shown = problem_of(good.replace("path: inbox", f"path: out\n    {line}"), env=ENV)
    assert shown.splitlines()[0].split(": ", 1)[1] == message
    assert "inbox" not in shown
    assert "8080" not in shown


def test_keys_are_not_substituted(problems_of, good):
    assert any(
        "`${NAME}` is not a key of streams.inbox" in p for p in problems_of(good.replace("path:", "${NAME}:"), env=ENV)
    )


def test_variables_work_in_references_filters_and_arguments(load_text, good):
    text = good.replace("stream: inbox", "stream: ${NAME}").replace("[eu, uk]", '["${PORT}", 5]')
    watcher = load_text(text, env=ENV).watchers[0]
    assert watcher.stream == "inbox"
    assert watcher.condition.values == ("8080", 5)  # without a type to be held to, text stays text


def test_a_reference_from_a_variable_that_leads_nowhere_names_the_variable(problem_of, good):
    shown = problem_of(good.replace("stream: inbox", "stream: ${PORT}"), env=ENV)
    assert "there is no stream *** from ${PORT}" in shown
    assert "8080" not in shown


# Files ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "value"),
    [("s3cret", "s3cret"), ("s3cret\n", "s3cret"), ("s3cret\r\n", "s3cret"), ("s3cret\n\n", "s3cret\n"), ("", ""),
     (" a\nb ", " a\nb "), ("${NAME} $$", "${NAME} $$"), ("x" * 65536, "x" * 65536)],
)  # fmt: skip
def test_a_file_gives_its_text_less_one_newline(user, tmp_path, content, value):
    (tmp_path / "secret").write_bytes(content.encode())
    assert user("${file:secret}") == value
    assert user(f"${{file:{tmp_path}/secret}}") == value


def test_a_relative_file_is_looked_for_beside_the_yaml(kinds, good, tmp_path, monkeypatch):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "secret").write_text("inbox")
    (tmp_path / "conf" / "c.yaml").write_text(good.replace("path: inbox", 'path: "${file:secret}"'))
    monkeypatch.chdir("/")
    assert load([tmp_path / "conf"], kinds=kinds, env={}).streams["inbox"].options.path == "inbox"


@pytest.mark.parametrize("content", [b"hunter2-" + b"x" * 65536, b"hunter2-\xff\xfe"])
def test_a_file_that_is_too_large_or_no_text_is_refused_without_its_content(problem_of, good, tmp_path, content):
    (tmp_path / "secret").write_bytes(content)
    shown = problem_of(good.replace("path: inbox", 'path: "${file:secret}"'))
    assert "${file:secret}" in shown
    assert "hunter2" not in shown


@pytest.mark.timeout(5)
def test_a_pipe_is_no_secret_file_and_hangs_nobody(problem_of, good, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    text = good.replace("path: inbox", 'path: "${file:pipe}"')
    assert "${file:pipe} can't be read: not a regular file" in problem_of(text)


@pytest.mark.parametrize("value", ["a\0b", "a\udcffb"])
def test_bytes_that_nothing_can_store_do_not_come_in(problem_of, good, value):
    shown = problem_of(good.replace("path: inbox", "path: ${ODD}"), env={"ODD": value})
    assert "${ODD} holds bytes that are no text" in shown


@pytest.mark.parametrize("written", ["${event.job}", "x-${ event.a }", "${trigger.x}", "${meta.key}"])
def test_an_expression_outside_of_params_is_told_where_it_works(problem_of, good, written):
    shown = problem_of(good.replace("job: process", f"job: '{written}'"))
    assert "expressions over the event work in `params`" in shown


def test_whoever_reads_secrets_may_be_replaced(kinds, good, tmp_path):
    (tmp_path / "c.yaml").write_text(good.replace("path: inbox", 'path: "${file:vault/x}"'))
    asked: list[Path] = []

    def read(path: Path) -> str:
        asked.append(path)
        return "from-the-vault\n"

    config = load([tmp_path / "c.yaml"], kinds=kinds, env={}, read_secret=read)
    assert config.streams["inbox"].options.path == "from-the-vault"
    assert asked == [tmp_path / "vault" / "x"]
    with pytest.raises(ConfigError, match="larger than 64KiB"):
        load([tmp_path / "c.yaml"], kinds=kinds, env={}, read_secret=lambda path: "x" * 65537)


# Names of ours in the environment ------------------------------------------------------------------------------------


def test_a_variable_with_our_prefix_that_nobody_knows_is_a_warning(load_text, good):
    env = {"HEADRACE_LOG_LEVL": "debug", "HEADRACE_LOG_LEVEL": "info", "HEADRACE_ZZZZ": "s3cret", "OTHER": "x"}
    assert [w.render() for w in load_text(good, env=env).warnings] == [
        "environment: nothing reads the variable HEADRACE_LOG_LEVL\n   did you mean HEADRACE_LOG_LEVEL?",
        "environment: nothing reads the variable HEADRACE_ZZZZ\n   the configuration does not use it",
    ]


def test_a_variable_that_the_configuration_uses_is_known(load_text, good):
    text = good.replace("path: inbox", "path: ${HEADRACE_INBOX}")
    assert load_text(text, env={"HEADRACE_INBOX": "inbox"}).warnings == ()
