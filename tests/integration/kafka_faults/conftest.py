"""Whole processes against real Kafka under faults. What a folder of a bridge holds is in bridging.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.kafka_faults.bridging import KafkaBridge


@pytest.fixture
def bridge(tmp_path: Path, bytecode: Path) -> Iterator[KafkaBridge]:
    """One that reads Kafka. (That of the folder above reads a folder.)"""
    made = KafkaBridge(tmp_path.resolve() / "bridge", bytecode)
    yield made
    made.close()
    made.check()
