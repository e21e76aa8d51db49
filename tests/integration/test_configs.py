"""What is shown to people runs: every example, the one in the README, and the demo."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from bench.brokers.fixtures import NewTopic
    from bench.brokers.serving import Broker
    from tests.integration.conftest import Bridge

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "configs"
EXAMPLES = sorted(path for path in CONFIGS.glob("*.yaml") if not path.stem.endswith("_test"))


def test_every_example_is_valid(bridge: Bridge) -> None:
    assert EXAMPLES
    with ThreadPoolExecutor(2) as pool:
        checked = list(pool.map(lambda path: bridge.call("validate", str(path)), EXAMPLES))
    assert [(done.returncode, done.stderr) for done in checked] == [(0, "")] * len(EXAMPLES)


def test_every_example_has_tests_that_pass_and_see_each_clause_both_ways(bridge: Bridge) -> None:
    assert all(path.with_name(f"{path.stem}_test.yaml").exists() for path in EXAMPLES)
    done = bridge.call("test", str(CONFIGS), "--require-coverage")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_the_smallest_example_runs(bridge: Bridge) -> None:
    bridge.start(config=str(CONFIGS / "minimal.yaml"))
    order = {"region": "eu", "kind": "order.created", "order_id": "o-1"}
    bridge.feed("orders.jsonl", order, {**order, "region": "us", "order_id": "o-2"})
    bridge.wait("the file is settled", lambda: bridge.done() == ["orders.jsonl"])
    bridge.wait("the run is over", lambda: bridge.states() == ["succeeded"])
    run = bridge.run()
    assert (run.watcher, run.params) == ("eu_orders", b'{"order":"o-1"}')
    assert bridge.stop() == 0


def test_the_example_for_kafka_runs_as_the_readme_tells_it(
    bridge: Bridge, kafka: Broker, topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With names of its own, since others read the same broker: looked at, run, sent to, tailed, and asked."""
    orders = topic.now(partitions=4)
    topic.made.append(f"{orders}.dlq")
    text = (CONFIGS / "kafka.yaml").read_text()
    for written, ours in (("[orders]", f"[{orders}]"), ("group_id: headrace", f"group_id: {orders}"),
                          ("topic: orders.dlq", f"topic: {orders}.dlq")):  # fmt: skip
        assert text.count(written) == 1
        text = text.replace(written, ours)
    (bridge.folder / "kafka.yaml").write_text(text)
    monkeypatch.setenv("KAFKA", kafka.bootstrap)
    looked_at = bridge.call("validate", "--connect", "kafka.yaml", "--output", "table")
    assert looked_at.returncode == 0, looked_at.stdout + looked_at.stderr
    bridge.start("partitions assigned", "kafka.yaml")
    order = '{"order_id": "o-1", "region": "eu", "amount": 250}'
    for body in (order, order.replace("250", "20"), "no order"):
        sent = bridge.call("send", "orders", body, "--key", "c-7", "--config", "kafka.yaml")
        assert (sent.returncode, sent.stderr) == (0, "")
    bridge.wait("the run is started", lambda: bridge.states() == ["started"])
    assert bridge.run().params == b'{"order":"o-1","amount":250,"customer":"c-7"}'
    bridge.wait(
        "the dead letter is copied", lambda: [each.relayed_at is not None for each in bridge.letters()] == [True]
    )
    tailed = bridge.call("tail", "orders", "--last", "3", "--limit", "3", "--config", "kafka.yaml")
    assert (tailed.returncode, tailed.stdout.count("\n"), tailed.stderr) == (0, 3, "")
    assert bridge.stop() == 0


def test_the_example_in_the_readme_is_the_smallest_one() -> None:
    blocks = re.findall(rb"^```yaml\n(.*?)^```$", (ROOT / "README.md").read_bytes(), re.DOTALL | re.MULTILINE)
    assert blocks == [(CONFIGS / "minimal.yaml").read_bytes()]


def test_the_demo_loses_and_doubles_nothing_and_every_run_tells_its_pid(bridge: Bridge) -> None:
    folder = bridge.folder / "demo"
    command = [sys.executable, "-m", "demo", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, env=bridge.environment(), capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (folder / "runs.txt").read_text().splitlines()
    assert lines
    assert all(re.fullmatch(r"\S+ \d+ \S+", line) for line in lines), lines[0]
