"""The examples of docs/configuration.md are configurations."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import connectors
from bridge import targets
from bridge.config.effective import effective
from bridge.config.load import Kinds, load

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "configuration.md").read_text()
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
KINDS = Kinds(connectors.KINDS, targets.KINDS)


@pytest.mark.parametrize("text", EXAMPLES, ids=[str(number) for number in range(len(EXAMPLES))])
def test_an_example_can_be_loaded(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("teams").mkdir()
    for name in ("targets.yaml", "streams.yaml", "teams/orders.yaml"):
        Path(name).write_text("targets: {}\n")
    Path("headrace.yaml").write_text(text)
    assert effective(load([Path("headrace.yaml")], kinds=KINDS, env={"REGISTRY_PASSWORD": "x"}, check=False))


def test_there_is_an_example_of_each_of_these_keys():
    for key in ("decode:", "unwrap:", "when:", "reject:", "key_ttl:", "for_each:", "defaults:", "include:"):
        assert any(key in text for text in EXAMPLES), key


def test_every_key_of_a_block_has_its_row():
    from bridge.config.document import BLOCKS

    for block, fields in BLOCKS.items():
        for name in fields.by_name:
            assert re.search(rf"^\| .*[`.]{name}[`.,]", PAGE, re.MULTILINE), f"{name} of {block}"
