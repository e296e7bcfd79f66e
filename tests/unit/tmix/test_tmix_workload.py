# SPDX-License-Identifier: GPL-2.0-only
"""Whole workloads, and the functions for users' own vector files."""

import json
import random

import numpy as np
import pytest

from traffic.tmix import tools
from traffic.tmix.batch import from_vectors
from traffic.tmix.plan import read_plan
from traffic.tmix.reader import VectorError, read_vectors
from traffic.tmix.synth import SynthParameters, synthesise
from traffic.tmix.vectors import SEQ, Adu, Vector
from traffic.tmix.workload import Synthesised, WorkloadError, build_workload, trace_files
from traffic.tmix.writer import write_vectors

RTTS_US = [2000 * (left + 2 + right) for left in (0, 12, 25) for right in (2, 37, 75)]
QUICK = dict(rate_bps=100e6, prefill_us=10_000_000, warmup_us=10_000_000, test_us=40_000_000)


@pytest.mark.parametrize("load, seed", [(0.6, 1), (0.85, 2), (1.1, 3)])
def test_quick_workload_meets_its_target(tmp_path, load, seed):
    made = build_workload(Synthesised(), target_load=load, seed=seed, rtts_us=RTTS_US,
                          out_dir=tmp_path, **QUICK)
    assert made["offered_bps"]["right_to_left"] == pytest.approx(load * 100e6, rel=0.05)
    assert made["load_error"] == pytest.approx(
        made["offered_bps"]["right_to_left"] / (load * 100e6) - 1, abs=1e-6)
    assert made["duration_us"] == 60_000_000 and made["bin_us"] == 5_000_000
    assert 0 < made["prefill_window_us"] <= 10_000_000
    assert made["thirds_difference"] <= 0.05 or made["shuffle_attempts"] == 30
    assert json.loads(json.dumps(made)) == made
    plans = [read_plan(tmp_path / f"source{source}.plan") for source in range(9)]
    assert sum(map(len, plans)) == made["connections"]
    window_from_us = 10_000_000 - made["prefill_window_us"]
    for source, plan in enumerate(plans):
        assert plan.header["source"] == source
        assert window_from_us <= plan.start_us[0] and plan.start_us[-1] < 60_000_000
        for start_us, moved in zip(plan.start_us, plan.prefill):
            assert moved == (start_us < 10_000_000)
        assert len(set(plan.conn_id)) == len(plan)


def test_access_link_is_steady(tmp_path):
    made = build_workload(Synthesised(), rate_bps=100e6, target_load=0.3, seed=5,
                          prefill_us=36_720_000, warmup_us=84_000_000, test_us=479_000_000,
                          rtts_us=RTTS_US, out_dir=tmp_path)
    assert made["thirds_difference"] <= 0.05
    assert abs(made["load_error"]) <= 0.01
    assert made["scale"] == pytest.approx(1, abs=0.2)


def test_same_seed_same_plans(tmp_path):
    for name, seed in (("a", 4), ("b", 4), ("c", 5)):
        build_workload(Synthesised(2), target_load=0.3, seed=seed, rtts_us=RTTS_US[:2],
                       out_dir=tmp_path / name, **QUICK)
    a, b, c = ((tmp_path / name / "source1.plan").read_bytes() for name in "abc")
    assert a == b != c


def test_both_directions_can_be_the_target(tmp_path):
    made = build_workload(Synthesised(3), target_load=0.5, seed=1, rtts_us=RTTS_US[:3],
                          out_dir=tmp_path, target_link="both", **QUICK)
    assert sum(made["offered_bps"].values()) == pytest.approx(50e6, rel=0.05)


def small_traces(folder, seconds=100, every_us=2000):
    """Two sources of one 10,000-byte response every 2 ms, in both formats."""
    trace = [Vector(start, SEQ, (1, start), (Adu(0, 0, 300), Adu(1, 5, 10000)))
             for start in range(0, seconds * 1_000_000, every_us)]
    write_vectors(folder / "s1.vec", trace)
    write_vectors(folder / "s2.vec.gz", trace, "alternate")
    return trace_files(folder)


def test_own_traces_are_scaled_to_the_target(tmp_path):
    files = small_traces(tmp_path)
    assert [path.name for path in files] == ["s1.vec", "s2.vec.gz"]
    made = build_workload(files, rate_bps=100e6, target_load=0.6, seed=1, prefill_us=2_000_000,
                          warmup_us=1_000_000, test_us=20_000_000, rtts_us=[10_000, 20_000],
                          out_dir=tmp_path / "plans")
    # 10,000 bytes are 7 packets: 10,462 bytes, and 74 + 66 + 132 around them, 500/s twice
    unscaled_bps = 2 * 500 * 8 * (10_000 + 7 * 66 + 74 + 66 + 132)
    assert made["scale"] == pytest.approx(unscaled_bps / 60e6, rel=0.02)
    assert abs(made["load_error"]) < 0.01 and made["thirds_difference"] < 0.02


def test_fixed_scale_is_used_as_it_is(tmp_path):
    made = build_workload(small_traces(tmp_path), rate_bps=100e6, target_load=0.6, seed=1,
                          prefill_us=0, warmup_us=0, test_us=20_000_000,
                          rtts_us=[10_000, 20_000], out_dir=tmp_path / "plans", scale=2.0)
    assert made["scale"] == 2.0
    assert made["load_error"] == pytest.approx(85.9e6 / 2 / 60e6 - 1, abs=0.01)
    starts = np.array(read_plan(tmp_path / "plans" / "source0.plan").start_us)
    assert (starts % 4000 == 0).all()


def test_unusable_input_is_named(tmp_path):
    files = small_traces(tmp_path, seconds=5)
    arguments = dict(rate_bps=100e6, target_load=0.6, seed=1, prefill_us=0, warmup_us=0,
                     test_us=60_000_000, rtts_us=[1, 1], out_dir=tmp_path / "plans")
    with pytest.raises(WorkloadError, match="longer traces"):
        build_workload(files, **arguments)
    with pytest.raises(WorkloadError, match="2 sources but 1 round-trip"):
        build_workload(files, **{**arguments, "rtts_us": [1]})
    with pytest.raises(WorkloadError, match="target link"):
        build_workload(files, **arguments, target_link="up")
    with pytest.raises(WorkloadError, match="positive"):
        build_workload(files, **{**arguments, "test_us": 0})
    with pytest.raises(WorkloadError, match="source 1 has no connections"):
        build_workload([from_vectors(read_vectors(files[0])), from_vectors([])], **arguments)
    (tmp_path / "s1.vec").write_text("SEQ\n")
    with pytest.raises(VectorError, match="s1.vec:1:"):
        build_workload(files, **arguments)
    with pytest.raises(WorkloadError, match="no vector files"):
        (tmp_path / "empty").mkdir()
        trace_files(tmp_path / "empty")


def test_info_by_hand(data):
    found = tools.info(data / "original.txt")
    assert json.loads(json.dumps(found)) == found
    assert found["connections"] == 4 and found["kinds"] == {"SEQ": 3, "CONC": 1}
    assert found["duration_s"] == 0.900001 and found["explicit_fins"] == 3
    assert found["mss"] == {"none": 3, "496 496": 1}
    assert found["initiator"]["adus"] == 6 and found["acceptor"]["adus"] == 9
    assert found["initiator"]["payload_bytes"] == 826 + 100 + 20 + 396 + 10 + 5
    assert found["acceptor"]["payload_bytes"] == (1213 + 3000 + 49 + 1024 + 1536 + 2048 + 190
                                                  + 46 + 6)
    assert found["acceptor"]["adu_bytes_percentiles"]["100"] == 3000
    assert found == tools.info(data / "alternate.txt")


def test_info_of_nothing(tmp_path):
    (tmp_path / "empty").write_text("# nothing\n\n")
    assert tools.info(tmp_path / "empty") == {"connections": 0}


def test_synth_convert_and_shuffle_files(tmp_path):
    made, alternate, back, shuffled = (tmp_path / name for name in
                                       ("a.gz", "b", "c.gz", "d"))
    parameters = SynthParameters(connections_per_second=20)
    count = tools.synth(made, 20, 3, parameters)
    assert list(read_vectors(made)) == list(synthesise(20, 3, parameters))
    assert tools.convert(made, alternate, "alternate") == count
    assert tools.convert(alternate, back, "original") == count
    assert back.read_bytes() == made.read_bytes()
    assert tools.shuffle(made, shuffled, 2, seed=1) == count
    before, after = list(read_vectors(made)), list(read_vectors(shuffled))
    assert [v.start_us for v in after] == sorted(v.start_us for v in after)
    assert {(v.ids, v.start_us % 2_000_000) for v in after} == {
        (v.ids, v.start_us % 2_000_000) for v in before}
    assert [v.ids for v in after] != [v.ids for v in before]
    with pytest.raises(ValueError, match="neither"):
        tools.convert(made, alternate, "binary")
    assert random.Random(1).random() == 0.13436424411240122    # what shuffle.py relies on
