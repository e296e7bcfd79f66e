# SPDX-License-Identifier: GPL-2.0-only
"""Run and experiment folders: what is read from which record, and what is said of wrong ones."""

import gzip
import json

import pandas as pd
import pytest

from analysis.read.experiment import Experiment
from analysis.read.runs import AnalysisError, Run, read_frame
from testbed.core import raw_tables
from testbed.core.run_files import ListedRun
from tests.unit.analysis import fixture


def edit(path, function):
    content = json.loads(path.read_text())
    function(content)
    fixture.write_json(path, content)


def test_a_run_is_what_its_records_say(tmp_path):
    run = Run(fixture.write_run(tmp_path / "0123456789abcdef", 7, subject="libra+bic", point={"limit": "85"}))
    assert (run.subject, run.seed, run.engine, run.point) == ("libra+bic", 7, "uml", {"limit": "85"})
    assert [variant["name"] for variant in run.variants] == ["libra", "bic"] and run.kernel == "6.12.30"
    assert run.state.kind == "finished"


def test_an_experiment_names_its_runs_and_its_points(tmp_path):
    path = fixture.write_experiment(tmp_path / "e", ["reno"], [1], points=[{"limit": "85"}])
    edit(path / "experiment.json", lambda content: content["runs"][0].update(name="other", point={"limit": "90"}))
    run, = Experiment(path).runs
    assert (run.name, run.point) == ("other", {"limit": "90"})


def test_interval_is_after_prefill_and_warmup(run_dir):
    assert Run(run_dir).interval == (2_000_000, 12_000_000)


def test_target_link_comes_first(run_dir):
    assert list(Run(run_dir).bottlenecks) == ["right_to_left", "left_to_right"]
    assert Run(run_dir).targets == ["right_to_left"]


def test_without_a_target_the_links_that_flows_send_over_come_first(tmp_path):
    flow = fixture.flow(1, 10_000, "reno")
    path = fixture.write_run(tmp_path / "reno-seed1", tmix=False, flows=[{**flow, "hops": ["left_to_right"]}])
    assert list(Run(path).bottlenecks) == ["left_to_right", "right_to_left"] and Run(path).targets == ["left_to_right"]


def parking_lot(path):
    """Two bottlenecks in each direction, one path over both, one over the second only; names tell nothing."""
    def network(content):
        first, second = ({**link, "name": f"hop1_{link['direction'][0]}"} for link in content["links"]), \
            ({**link, "name": f"hop2_{link['direction'][0]}"} for link in content["links"])
        content["links"] = [*first, *second]
        content["paths"] = [
            {"initiator": "n1", "acceptor": "n4", "base_rtt_us": 8000, "hops": ["hop1_l", "hop2_l"],
             "hops_back": ["hop2_r", "hop1_r"]},
            {"initiator": "n2", "acceptor": "n3", "base_rtt_us": 4000, "hops": ["hop2_l"], "hops_back": ["hop2_r"]}]
    edit(path / "raw" / "network.json", network)


def test_directions_are_those_of_the_links_on_the_path(run_dir):
    parking_lot(run_dir)
    run = Run(run_dir)
    assert run.direction_between("n1", "n4") == "left_to_right" and run.direction_between("n4", "n1") == "right_to_left"
    # both are on the left side
    assert run.direction_between("n2", "n3") == "left_to_right" and run.direction_between("n3", "n2") == "right_to_left"
    # no path: by their sides
    assert run.direction_between("n3", "n6") == "left_to_right" and run.direction_between("n2", "n1") == ""


def test_directions_of_sources(run_dir):
    assert Run(run_dir).directions()[0] == ("left_to_right", "right_to_left")


@pytest.mark.parametrize("name", ["queue", "sojourn", "sojourn_hist", "connections", "adus", "tcp_info"])
def test_half_written_gzip_names_the_file(run_dir, name):
    path = run_dir / "raw" / f"{name}.csv.gz"
    content = path.read_bytes()
    path.write_bytes(content[:len(content) // 2])
    with pytest.raises(AnalysisError, match=f"{name}.csv.gz: .*too early"):
        Run(run_dir).frame(name)
    assert Run(run_dir).state.kind == "damaged" and f"{name}.csv.gz" in Run(run_dir).state.message


HEADER = ",".join(raw_tables.TABLES["queue"].names()).encode()


# without ids the names would have the time in them, as gzip's header does
@pytest.mark.parametrize("content, message", [
    (b"plain text", "gzip"),
    (gzip.compress(b""), "no header"),
    (gzip.compress(b"t_us,link\n1,a\n"), "sent_bytes"),
    (gzip.compress(HEADER + b"\n0,right_to_left,0,0,0,0,0\n10,right_to_left,15"), "queue.csv.gz"),
    (gzip.compress(HEADER + b"\nzero,right_to_left,0,0,0,0,0\n"), "zero"),
    (gzip.compress(HEADER + b"\n" + b"9" * 40 + b",right_to_left,0,0,0,0,0\n"), "queue.csv.gz"),
], ids=["no gzip", "empty", "other columns", "half a row", "no number", "too large a number"])
def test_other_damage_names_the_file(run_dir, content, message):
    (run_dir / "raw" / "queue.csv.gz").write_bytes(content)
    with pytest.raises(AnalysisError, match="queue.csv.gz") as caught:
        Run(run_dir).frame("queue")
    assert message in str(caught.value)


def test_columns_left_out_are_read_when_asked_for(run_dir):
    run = Run(run_dir)
    assert "rto_us" not in run.frame("tcp_info") and "rto_us" in run.frame("tcp_info", "rto_us")
    assert read_frame(run_dir / "raw" / "queue.csv.gz", {"t_us": "integer"}).columns.tolist() == ["t_us"]


def test_runs_with_and_without_the_time_of_dropped_packets_are_read_alike(run_dir):
    path = run_dir / "raw" / "sojourn.csv.gz"
    with_it = pd.read_csv(path).assign(dropped_us=1.5)
    assert list(with_it) == raw_tables.TABLES["sojourn"].names()
    fixture.save(path, with_it)
    frame = Run(run_dir).frame("sojourn")
    fixture.save(path, with_it.drop(columns="dropped_us"))
    assert len(frame) and frame.equals(Run(run_dir).frame("sojourn"))


@pytest.mark.parametrize("name", ["sojourn", "sojourn_hist", "connections", "adus", "tcp_info"])
def test_absent_tables_are_no_error(run_dir, values, name):
    (run_dir / "raw" / f"{name}.csv.gz").unlink()
    fixture.seal(run_dir)
    assert values(run_dir)["throughput_mean", "right_to_left"] == 60


def test_a_simulator_that_knows_little(tmp_path, values, change):
    """Bytes of flows but no windows, queues but no sojourn times, no kernel to look into."""
    path = fixture.write_run(tmp_path / "reno-seed1", tmix=False, sojourn=False, engine="ns3")
    known = {"t_us", "node", "src", "sport", "dst", "dport", "bytes_acked", "bytes_sent", "bytes_received"}
    change(path, "tcp_info", lambda table: table.assign(**{name: None for name in table if name not in known}))
    found = values(path)
    assert found["mean_throughput_l4", "flow_1"] == pytest.approx(1, rel=1e-3)
    assert ("mean_cwnd_l4", "flow_1") not in found and ("srtt_mean", "right_to_left") not in found


def test_json_defects_name_file_and_field(run_dir):
    (run_dir / "raw" / "network.json").write_text("{")
    edit(run_dir / "plan.json", lambda plan: plan["scenario"]["timing"].update(warmup_us="soon"))
    with pytest.raises(AnalysisError, match="network.json: not readable as JSON"):
        _ = Run(run_dir).bottlenecks
    with pytest.raises(AnalysisError,
                       match="plan.json: scenario.timing.warmup_us: a whole number from 0 expected, not 'soon'"):
        _ = Run(run_dir).interval


def test_empty_interval_is_an_error(run_dir):
    edit(run_dir / "plan.json", lambda plan: plan["scenario"]["timing"].update(duration_us=2_000_000))
    with pytest.raises(AnalysisError, match="nothing to measure"):
        _ = Run(run_dir).interval


@pytest.mark.parametrize("spoil, kind, message", [
    (lambda path: path.rename(path.with_name("away")), "missing", "not there"),
    (lambda path: (path / "run.json").unlink(), "damaged", "run.json: file is missing"),
    (lambda path: (path / "run.json").write_text("nonsense"), "damaged", "run.json: not readable as JSON"),
    (lambda path: edit(path / "run.json", lambda run: run.update(status="failed", error="oops")), "failed", "oops"),
    (lambda path: edit(path / "run.json", lambda run: run.update(id="ab" * 8)), "damaged", "this is run 'abab"),
    (lambda path: edit(path / "plan.json", lambda run: run.update(id="ab" * 8)), "damaged", "plan.json: this is run"),
    (lambda path: (path / "raw" / "queue.csv.gz").unlink(), "damaged", "queue.csv.gz: file is missing"),
    (lambda path: (path / "raw" / "more.csv").touch(), "damaged", "more.csv: the run did not leave this file"),
    (lambda path: edit(path / "raw" / "workload.json", lambda w: w["flows"].pop()), "damaged", "not what the run left"),
    (lambda path: (path / "raw").rename(path / "was"), "damaged", "raw: No such file")])
def test_state(run_dir, spoil, kind, message):
    listed = ListedRun({"id": run_dir.name, "name": "x", "subject": "cubic", "seed": 1, "point": {}})
    spoil(run_dir)
    state = Run(run_dir, listed).state
    assert (state.kind, Run(run_dir, listed).finished) == (kind, False) and message in state.message


def test_usable_runs_are_finished_and_not_invalid(tmp_path):
    path = fixture.write_experiment(tmp_path / "e", ccas=["reno"], seeds=[1, 2, 3, 4],
                                    failed={"reno-seed1": "boom"},
                                    verdicts={"reno-seed2": "invalid", "reno-seed3": "suspect"})
    assert [run.seed for run in Experiment(path).usable_runs] == [3, 4]


def test_subjects_keep_the_order_asked_for(tmp_path):
    path = fixture.write_experiment(tmp_path / "e", ccas=["vegas", "bbr"], seeds=[1])
    assert Experiment(path).subjects == ["vegas", "bbr"]


@pytest.mark.parametrize("content, message", [
    ({"runs": ["runs/reno-seed1"], "command": ["run", "access-link", "--cca", "reno"]},
     "made by an older version of the testbed: run the scenario again; its command was: "
     "bin/testbed run access-link --cca reno$"),
    ({"runs": []}, "run the scenario again$"), ({"schema": 3}, "a newer version"),
    ({"schema": 2, "runs": []}, "runs: a list of 1 or more"),
    ({"schema": 2, "runs": [{"id": "../../../etc", "name": "x", "subject": "x", "seed": 1, "point": {}}]},
     "not the id of a run"),
    ({"schema": 2, "runs": [{"id": "ab" * 8, "name": "x", "subject": "x", "seed": 1, "point": {}}] * 2},
     "two runs are named 'x'"),
    ([], "a JSON object is expected"), (None, "a JSON object is expected")])
def test_experiments_that_cannot_be_read(tmp_path, content, message):
    (tmp_path / "experiment.json").write_text(json.dumps(content))
    with pytest.raises(AnalysisError, match=message) as caught:
        Experiment(tmp_path)
    assert "\n" not in str(caught.value)
