from __future__ import annotations

import subprocess
import sys

import pytest
from msgspec import Struct

from bridge.targets import KINDS


@pytest.mark.parametrize("name", sorted(KINDS))
def test_every_kind_brings_what_it_needs(name: str) -> None:
    kind = KINDS[name]()
    assert issubclass(kind.options, Struct)
    assert callable(kind.build)
    assert callable(kind.check)


def test_a_kind_is_imported_when_it_is_used() -> None:
    code = "import sys, bridge.targets; print(*[n for n in sys.modules if n.startswith('bridge.targets.')])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True, timeout=20)
    assert shown.stdout.split() == []
