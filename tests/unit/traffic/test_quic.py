# SPDX-License-Identifier: GPL-2.0-only
"""QUIC flows: what is read from qlog, of several forms and of hostile ones, and the stacks that there are."""
import json
import re

import pytest

from testbed import PROJECT_DIR
from testbed.core.fields import FieldError, decode
from traffic.quic import programs, qlog
from traffic.quic.scenario import Section

METRICS = {"congestion_window": 12_000, "bytes_in_flight": 1_200, "smoothed_rtt": 40.5, "latest_rtt": 41, "min_rtt": 40}
EVENTS = [(1.0, "recovery:metrics_updated", METRICS), (2.0, "transport:packet_sent", {}),
          (2.5, "transport:packet_received", {}), (25.0, "recovery:metrics_updated", {"bytes_in_flight": 2_400}),
          (26.0, "recovery:packet_lost", {})]


def lines(events=EVENTS, head=None, mark=""):
    head = head or {"qlog_format": "JSON-SEQ", "trace": {"vantage_point": {"type": "client"}}}
    return "".join(f"{mark}{json.dumps(one)}\n" for one in [
        head, *({"time": time, "name": name, "data": data} for time, name, data in events)])


def read(tmp_path, text, unit="ms", interval_us=10_000):
    (tmp_path / "x.qlog").write_text(text)
    return qlog.read(tmp_path / "x.qlog", 7, 1_000_000, unit, interval_us)


def test_rows_have_the_state_at_the_end_of_each_interval_with_events(tmp_path):
    first, last = read(tmp_path, lines())
    assert first == {"t_us": 1_010_000, "flow": 7, "cwnd_bytes": 12_000, "in_flight_bytes": 1_200, "srtt_us": 40_500,
                     "ssthresh_bytes": None, "pacing_rate_bps": None, "latest_rtt_us": 41_000, "min_rtt_us": 40_000,
                     "sent_packets": 1, "received_packets": 1, "lost_packets": 0, "state": ""}
    assert (last["t_us"], last["cwnd_bytes"], last["in_flight_bytes"], last["lost_packets"]) == (
        1_030_000, 12_000, 2_400, 1)


@pytest.mark.parametrize("text", [
    lines(mark="\x1e"),
    lines([(time, name.replace("recovery:metrics", "quic:recovery_metrics"), data) for time, name, data in EVENTS]),
    json.dumps({"qlog_version": "0.3", "traces": [{"events": [
        {"time": time, "name": name, "data": data} for time, name, data in EVENTS]}]}),
    json.dumps({"traces": [{"configuration": {"time_units": "us"},
                            "event_fields": ["relative_time", "CATEGORY", "EVENT_TYPE", "DATA"], "events": [
        [time * 1000, *name.split(":"), data] for time, name, data in EVENTS]}]}, indent=1),
    lines([(1.0, *EVENTS[0][1:]), *((after - before, name, data) for (before, *_), (after, name, data) in zip(
        EVENTS, EVENTS[1:]))], {"trace": {"common_fields": {"time_format": "delta"}}}),
], ids=["records", "later names", "one object", "draft 1", "deltas"])
def test_every_form_gives_the_same(tmp_path, text):
    assert read(tmp_path, text) == read(tmp_path, lines())


def test_losses_are_counted_by_quiche_itself(tmp_path):
    events = [(1.0, "quic:recovery_metrics_updated", METRICS | {"cf_lost_packets": {"total": 17, "delta": 2}})]
    assert read(tmp_path, lines(events))[0]["lost_packets"] == 17


def test_round_trips_have_the_unit_of_the_stack(tmp_path):
    assert read(tmp_path, lines(), unit="s")[0]["srtt_us"] == 40_500_000


@pytest.mark.parametrize("text, says", [
    ("", "neither JSON"), ("{", "neither JSON"), ("[" * 100_000, "neither JSON"), ("7\n", "no event metrics_updated"),
    (lines(EVENTS[1:3]), "no event metrics_updated"), ('{"trace": null}\n', "no event metrics_updated"),
    (lines([(1e306, *EVENTS[0][1:])]), "no event metrics_updated"),
    (lines([EVENTS[0], (2.0**49, *EVENTS[0][1:])]), "no run has"),
    (lines([(0, EVENTS[0][1], {"congestion_window": "x"})]), "no event metrics_updated"),
    (lines().replace('packet_received"', "packet_received"), "in the midst"),
    (lines([EVENTS[3], EVENTS[0]]), "comes after one")])
def test_what_is_no_qlog_is_refused(tmp_path, text, says):
    with pytest.raises(qlog.QlogError, match=says):
        read(tmp_path, text)


def test_what_makes_no_sense_is_not_taken(tmp_path):
    odd = {"congestion_window": "12000", "bytes_in_flight": -1, "smoothed_rtt": "nan", "ssthresh": 2**64 - 1,
           "min_rtt": True, "latest_rtt": [1]}
    row, = read(tmp_path, lines([(0, "recovery:metrics_updated", odd), ("x", "transport:packet_sent", {}),
                                 (1, 7, {}), (2, "transport:packet_sent", [])]))
    assert row["cwnd_bytes"] == 12_000 and row["sent_packets"] == 0
    assert all(row[name] is None for name in ("in_flight_bytes", "srtt_us", "ssthresh_bytes", "min_rtt_us"))


def test_a_file_that_was_cut_off_counts_as_far_as_it_goes(tmp_path):
    assert read(tmp_path, lines()[:-20])[-1]["lost_packets"] == 0


def test_every_stack_says_what_it_is():
    assert "quinn" in programs.names()
    for name in programs.names():
        stack = programs.read(name)
        assert stack.title and set(stack.ccas) <= {"reno", "cubic", "bbr"}, name


def test_the_page_names_the_congestion_controls_of_each_stack():
    page = (PROJECT_DIR / "docs/howto/quic.md").read_text()
    rows = dict(re.findall(r"^\| ([a-z0-9-]+) \| ([a-z].*?) \|", page, re.MULTILINE))
    for name in programs.names():
        said = [re.sub(r" \(.*\)", "", one) for one in rows[name].split(", ")]
        assert tuple(said) == programs.read(name).ccas, name


@pytest.mark.parametrize("given, says", [
    ({"stack": "quinn"}, "quinn:cubic"), ({"stack": "quinn:"}, "quinn:cubic"), ({"stack": "a b:c"}, "quinn:cubic"),
    ({"stack": "quinn:cubic", "receiver": "../x"}, "quinn")])
def test_sections_that_make_no_sense(given, says):
    with pytest.raises(FieldError, match=says) as caught:
        decode(Section, given)
    assert caught.value.field in ("stack", "receiver")


def test_an_unknown_stack_is_named_with_those_that_there_are():
    with pytest.raises(FieldError, match="quinn"):
        programs.read("quin")


def test_a_program_that_cannot_be_made_says_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path / "cache"))
    with pytest.raises(programs.NotBuilt, match="quinn: there is no cargo in PATH: install it from https://rustup"):
        programs.program("quinn", print)
    assert not list((tmp_path / "cache" / "quic").glob("quinn*"))


def test_a_build_that_fails_says_why(monkeypatch, tmp_path):
    fake = tmp_path / "cargo"
    fake.write_text("#!/bin/sh\n[ \"$1\" = --version ] && echo cargo 9.9.9 && exit\n"
                    "echo error: no such crate >&2\nexit 7\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path / "cache"))
    with pytest.raises(programs.NotBuilt, match="quinn: cargo failed: error: no such crate"):
        programs.program("quinn", lambda _: None)
