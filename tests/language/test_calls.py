"""What functions and operators do: exactly, or with an error that says what was wrong; and never without an end."""

from __future__ import annotations

import math
from decimal import Decimal as D
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.language.calls import LONGEST_LIST, LONGEST_TEXT, call
from bridge.language.functions import FUNCTIONS
from bridge.language.patterns import pattern_of
from bridge.language.values import Duration, Fail, Timestamp, kind_of

FAIL = Fail("wrong")
SECOND = 1_000_000_000
LONG = 10**4_299
"""The smallest number of 4,300 digits."""


def failed(value: object) -> str:
    """The message of a Fail."""
    assert isinstance(value, Fail), value
    return value.message


# Computing ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "left", "right", "outcome"),
    [
        ("+", 2**63, 2**63, 2**64),
        ("+", D("0.1"), D("0.2"), D("0.3")),
        ("+", 1, D("1e-47"), D("1." + 46 * "0" + "1")),
        ("-", 1, D("0.9"), D("0.1")),
        ("*", D("1.5"), 4, 6),
        ("*", 0.5, D("0.5"), D("0.25")),
        ("/", 7, 2, 3),
        ("/", -7, 2, -3),
        ("/", 7, -2, -3),
        ("/", D("7.0"), 2, D("3.5")),
        ("/", D(1), 3, D("0.3333333333333333333333333333")),
        ("%", 7, 3, 1),
        ("%", -7, 3, -1),
        ("%", 7, -3, 1),
        ("%", D("7.5"), 2, D("1.5")),
        ("+", "a", "b", "ab"),
        ("+", [1], ["a"], [1, "a"]),
        ("+", Timestamp(5), Duration(6), Timestamp(11)),
        ("+", Duration(6), Timestamp(5), Timestamp(11)),
        ("+", Duration(6), Duration(5), Duration(11)),
        ("-", Timestamp(5), Duration(6), Timestamp(-1)),
        ("-", Timestamp(5), Timestamp(6), Duration(-1)),
        ("-", Duration(5), Duration(6), Duration(-1)),
    ],
)  # fmt: skip
def test_arithmetic_is_exact(name: str, left: Any, right: Any, outcome: Any) -> None:
    value = call(name, (left, right))
    assert value == outcome
    assert type(value) is type(outcome) or kind_of(value) == "number"


@given(st.integers(), st.integers().filter(bool))
def test_whole_part_and_rest_make_up_the_number(left: int, right: int) -> None:
    whole, rest = call("/", (left, right)), call("%", (left, right))
    assert isinstance(whole, int)
    assert isinstance(rest, int)
    assert whole * right + rest == left
    assert abs(rest) < abs(right)
    assert rest == 0 or (rest < 0) == (left < 0)


@pytest.mark.parametrize(("left", "right"), [(1, 0), (1, D("0.0")), (D("0.5"), 0), (0, 0)])
@pytest.mark.parametrize("name", ["/", "%"])
def test_division_by_zero_is_an_error(name: str, left: Any, right: Any) -> None:
    assert failed(call(name, (left, right))) == "division by zero"


@pytest.mark.parametrize(
    ("name", "left", "right"),
    [
        ("+", LONG, 9 * LONG),
        ("-", -LONG, 9 * LONG),
        ("*", LONG, 10),
        ("+", LONG, D("0.1")),
        ("*", D("1e4000"), D("1e4000")),
        ("*", D("1e-4000"), D("1e-4000")),
        ("/", D("1e4000"), D("1e-4000")),
        ("%", D("1e4299"), D("1e-4299")),
        ("+", D("1e999999999"), 1),
        ("+", D("1e-999999999"), 1),
        ("*", D("1e999999999"), D("1e999999999")),
    ],
)
def test_a_number_of_more_than_4300_digits_is_an_error(name: str, left: Any, right: Any) -> None:
    assert failed(call(name, (left, right))) == "gives a number of more than 4,300 digits"


def test_a_number_of_4300_digits_is_none() -> None:
    assert call("+", (LONG, 8 * LONG)) == 9 * LONG
    assert call("*", (LONG // 10, 10)) == LONG
    assert call("neg", (D("1" * 4_300),)) == D("-" + "1" * 4_300)


def test_what_plus_makes_is_bounded() -> None:
    half = "x" * (LONGEST_TEXT // 2)
    assert call("+", (half, half)) == 2 * half
    assert failed(call("+", (half, half + "x"))) == "gives a text of more than 1 MiB"
    items = [1] * (LONGEST_LIST // 2)
    assert call("+", (items, items)) == 2 * items
    assert failed(call("+", (items, [*items, 1]))) == "gives a list of more than 10,000 items"


TIMES = [(Timestamp(253_402_300_799 * SECOND), Duration(SECOND)), (Timestamp(0), Duration(-62_135_596_801 * SECOND))]


@pytest.mark.parametrize(("timestamp", "duration"), TIMES)
def test_a_timestamp_stays_within_the_years_1_to_9999(timestamp: Timestamp, duration: Duration) -> None:
    assert "years 1 to 9999" in failed(call("+", (timestamp, duration)))


# Functions ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "args", "outcome"),
    [
        ("startsWith", ("abc", "ab"), True),
        ("endsWith", ("abc", "ab"), False),
        ("contains", ("abc", "b"), True),
        ("matches", ("abc", "b"), True),
        ("matches", ("abc", "^b"), False),
        ("matches", ("äöü", "^.{3}$"), True),
        ("cidr", ("10.1.2.3", "10.0.0.0/8"), True),
        ("cidr", ("11.1.2.3", "10.0.0.0/8"), False),
        ("cidr", ("::ffff:10.1.2.3", "10.0.0.0/8"), True),
        ("cidr", ("2001:db8::1", "2001:db8::/32"), True),
        ("cidr", ("2001:db8::1", "10.0.0.0/8"), False),
        ("size", ("a\U0001f600ä",), 3),
        ("size", ([1, None],), 2),
        ("size", ({"a": 1},), 1),
        ("size", (b"\xff\xfe",), 2),
        ("lower", ("ÄB",), "äb"),
        ("upper", ("äß",), "ÄSS"),
        ("int", ("-12",), -12),
        ("int", (D("1.9"),), 1),
        ("int", (D("-1.9"),), -1),
        ("int", (1.9,), 1),
        ("int", (D("1e-999999999"),), 0),
        ("int", (Timestamp(1_500_000_000),), 1),
        ("int", (Timestamp(-1),), -1),
        ("double", ("1.50",), D("1.50")),
        ("double", (7,), D(7)),
        ("double", (0.1,), D.from_float(0.1)),
        ("string", ("x",), "x"),
        ("string", (True,), "true"),
        ("string", (12,), "12"),
        ("string", (D("1.50"),), "1.50"),
        ("string", (D("0.00000001"),), "0.00000001"),
        ("string", (0.5,), "0.5"),
        ("string", (Timestamp(0),), "1970-01-01T00:00:00Z"),
        ("string", (Timestamp(-1),), "1969-12-31T23:59:59.999999999Z"),
        ("string", (Duration(5_400 * SECOND),), "5400s"),
        ("string", (Duration(-SECOND // 4),), "-0.250s"),
        ("default", (None, 1), 1),
        ("default", (0, 1), 0),
        ("default", (FAIL, 1), FAIL),
        ("default", (0, FAIL), 0),
        ("neg", (D("-1.50"),), D("1.50")),
        ("neg", (Duration(5),), Duration(-5)),
    ],
)  # fmt: skip
def test_functions(name: str, args: Any, outcome: Any) -> None:
    value = call(name, args)
    assert value == outcome
    assert type(value) is type(outcome)
    assert str(value) == str(outcome)


def test_a_double_of_a_whole_number_divides_with_a_fraction() -> None:
    assert call("/", (call("double", (7,)), 2)) == D("3.5")


@pytest.mark.parametrize("text", ["", " 7", "7 ", "+7", "1.0", "1e3", "0x10", "seven", "1_000", "٣", "-"])
def test_int_takes_the_text_of_a_whole_number_and_nothing_else(text: str) -> None:
    assert failed(call("int", (text,))) == "the text is no whole number"


@pytest.mark.parametrize("text", ["", " 1", "+1", ".5", "5.", "01", "NaN", "Infinity", "0x1p3", "1e", "1e9999999999"])
def test_double_takes_a_number_of_json_and_nothing_else(text: str) -> None:
    assert failed(call("double", (text,))) == "the text is no number"


def test_a_number_is_not_read_from_more_than_4300_digits() -> None:
    assert call("int", ("9" * 4_300,)) == 10**4_300 - 1
    for name, text in (("int", "9" * 4_301), ("double", "9" * 4_301)):
        assert failed(call(name, (text,))) == "gives a number of more than 4,300 digits"
    assert failed(call("int", (D("1e999999999"),))) == "gives a number of more than 4,300 digits"


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01t00:00:01.5z", 1_500_000_000),
        ("1970-01-01T00:00:00.123456789Z", 123_456_789),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:30:00-00:30", 0),
        ("0001-01-01T00:00:00Z", -62_135_596_800 * SECOND),
        ("9999-12-31T23:59:59.999999999Z", 253_402_300_800 * SECOND - 1),
        ("2024-02-29T00:00:00Z", 1_709_164_800 * SECOND),
    ],
)
def test_a_timestamp_is_read_from_rfc_3339_to_the_nanosecond(text: str, ns: int) -> None:
    assert call("timestamp", (text,)) == Timestamp(ns)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-01-31",
        "2026-01-31 12:00:00Z",
        "2026-01-31T12:00:00",
        "2026-01-31T12:00Z",
        "2026-02-30T12:00:00Z",
        "2025-02-29T00:00:00Z",
        "2026-01-31T24:00:00Z",
        "2016-12-31T23:59:60Z",
        "2026-01-31T12:00:00.Z",
        "2026-01-31T12:00:00.1234567890Z",
        "2026-01-31T12:00:00+1:00",
        "2026-01-31T12:00:00+24:00",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "2026-01-31T12:00:00Z\n",
        "٢٠٢٦-01-31T12:00:00Z",
        "1738324800",
    ],
)
def test_what_is_no_timestamp_of_rfc_3339_is_an_error(text: str) -> None:
    assert "timestamp" in failed(call("timestamp", (text,)))


def test_a_number_is_a_timestamp_in_seconds_since_1970() -> None:
    assert call("timestamp", (1,)) == Timestamp(SECOND)
    assert call("timestamp", (D("1.0000000019"),)) == Timestamp(SECOND + 1)
    assert call("timestamp", (D("0." + 60 * "9"),)) == Timestamp(SECOND - 1)
    assert call("timestamp", (-0.5,)) == Timestamp(-SECOND // 2)
    for seconds in (253_402_300_800, -62_135_596_801, D("1e999999999"), 10**4_299, math.inf, math.nan):
        assert "years 1 to 9999" in failed(call("timestamp", (seconds,)))


@given(st.integers(-62_135_596_800 * SECOND, 253_402_300_800 * SECOND - 1))
def test_a_timestamp_is_read_from_what_it_is_written_as(ns: int) -> None:
    assert call("timestamp", (call("string", (Timestamp(ns),)),)) == Timestamp(ns)


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0", 0),
        ("1h30m", 5_400 * SECOND),
        ("1h30m5.5s", 5_405 * SECOND + SECOND // 2),
        ("-1.5h", -5_400 * SECOND),
        ("+2s", 2 * SECOND),
        ("250ms", SECOND // 4),
        ("3us", 3_000),
        ("3µs", 3_000),
        ("7ns", 7),
        (".5s", SECOND // 2),
    ],
)
def test_a_duration_is_read_as_go_writes_it(text: str, ns: int) -> None:
    assert call("duration", (text,)) == Duration(ns)


@pytest.mark.parametrize("text", ["", "-", "1", "1 h", "1d", "h", ".s", "1h-30m", "1H", "1e3s", "9" * 101 + "s", "1h "])
def test_what_is_no_duration_is_an_error(text: str) -> None:
    assert failed(call("duration", (text,))) == "the text is no duration (1h30m, 90s, 250ms)"


def test_a_duration_is_at_most_10000_years() -> None:
    assert failed(call("duration", ("99999999999999999999h",))) == "gives a duration of more than 10,000 years"


def test_a_pattern_says_what_is_wrong_with_it_in_the_words_of_re2() -> None:
    with pytest.raises(ValueError, match=r"missing \): \(a"):
        pattern_of("(a")
    with pytest.raises(ValueError, match="pattern too large"):
        pattern_of(r"(\pL{1000})")
    assert failed(call("matches", ("a", "(a"))) == "not a regular expression: missing ): (a"


def test_a_text_may_be_too_long_for_a_large_pattern() -> None:
    large = r"\pL{100}"
    assert call("matches", ("ab" * 50, large)) is True
    assert "too long for a pattern of this size" in failed(call("matches", ("a" * 1_000_000, large)))


def test_what_an_address_can_not_be_read_from_is_an_error() -> None:
    for text in ("", "10.0.0", "10.0.0.1/8", "localhost", "1" * 10_000):
        assert failed(call("cidr", (text, "10.0.0.0/8"))) == "the text is no IP address"


# Every function -------------------------------------------------------------------------------------------------------


def test_every_function_of_the_table_does_something() -> None:
    examples: dict[str, Any] = {"text": "1", "number": 1, "list": [1], "mapping": {"1": 1}, "any": 1}
    constants = {"matches": "1", "cidr": "10.0.0.0/8", "timestamp": "1970-01-01T00:00:00Z", "duration": "1s"}
    examples |= {"timestamp": Timestamp(0), "duration": Duration(0), "bytes": b"1", "bool": True}
    for name, function in FUNCTIONS.items():
        for kind in function.takes[0]:
            args = [examples[kind], *(constants.get(name, examples[min(takes)]) for takes in function.takes[1:])]
            if kind == "text" and name in ("timestamp", "duration"):
                args = [constants[name]]
            if name in ("+", "-"):
                args = [examples[kind], Duration(1) if kind == "timestamp" else examples[kind]]
            if name == "cidr":
                args[0] = "10.0.0.1"
            outcome = call(name, args)
            assert not isinstance(outcome, Fail), (name, args)
            assert function.gives in (kind_of(outcome), "any")


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "default"])
def test_unknown_gives_unknown_and_an_error_stays_the_error(name: str) -> None:
    count = len(FUNCTIONS[name].takes)
    assert call(name, [None] * count) is None
    assert call(name, [None] * (count - 1) + [FAIL]) is FAIL
    assert call(name, [FAIL] * count) is FAIL


@pytest.mark.parametrize(("name", "count"), [("nope", 1), ("size", 0), ("size", 2), ("__class__", 1), ("lower", 2)])
def test_what_is_not_in_the_table_is_not_called(name: str, count: int) -> None:
    assert "there is no function" in failed(call(name, ["x"] * count))
