# SPDX-License-Identifier: GPL-2.0-only
"""Traces in mahimahi's format: read, written, and what of them a link offers when."""
import os
import pathlib

import pytest

from testbed import cli, fields
from testbed.fields import FieldError
from topologies import mahimahi, tc, varying
from topologies.base import EmulatedTopo
from topologies.link import Link

EXAMPLE = pathlib.Path(__file__).resolve().parents[3] / "docs/examples/bursts.trace"


class Pair(EmulatedTopo):
    def build(self, section):
        self.link(self.host("a"), self.host("b"), section, section)


def link(**section):
    return Pair(fields.decode(Link, {"rate_bps": 10**8, **section})).describe()["links"][0]


@pytest.fixture
def trace(tmp_path):
    def make(text):
        (tmp_path / "one.trace").write_text(text)
        return str(tmp_path / "one.trace")
    return make


def test_opportunities_of_a_millisecond_are_together_and_the_trace_begins_anew(trace):
    one = link(trace=trace("1\n1\n3\n\n5\n"))
    assert one["opportunities"] == {"times": [[1000, 2], [3000, 1], [5000, 1]], "period_us": 5000}
    assert list(varying.opportunities(one, 0, 12_000)) == [
        (1000, 2), (3000, 1), (5000, 1), (6000, 2), (8000, 1), (10_000, 1), (11_000, 2)]
    assert list(varying.opportunities(one, 5000, 6000)) == [(5000, 1)]
    assert varying.mean_rate_bps(one, 1, 5001) == pytest.approx(4 * 1514 * 8 / 0.005)
    assert tc.shapers(one) == {"prio", "tbf"} and "rate 100000000bit burst" in tc.egress(one, 0)[2]


def test_the_end_of_one_turn_and_the_beginning_of_the_next_are_the_same_instant(trace):
    assert list(varying.opportunities(link(trace=trace("0\n2\n")), 0, 5000)) == [
        (0, 1), (2000, 1), (2000, 1), (4000, 1), (4000, 1)]


@pytest.mark.parametrize("text, message", [
    ("", "one.trace: opportunities after 0 ms expected"), ("0\n0\n", "one.trace: opportunities after 0 ms expected"),
    ("1\nx\n", "one.trace:2: a time in whole milliseconds"), ("1.5\n", "one.trace:1: a time in whole"),
    ("-1\n", "one.trace:1: a time in"), ("3\n2\n", "one.trace:2: a time that is not before"),
    ("9" * 40, "one.trace:1: a time"), ("1\n" * 500_001, "one.trace:500001: more than 500000"),
    ("1" * (9 << 20), "one.trace: more than 8 MB")])
def test_what_is_no_trace(trace, text, message):
    with pytest.raises(FieldError) as problem:
        link(trace=trace(text))
    assert problem.value.field == "trace" and message in str(problem.value)


@pytest.mark.parametrize("name, message", [("/no/such", "No such file"), ("/", "directory")])
def test_files_that_cannot_be_read(name, message):
    with pytest.raises(FieldError, match=message):
        link(trace=name)
    with pytest.raises(FieldError, match="not together with schedule"):
        link(trace=name, schedule=[{"at_us": 1, "rate_bps": 10**6}])


def test_what_rates_offer():
    """A full frame takes 1 ms at 12.112 Mbit/s; what is left of one when the rate changes counts on."""
    assert list(mahimahi.of_rates([(0, 3000, 12_112_000), (3000, 5500, 0), (5500, 6000, 12_112_000),
                                   (6000, 7000, 6_056_000)])) == [1, 2, 3, 7]


def test_written_and_read_again(tmp_path):
    (tmp_path / "x").write_text(mahimahi.text([1, 1, 4]))
    assert mahimahi.read(str(tmp_path / "x")) == ([(1000, 2), (4000, 1)], 4000)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(FieldError, match="fifo: not a regular file"):
        mahimahi.read(str(tmp_path / "fifo"))


SCENARIO = f"""
name: x
topology:
  kind: dumbbell
  central:
    left_to_right: {{rate: 12112 kbit/s, schedule: [{{at: 2 ms, outage: 4 ms}}]}}
    right_to_left: {{rate: 1 Gbit/s, trace: {EXAMPLE}}}
  edge: {{rate: 1 Gbit/s}}
  left_delays: [0 ms]
  right_delays: [0 ms]
traffic: {{kind: greedy}}
timing: {{test: 1 s}}
"""


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.yaml").write_text(SCENARIO)
    assert cli.main(["trace", "x.yaml", "left_to_right"]) == 0
    assert capsys.readouterr().out == "left_to_right.trace: 996 opportunities in 1 s\n"
    assert (tmp_path / "left_to_right.trace").read_text().split()[:5] == ["1", "2", "7", "8", "9"]
    assert cli.main(["trace", "x.yaml", "right_to_left", "--output", "y"]) == 0
    # the end of the run is not a part of it
    assert EXAMPLE.read_text().startswith((tmp_path / "y").read_text())
    assert cli.main(["trace", "x.yaml", "nosuch"]) == 2
    assert cli.main(["trace", "x.yaml", "left_to_right", "--output", "/no/such/folder/y"]) == 1
