"""Results of `headrace test` in the XML that build servers read (JUnit's)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree  # nothing is parsed here, only written

from bridge.cli.words import printable
from bridge.core.errors import Refused

if TYPE_CHECKING:
    from bridge.cli.checking import Result

_NO_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def document_of(results: Iterable[Result]) -> ElementTree.Element:
    """One `testsuite` for each file of tests, in the order of the results."""
    suites: dict[str, list[Result]] = {}
    for result in results:
        suites.setdefault(result.suite, []).append(result)
    root = ElementTree.Element("testsuites", _numbers([result for each in suites.values() for result in each]))
    for name, members in suites.items():
        suite = ElementTree.SubElement(root, "testsuite", {"name": _clean(name), **_numbers(members)})
        for result in members:
            _add(suite, result)
    return root


def write(results: Iterable[Result], path: Path) -> None:
    """Raises Refused where the file can't be written."""
    tree = ElementTree.ElementTree(document_of(results))
    ElementTree.indent(tree)
    try:
        tree.write(path, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise Refused(f"--junit {path} can't be written: {error.strerror or error}") from error


def _add(suite: ElementTree.Element, result: Result) -> None:
    case = ElementTree.SubElement(
        suite,
        "testcase",
        {"classname": _clean(result.suite), "name": _clean(result.name), "time": f"{result.seconds:.6f}"},
    )
    if not result.is_passed:
        first = result.failures[0].sentence
        failure = ElementTree.SubElement(case, "failure", {"type": "expectation", "message": _clean(first)})
        failure.text = _clean("\n".join([result.place, *(line for each in result.failures for line in each.lines)]))


def _numbers(results: list[Result]) -> dict[str, str]:
    return {
        "tests": str(len(results)),
        "failures": str(sum(not result.is_passed for result in results)),
        "time": f"{sum(result.seconds for result in results):.6f}",
    }


def _clean(text: str) -> str:
    """What XML can hold: a control character is written as its escape."""
    return _NO_XML.sub(lambda found: printable(found[0]), text)
