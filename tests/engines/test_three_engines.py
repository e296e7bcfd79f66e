# SPDX-License-Identifier: GPL-2.0-only
"""The same connections in the kernel and in two simulators."""
import numpy as np
import pandas as pd
import pytest
import yaml

from analysis.flows import windows
from analysis.read.runs import Run
from tests.engines.conftest import small_scenario

KEYS = ["source", "conn"]
ASKED = ["init_bytes_asked", "acc_bytes_asked", "adus_asked", "scheduled_us", "iport", "aport"]
DELIVERED = ["init_bytes_delivered", "acc_bytes_delivered", "adus_delivered"]
TMIX = {"kind": "tmix", "target": "right_to_left", "load": "50 %"}


def compared(runs):
    """The connections of all runs side by side: the same ones, asked for the same bytes at the same times."""
    tables = {name: finished.table("connections").set_index(KEYS).sort_index() for name, finished in runs.items()}
    first, *others = tables.values()
    for other in others:
        pd.testing.assert_frame_equal(first[ASKED], other[ASKED])
    finished = np.logical_and.reduce([table["status"] == "finished" for table in tables.values()])
    assert finished.mean() > 0.7
    for other in others:
        pd.testing.assert_frame_equal(first.loc[finished, DELIVERED], other.loc[finished, DELIVERED], check_dtype=False)
    adus = [run.table("adus")[["source", "conn", "side", "index", "bytes"]] for run in runs.values()]
    for other in adus[1:]:
        pd.testing.assert_frame_equal(adus[0], other)
    # in ns-3 an acknowledgement that ends a handshake is lost, and the acceptor speaks first (docs/howto/simulators.md)
    reasons = {name: run.json("verdict.json")["reasons"] for name, run in runs.items()}
    assert not any(reasons.values()), reasons
    return tables, finished


@pytest.fixture(scope="module")
def small(run_in):
    tree = small_scenario(traffic=TMIX, **{"timing.warmup": "5 s", "timing.test": "20 s",
                                           "topology.left_delays": ["0 ms", "20 ms"]})
    return {name: run_in(name, tree, "reno") for name in ("uml", "ns3", "ns2")}


def test_the_same_connections_in_three_engines(small):
    """Some hundred connections over 10 Mbit/s: the median of an exchange is that of the kernel within 5 %."""
    compared(small)
    medians = {}
    for name, finished in small.items():
        adus = finished.table("adus").set_index(["source", "conn", "side", "index"])
        medians[name] = adus["delivered_us"] - adus["sent_us"]
    both = pd.DataFrame(medians).dropna()
    assert len(both) > 300
    for name in ("ns3", "ns2"):
        assert (both[name] / both["uml"]).median() == pytest.approx(1, abs=0.05)


def test_slow_start_is_the_kernels_segment_by_segment(run_in):
    """After every acknowledgement, until one tells of a loss, the window is 10 segments more than were acknowledged."""
    windows = {}
    for name in ("uml", "ns3"):
        finished = run_in(name, small_scenario(**{"probes": {"queue": {}, "tcp_probe": {}}}))
        flow, = finished.json("raw/workload.json")["flows"]
        table = finished.table("tcp_probe")
        mine = table[table["src"].str.startswith(flow["src"] + ":") & (table["snd_una"] > 0)]
        acked = (mine["snd_una"] - mine["snd_una"].iloc[0]) // 1448
        growing = (mine["t_us"] < mine.loc[acked.diff() == 0, "t_us"].min())
        # the last of them may already carry a block of SACK
        windows[name] = dict(zip(acked[growing].iloc[:-1], mine.loc[growing, "snd_cwnd"].iloc[:-1]))
    both = windows["uml"].keys() & windows["ns3"].keys()
    assert len(both) > 30 and all(windows["uml"][n] == windows["ns3"][n] == 10 + n for n in both)
    # they also lose their first segment at the same window
    assert max(windows["uml"]) == pytest.approx(max(windows["ns3"]), abs=2)


def test_what_makes_cubic_differ_in_slow_start(run_in, tmp_path):
    """With Linux's HyStart threshold at this round-trip time and with its acknowledgements, ns-3's CUBIC has the
    kernel's window through slow start and the first losses; with one of both alone it parts in slow start."""
    def run(name, parameters=None):
        cca = "cubic"
        if parameters is not None:
            cca = str(tmp_path / f"cubic-{len(parameters)}.yaml")
            (tmp_path / f"cubic-{len(parameters)}.yaml").write_text(yaml.safe_dump(
                {"kernel_cca": "cubic", "parameters": parameters}))
        finished = run_in(name, small_scenario(**{"probes": {"queue": {}, "tcp_info": {"interval": "100 ms"},
                                                             "tcp_probe": {}}}), cca)
        return Run(finished.folder)
    kernel = run("uml")
    for parameters in ({}, {"hystart_delay_max_us": 4000}, {"quick_acks": 1_000_000}):
        parting, = windows.partings(kernel, run("ns3", parameters))
        assert 10_000 < parting.until < 100_000 and parting.state == "the reference left slow start without a loss"
    parting, = windows.partings(kernel, run("ns3", {"hystart_delay_max_us": 4000, "quick_acks": 1_000_000}))
    assert parting.until > 2_000_000 and parting.state in ("after losses in both", "")


@pytest.mark.parametrize("engine", ["ns3", "ns2"])
def test_the_idle_network_is_exact(run_in, engine):
    """98 bytes cross 100, 10 and 100 Mbit/s there and back: 2 x (7.84 + 78.4 + 7.84) us beside 20 ms."""
    finished = run_in(engine, small_scenario())
    checks = finished.json("raw/checks.json")
    path, = checks["paths"]
    assert path["measured_rtt_us"] == pytest.approx(20_000 + 2 * (7.84 + 78.4 + 7.84), abs=1e-3)
    for link in checks["bottlenecks"]:
        assert link["measured_bps"] == pytest.approx(10e6, rel=1e-4)
        assert 49 <= link["longest_queue_packets"] <= 50 and link["dropped_packets"] > 0
    assert finished.json("verdict.json")["reasons"] == []
