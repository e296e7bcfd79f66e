# SPDX-License-Identifier: GPL-2.0-only
"""Whole workloads, and the functions for users' own vector files."""

import itertools
import json
import random
from dataclasses import replace

import numpy as np
import pytest

from testbed.core import steadiness
from traffic.replay.plan import read_plan
from traffic.tmix import tools
from traffic.tmix.batch import from_vectors
from traffic.tmix.order import Order, SourcePath, WorkloadError
from traffic.tmix.reader import Limits, VectorError, read_vectors
from traffic.tmix.reverse import resized
from traffic.tmix.sources import Synthesised, trace_files
from traffic.tmix.synth import SynthParameters, decode, synthesise
from traffic.tmix.vectors import SEQ, Adu, Vector
from traffic.tmix.workload import build_workload, deal
from traffic.tmix.writer import write_vectors

RTTS_US = [2000 * (left + 2 + right) for left in (0, 12, 25) for right in (2, 37, 75)]
QUICK = dict(prefill_us=10_000_000, from_us=20_000_000, to_us=60_000_000)
BOTH_WAYS = {"left_to_right": 100_000_000, "right_to_left": 100_000_000}


def build(sources, folder, rtts_us=RTTS_US, **options):
    """A workload for a dumbbell of 100 Mbit/s, whose target is right_to_left."""
    paths = [SourcePath(rtt_us, ["left_to_right"], ["right_to_left"]) for rtt_us in rtts_us]
    order = {"rates_bps": BOTH_WAYS, "targets": ["right_to_left"], "begin_us": 0, **options}
    return build_workload(sources, paths, Order(**order), folder)


@pytest.mark.parametrize("load, seed", [(0.6, 1), (0.85, 2), (1.1, 3)])
def test_quick_workload_meets_its_target(tmp_path, load, seed):
    made = build(Synthesised(), tmp_path, load=load, seed=seed, **QUICK)
    assert made["offered_bps"]["right_to_left"] == pytest.approx(load * 100e6, rel=0.05)
    assert made["load_error"] == pytest.approx(
        made["offered_bps"]["right_to_left"] / (load * 100e6) - 1, abs=1e-6)
    assert made["measured_us"] == [20_000_000, 60_000_000] and made["bin_us"] == 5_000_000
    assert 0 < made["prefill_window_us"] <= 10_000_000
    assert made["thirds_difference"] <= steadiness.accepted(made["thirds_chance"]) and made["load_chance"] == 0
    assert made["balance"] == "off" and made["shuffle_attempts"] == 1
    assert json.loads(json.dumps(made)) == made
    plans = [read_plan(tmp_path / f"source{source}.plan") for source in range(9)]
    assert sum(map(len, plans)) == made["connections"] and [[len(plan)] for plan in plans] == made["plans"]
    window_from_us = 10_000_000 - made["prefill_window_us"]
    for source, plan in enumerate(plans):
        assert plan.header["source"] == source
        assert window_from_us <= plan.start_us[0] and plan.start_us[-1] < 60_000_000
        for start_us, moved in zip(plan.start_us, plan.prefill):
            assert moved == (start_us < 10_000_000)
        assert len(set(plan.conn_id)) == len(plan)


def test_thirds_are_balanced_on_request(tmp_path):
    differences = {}
    for balance in ("off", "thirds"):
        for seed in range(1, 5):
            made = build(Synthesised(), tmp_path, load=0.6, seed=seed, balance=balance, **QUICK)
            differences[balance, seed] = made["thirds_difference"]
            assert made["balance"] == balance and (balance == "thirds" or made["shuffle_attempts"] == 1)
            assert made["thirds_difference"] == pytest.approx(
                steadiness.difference(made["thirds_bps"]["right_to_left"]), abs=1e-6)
    assert max(differences["thirds", seed] for seed in range(1, 5)) <= 0.05
    assert max(differences["off", seed] for seed in range(1, 5)) > 0.05


def test_a_mean_scale_leaves_the_load_to_chance(tmp_path):
    made = [build(Synthesised(), tmp_path, load=0.6, seed=seed, scale="mean", **QUICK) for seed in range(1, 9)]
    assert len({one["scale"] for one in made}) == 1 and made[0]["scale"] == pytest.approx(1, abs=0.1)
    errors, chances = ([one[f"load_{name}"] for one in made] for name in ("error", "chance"))
    assert np.std(errors) == pytest.approx(np.mean(chances), rel=0.5)
    assert max(abs(error) / chance for error, chance in zip(errors, chances)) < steadiness.SIGMAS


@pytest.mark.parametrize("overhead, share", [("ip", 1 + 14 / 1500), ("wire", 1 - 24 / 1538), ("suite", None)])
def test_load_can_be_counted_with_other_headers(tmp_path, overhead, share):
    made = build(Synthesised(), tmp_path, load=0.6, seed=1, overhead=overhead, **QUICK)
    assert made["overhead"] == overhead
    assert made["counted_bps"]["right_to_left"] == pytest.approx(60e6 * (1 + made["load_error"]), rel=1e-6)
    assert abs(made["load_error"]) < 0.01
    if share:       # most bytes are in full packets
        assert made["offered_bps"]["right_to_left"] / made["counted_bps"]["right_to_left"] == pytest.approx(
            share, abs=0.012)
        assert (made["offered_bps"]["right_to_left"] > 60.1e6) == (overhead == "ip")
    assert "counted_bps" not in build(Synthesised(), tmp_path, load=0.6, seed=1, **QUICK)


def test_prefill_as_the_suite_does_it(tmp_path):
    """Responses of 100 kB and 1 MB: at 0.4 Mbit/s they last 2 and 20 s."""
    batch = from_vectors([Vector(start, SEQ, (1, start), (Adu(0, 0, 300), Adu(1, 5, size)))
                          for start, size in zip(range(0, 60_000_000, 40_000), itertools.cycle([10**6] + 9 * [10**5]))])
    paths = [SourcePath(200_000, ["left_to_right"], ["right_to_left"], 9_800_000)]
    made = {}
    for rule in ("uncongested", "suite"):
        # 25 connections a second, 10 s: 250 of them share 100 Mbit/s
        made[rule] = build_workload([batch], paths, Order(
            rates_bps=BOTH_WAYS, targets=["right_to_left"], load=0.4, seed=1, begin_us=0, scale=1.0, prefill_rule=rule,
            prefill_us=20_000_000, from_us=25_000_000, to_us=55_000_000), tmp_path / rule)
        assert made[rule]["prefill_rule"] == rule
    assert "prefill_flow_bps" not in made["uncongested"]
    assert made["suite"]["prefill_flow_bps"] == pytest.approx(0.4e6, rel=0.002)
    moved = {rule: {start for start, moved in zip(plan.conn_id, plan.prefill) if moved}
             for rule in made for plan in [read_plan(tmp_path / rule / "source0.plan")]}
    # uncongested, a connection lasts less than 2 s; at 0.4 Mbit/s those of 1 MB of the whole prefill are there
    assert moved["uncongested"] < moved["suite"]
    assert len([number for number in moved["suite"] if number % 10 == 0]) == 50
    # those of 100 kB that begin before 10 s are over then, but for the last two seconds'
    assert len(moved["suite"]) == pytest.approx(50 + 0.9 * 300, abs=3)
    # bits until 20 s: 2.1 s of 0.9 x 12 s x 25/s connections, less those of the last two seconds, and the long ones
    sent = 0.84e6 * 0.9 * 25 * 11 + 50 * 0.4e6 * 10
    assert made["suite"]["prefill_window_us"] == pytest.approx(sent / 40e6 * 1e6, rel=0.05)


def test_a_window_that_is_given(tmp_path):
    made = build(Synthesised(2), tmp_path, RTTS_US[:2], load=0.3, seed=1, prefill_window_us=4_000_000, **QUICK)
    assert made["prefill_window_us"] == 4_000_000
    assert 6_000_000 <= min(read_plan(tmp_path / f"source{n}.plan").start_us[0] for n in range(2)) < 8_000_000


def test_access_link_is_steady(tmp_path):
    made = build(Synthesised(), tmp_path, load=0.3, seed=5, prefill_us=36_720_000, from_us=120_720_000,
                 to_us=599_720_000, balance="thirds")
    assert made["thirds_difference"] <= 0.05
    assert abs(made["load_error"]) <= 0.01
    assert made["scale"] == pytest.approx(1, abs=0.2)


def test_same_seed_same_plans(tmp_path):
    for name, seed in (("a", 4), ("b", 4), ("c", 5)):
        build(Synthesised(2), tmp_path / name, RTTS_US[:2], load=0.3, seed=seed, **QUICK)
    a, b, c = ((tmp_path / name / "source1.plan").read_bytes() for name in "abc")
    assert a == b != c


def test_both_directions_can_be_the_target(tmp_path):
    made = build(Synthesised(3), tmp_path, RTTS_US[:3], load=0.5, seed=1, targets=list(BOTH_WAYS), **QUICK)
    assert sum(made["offered_bps"].values()) == pytest.approx(100e6, rel=0.05)


@pytest.mark.parametrize("load, seed", [(0.6, 1), (0.85, 2), (1.1, 3)])
def test_a_heavy_tail_meets_its_target_too(tmp_path, load, seed):
    made = build(Synthesised(9, decode({"preset": "unc-like"})), tmp_path, load=load, seed=seed, **QUICK)
    assert made["offered_bps"]["right_to_left"] == pytest.approx(load * 100e6, rel=0.05)


def test_weights_of_sources(tmp_path):
    weighted = build(Synthesised(3, weights=[1, 2, 5]), tmp_path / "a", RTTS_US[:3], load=0.6, seed=1, **QUICK)
    assert weighted["offered_bps"]["right_to_left"] == pytest.approx(60e6, rel=0.05)
    counts = [count for count, in weighted["plans"]]
    assert np.array(counts) / sum(counts) == pytest.approx([1 / 8, 2 / 8, 5 / 8], rel=0.1)
    equal = build(Synthesised(3, weights=[7, 7, 7]), tmp_path / "b", RTTS_US[:3], load=0.6, seed=1, **QUICK)
    assert equal == build(Synthesised(3), tmp_path / "c", RTTS_US[:3], load=0.6, seed=1, **QUICK)


@pytest.mark.parametrize("preset", ["web", "unc-like"])
def test_the_reverse_load_is_met_beside_the_target(tmp_path, preset):
    parameters = decode({"preset": preset})
    made = build(Synthesised(9, parameters), tmp_path, load=0.6, seed=1, reverse=["left_to_right"], reverse_load=0.3,
                 **QUICK)
    assert made["offered_bps"]["right_to_left"] == pytest.approx(60e6, rel=0.05)
    assert made["offered_bps"]["left_to_right"] == pytest.approx(30e6, rel=0.05)
    assert made["reverse_links"] == ["left_to_right"] and made["reverse_load"] == 0.3
    assert 0.3 < made["reverse_factor"] < 3
    assert "reverse_load" not in build(Synthesised(9, parameters), tmp_path, load=0.6, seed=1, **QUICK)


def test_the_reverse_of_requests_are_responses(tmp_path):
    made = build(Synthesised(9), tmp_path, load=0.2, seed=1, targets=["left_to_right"], reverse=["right_to_left"],
                 reverse_load=0.5, **QUICK)
    assert made["offered_bps"] == pytest.approx({"left_to_right": 20e6, "right_to_left": 50e6}, rel=0.05)


def test_a_scale_of_ones_own_leaves_the_reverse_load_to_chance(tmp_path):
    made = build(Synthesised(9), tmp_path, load=0.6, seed=1, scale=1.0, reverse=["left_to_right"], reverse_load=0.3,
                 **QUICK)
    assert made["reverse_factor"] == 1
    # requests of 5 MB at most: in 40 s their load varies by several per cent
    assert made["offered_bps"]["left_to_right"] == pytest.approx(30e6, rel=0.25)


def test_reverse_loads_that_cannot_be_are_named(tmp_path):
    wanted = dict(load=0.6, seed=1, reverse=["left_to_right"], **QUICK)
    with pytest.raises(WorkloadError, match=r"1 % is out of reach: the least .* is \d\.\d %") as problem:
        build(Synthesised(), tmp_path, reverse_load=0.01, **wanted)
    assert problem.value.field == "reverse_load"
    small = replace(SynthParameters(), upload_min_bytes=600, upload_max_bytes=700,
                    mean_initiator_bytes=1200)
    with pytest.raises(WorkloadError, match=r"150 % is out of reach: the most .* is \d\.\d %"):
        build(Synthesised(9, small), tmp_path, reverse_load=1.5, **wanted)
    paths = [SourcePath(60_000, ["left_to_right"], ["right_to_left"]), SourcePath(60_000, ["right_to_left"],
                                                                                  ["left_to_right"])]
    with pytest.raises(WorkloadError, match="initiators are all on one side"):
        build_workload(Synthesised(2), paths, Order(rates_bps=BOTH_WAYS, targets=["right_to_left"], begin_us=0,
                                                    reverse_load=0.1, **wanted), tmp_path)


def test_longer_adus():
    batch = from_vectors([Vector(0, SEQ, (1, 1), (Adu(0, 0, 1), Adu(1, 5, 100), Adu(0, 7, 30), Adu(1, 9, 0)))])
    assert resized(batch, 0, 1.5).size_bytes.tolist() == [2, 100, 45, 0]
    assert resized(batch, 1, 0.001).size_bytes.tolist() == [1, 1, 30, 0]


def test_synthesised_traffic_has_the_load_on_the_mean(tmp_path):
    """The rate of connections follows from the distributions, not from a sample; sd of a seed's load: 5 %."""
    loads = [build(Synthesised(), tmp_path, load=0.6, seed=seed, scale=1.0, **QUICK)["load_error"] for seed in range(9)]
    assert np.mean(loads) == pytest.approx(0, abs=0.05)


def test_several_links_are_offered_the_load_together(tmp_path):
    """Two routers in a row: one source crosses both links, the others one each."""
    paths = [SourcePath(60_000, [], ["a", "b"]), SourcePath(60_000, [], ["a"]), SourcePath(60_000, ["b"], [])]
    made = build_workload(Synthesised(3), paths, Order(
        rates_bps={"a": 20_000_000, "b": 10_000_000, "c": 10_000_000}, targets=["a", "b"], load=0.6, seed=1, begin_us=0,
        **QUICK), tmp_path)
    assert made["offered_bps"]["a"] + made["offered_bps"]["b"] == pytest.approx(18e6, rel=0.05)
    assert made["offered_bps"]["c"] == 0 and made["target_links"] == ["a", "b"]
    # responses are far heavier than requests
    assert made["offered_bps"]["a"] > 1.2 * made["offered_bps"]["b"]
    with pytest.raises(WorkloadError, match="source 1 does not cross b"):
        build_workload(Synthesised(3), paths, Order(rates_bps={"a": 1, "b": 1}, targets=["b"], load=1, seed=1,
                                                    begin_us=0,
                                                    **QUICK), tmp_path)


def test_connections_dealt_out_are_those_of_the_whole(tmp_path):
    whole = build(Synthesised(2), tmp_path / "whole", RTTS_US[:2], load=0.3, seed=1, **QUICK)
    dealt = build(Synthesised(2), tmp_path / "dealt", RTTS_US[:2], load=0.3, seed=1, shares=3, **QUICK)
    assert {k: v for k, v in whole.items() if k != "plans"} == {k: v for k, v in dealt.items() if k != "plans"}
    for source in range(2):
        one = read_plan(tmp_path / "whole" / f"source{source}.plan")
        shares = [read_plan(tmp_path / "dealt" / f"source{source}.share{share}.plan") for share in range(3)]
        assert sorted(row for share in shares for row in zip(share.start_us, share.conn_id)) == list(
            zip(one.start_us, one.conn_id))
        assert [len(share) for share in shares] == dealt["plans"][source]
        assert max(map(len, shares)) - min(map(len, shares)) <= 1
        sizes = [sum(share.acc_bytes) - max(share.acc_bytes) for share in shares]
        assert max(sizes) < 2 * min(sizes)


def test_deal_is_even_in_every_size():
    dealt = deal(np.arange(100)[::-1], 4, "seed")
    for first in range(0, 100, 4):
        assert sorted(dealt[first:first + 4]) == [0, 1, 2, 3]
    assert (deal(np.arange(9), 1, "seed") == 0).all() and (dealt != deal(np.arange(100)[::-1], 4, "other")).any()


def test_a_component_that_begins_later(tmp_path):
    made = build(Synthesised(2), tmp_path, RTTS_US[:2], load=0.5, seed=1, begin_us=30_000_000, prefill_us=0,
                 from_us=30_000_000, to_us=60_000_000)
    for source in range(2):
        starts = read_plan(tmp_path / f"source{source}.plan").start_us
        assert 30_000_000 <= starts[0] < 31_000_000 and 59_000_000 < starts[-1] < 60_000_000
    assert made["measured_us"] == [30_000_000, 60_000_000] and abs(made["load_error"]) <= 0.05


def test_more_connections_than_allowed_are_named(tmp_path):
    few = Limits(connections=1000)
    with pytest.raises(WorkloadError, match="connections; if that is meant, allow it with most_connections") as problem:
        build(Synthesised(), tmp_path, load=0.5, seed=1, limits=few, **QUICK)
    assert problem.value.field == "most_connections"
    files = small_traces(tmp_path)
    with pytest.raises(WorkloadError, match="more than 60000 connections"):
        build(files, tmp_path / "plans", RTTS_US[:2], load=0.5, seed=1, limits=Limits(connections=60_000), **QUICK)


def test_what_takes_long_is_told(tmp_path):
    said = []
    paths = [SourcePath(1000, ["left_to_right"], ["right_to_left"])] * 2
    build_workload(small_traces(tmp_path), paths, Order(
        rates_bps=BOTH_WAYS, targets=["right_to_left"], load=0.6, seed=1, begin_us=0, prefill_us=0, from_us=0,
        to_us=20_000_000), tmp_path / "plans", said.append)
    assert said == ["reading s1.vec (1 of 2): 0 connections", "reading s2.vec.gz (2 of 2): 0 connections",
                    "arranging 100000 connections", "writing the plans"]


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
    made = build(files, tmp_path / "plans", [10_000, 20_000], load=0.6, seed=1, prefill_us=2_000_000, from_us=3_000_000,
                 to_us=23_000_000)
    # 10,000 bytes are 7 packets: 10,462 bytes, and 74 + 66 + 132 around them, 500/s twice
    unscaled_bps = 2 * 500 * 8 * (10_000 + 7 * 66 + 74 + 66 + 132)
    assert made["scale"] == pytest.approx(unscaled_bps / 60e6, rel=0.02)
    assert abs(made["load_error"]) < 0.01 and made["thirds_difference"] < 0.02


def test_a_mean_scale_of_traces_is_that_of_all_of_them(tmp_path):
    files = small_traces(tmp_path)
    made = [build(files, tmp_path / "plans", [10_000, 20_000], load=0.6, seed=seed, prefill_us=0, from_us=0,
                  to_us=20_000_000, scale="mean") for seed in (1, 2)]
    unscaled_bps = 2 * 500 * 8 * (10_000 + 7 * 66 + 74 + 66 + 132)
    assert made[0]["scale"] == made[1]["scale"] == pytest.approx(unscaled_bps / 60e6, rel=1e-3)
    assert all(0 < one["load_chance"] < 0.01 and abs(one["load_error"]) < 0.01 for one in made)


def test_both_loads_are_counted_with_the_same_headers(tmp_path):
    made = build(Synthesised(), tmp_path, load=0.6, seed=1, reverse=["left_to_right"], reverse_load=0.2,
                 overhead="wire", **QUICK)
    assert made["counted_bps"]["left_to_right"] == pytest.approx(20e6, rel=0.05)
    assert made["offered_bps"]["left_to_right"] < 0.97 * made["counted_bps"]["left_to_right"]


def test_fixed_scale_is_used_as_it_is(tmp_path):
    made = build(small_traces(tmp_path), tmp_path / "plans", [10_000, 20_000], load=0.6, seed=1, prefill_us=0,
                 from_us=0,
                 to_us=20_000_000, scale=2.0)
    assert made["scale"] == 2.0
    assert made["load_error"] == pytest.approx(85.9e6 / 2 / 60e6 - 1, abs=0.01)
    starts = np.array(read_plan(tmp_path / "plans" / "source0.plan").start_us)
    assert (starts % 4000 == 0).all()


def test_traces_that_carry_far_too_little_are_named(tmp_path):
    files = small_traces(tmp_path, seconds=1, every_us=100_000)
    with pytest.raises(WorkloadError, match=r"the traces carry 0\.215 MB over the target, which 60 Mbit/s carry in "
                       r"0\.029 s; the traffic lasts 60 s: longer or more traces") as problem:
        build(files, tmp_path / "plans", load=0.6, seed=1, rtts_us=[1, 1], **QUICK)
    assert problem.value.field == "traces"


def test_unusable_input_is_named(tmp_path):
    files = small_traces(tmp_path, seconds=5)
    options = dict(load=0.6, seed=1, prefill_us=0, from_us=0, to_us=60_000_000, rtts_us=[1, 1])
    plans = tmp_path / "plans"
    with pytest.raises(WorkloadError, match="longer traces"):
        build(files, plans, **options)
    with pytest.raises(WorkloadError, match="2 sources but 1 paths"):
        build(files, plans, **{**options, "rtts_us": [1]})
    with pytest.raises(WorkloadError, match="target link"):
        build(files, plans, **options, targets=["up"])
    with pytest.raises(WorkloadError, match="positive"):
        build(files, plans, **{**options, "to_us": 0})
    with pytest.raises(WorkloadError, match="source 1 has no connections"):
        build([from_vectors(read_vectors(files[0])), from_vectors([])], plans, **options)
    (tmp_path / "s1.vec").write_text("SEQ\n")
    with pytest.raises(VectorError, match="s1.vec:1:"):
        build(files, plans, **options)
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
