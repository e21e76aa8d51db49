"""What the documents say of files, tests and layers is there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from msgspec import structs

from connectors.kafka.options import DeadLetterTopic, KafkaOptions, Sasl, Tls

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("testcontainers/**/*.md")])
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", FENCED.sub("", page.read_text()))
    inside = [link for link in links if "://" not in link]
    assert [link for link in inside if not _is_there(page, link)] == []


def _is_there(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = page if not path else (page.parent / path).resolve()
    return target.exists() and (not anchor or anchor in _anchors(target))


def _anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    heads = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text()), re.MULTILINE)
    shown = [head.replace("`", "").replace("&lt;", "<").replace("&gt;", ">") for head in heads]
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in shown}


def test_every_test_that_a_document_names_exists() -> None:
    there = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    named = {name for page in PAGES for name in re.findall(r"`(?:[\w/]+\.py::)?(test_\w+)`", page.read_text())}
    assert named
    assert named - there == set()


def test_every_outcome_that_the_page_about_kafka_promises_names_its_test() -> None:
    text = (ROOT / "docs/connectors/kafka.md").read_text()
    (table,) = re.findall(r"^\| what happens when \.\.\. \|.*?\n\n", text, re.DOTALL | re.MULTILINE)
    rows = table.strip().splitlines()[2:]
    assert len(rows) >= 16
    assert [row for row in rows if "`test_" not in row.rsplit("|", 2)[1]] == []


def test_every_key_of_a_kafka_stream_has_its_row() -> None:
    text = (ROOT / "docs/connectors/kafka.md").read_text()
    rows = "\n".join(line for line in text.splitlines() if line.startswith("| `"))
    keys = [
        *structs.fields(KafkaOptions),
        *structs.fields(Tls),
        *structs.fields(Sasl),
        *structs.fields(DeadLetterTopic),
    ]
    assert [key.encode_name for key in keys if f"`{key.encode_name}`" not in rows] == []


def test_every_file_that_the_architecture_names_exists() -> None:
    named = set(re.findall(r"`?((?:bridge|connectors|tests|demo|bench)/[\w/]*\w(?:\.py)?)", ARCHITECTURE))
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_every_file_of_a_connector_that_the_architecture_names_exists() -> None:
    (part,) = re.findall(r"^## connectors/kafka\n.*?^## ", ARCHITECTURE, re.DOTALL | re.MULTILINE)
    named = re.findall(r"`(\w+\.py)`", part)
    there = {path.name for path in (ROOT / "connectors" / "kafka").glob("*.py")} - {"__init__.py"}
    assert sorted(named) == sorted(there)


def test_the_layers_of_the_architecture_are_those_that_are_checked() -> None:
    (drawn,) = re.findall(r"^```\n(bridge\.cli\n.*?)^```$", ARCHITECTURE, re.DOTALL | re.MULTILINE)
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    modules = re.compile(r"\b(?:bridge\.\w+|connectors)\b")
    assert [modules.findall(line) for line in drawn.splitlines()] == [modules.findall(layer) for layer in layers]


def test_every_package_has_its_line_in_the_architecture() -> None:
    packages = {f"bridge/{path.parent.name}" for path in ROOT.glob("bridge/*/__init__.py")} | {"connectors"}
    assert [name for name in sorted(packages) if f"| `{name}`" not in ARCHITECTURE] == []
