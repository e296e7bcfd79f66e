# SPDX-License-Identifier: GPL-2.0-only
"""Traces in mahimahi's format: read, written, and what of them a link offers when."""
import os
import pathlib
import struct

import pytest

from testbed import cli
from testbed.core import fields
from testbed.core.fields import FieldError
from topologies.base import EmulatedTopo
from topologies.links import mahimahi, records, varying
from topologies.links.link import Link
from topologies.linux import tc, tc_messages

EXAMPLE = pathlib.Path(__file__).resolve().parents[3] / "docs/examples/bursts.trace"


class Pair(EmulatedTopo):
    def build(self, section):
        self.link(self.host("a"), self.host("b"), section, section)


def link(until_us=None, **section):
    decoded = fields.decode(Link, {"rate_bps": 10**8, **section})
    return Pair(decoded, until_us=until_us).describe()["links"][0]


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
    assert [kind for kind, _ in tc.shaping(one, 0).values()] == ["prio", "tbf"]
    assert "rate 100000000bit burst" in tc.egress(one, 0)[2]


def test_the_end_of_one_turn_and_the_beginning_of_the_next_are_the_same_instant(trace):
    assert list(varying.opportunities(link(trace=trace("0\n2\n")), 0, 5000)) == [
        (0, 1), (2000, 1), (2000, 1), (4000, 1), (4000, 1)]


@pytest.mark.parametrize("text, message", [
    ("", "one.trace: opportunities after 0 ms expected"), ("0\n0\n", "one.trace: opportunities after 0 ms expected"),
    ("1\nx\n", "one.trace:2: a time in whole milliseconds"), ("1.5\n", "one.trace:1: a time in whole"),
    ("-1\n", "one.trace:1: a time in"), ("3\n2\n", "one.trace:2: a time that is not before"),
    ("9" * 40, "one.trace:1: a time"), ("1" * (9 << 20), "one.trace:1: a time")], ids=lambda text: text[:9])
def test_what_is_no_trace(trace, text, message):
    with pytest.raises(FieldError) as problem:
        link(trace=trace(text))
    assert problem.value.field == "trace" and message in str(problem.value)


def test_only_what_a_run_needs_is_counted_and_kept(trace):
    """A run of 6 s has 6000 of half a million lines; what is behind them may be anything."""
    lines = "\n".join(map(str, range(1, 500_002)))
    file = trace(lines)
    found = link(6_000_000, trace=file)["opportunities"]
    assert len(found["times"]) == 6000 and found["times"][-1] == [6_000_000, 1] and found["period_us"] is None
    with pytest.raises(FieldError, match="one.trace:500002: a run takes at most 500000 instants"):
        link(trace=trace(f"{lines}\n500002"))
    # as many at one instant as you like
    assert link(trace=trace("1\n" * 600_000))["opportunities"]["times"] == [[1000, 600_000]]
    unused = link(6_000_000, trace=trace(lines.replace("\n6001\n", "\n6002\nrubbish\n")))
    assert unused["opportunities"] == found
    assert link(6_000_000, trace=trace(lines.replace("\n5999\n", "\n6000\n")))["opportunities"] != found


def test_a_trace_that_is_silent_in_a_run(trace):
    one = link(5000, trace=trace("7\n"), queue={"kind": "pfifo", "limit": 10})
    assert one["opportunities"] == {"times": [], "period_us": None} and "trace_bps" not in one
    assert list(varying.opportunities(one, 0, 10**9)) == [] and varying.mean_rate_bps(one, 0, 5000) == 0
    assert varying.nominal_bps(one) == 10**8 and varying.longest_pause_us(one, 5000) == 5000
    with pytest.raises(FieldError, match="offers nothing before the end of the run") as problem:
        link(5000, trace=trace("7\n"), queue={"kind": "pfifo", "limit_us": 100_000})
    assert problem.value.field == "queue.limit"


@pytest.mark.parametrize("text, bps", [
    ("1", 12_112_000), ("1 2", 12_112_000), ("5 10", 2_422_400), ("0 10", 2_422_400), ("4 4 4 4", 12_112_000),
    ("2 2 2 2 4 8", 9_084_000)])
def test_a_limit_in_time_is_that_of_what_the_trace_offers(trace, text, bps):
    """100 ms at the trace's rate, not at that of the wire, also in runs that see a part of it."""
    one = link(trace=trace(text.replace(" ", "\n")), queue={"kind": "bfifo", "limit_us": 100_000})
    assert (one["trace_bps"], one["limit_bytes"]) == (bps, bps / 80)
    assert one["capacity_us"] == 100_000 and one["rate_bps"] == 10**8 and varying.nominal_bps(one) == bps
    slow_then_fast = trace("\n".join(map(str, [*range(10, 1001, 10), *range(1001, 5001)])))
    one = link(1_000_000, trace=slow_then_fast, queue={"kind": "pfifo", "limit_us": 500_000})
    assert (one["trace_bps"], one["limit_packets"]) == (1_211_200, 50)


def test_a_limit_in_time_may_be_too_long_for_the_rate_of_the_wire(trace):
    """CHOKe holds 131,071 packets: 100 s of the trace, 0.02 s of the wire."""
    queue = {"kind": "choke", "limit_us": 100_000_000}
    assert link(trace=trace("1"), rate_bps=10**11, queue=queue)["limit_packets"] == 100_933
    with pytest.raises(FieldError, match="from 1 to 131071 packets expected") as problem:
        link(trace=trace("1\n" * 2), queue=queue)
    assert problem.value.field == "queue.limit"


def test_outages_and_changes_of_a_link_with_a_trace(trace):
    one = link(trace=trace("1"), queue={"kind": "pfifo", "limit_us": 100_000}, schedule=[
        {"at_us": 2000, "outage_us": 3000}, {"at_us": 6000, "delay_us": 7000, "loss_percent": 3.0, "limit": 5}])
    assert [at_us for at_us, _ in varying.opportunities(one, 0, 8000)] == [1000, 5000, 6000, 7000]
    assert [at_us for at_us, _ in varying.opportunities(one, 2500, 5001)] == [5000]
    assert varying.longest_pause_us(one, 8000) == 4000 and varying.longest_pause_us(one, 20_000) == 4000
    assert varying.initial(one).limit == 101 and one["trace_bps"] == 12_112_000
    assert varying.mean_rate_bps(one, 0, 8000) == 4 * 1514 * 8 / 0.008
    assert [kind for kind, _ in tc.shaping(one, 0).values()] == ["prio", "tbf"] and tc.delays_apart(one)


@pytest.mark.parametrize("entry, field", [
    ({"rate_bps": 10**6}, "schedule.2.rate"),
    ({"until_us": 10**6, "walk": {"least_bps": 10**6, "most_bps": 10**7}}, "schedule.2.walk")])
def test_a_schedule_of_the_rate_contradicts_a_trace(entry, field):
    with pytest.raises(FieldError, match="not together with trace, which says when packets may leave") as problem:
        fields.decode(Link, {"rate_bps": 10**8, "trace": "x", "schedule": [
            {"at_us": 1, "outage_us": 5}, {"at_us": 9, **entry}]})
    assert problem.value.field == field


def test_a_packet_limit_that_changes_is_told_to_every_gate():
    """A FIFO right below a tbf gets its limit from it."""
    shaped = records.Link({"limit_packets": 9, "limit_bytes": None, "rate_bps": 10**6, "gso": False})
    for message in (tc_messages.grant(7, shaped, 1514, 3), tc_messages.gate(7, shaped, True, 3),
                    tc_messages.gate(7, shaped, False, 3)):
        assert struct.unpack_from("=I", message, 16 + 20 + 8 + 4 + 4 + 24)[0] == 3
    assert struct.unpack_from("=I", tc_messages.grant(7, shaped, 1514), 16 + 20 + 8 + 4 + 4 + 24)[0] == 9


@pytest.mark.parametrize("name, message", [("/no/such", "No such file"), ("/", "directory")])
def test_files_that_cannot_be_read(name, message):
    with pytest.raises(FieldError, match=message) as problem:
        link(trace=name)
    assert problem.value.field == "trace"


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
    assert EXAMPLE.read_text().startswith((tmp_path / "y").read_text())
    assert cli.main(["trace", "x.yaml", "nosuch"]) == 2
    assert cli.main(["trace", "x.yaml", "left_to_right", "--output", "/no/such/folder/y"]) == 1


@pytest.mark.parametrize("link, offered", [
    ("rate: 12 Mbit/s, schedule: [{at: 300 ms, outage: 100 s}]", 297), ("rate: 12112 kbit/s", 1000),
    ("rate: 50 kbit/s", 4), ("rate: 1 Gbit/s, trace: zero.trace", 201), ("rate: 1 Gbit/s, trace: late.trace", 2),
    ("rate: 1 Gbit/s, trace: late.trace, schedule: [{at: 0 s, outage: 9 s}]", 0)])
def test_what_is_written_offers_the_same_when_it_is_replayed(tmp_path, monkeypatch, capsys, link, offered):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "zero.trace").write_text("0\n10\n")
    (tmp_path / "late.trace").write_text("990\n995\n5000\n")
    for name, text in (("first", link), ("again", "rate: 1 Gbit/s, trace: first.trace")):
        (tmp_path / f"{name}.yaml").write_text(SCENARIO.replace(f"rate: 1 Gbit/s, trace: {EXAMPLE}", text))
        assert cli.main(["trace", f"{name}.yaml", "right_to_left", "--output", f"{name}.trace"]) == 0
        assert f"{name}.trace: {offered} opportunities in 1 s" in capsys.readouterr().out
    assert (tmp_path / "first.trace").read_text() == (tmp_path / "again.trace").read_text()


@pytest.mark.parametrize("more, message", [
    ("trace: nosuch", "x.yaml:7: topology.central.right_to_left.trace: nosuch: No such file"),
    ("trace: late.trace, queue: {limit: 100 ms}", "x.yaml:7: topology.central.right_to_left.queue.limit: is a time"),
    ("trace: late.trace, queue: {kind: red, limit: 1 MB, min: 2 MB}",
     "x.yaml:7: topology.central.right_to_left.queue.max: min < max"),
    ("trace: late.trace, schedule: [{at: 1 ms, rate: 1 Mbit/s}]",
     "x.yaml:7: topology.central.right_to_left.schedule.1.rate: not together with trace")])
def test_errors_have_file_line_and_field(tmp_path, monkeypatch, capsys, more, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "late.trace").write_text("5000\n")
    (tmp_path / "x.yaml").write_text(SCENARIO.replace(f"trace: {EXAMPLE}", more))
    assert cli.main(["trace", "x.yaml", "right_to_left"]) == 2
    assert message in capsys.readouterr().err
