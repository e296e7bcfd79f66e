# SPDX-License-Identifier: GPL-2.0-only
"""Events of the kernel: exact instants, the kernel's filters, and nothing else of the run changes."""
import pandas as pd
import pytest
import yaml

from analysis.exports import trace as of_trace
from tests.kernel import documented

_EVENTS = ["tcp:tcp_retransmit_skb", "tcp_probe: snd_cwnd > 40", "sock/inet_sock_set_state"]


def _scenario(**probes):
    tree = yaml.safe_load(documented.exact("howto/captures.md"))
    return {**tree, "probes": {"queue": {}, "tcp_info": {"interval": "10 ms"}, "tcp_probe": {}, **probes}}


@pytest.fixture(scope="module")
def traced(run_scenario):
    return run_scenario(_scenario(trace={"events": _EVENTS}))


def _values(run, event):
    table = run.table("trace")
    return of_trace.values(table[table["event"] == event])


def test_events_change_no_other_table(traced, run_scenario):
    without = run_scenario(_scenario())
    hashes, others = (run.json("run.json")["raw_files_sha256"] for run in (traced, without))
    assert {name for name in {*hashes, *others} if hashes.get(name) != others.get(name)} == {
        "trace.csv.gz", "guest.json"}                           # which names the probes
    assert traced.json("raw/guest.json")["probes"]["trace"] == {"lost_events": 0}


def test_the_same_events_each_time(traced, run_scenario):
    again = run_scenario(_scenario(trace={"events": _EVENTS}))
    assert again.json("run.json")["raw_files_sha256"] == traced.json("run.json")["raw_files_sha256"]


def test_events_are_those_of_tcp_probe(traced):
    again, sent_again = _values(traced, "tcp_retransmit_skb"), traced.table("retransmissions")
    assert len(again) == len(sent_again) > 1
    # the nearest microsecond, and the one before
    assert set(again["t_us"].to_numpy() - sent_again["t_us"].to_numpy()) <= {0, 1}
    assert (again["saddr"] + ":" + again["sport"]).tolist() == sent_again["src"].tolist()
    found, every = _values(traced, "tcp_probe"), traced.table("tcp_probe")
    assert found["snd_cwnd"].astype(int).tolist() == every["snd_cwnd"][every["snd_cwnd"] > 40].tolist()
    assert len(found) > 1 and found["snd_cwnd"].astype(int).min() > 40
    states = _values(traced, "inet_sock_set_state")
    assert states["newstate"].tolist()[:2] == ["TCP_SYN_SENT", "TCP_ESTABLISHED"]


@pytest.mark.parametrize("event, message", [
    ("tcp_retransmit", "no event tcp_retransmit; it has .*tcp:tcp_retransmit_skb"),
    ("sock:tcp_probe", "no event sock:tcp_probe"),
    ("tcp_probe: snd_cwn > 3", "does not take the filter 'snd_cwn > 3' .*; fields are: .*snd_cwnd"),
])
def test_what_the_kernel_does_not_have(run_scenario, event, message):
    with pytest.raises(AssertionError, match=message):
        run_scenario(_scenario(trace={"events": [event]}))


def test_a_value_with_spaces_is_one():
    rows = pd.DataFrame({"t_us": [1, 2], "event": "e", "text": ["a=1 b=x y, c=3", "nothing named"]})
    assert of_trace.values(rows).fillna("").to_dict("list") == {
        "t_us": [1, 2], "a": ["1", ""], "b": ["x y", ""], "c": ["3", ""], "text": ["", "nothing named"]}
