"""Cutting lines out of chunks: the same lines and offsets, however the file is read."""

from __future__ import annotations

import os
import tempfile

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from connectors.directory.lines import CUT, cut_lines, is_line_start, read_lines

Lines = list[tuple[int, bytes]]

texts = st.one_of(
    st.binary(max_size=200),
    st.lists(st.sampled_from([b"\n", b"\r", b"\r\n", b"a", b"bc", b"\xff", b"x" * 9, b"y" * 40]), max_size=40).map(
        b"".join
    ),
)


def reference(data: bytes, max_line: int) -> Lines:
    """What the lines are, read off the whole file."""
    lines: Lines = []
    at = 0
    raw = data.split(b"\n")
    for number, line in enumerate(raw):
        body = line.removesuffix(b"\r") if number < len(raw) - 1 else line
        if body:
            lines.append((at, body if len(body) <= max_line else body[:max_line] + CUT))
        at += len(line) + 1
    return lines


def read_in_chunks(data: bytes, sizes: list[int], max_line: int, *, at: int = 0, skips: bool = False) -> Lines:
    lines: Lines = []
    want = sizes[0]
    for turn in range(10 * len(data) + 10):
        chunk = data[at : at + want]
        is_last = at + len(chunk) >= len(data)
        got = cut_lines(chunk, at, is_last=is_last, skips=skips, max_line=max_line)
        lines += zip(got.offsets, got.bodies, strict=True)
        if got.is_last:
            return lines
        want = max_line + 2 if got.next == at else sizes[turn % len(sizes)]
        at, skips = got.next, got.skips
    raise AssertionError("it gets no further")


@given(texts, st.lists(st.integers(1, 64), min_size=1, max_size=5), st.integers(1, 50))
@example(b"ab\r\n", [3], 2)
@example(b"abc\r", [4], 3)
@example(b"\r\n\r\n", [1], 1)
@example(b"abcdefgh", [2], 3)
def test_lines_and_offsets_are_those_of_the_whole_file_whatever_the_chunks(data, sizes, max_line):
    assert read_in_chunks(data, sizes, max_line) == reference(data, max_line)


@given(texts, st.lists(st.integers(1, 64), min_size=1, max_size=5), st.integers(1, 50), st.data())
def test_reading_goes_on_behind_any_line_as_if_it_had_never_stopped(data, sizes, max_line, draw):
    lines = reference(data, max_line)
    if not lines:
        return
    number = draw.draw(st.integers(0, len(lines) - 1))
    settled = lines[number][0]
    assert read_in_chunks(data, sizes, max_line, at=settled, skips=True) == lines[number + 1 :]
    assert read_in_chunks(data, sizes, max_line, at=settled) == lines[number:]


@given(texts, st.integers(1, 64), st.integers(1, 50), st.integers(0, 100))
def test_a_file_on_disk_is_read_up_to_the_size_of_its_claim(data, want, max_line, growth):
    with tempfile.NamedTemporaryFile() as file:
        file.write(data + b"g" * growth)
        file.flush()
        lines: Lines = []
        at, skips, is_last = 0, False, False
        while not is_last:
            got = read_lines(file.name, at, size=len(data), skips=skips, want=want, max_line=max_line)
            lines += zip(got.offsets, got.bodies, strict=True)
            assert got.is_last or got.next > at
            at, skips, is_last = got.next, got.skips, got.is_last
        assert lines == reference(data, max_line)


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", []),
        (b"a", [(0, b"a")]),
        (b"a\n", [(0, b"a")]),
        (b"a\nb", [(0, b"a"), (2, b"b")]),
        (b"a\r\nb\r\n", [(0, b"a"), (3, b"b")]),
        (b"a\n\n\nb\n", [(0, b"a"), (4, b"b")]),
        (b"a\rb\n", [(0, b"a\rb")]),
        (b"a\r", [(0, b"a\r")]),
        (b" \n", [(0, b" ")]),
        (b"\xef\xbb\xbf{}\n", [(0, b"\xef\xbb\xbf{}")]),
        (b"\x00\n", [(0, b"\x00")]),
    ],
)
def test_what_a_line_is(data, lines):
    assert read_in_chunks(data, [64], 10) == lines


def test_a_line_over_max_line_is_cut_so_that_no_decoder_takes_the_part_for_the_whole():
    line = b'{"a": 1}' + b" " * 20 + b"and more"
    [(offset, body), after] = read_in_chunks(line + b"\nnext\n", [7], 12)
    assert (offset, body) == (0, b'{"a": 1}    ' + CUT)
    assert after == (len(line) + 1, b"next")
    with pytest.raises(UnicodeDecodeError):
        body.decode()


@given(st.binary(max_size=30))
def test_a_line_starts_at_0_and_behind_each_newline(data):
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        os.chmod(file.name, 0o600)
        starts = [at for at in range(len(data) + 1) if is_line_start(file.name, at)]
    assert starts == [0] + [at + 1 for at, byte in enumerate(data) if byte == 10]
