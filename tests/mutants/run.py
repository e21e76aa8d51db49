"""Plants one bug at a time in a copy of the program and runs the tests of that part on it: every bug must be caught.

    python tests/mutants/run.py [--machine] [NAME...]

Patches beside this file are bugs of the core, those in filters/ of the router. With `--machine` the examples in
tests/core are left out, and the state machine has to find each bug of the core by itself.

A patch is a bug that somebody could make; its first line says what it does. Exit code 1 if one survives, or if one
does not apply any more (then make it anew against the code as it is).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
MACHINE = "tests/property"
EXAMPLES = "tests/core"
FILTERS = "tests/filters"


def outcome(patch: Path, suites: list[str]) -> str:
    """`caught by ...`, `SURVIVED` or `DOES NOT APPLY`."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copy = Path(folder)
        for name in ("bridge", "connectors", "tests/core", "tests/property", "tests/filters", "pyproject.toml"):
            source, target = ROOT / name, copy / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", ".hypothesis"))
            else:
                shutil.copy(source, target)
        applied = subprocess.run(["git", "apply", "--unsafe-paths", "-p1", str(patch)], cwd=copy, capture_output=True)
        if applied.returncode:
            return "DOES NOT APPLY"
        for tests in suites:
            if first := _first_failure(copy, tests):
                return f"caught by {first}"
        return "SURVIVED"


def _first_failure(copy: Path, tests: str) -> str | None:
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "--no-header",
            "-p",
            "no:cacheprovider",
            "--timeout",
            "110",
            tests,
        ],
        cwd=copy,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(copy), "HEADRACE_MACHINE": "find", "PYTHONSAFEPATH": "1"},
        timeout=300,
    )
    if run.returncode == 0:
        return None
    failed = [line.split(" - ")[0] for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split("::")[-1] if failed else "a crash"


def main(arguments: list[str]) -> int:
    names = [a for a in arguments if a != "--machine"]
    suites = [MACHINE] if "--machine" in arguments else [EXAMPLES, MACHINE]
    patches = sorted(p for p in HERE.rglob("*.patch") if not names or any(n in p.name for n in names))

    def plant(patch: Path) -> str:
        return outcome(patch, [FILTERS] if patch.parent.name == "filters" else suites)

    with ThreadPoolExecutor(2) as pool:
        outcomes = list(track(pool.map(plant, patches), "Planting bugs", len(patches)))
    table = Table("bug", "what it does", "outcome")
    for patch, said in zip(patches, outcomes, strict=True):
        table.add_row(patch.stem, patch.read_text().split("\n", 1)[0], said)
    Console(width=160).print(table)
    survivors = [o for o in outcomes if not o.startswith("caught")]
    print(f"{len(patches) - len(survivors)} of {len(patches)} caught")
    return 1 if survivors or not patches else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
