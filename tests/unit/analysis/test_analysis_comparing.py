# SPDX-License-Identifier: GPL-2.0-only
"""Lists of runs against each other: what pairs, and what is done with it."""

import pytest

from analysis import metrics
from analysis.compare import run_lists
from analysis.compare.run_lists import Measurements, by_seed, compare, compare_runs, differences, pairing_key
from analysis.metrics import Metric
from analysis.read.runs import AnalysisError, Run
from tests.unit.analysis import fixture

DOWN = ("throughput_mean", "right_to_left")


def runs(folder, subject, seeds=(1, 2, 3), **options):
    return [Run(fixture.write_run(folder / f"{subject}-seed{seed}", seed, subject=subject, **options))
            for seed in seeds]


def test_runs_of_a_seed_pair_whatever_was_tested(tmp_path):
    reno, cubic = runs(tmp_path, "reno"), runs(tmp_path, "cubic")
    assert [pairing_key(run) for run in reno] == [pairing_key(run) for run in cubic]
    assert pairing_key(reno[0]).seed == 1


def test_other_traffic_of_the_same_seed_does_not_pair(tmp_path, change):
    one, = runs(tmp_path, "reno", (1,))
    known = pairing_key(one)
    faster = fixture.write_run(tmp_path / "faster-seed1", 1, fixture.Shape(rate_bytes_per_us=2))
    assert pairing_key(Run(faster)) == known        # what became of the demand does not matter
    change(faster, "connections", lambda table: table.assign(scheduled_us=table["scheduled_us"] + 1))
    assert pairing_key(Run(faster)) != known


def test_greedy_flows_pair_by_their_starts(tmp_path):
    def run(name, start_us):
        flows = [fixture.flow(1, 10_000, name, start_us=start_us)]
        return pairing_key(Run(fixture.write_run(tmp_path / name, flows=flows, tmix=False)))
    assert run("reno", 5) == run("cubic", 5) != run("bbr", 6)


def test_common_keys_are_paired_others_are_independent():
    before, after = {1: 10.0, 2: 20.0, 3: 30.0}, {2: 21.0, 3: 31.1, 4: 90.0}
    assert compare(before, after) == run_lists.stats.compare_paired([20, 30], [21, 31.1])
    found = compare(before, {7: 21.0, 3: 31.1})
    assert (found.method, found.n_reference, found.n) == ("Welch", 3, 2)


def test_lists_of_runs(tmp_path):
    reference = Measurements(runs(tmp_path, "reno"))
    other = Measurements(runs(tmp_path, "cubic", shape=fixture.Shape(packets=(55, 10))))
    assert reference.sample(*DOWN) == {key: 60 for key in reference.runs} and reference.units[DOWN] == "Mbit/s"
    found = compare_runs(reference, other, [DOWN, ("no_such_metric", "all")])
    assert list(found) == [DOWN] and found[DOWN].difference == pytest.approx(6)
    assert (found[DOWN].n, found[DOWN].silence) == (3, "no spread between seeds")
    assert ("goodput", "right_to_left") in compare_runs(reference, other)


def test_ratios_are_compared_as_ratios(tmp_path, monkeypatch):
    flows = [fixture.flow(1, 10_000, "reno"), fixture.flow(2, 10_001, "reno", base_rtt_us=80_000)]
    reference = Measurements(runs(tmp_path, "reno", tmix=False, flows=flows))
    name = "throughput_ratio_short_long", "rtt_8_to_80_ms"
    assert compare_runs(reference, reference, [name])[name].ratio is True
    assert compare_runs(reference, reference, [DOWN])[DOWN].ratio is False


def test_two_runs_of_one_seed_do_not_belong_into_one_mean(tmp_path):
    with pytest.raises(AnalysisError, match="cubic-seed1: has the seed and the traffic of .*reno-seed1"):
        Measurements([*runs(tmp_path, "reno"), *runs(tmp_path, "cubic")])


def test_differences_of_the_common_keys():
    assert differences({1: 2.0, 2: 3.0, 3: 1.0}, {1: 5.0, 3: 4.0}) == {1: 3, 3: 3}
    assert differences({1: 2.0}, {1: 5.0}, ratio=True) == {1: 2.5}


def test_seeds_of_different_traffic():
    key = run_lists.PairingKey
    assert by_seed({key(1, "a"): 5.0, key(2, "b"): 6.0}) == {1: 5, 2: 6}
    with pytest.raises(AnalysisError, match="two runs of one seed"):
        by_seed({key(1, "a"): 5.0, key(1, "b"): 6.0})


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_a_ratio_that_is_none_is_the_error_of_its_metric(run_dir, errors, monkeypatch, value):
    from analysis.metrics import rtt_fairness
    monkeypatch.setattr(rtt_fairness, "compute", lambda run: [Metric("throughput_ratio_short_long", "x", "1", value)])
    assert errors(run_dir)["rtt_fairness"] == f"throughput_ratio_short_long of x is a ratio and {value:g}"


def test_metric_files_name_their_ratios():
    assert "throughput_ratio_short_long" in metrics.ratios() and "throughput_mean" not in metrics.ratios()
