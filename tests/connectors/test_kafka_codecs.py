"""Compressions that can't be read are named, with what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest
from aiokafka.errors import UnsupportedCodecError

from connectors.kafka.codecs import codec_refused, codec_warning, missing_codecs


def test_here_every_compression_can_be_read() -> None:
    assert missing_codecs() == []
    assert codec_warning([]) == ""


def test_those_that_are_missing_are_named_together() -> None:
    there = {"gzip": lambda: True, "snappy": lambda: False, "lz4": lambda: False, "zstd": lambda: False}
    said = codec_warning(missing_codecs(there))
    assert "records compressed with snappy, lz4 and zstd can't be read" in said
    assert "the package cramjam is not installed" in said
    assert "compressed with zstd can't" in codec_warning(["zstd"])


@pytest.mark.parametrize("codec", ["snappy", "lz4", "zstd"])
def test_one_that_is_met_is_named(codec: str) -> None:
    said = str(codec_refused(UnsupportedCodecError(f"Libraries for {codec} compression codec not found")))
    assert f"records compressed with {codec}" in said
    assert "pip install 'headrace[kafka]'" in said
    assert "nothing was committed past them" in said


def test_one_that_nobody_knows_is_told_as_it_is() -> None:
    assert "0x05" in str(codec_refused(UnsupportedCodecError("Unknown compression codec 0x05")))


WITHOUT = """
import sys
sys.modules["cramjam"] = None
from connectors.kafka.options import KafkaOptions, check
print(list(check(KafkaOptions(bootstrap_servers=["b:9092"], group_id="g", topics=["t"]))))
"""


def test_a_package_that_is_missing_is_named_at_start_and_stops_nobody() -> None:
    said = subprocess.run(
        [sys.executable, "-c", WITHOUT], check=True, capture_output=True, text=True, timeout=60
    ).stdout
    assert said.endswith("[]\n")
    assert "snappy, lz4 and zstd can't be read: the package cramjam is not installed" in said
