from __future__ import annotations

from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from bridge.core.errors import Refused
from bridge.ports import Claim
from bridge.targets.log import LogOptions, LogTarget

MakeClaim = Callable[..., Claim]


async def test_a_launch_is_one_line_with_the_whole_request(claim: MakeClaim) -> None:
    with capture_logs() as lines:
        said = await LogTarget("out", LogOptions(), "").launch(claim(tags=b'{"team":"a"}'))
    assert said.state == "started"
    assert lines == [
        {
            "event": "Run requested",
            "log_level": "info",
            "run_key": "orders/src/0-17/0",
            "target": "out",
            "watcher": "orders",
            "job": "process",
            "params": {"order": "o-1", "amount": 12.5},
            "tags": {"team": "a"},
        }
    ]


async def test_the_level_is_a_choice(claim: MakeClaim) -> None:
    with capture_logs() as lines:
        await LogTarget("out", LogOptions(level="warning"), "").launch(claim())
    assert [line["log_level"] for line in lines] == ["warning"]


@pytest.mark.parametrize("params", [b"[]", b"{", b"\xff"])
async def test_params_that_are_no_object_are_refused_and_not_logged(claim: MakeClaim, params: bytes) -> None:
    with capture_logs() as lines, pytest.raises(Refused, match="not a JSON object"):
        await LogTarget("out", LogOptions(), "").launch(claim(params=params))
    assert lines == []
