# SPDX-License-Identifier: GPL-2.0-only
"""The loss recovery figure: what it reads out of tcp_probe, by hand, and when it is drawn."""

import json

import numpy as np
import pandas as pd
import pytest

from analysis.figures import recovery as figure_file
from analysis.flows import recovery
from analysis.metrics import recovery as metrics_file
from analysis.pages import columns
from analysis.read.experiment import Experiment
from analysis.read.runs import Run
from analysis.read.tables import Results
from tests.unit.analysis import fixture

MSS = 1448
SRC, DST = "10.0.4.2:10000", "10.0.1.2:20000"


def probe(*rows, base=0):
    """Rows (t_us, una, nxt, cwnd[, ssthresh[, data_len[, snd_wnd]]]) of tcp_probe; data in segments from `base`."""
    table = pd.DataFrame([(*row, *(recovery.NOT_SET, 0, 65535)[len(row) - 4:]) for row in rows],
                         columns=["t_us", "una", "nxt", "snd_cwnd", "ssthresh", "data_len", "snd_wnd"])
    return pd.DataFrame({**table[["t_us", "snd_cwnd", "ssthresh", "data_len", "snd_wnd"]], "src": SRC, "dst": DST,
                         "srtt_us": 100_000,
                         "snd_una": (table["una"] * MSS + base) % 2**32,
                         "snd_nxt": (table["nxt"] * MSS + base) % 2**32})


#: segment 4 of 1..8 is lost; at 3rd duplicate ACK it goes out again, at 500 ms once more, by the timer
ROWS = ((100_000, 0, 4, 4), (101_000, 2, 6, 5), (102_000, 3, 8, 6), (103_000, 3, 8, 6), (104_000, 3, 8, 6),
        (105_000, 3, 8, 6), (106_000, 3, 8, 2, 3), (600_000, 3, 8, 1, 2), (601_000, 8, 9, 2, 2), (602_000, 9, 11, 3, 2))


def flow(*rows, again=(105_020, 500_000), chosen=(), base=0):
    return recovery.flow_of(probe(*rows, base=base), np.array(again), MSS, list(chosen))


def values(table):
    return [tuple(row) for row in table.itertuples(index=False)]


def test_values_hold_from_the_segment_that_changed_them():
    found = flow(*ROWS)
    assert values(found.progress)[:4] == [(0, 0, 4), (100_000, 2, 6), (101_000, 3, 8), (102_000, 3, 8)]
    assert values(found.progress)[-2:] == [(600_000, 8, 9), (601_000, 9, 11)]
    assert values(found.window)[:3] == [(0, 4), (100_000, 5), (101_000, 6)]
    assert found.rtt_us == 100_000


def test_what_the_timer_did_is_drawn_when_it_fired():
    found = flow(*ROWS)
    assert values(found.window)[3:] == [(105_000, 2), (500_000, 1), (600_000, 2), (601_000, 3)]
    assert values(found.threshold) == [(105_000, 3), (500_000, 2)]


def test_duplicates_are_numbered_and_other_segments_are_none():
    found = flow(*ROWS)
    assert values(found.duplicates) == [(102_000, 3, 1), (103_000, 3, 2), (104_000, 3, 3), (105_000, 3, 4),
                                        (106_000, 3, 5)]
    data = flow((1000, 0, 4, 4), (2000, 0, 4, 4, 9, 1448), (3000, 0, 4, 4), (4000, 0, 4, 4, 9, 0, 70_000),
                (5000, 0, 4, 4, 9, 0, 70_000))
    # at 2000 data came, at 3000 a larger window; of the last row it is not known
    assert values(data.duplicates) == [(1000, 0, 1), (4000, 0, 2)]
    idle = flow((1000, 4, 4, 4), (2000, 4, 4, 4), (3000, 4, 4, 4))
    assert idle.duplicates.empty


def test_retransmissions_stand_at_what_is_acknowledged():
    assert values(flow(*ROWS).retransmissions) == [(105_020, 3), (500_000, 3)]
    assert values(flow(*ROWS, again=(102_000, 600_000, 700_000)).retransmissions) == [(102_000, 3), (600_000, 8),
                                                                                      (700_000, 9)]


def test_chosen_losses_stand_where_they_were_sent():
    assert values(flow(*ROWS, chosen=(4, 6, 7, 99)).losses) == [(0, 4), (100_000, 6), (101_000, 7)]
    # a transfer that does not begin at 0 loses nothing
    assert flow(*ROWS, chosen=(4,), base=17).losses.empty


def test_sequence_numbers_that_wrap():
    assert values(flow(*ROWS, base=2**32 - 5 * MSS).progress) == values(flow(*ROWS).progress)


def test_the_threshold_is_not_what_outside_of_recovery_stands_for_it():
    """tcp_current_ssthresh() is 3/4 of the window if that is more than the threshold."""
    rows = probe((1, 0, 9, 10), (2, 0, 9, 10, 5), (3, 0, 9, 6, 5), (4, 1, 9, 7, 5), (5, 2, 9, 8, 6), (6, 3, 9, 9, 6),
                 (7, 4, 9, 9, 4))
    assert recovery.threshold(rows).tolist()[1:] == [5, 5, 5, 5, 5, 4] and np.isnan(recovery.threshold(rows)[0])


def test_a_pause_ends_the_first_repair():
    found = flow(*ROWS, again=(105_020, 500_000, 1_600_000, 1_700_000))
    assert (found.first_us, found.last_us) == (105_020, 500_000)


@pytest.fixture
def experiment(tmp_path):
    """Two congestion controls with tcp_probe, the second has no losses."""
    path = fixture.write_experiment(tmp_path / "e", ccas=["tahoe", "reno's", "plain"], seeds=[1], tmix=False,
                                    shapes={"tahoe": fixture.Shape(tcp_info_rows=20_000)})
    for cca in ("tahoe", "reno's", "plain"):
        raw = path / "runs" / f"{cca}-seed1" / "raw"
        fixture.save(raw / "tcp_probe.csv.gz", probe(*ROWS))
        again = pd.DataFrame({"t_us": [105_020, 500_000], "src": SRC, "dst": DST})
        fixture.save(raw / "retransmissions.csv.gz", again if cca != "plain" else again.iloc[:0])
        network = json.loads((raw / "network.json").read_text())
        network["links"][0]["lose_segments"] = [4]
        (raw / "network.json").write_text(json.dumps(network))
        samples = pd.read_csv(raw / "tcp_info.csv.gz")
        mine = (samples["sport"] == 10000) & (samples["node"] == "n4")
        samples.loc[mine & samples["t_us"].between(150_000, 400_000), "ca_state"] = 3
        fixture.save(raw / "tcp_info.csv.gz", samples)
        fixture.seal(raw.parent)
    return path


def test_one_row_for_every_control_that_lost_something(experiment, tmp_path):
    figure, = figure_file.draw(Experiment(experiment), tmp_path)
    assert figure.name == "recovery" and figure.caption.endswith("Seed 1 only.")
    text = (tmp_path / "recovery.svg").read_text()
    assert all(word in text for word in ("tahoe", "reno's", "threshold", "duplicate ACK",
                                         "lost")) and "plain" not in text
    data = pd.read_csv(tmp_path / "recovery.csv")
    assert data["tahoe losses segment"].dropna().tolist() == [4]
    assert data["tahoe retransmissions t"].dropna().tolist() == [0.10502, 0.5]
    assert data["tahoe window cwnd"].max() == 6 and data["tahoe threshold ssthresh"].dropna().iloc[0] == 3


def test_the_numbers_of_the_report(experiment):
    """Segment 4 is acknowledged 495 ms after it was first sent again; the timer struck once."""
    found = {metric.metric: (metric.scope, metric.value)
             for metric in metrics_file.compute(Run(experiment / "runs" / "tahoe-seed1"))}
    assert found == {"fast_recoveries": ("flow_1", 1), "timeouts": ("flow_1", 1), "segments_sent_again": ("flow_1", 2),
                     "segments_acknowledged": ("flow_1", 9), "ssthresh_lowest": ("flow_1", 2),
                     "repair_time": ("flow_1", pytest.approx(494.98))}
    assert metrics_file.compute(Run(experiment / "runs" / "plain-seed1")) == []
    results = Results(Experiment(experiment))
    table, = [table for table in columns.tables(results).flows if table.title == "Repair of the chosen losses"]
    assert [column.label for column in table.columns] == ["fast recoveries", "timeouts", "sent again",
                                                          "lowest threshold", "repaired after", "acknowledged"]


def test_a_retransmission_that_an_ack_brought_about_is_no_timeout():
    assert flow(*ROWS).timeouts == 1
    assert flow(*ROWS, again=(105_020, 106_020)).timeouts == 0      # right after an ACK
    assert flow(*ROWS, again=(105_020,)).timeouts == 0              # the window stayed above one


def test_times_of_repair(experiment):
    found = recovery.first_to_lose(Run(experiment / "runs" / "tahoe-seed1"))
    assert found.states["ca_state"].tolist() == [3]
    (start, end), = found.states[["start", "end"]].values.tolist()
    assert 150_000 <= start < 162_000 and 400_000 < end <= 412_000
    # sampled every 120 ms, with a round trip of 100 ms
    assert recovery.first_to_lose(Run(experiment / "runs" / "reno's-seed1")).states.empty


def spoil_flows(raw):
    """More flows than one can look at."""
    fixture.save(raw / "tcp_probe.csv.gz",
                 pd.concat([probe(*ROWS).assign(src=f"10.0.4.2:{port}") for port in range(10_000, 10_013)]))


@pytest.mark.parametrize("spoil", [
    lambda raw: (raw / "tcp_probe.csv.gz").unlink(), lambda raw: (raw / "retransmissions.csv.gz").unlink(), spoil_flows,
    lambda raw: fixture.write_json(raw / "workload.json",
                                   {**json.loads((raw / "workload.json").read_text()), "flows": []})])
def test_nothing_to_draw(experiment, tmp_path, spoil):
    for run in (experiment / "runs").iterdir():
        spoil(run / "raw")
        fixture.seal(run)
    assert figure_file.draw(Experiment(experiment), tmp_path) == []
