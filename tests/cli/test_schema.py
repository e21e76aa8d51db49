"""`headrace schema`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
from ruamel.yaml import YAML


def test_a_schema_is_printed_that_knows_every_kind(headrace: Any) -> None:
    said = headrace("schema")
    assert (said.code, said.err) == (0, "")
    jsonschema.Draft202012Validator.check_schema(said.json)
    assert {"stream.directory", "stream.python", "target.command", "target.log"} <= said.json["$defs"].keys()


def test_the_configuration_at_hand_fits_it_and_a_mistake_does_not(headrace: Any) -> None:
    check = jsonschema.Draft202012Validator(headrace("schema").json).is_valid
    written = YAML(typ="safe", pure=True).load(Path("headrace.yaml").read_text())
    assert check(written)
    written["streams"]["orders"]["lnes"] = True
    assert not check(written)


def test_no_configuration_is_needed(headrace: Any) -> None:
    Path("headrace.yaml").unlink()
    assert headrace("schema").code == 0
