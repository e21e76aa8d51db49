"""`headrace completion`: scripts that shells take, and the answers to what they ask."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def asked(shell: str, line: str, **options: Any) -> list[str]:
    """What could be typed at the end of the line."""
    words = line.split(" ")
    environment = {
        **os.environ,
        "_HEADRACE_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    command = [sys.executable, "-m", "bridge.cli.main"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False, **options)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_that_asks_headrace(headrace: Any, shell: str) -> None:
    said = headrace("completion", shell)
    assert (said.code, said.err) == (0, "")
    assert f"_HEADRACE_COMPLETE=complete_{shell}" in said.out
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=said.out, text=True, check=True, timeout=30)


def test_another_shell_is_refused_with_those_that_there_are(headrace: Any) -> None:
    said = headrace("completion", "tcsh")
    assert (said.code, said.out) == (2, "")
    assert "bash" in said.err


def test_commands_are_completed(home: Any) -> None:
    assert asked("bash", "headrace val") == ["validate"]
    assert set(asked("bash", "headrace runs ")) == {"list", "show", "retry"}
    assert "init" in asked("fish", "headrace in")
    assert "validate" in " ".join(asked("zsh", "headrace val"))


def test_options_and_their_values_are_completed(home: Any) -> None:
    assert asked("bash", "headrace test --requ") == ["--require-coverage"]
    assert set(asked("bash", "headrace completion ")) == {"bash", "zsh", "fish"}


def test_watchers_and_streams_are_completed_from_the_configuration(home: Any) -> None:
    assert asked("bash", "headrace explain --watcher e") == ["eu_orders"]
    assert asked("bash", "headrace explain --stream ") == ["orders"]
    assert set(asked("bash", "headrace pause ")) == {"eu_orders", "us_orders"}


@pytest.mark.parametrize("text", [None, "store: [", "streems: {}"])
def test_a_configuration_that_can_not_be_read_completes_nothing_and_says_nothing(home: Any, text: str | None) -> None:
    Path("headrace.yaml").unlink()
    if text is not None:
        Path("headrace.yaml").write_text(text)
    assert asked("bash", "headrace explain --watcher e") == []


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_itself_completes_with_the_script(headrace: Any, home: Any) -> None:
    script = headrace("completion", "bash").out
    folder = home.folder / "bin"
    folder.mkdir()
    (folder / "headrace").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m bridge.cli.main "$@"\n')
    (folder / "headrace").chmod(0o755)
    asking = "\nCOMP_WORDS=(headrace vali)\nCOMP_CWORD=1\n_headrace_completion headrace\necho ${COMPREPLY[@]}\n"
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(["bash"], input=script + asking, env=environment, capture_output=True, text=True, timeout=30)
    assert (done.stdout, done.stderr) == ("validate\n", "")
