# SPDX-License-Identifier: GPL-2.0-only
"""What the scenarios of published studies resolve to."""
import pytest

from testbed.scenario import scenario


def points(name, **options):
    """[(point, scenario)]"""
    return scenario.expand(name, {}, False, [], **options)


def test_two_hosts_has_the_cases_of_its_study():
    """(Mbit/s, ms, % on each link); a round trip crosses two links twice."""
    found = []
    for _, loaded in points("two-hosts"):
        links = loaded.network["links"]
        assert len(links) == 4 and len({(one["rate_bps"], one["delay_us"], one["loss_percent"]) for one in links}) == 1
        found.append((links[0]["rate_bps"] // 10**6, links[0]["delay_us"] // 1000, links[0]["loss_percent"]))
        assert loaded.network["paths"][0]["base_rtt_us"] == 4 * links[0]["delay_us"]
    assert found == [(10, 0, 0), (200, 10, 2), (200, 100, 5), (10, 100, 5), (200, 100, 2), (10, 10, 2)]


def test_the_h_is_the_same_in_all_three_experiments():
    networks = [points(f"h-shape-{number}")[0][1].network for number in (1, 2, 3)]
    assert networks[0] == networks[1] == networks[2]
    assert [len(points(f"h-shape-{number}")) for number in (1, 2, 3)] == [22, 22, 2]


def test_one_of_the_queues_of_experiment_3_is_red():
    kinds = {point["queue"]: loaded.network["links"][0]["queue"] for point, loaded in points("h-shape-3")}
    assert kinds == {"droptail": "pfifo", "red": "red"}


@pytest.mark.parametrize("axis, values", [
    ("topology.nodes", [20, 40, 60, 80, 100]), ("traffic.flows", [10, 20, 30, 40, 50, 100]),
    ("traffic.packets", [100, 200, 300, 400, 500])])
def test_libra_sweeps_varies_one_thing_at_a_time(axis, values):
    centre = {"topology.nodes": "40", "traffic.flows": "20", "traffic.packets": "200"}
    on_axis = [point for point, _ in points("libra-sweeps")
               if all(point[name] == value for name, value in centre.items() if name != axis)]
    assert sorted(int(point[axis]) for point in on_axis) == values
