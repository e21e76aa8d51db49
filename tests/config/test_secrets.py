"""Secrets: whatever is wrong, and wherever, no value of a secret field and no value of a variable is ever shown."""

from __future__ import annotations

import json

import pytest

from bridge.config.effective import effective
from bridge.config.load import ConfigError
from bridge.config.secrecy import is_secret_name, without_url_passwords

SECRET = "hunter2-XYZZY"


@pytest.mark.parametrize(
    "name",
    ["password", "PASSWORD", "db_password", "PGPASSWORD", "passwd", "passphrase", "secret", "client_secret",
     "clientSecret", "token", "apiToken", "api-token", "access_key", "X-Api-Key", "apikey", "API_KEY", "key",
     "private_key", "Authorization", "credentials", "AWS_SECRET_ACCESS_KEY", "sas", "signing_key", "DB_PASS"],
)  # fmt: skip
def test_names_that_sound_secret_are_secret(name):
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["user", "username", "path", "password_file", "token_url", "secret_name", "partition_key", "ordering_key",
     "key_ttl", "monkey", "passenger", "compass", "url", "max_attempts", "access_key_id", "", "a",
     "keyboard", "routing-key"],
)  # fmt: skip
def test_names_that_only_resemble_them_are_not(name):
    assert not is_secret_name(name)


def test_the_password_of_a_url_is_masked_wherever_it_is():
    assert without_url_passwords("x postgresql://me:pw@h/db and amqp://a:b@c y") == (
        "x postgresql://me:***@h/db and amqp://a:***@c y"
    )
    assert (
        without_url_passwords("http://localhost:8080/a@b sqlite:///x.db") == "http://localhost:8080/a@b sqlite:///x.db"
    )


@pytest.mark.parametrize(
    "text",
    [
        # on the line of another problem
        "    login: {user: a, password: SECRET, usr: b}",
        "    login: {password: SECRET}",
        "    login: {user: a, password: 'SECRET', usr: b}",
        '    login:\n      user: [x]\n      password: "SECRET"',
        # the secret value is the problem
        "    login: {user: a, password: [SECRET]}",
        "    login: {user: a, password: {SECRET: SECRET}}",
        "    login: {user: a, password: {x: SECRET}}",
        "    login: {user: a, password: 'a${SECRET}'}",
        "    login: {user: a, password: 'a${b-SECRET}c'}",
        "    login: {user: a, password: '${MISSING:?SECRET}'}",
        "    login: {user: a, pasword: SECRET}",
        "    api_key: SECRET",
        "    api_key: |\n      SECRET\n      SECRET",
        "    api_key: >-\n      x\n      SECRET",
        '    api_key: "x\n      SECRET"',
        # it came in through a variable
        "    on_done: ${VALUE}",
        "    settle: ${VALUE}",
        "    lines: x${VALUE}y",
        "    retry: ${VALUE}",
        "    path: missing-${VALUE}",
        "    kind: ${VALUE}",
        "    decode: ${VALUE}",
        # the password of a URL
        "    wrong: https://me:SECRET@host/x",
        # before there is a tree
        "    api_key: SECRET: x",
        "    api_key: 'SECRET",
        '    api_key: "SECRET\\q"',
        "    api_key: {SECRET",
        "    login: {user: a, password: SECRET, ]}",
        "    login:\n      password: |\n        SECRET\n       SECRET: y\n     x",
        "    password:\n      - x: SECRET: y",
        "    password: @SECRET",
        "    password:\n\tSECRET",
        "    api_key: [x, SECRET\n    b: c",
        "    api_key: *SECRET",
        "    api_key: !SECRET x",
        "    api_key: &SECRET x",
    ],
)
def test_no_problem_shows_a_secret(problems_of, good, text):
    config = good.replace("    kind: directory\n    path: inbox", f"    kind: directory\n    path: inbox\n{text}")
    if text.startswith(("    kind", "    path")):
        config = good.replace(
            "    " + text.split(":")[0].strip() + (": inbox" if "path" in text else ": directory"), text
        )
    rendered = "\n".join(problems_of(config.replace("SECRET", SECRET), env={"VALUE": SECRET}))
    assert SECRET not in rendered
    assert "XYZZY" not in rendered


@pytest.mark.parametrize(
    "watcher",
    [
        "stream: ${VALUE}, run: {target: shell, job: j}",
        "stream: inbox, run: {target: '${VALUE}', job: j}",
        "stream: inbox, id: 'a ${VALUE}', run: {target: shell, job: j}",
        "stream: inbox, trigger: '${VALUE}()', run: {target: shell, job: j}",
        "stream: inbox, match: {a: ['${VALUE}', '${VALUE}']}, run: {target: shell, job: j}",
        "stream: inbox, match: '${VALUE}', run: {target: shell, job: j}",
        "stream: inbox, enabled: '${VALUE}', run: {target: shell, job: j}",
        "stream: inbox, kwargs: {token: SECRET}, run: {target: shell, job: j}",
        "stream: inbox, run: {target: shell, job: j, params: {password: SECRET, x: '${x}'}}",
        "stream: inbox, run: {target: shell, job: j, tags: {password: [SECRET]}}",
        "stream: inbox, run: {target: shell, job: j, tags: {password: 'SECRET ${x}'}}",
    ],
)
def test_no_problem_of_a_watcher_shows_a_secret(problems_of, good, watcher):
    text = good.split("assets:")[0] + f"assets:\n  eu:\n    watchers:\n      - {{{watcher}}}\n".replace(
        "SECRET", SECRET
    )
    text = text.replace("${VALUE}, run", "'${VALUE}', run")
    rendered = "\n".join(problems_of(text, env={"VALUE": SECRET}))
    assert SECRET not in rendered


def test_a_password_of_digits_is_not_repeated_either(problem_of, good):
    shown = problem_of(good.replace("path: inbox", "path: inbox\n    login: {user: a, password: 31415926}"))
    assert shown == (
        "c.yaml:10:32: `password`: expected text, saw ***\n"
        "   10 |     login: {user: a, password: ***}\n"
        "      |                                ^^^\n"
        "   put it in quotes"
    )


@pytest.mark.parametrize("value", [SECRET * 10, f"'{SECRET}\"\n", f"{SECRET}\\"])
@pytest.mark.parametrize("match", ["'${VALUE}'", "{a: ['${VALUE}', '${VALUE}']}"])
def test_a_filter_that_is_wrong_shows_no_piece_of_a_variable(problem_of, good, match, value):
    shown = problem_of(good.replace("{region: [eu, uk]}", match), env={"VALUE": value})
    assert "hunter2" not in shown
    assert "*** from ${VALUE} does not fit here" in shown


def test_a_masked_line_keeps_its_caret_below_what_is_wrong(problem_of, good):
    text = good.replace("path: inbox", f"path: inbox\n    login: {{password: {SECRET}, user: a, usr: b}}")
    assert problem_of(text) == (
        "c.yaml:10:47: `usr` is not a key of streams.inbox.login\n"
        "   10 |     login: {password: ***, user: a, usr: b}\n"
        "      |                                     ^^^\n"
        "   did you mean `user`?"
    )


def test_a_reference_to_a_secret_is_no_secret(problem_of, good):
    text = good.replace("path: inbox", 'path: inbox\n    login: {password: "${DB_PASSWORD}", user: a, usr: b}')
    assert 'password: "${DB_PASSWORD}"' in problem_of(text, env={"DB_PASSWORD": SECRET})


def test_a_stream_with_a_secret_name_hides_nothing(problem_of, good):
    shown = problem_of(
        good.replace("inbox:", "token:").replace("stream: inbox", "stream: token").replace("path: inbox", "pth: x")
    )
    assert "pth: x" in shown


# What `show` prints --------------------------------------------------------------------------------------------------


SECRETIVE = """\
store: ${STORE}
targets:
  shell:
    kind: command
    command: [./run.sh]
    api_token: SECRET
    env: {DB_PASSWORD: SECRET, A: '${VALUE}', B: 'x ${VALUE}', C: c}
streams:
  inbox:
    kind: directory
    path: inbox
    login: {user: '${VALUE}', password: 'a SECRET'}
    patterns: ['${VALUE}', b]
    max_attempts: ${N}
assets:
  eu_orders:
    watchers:
      - stream: inbox
        trigger: a.B
        kwargs: {password: SECRET, limit: 3, user: '${VALUE}'}
        run:
          target: shell
          job: process
          params: {token: SECRET, key: "${event.key}"}
          tags: {secret: SECRET}
"""


def test_the_effective_configuration_shows_no_secret(load_text):
    text = SECRETIVE.replace("SECRET", SECRET)
    config = load_text(text, env={"VALUE": SECRET, "N": "7", "STORE": "sqlite:///x.db"})
    shown = effective(config)
    assert SECRET not in json.dumps(shown)
    assert shown["store"]["url"] == "*** from ${STORE}"
    assert shown["targets"]["shell"]["api_token"] == "***"
    assert shown["targets"]["shell"]["env"] == {
        "DB_PASSWORD": "***", "A": "*** from ${VALUE}", "B": "*** from ${VALUE}", "C": "c",
    }  # fmt: skip
    assert shown["streams"]["inbox"]["login"] == {"user": "*** from ${VALUE}", "password": "***"}
    assert shown["streams"]["inbox"]["patterns"] == ["*** from ${VALUE}", "b"]
    assert shown["streams"]["inbox"]["max_attempts"] == "*** from ${N}"
    watcher = shown["assets"]["eu_orders"]["watchers"][0]
    assert watcher["run"]["params"] == {"token": "***", "key": "${event.key}"}
    assert watcher["run"]["tags"] == {"secret": "***"}
    assert watcher["kwargs"] == {"password": "***", "limit": 3, "user": "${VALUE}"}
    # and the values themselves are whole
    assert config.watchers[0].kwargs == {"password": SECRET, "limit": 3, "user": SECRET}
    assert config.targets["shell"].options.env["B"] == f"x {SECRET}"
    assert SECRET not in repr(config)
    assert SECRET not in repr(config.streams) + repr(config.targets) + repr(config.watchers) + repr(config.store)


def test_an_error_that_is_only_logged_shows_no_secret(load_text, good):
    text = good.replace("path: inbox", f"path: inbox\n    login: {{user: a, password: {SECRET}, x: 1}}")
    with pytest.raises(ConfigError) as raised:
        load_text(text)
    assert SECRET not in repr(raised.value) + str(raised.value)
