"""The registry of stream kinds."""

from __future__ import annotations

import subprocess
import sys

import pytest
from msgspec import Struct

from bridge.ports import StreamKind
from connectors import KINDS


def test_the_kinds_that_exist():
    assert sorted(KINDS) == ["directory", "kafka", "pubsub", "python", "servicebus", "sqs"]


@pytest.mark.parametrize("name", sorted(KINDS))
def test_each_kind_brings_its_options_and_functions(name):
    kind = KINDS[name]()
    assert isinstance(kind, StreamKind)
    assert issubclass(kind.options, Struct)
    assert kind is KINDS[name]()


def test_a_connector_is_imported_only_when_it_is_asked_for():
    script = (
        "import sys, connectors\n"
        "assert not [m for m in sys.modules if m.startswith('connectors.')]\n"
        "connectors.KINDS['python']()\n"
        "assert [m for m in sys.modules if m.startswith('connectors.')] == ['connectors.python']\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
