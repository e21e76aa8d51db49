"""kill -9 at random instants of a real run: a real process, a real disk, real commands. Lost 0, doubled 0."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from demo.__main__ import Demo, compared, outcome
from demo.orders import make

KILLS = 50


@pytest.mark.integration
@pytest.mark.timeout(400)
def test_fifty_kills_at_random_instants_lose_and_double_nothing(tmp_path: Path) -> None:
    feed = make(files=KILLS)
    demo = Demo(tmp_path / "demo", patience=300)
    seed = time.time_ns()
    rnd = random.Random(seed)
    try:
        for number in range(KILLS):
            demo.feed(feed.files[number : number + 1])
            demo.start()
            time.sleep(rnd.uniform(0.2, 1.6))  # from before the store is open until after all is done
            demo.kill()
        demo.start()
        demo.wait("the last life", lambda: demo.is_up and demo.is_quiet(feed))
        assert demo.stop() == 0
    finally:
        if demo.bridge is not None and demo.bridge.poll() is None:
            demo.kill()
    wrong = [row for row in compared(outcome(demo, feed), feed) if row[2] is not None and row[1] != row[2]]
    assert not wrong, f"seed {seed}"
