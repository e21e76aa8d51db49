"""Promises about the repository itself."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
BROKERS = "testcontainers"


def test_the_folder_of_the_brokers_never_shadows_the_package_of_its_name() -> None:
    """Python imports nothing from it; without `__init__` and modules, the installed package wins on any path."""
    assert (ROOT / BROKERS / "README.md").is_file()
    importable = {".py", ".pyi", ".pyc", ".pyd", ".so"}
    assert [str(path) for path in (ROOT / BROKERS).rglob("*") if path.suffix in importable] == []
    assert [str(path) for name in ("tests", BROKERS) for path in (ROOT / name).rglob("__init__.*")] == []


def test_the_pinned_versions_hold_no_address() -> None:
    pinned = (ROOT / "constraints.txt").read_text().splitlines()
    versions = [line for line in pinned if line and not line.startswith("#")]
    assert versions
    assert [line for line in versions if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+_-]+", line)] == []
    assert "://" not in "".join(pinned)


def test_no_file_tells_where_it_was_made() -> None:
    """No absolute path of somebody's home or work folder, nor of the checkout that runs this."""
    folder = re.compile(rb"(?<![\w.])(?:/(?:home|Users)/[\w.-]+|/(?:root|work)|%b)/" % re.escape(bytes(ROOT)))
    found = [(str(path), hit[0]) for path in _files_in_git() for hit in [folder.search(path.read_bytes())] if hit]
    assert found == []


def _files_in_git() -> list[Path]:
    """What is in git, or would be with the next commit."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    done = subprocess.run(listed, cwd=ROOT, capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a checkout of git")
    paths = [ROOT / name for name in done.stdout.decode().split("\0") if name]
    assert paths
    return [path for path in paths if path.is_file()]


def test_every_word_of_the_makefile_is_explained() -> None:
    (phony,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    read = [ROOT / name for name in ("README.md", "CONTRIBUTING.md")]
    text = "".join(path.read_text() for path in read if path.exists())
    assert [word for word in phony.split() if f"make {word}" not in text] == []


def test_the_launcher_needs_nothing_but_the_standard_library() -> None:
    tree = ast.parse((ROOT / "bridge" / "targets" / "launcher.py").read_text())
    imported: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add(str(node.module).partition(".")[0])
    assert imported
    assert imported - sys.stdlib_module_names == set()
