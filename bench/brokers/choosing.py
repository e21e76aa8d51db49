"""What a fixture does where a broker can't be had: the test is skipped, loudly, or fails where it was promised."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from bench.brokers.endpoint import Source, Unavailable, is_required
from bench.brokers.report import told

T = TypeVar("T")


def or_skip(request: pytest.FixtureRequest, name: str, make: Callable[[], T], *needs: Source) -> T:
    """What `make` makes. Where it can't, the test is skipped, or fails if a source that it needs was promised."""
    try:
        return make()
    except Unavailable as error:
        told(request.config).lacks(name, str(error))
        if is_required(*needs):
            raise
        pytest.skip(str(error))
