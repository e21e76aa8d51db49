"""What the client logs: each state of a link, and an error with its stack for each that breaks. We say it ourselves."""

from __future__ import annotations

import logging
from typing import Final

_LOUD: Final = ("azure.servicebus", "azure.identity", "uamqp")


def calm_down() -> None:
    """Lets through what nobody could say for it (critical), unless somebody has set a level."""
    for name in _LOUD:
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.CRITICAL)
