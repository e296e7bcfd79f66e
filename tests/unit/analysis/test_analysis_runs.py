# SPDX-License-Identifier: GPL-2.0-only
"""Run and experiment folders, whole and damaged."""

import gzip
import json
import os

import pytest

import fixture
from analysis.metrics import load_metrics, write_metrics
from analysis.runs import AnalysisError, Experiment, Run


def test_name_gives_cca_and_seed(tmp_path):
    run = Run(tmp_path / "reno-sack-seed12")
    assert (run.cca, run.seed) == ("reno-sack", 12)
    with pytest.raises(AnalysisError, match="<cca>-seed<number>"):
        Run(tmp_path / "reno")


def test_interval_is_after_prefill_and_warmup(run_dir):
    assert Run(run_dir).interval == (2_000_000, 12_000_000)


def test_target_link_comes_first(run_dir):
    assert list(Run(run_dir).bottlenecks) == ["right_to_left", "left_to_right"]


def test_directions_follow_the_initiators_side(run_dir):
    assert Run(run_dir).directions()[0] == ("left_to_right", "right_to_left")


@pytest.mark.parametrize("name", ["queue", "sojourn", "sojourn_hist", "connections", "adus",
                                  "tcp_info"])
def test_half_written_gzip_names_the_file(run_dir, name):
    path = run_dir / "raw" / f"{name}.csv.gz"
    content = path.read_bytes()
    path.write_bytes(content[:len(content) // 2])
    with pytest.raises(AnalysisError, match=f"{name}.csv.gz: .*too early"):
        write_metrics(run_dir)
    assert [file.name for file in run_dir.iterdir() if "metrics" in file.name] == []


@pytest.mark.parametrize("content, message", [
    (b"plain text", "gzip"),
    (gzip.compress(b""), "no header"),
    (gzip.compress(b"t_us,link\n1,a\n"), "sent_bytes"),
    (gzip.compress(b"t_us,link,sent_bytes,sent_packets,drops,backlog_bytes,backlog_packets\n"
                   b"0,right_to_left,0,0,0,0,0\n10,right_to_left,15"), "queue.csv.gz"),
    (gzip.compress(b"t_us,link,sent_bytes,sent_packets,drops,backlog_bytes,backlog_packets\n"
                   b"zero,right_to_left,0,0,0,0,0\n"), "zero"),
])
def test_other_damage_names_the_file(run_dir, content, message):
    (run_dir / "raw" / "queue.csv.gz").write_bytes(content)
    with pytest.raises(AnalysisError, match="queue.csv.gz") as caught:
        Run(run_dir).frame("queue")
    assert message in str(caught.value)


def test_absent_tables_are_no_error(run_dir, values):
    for name in ("sojourn", "sojourn_hist", "connections", "adus", "tcp_info"):
        (run_dir / "raw" / f"{name}.csv.gz").unlink()
    assert values(run_dir)["throughput_mean", "right_to_left"] == 60


def test_json_defects_name_the_file(run_dir):
    (run_dir / "raw" / "network.json").write_text("{")
    (run_dir / "raw" / "workload.json").write_text('{"prefill_us": 5}')
    with pytest.raises(AnalysisError, match="network.json: not readable as JSON"):
        Run(run_dir).bottlenecks
    with pytest.raises(AnalysisError, match="workload.json: .*warmup_us"):
        Run(run_dir).interval


def test_empty_interval_is_an_error(run_dir):
    fixture.write_json(run_dir / "raw" / "workload.json",
                       {"prefill_us": 5, "warmup_us": 5, "duration_us": 10})
    with pytest.raises(AnalysisError, match="nothing to measure"):
        Run(run_dir).interval


def test_missing_or_broken_status_is_told(tmp_path):
    run = Run(tmp_path / "reno-seed1")
    run.path.mkdir()
    assert not run.finished and "run.json is missing" in run.status["error"]
    (run.path / "run.json").write_text("nonsense")
    assert "not readable as JSON" in Run(run.path).status["error"]
    assert Run(run.path).verdict["verdict"] == "unknown"


def test_usable_runs_are_finished_and_not_invalid(tmp_path):
    path = fixture.write_experiment(tmp_path / "e", ccas=["reno"], seeds=[1, 2, 3, 4],
                                    failed={"reno-seed1": "boom"},
                                    verdicts={"reno-seed2": "invalid", "reno-seed3": "suspect"})
    assert [run.seed for run in Experiment(path).usable_runs] == [3, 4]


def test_ccas_keep_the_order_asked_for(tmp_path):
    path = fixture.write_experiment(tmp_path / "e", ccas=["vegas", "bbr"], seeds=[1])
    assert Experiment(path).ccas == ["vegas", "bbr"]


def test_experiment_without_runs_is_an_error(tmp_path):
    (tmp_path / "experiment.json").write_text(json.dumps({"runs": []}))
    with pytest.raises(AnalysisError, match="lists no run folders"):
        Experiment(tmp_path)


def test_metrics_file_is_reused_until_raw_data_change(run_dir):
    write_metrics(run_dir)
    (run_dir / "metrics.csv").write_text("metric,scope,unit,value\nmark,all,1,7\n")
    later = (run_dir / "metrics.csv").stat().st_mtime + 1
    os.utime(run_dir / "metrics.csv", (later, later))
    assert load_metrics(Run(run_dir))["metric"].tolist() == ["mark"]
    os.utime(run_dir / "raw" / "queue.csv.gz", (later + 1, later + 1))
    assert "throughput_mean" in load_metrics(Run(run_dir))["metric"].tolist()
