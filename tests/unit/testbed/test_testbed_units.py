# SPDX-License-Identifier: GPL-2.0-only
"""Quantities with units."""
import pytest
from hypothesis import given, settings, strategies as st

from testbed.core import units


@pytest.mark.parametrize("text, value", [
    ("100 Mbit/s", ("bps", 100_000_000)), ("1.5 Gbit/s", ("bps", 1_500_000_000)), ("9600 bit/s", ("bps", 9600)),
    ("5 m", ("mm", 5000)), ("2 ms", ("us", 2000)),
    ("2ms", ("us", 2000)), ("  0.25 ms ", ("us", 250)), ("36.72 s", ("us", 36_720_000)),
    ("2 min", ("us", 120_000_000)),
    ("1 h", ("us", 3_600_000_000)), ("7 us", ("us", 7)), (".5 s", ("us", 500_000)), ("-3 ms", ("us", -3000)),
    ("1500 B", ("bytes", 1500)), ("1.5 kB", ("bytes", 1500)), ("4 MB", ("bytes", 4_000_000)),
    ("1 GB", ("bytes", 10**9)),
    ("60 %", ("percent", 60)), ("60%", ("percent", 60)), ("0.01 %", ("percent", 0.01)),
    ("1_000_000 us", ("us", 1_000_000)),
    ("0.1 s", ("us", 100_000)), ("1.1 Mbit/s", ("bps", 1_100_000)),
])
def test_parse(text, value):
    assert units.parse(text) == value
    assert repr(units.parse(text)) == repr(value)


@pytest.mark.parametrize("text", ["", "cubic", "10", "1.5", "ms", "r1", "4096 131072 6291456", "10.0.0.1", "1e3 ms x",
                                  "ms 3", "net.ipv4", "٣ ms"])
def test_not_a_quantity(text):
    assert units.parse(text) is None


@pytest.mark.parametrize("text, message", [
    ("100 Mbps", "unknown unit 'Mbps'"), ("5 mi", "unknown unit 'mi'"), ("1 KB", "unknown unit"),
    ("0.5 us", "not a whole number of us"),
    ("0.3 B", "not a whole number of B"), ("0.1 bit/s", "not a whole number of bit/s"),
])
def test_wrong_quantity(text, message):
    with pytest.raises(ValueError, match=message):
        units.parse(text)


def test_the_unit_list_in_the_message_is_complete():
    with pytest.raises(ValueError) as problem:
        units.parse("1 furlong")
    assert all(unit in str(problem.value) for unit in ("bit/s", "Gbit/s", "us", "h", "kB", "%"))


def test_examples_are_what_they_are_examples_of():
    for suffix, example in units.EXAMPLES.items():
        assert units.parse(example)[0] == suffix


@pytest.mark.parametrize("suffix, value, text", [
    ("us", 2000, "2 ms"), ("us", 0, "0 us"), ("us", 1500, "1500 us"), ("us", 60_000_000, "60 s"),
    ("bps", 10**8, "100 Mbit/s"), ("bps", 1, "1 bit/s"),
    ("bytes", 1500, "1500 B"), ("bytes", 4000, "4 kB"), ("percent", 0.5, "0.5 %"), ("", 3, "3"), ("us", -2000, "-2 ms"),
    ("bps", 2**63 - 1, "9223372036854775807 bit/s")])
def test_show(suffix, value, text):
    assert units.show(suffix, value) == text
    assert suffix == "" or units.parse(text) == (suffix, value)


def test_long_quantities_are_exact_or_refused():
    assert units.parse("1" + "0" * 30 + " us") == ("us", 10**30)
    with pytest.raises(ValueError, match="not a whole number"):
        units.parse("1." + "0" * 40 + "1 us")
    with pytest.raises(ValueError, match="more digits") as problem:
        units.parse("9" * 10_000 + " us")
    assert len(str(problem.value)) < 200


@settings(deadline=None, max_examples=100, database=None)
@given(st.integers(0, 10**12), st.sampled_from(["us", "ms", "s", "min"]))
def test_whole_numbers_are_exact(number, unit):
    factor = {"us": 1, "ms": 1000, "s": 10**6, "min": 60 * 10**6}[unit]
    assert units.parse(f"{number} {unit}") == ("us", number * factor)


@settings(deadline=None, max_examples=200, database=None)
@given(st.text(max_size=12))
def test_any_text_is_a_quantity_or_not_or_an_error(text):
    try:
        parsed = units.parse(text)
    except ValueError:
        return
    assert parsed is None or parsed[0] in units.EXAMPLES


@pytest.mark.parametrize("rate_bps, text", [(0, "0 bit/s"), (999, "999 bit/s"), (1000, "1 kbit/s"),
                                            (100_000_000, "100 Mbit/s"),
                                            (1_500_000_000, "1.5 Gbit/s"), (9_876_543.0, "9.87654 Mbit/s")])
def test_show_rate(rate_bps, text):
    assert units.show_rate(rate_bps) == text


@pytest.mark.parametrize("seconds, text", [(0, "0.0 s"), (3.21, "3.2 s"), (59.94, "59.9 s"), (59.96, "1:00"),
                                           (60, "1:00"), (75.2, "1:15"),
                                           (119.6, "2:00"), (3599.7, "1:00:00"), (3661, "1:01:01"),
                                           (100_000, "27:46:40")])
def test_show_duration(seconds, text):
    assert units.show_duration(seconds) == text
