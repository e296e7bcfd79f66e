# SPDX-License-Identifier: GPL-2.0-only
"""The figures of windows (tcp_probe) and of captures (tcptrace), and what part of a run they draw larger."""
import argparse
import gzip
import json

import numpy as np
import pandas as pd
import pytest

from analysis.figures import cwnd, tcptrace
from analysis.flows import recovery
from analysis.pages.report import build_report
from analysis.read.experiment import Experiment
from analysis.read.runs import AnalysisError
from analysis.read.zooms import Span
from testbed.cli import report as report_command
from testbed.core import pcap_files
from tests.unit.analysis import fixture
from tests.unit.analysis.test_analysis_xplot import transfer

SRC, DST = "10.0.4.2:10000", "10.0.1.2:20000"


def probe():
    """A window that grows by one segment in 10 ms up to 59, halves, and so on for 10 s; a threshold from 1 s on."""
    t = np.arange(100, 10_000, 10)
    window = 30 + (t // 10) % 30
    return pd.DataFrame({"t_us": t * 1000, "src": SRC, "dst": DST, "mark": 0, "data_len": 0, "sock_cookie": 1,
                         "snd_una": 1000 + t, "snd_nxt": 2000 + t, "snd_cwnd": window, "snd_wnd": 65535, "rcv_wnd": 1,
                         "ssthresh": np.where(t < 1000, recovery.NOT_SET, 17), "srtt_us": 20_000})


@pytest.fixture
def experiment(tmp_path):
    path = fixture.write_experiment(tmp_path / "e", ccas=["reno", "cubic"], seeds=[1, 2], tmix=False)
    for name in ("reno-seed1", "cubic-seed1"):
        raw = path / "runs" / name / "raw"
        fixture.save(raw / "tcp_probe.csv.gz", probe())
        fixture.save(raw / "retransmissions.csv.gz", pd.DataFrame(
            {"t_us": [1_000_000, 4_000_000], "src": SRC, "dst": DST}).iloc[:2 if name == "reno-seed1" else 0])
        fixture.seal(raw.parent)
    return path


def test_the_whole_run_and_the_part_around_the_first_loss(experiment, tmp_path):
    figure, = cwnd.draw(Experiment(experiment), tmp_path)
    assert figure.name == "cwnd" and "Seed 1 only" in figure.caption
    assert "around the first retransmission" in figure.caption
    data = pd.read_csv(tmp_path / "cwnd.csv")
    part = data["reno part 0 cwnd t"].dropna()
    # 15 round trips of 20 ms before it, 35 after it
    assert (part.min(), part.max()) == (0.7, 1.7)
    whole = data["reno whole 0 cwnd t"].dropna()
    assert (whole.min(), whole.max()) == (0.1, 12.0)
    assert data["reno whole 0 cwnd"].max() == 59 and data["reno whole 0 ssthresh"].dropna().unique().tolist() == [17]
    assert data["reno whole 0 ssthresh t"].dropna().min() == 1.0
    # where nothing was lost, the beginning
    assert data["cubic part 0 cwnd t"].max() == pytest.approx(2.4)
    svg = (tmp_path / "cwnd.svg").read_text()
    assert all(text in svg for text in ("reno", "cubic", "congestion window", "slow-start threshold", "segments"))


def test_the_part_that_was_asked_for(experiment, tmp_path):
    asked = Experiment(experiment)
    asked.zoom = Span(3_000_000, 3_500_000)
    figure, = cwnd.draw(asked, tmp_path)
    part = pd.read_csv(tmp_path / "cwnd.csv")["reno part 0 cwnd t"].dropna()
    assert (part.min(), part.max()) == (3.0, 3.5) and "as asked for" in figure.caption


def test_nothing_without_the_probe(tmp_path):
    path = fixture.write_experiment(tmp_path / "e", ccas=["reno"], seeds=[1], tmix=False)
    assert cwnd.draw(Experiment(path), tmp_path) == tcptrace.draw(Experiment(path), tmp_path) == []


def test_captures_in_the_report(experiment):
    """At the sender n4, whose connection from port 10000 goes to n1; the second run has none."""
    renamed = {"10.0.0.1": "10.0.4.2", "10.0.0.2": "10.0.1.2"}
    raw = experiment / "runs" / "reno-seed1" / "raw"
    packets = []
    for packet in transfer():
        data = packet.data
        for old, new in renamed.items():
            data = data.replace(bytes(map(int, old.split("."))), bytes(map(int, new.split("."))))
        for old, new in ((1000, 10_000), (2000, 20_000)):
            ports = data[34:38].replace(old.to_bytes(2, "big"), new.to_bytes(2, "big"))
            data = data[:34] + ports + data[38:]
        packets.append(packet._replace(data=data))
    network = json.loads((raw / "network.json").read_text())
    network["links"].append({**network["links"][0], "name": "n4_to_r2", "from": "n4", "to": "r2", "device": "n4-eth0",
                             "bottleneck": False})
    fixture.write_json(raw / "network.json", network)
    with gzip.open(raw / "capture-n4-eth0.pcapng.gz", "wb") as file:
        pcap_files.write(file, "pcapng", packets, 96, "n4-eth0")
    fixture.seal(raw.parent)
    page = build_report(experiment, zoom=Span(0, 400_000)).path
    figures = page.parent / "figures"
    assert {path.name for path in (figures / "tcptrace").iterdir()} == {
        f"reno-seed1-{name}.xpl" for name in ("time-sequence", "throughput", "rtt")}
    data = pd.read_csv(figures / "tcptrace.csv")
    assert data["reno time-sequence line red 1"].dropna().tolist() == [10.0]
    assert not [name for name in data if name.startswith("cubic")]
    svg = (figures / "tcptrace.svg").read_text()
    assert all(text in svg for text in ("reno", "sent again", "acknowledged", "RTT (ms)", "Mbit/s"))
    assert "What tcptrace sees at the sender" in page.read_text()


def test_a_part_beyond_the_end_is_an_error(experiment):
    with pytest.raises(AnalysisError, match="no run lasts until 900 s, where the part .* ends at"):
        build_report(experiment, zoom=Span(900e6, 901e6))


@pytest.mark.parametrize("text, found", [("2s..4500ms", (2_000_000, 4_500_000)), ("0 s..1 s", (0, 1_000_000))])
def test_a_part_on_the_command_line(text, found):
    assert report_command._span(text) == found


@pytest.mark.parametrize("text, words", [("2s", "two times in order"), ("4s..2s", "two times in order"),
                                         ("2..4", "two times in order"), ("2s..4 kB", "two times in order"),
                                         ("1s..2s..3s", "two times in order"), ("1 parsec..2s", "unknown unit")])
def test_no_part_of_a_run(text, words):
    with pytest.raises(argparse.ArgumentTypeError, match=words):
        report_command._span(text)
