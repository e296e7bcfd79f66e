# SPDX-License-Identifier: GPL-2.0-only
"""Scenarios over the air are what docs/howto/wireless.md, docs/howto/suite.md and the study say."""
import re
import types

import pytest
import yaml

from testbed import PROJECT_DIR, engines
from testbed.core.errors import ScenarioError
from testbed.scenario import scenario
from topologies import standards

DOCS = PROJECT_DIR / "docs"
AXES = {"topology.nodes": ("40", [20, 40, 60, 80, 100]), "traffic.flows": ("20", [10, 20, 30, 40, 50]),
        "traffic.packets": ("100", [100, 200, 300, 400, 500]), "topology.coverage": ("1", [1, 2, 3, 4, 5])}


def one(name, **asked):
    return scenario.expand(name, **asked)[0][1]


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("network", ["low-rate", "mesh"])
def test_libra_wireless_varies_one_thing_at_a_time(axis, network):
    points = [point for point, _ in scenario.expand("libra-wireless", {"network": network})]
    on_axis = [point for point in points if all(point[key] == usual for key, (usual, _) in AXES.items() if key != axis)]
    assert sorted(int(point[axis]) for point in on_axis) == AXES[axis][1]
    assert len(points) == 17


def test_coverage_has_an_effect_on_ways_over_the_air():
    """More reach, fewer hops."""
    hops = []
    for point, loaded in scenario.expand("libra-wireless"):
        if point["topology.coverage"] != "1" or all(point[key] == usual for key, (usual, _) in AXES.items()):
            hops.append((int(point["topology.coverage"]), max(len(path["air"]) for path in loaded.network["paths"])))
            cell, = loaded.network["cells"]
            assert cell["range_mm"] == cell["sense_mm"] == 30_000 * hops[-1][0]
    assert [count for _, count in sorted(hops)] == sorted((count for _, count in hops), reverse=True)
    assert max(hops)[1] == 1 < dict(hops)[1]


@pytest.mark.parametrize("load", ["60", "85", "110"])
def test_the_load_of_wireless_lan_is_that_of_both_directions(load):
    found = one("wireless-lan", choices={"load": load})
    part, = found.traffic
    rates_bps = [link["rate_bps"] for link in found.network["links"] if link["name"] in part["target"]]
    assert part["load_percent"] / 100 * sum(rates_bps) == pytest.approx(int(load) / 100 * 6e6)
    row, = re.findall(rf"^\|(?: `wireless-lan`)? \| {load} % \|((?: [\d.]+ \|){{5}})$", PAGE_OF_LAN, re.MULTILINE)
    prefill, warmup, test, scale, window = (float(number) for number in row.strip("| ").split("|"))
    assert [found.timing.prefill_us / 1e6, found.timing.warmup_us / 1e6, found.timing.test_us / 1e6, window] == [
        prefill, warmup, test, 0]
    assert part["unc_scale"] == scale


PAGE = (DOCS / "howto/suite.md").read_text()
PAGE_OF_LAN = PAGE[PAGE.index("| `wireless-lan` | 60 % |"):PAGE.index("| `dial-up` | 60 % |")]


def test_round_trips_of_wireless_lan_are_those_of_the_access_link():
    def rtts(name):
        return sorted(path["base_rtt_us"] for path in one(name).network["paths"])
    assert rtts("wireless-lan") == rtts("access-link")


def test_the_last_hop_of_libra_hybrid_may_be_on_the_air():
    """Round trips but for the air, and the narrow link with its queue, are as with wires; its plans are as before."""
    wired, air = (one("libra-hybrid", choices={"last": last}) for last in ("wired", "air"))
    assert "cells" not in wired.network and not wired.kernel_options and air.kernel_options == ("wireless",)
    assert {path["base_rtt_us"] for path in wired.network["paths"]} == {
        path["base_rtt_us"] for path in air.network["paths"]} == {60_000}
    for key in ("rate_bps", "delay_us", "queue", "queue_options", "limit_bytes"):
        narrow, = {str(link.get(key)) for link in wired.network["links"] if link["name"] == "r2_to_n3"}
        assert narrow == str(next(link for link in air.network["links"] if link["name"] == "left_to_right").get(key))


def test_the_page_of_radios(tmp_path):
    """Its example is a scenario; its arithmetic is that of topologies/standards/."""
    text = (DOCS / "howto/wireless.md").read_text()
    example, = re.findall(r"^```yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    file = tmp_path / "cell.yaml"
    file.write_text(example)
    loaded = one(str(file))
    cell, = loaded.network["cells"]
    assert [path["air"] for path in loaded.network["paths"]] == [[["air", "r2", "n2"]], [["air", "r2", "n3"]]]
    standard = standards.of(cell)
    frame_us = standard.frame_us(standard.data_bytes(1500))
    words = " ".join(text.split())
    assert f"at 6 Mbit/s: {frame_us:.0f} us" in words and f"acknowledgement ({standard.ack_us():.0f} us)" in words
    assert f"sends {standard.saturated_bps(1500) / 1e6:.3f} Mbit/s of IP" in words
    assert yaml.safe_load(example)["topology"]["radio"]["rate"] == "6 Mbit/s" and cell["rate_bps"] == 6 * 10**6


def test_standards_are_named_and_refused_by_name():
    """802.11b is no quantity; a rate that a standard has not is refused."""
    loaded = one("wireless-lan", settings=["topology.radio.standard=802.11b", "topology.radio.rate=11 Mbit/s"])
    cell, = loaded.network["cells"]
    assert (cell["standard"], cell["rate_bps"]) == ("802.11b", 11 * 10**6)
    with pytest.raises(ScenarioError, match=r"topology\.radio\.standard: .*802\.11b, 802\.11g.*802\.11n"):
        one("wireless-lan", settings=["topology.radio.standard=802.11n"])
    with pytest.raises(ScenarioError, match=r"topology\.radio\.rate: one of 1 Mbit/s.*802\.11b has, not 6 Mbit/s"):
        one("wireless-lan", settings=["topology.radio.standard=802.11b"])


@pytest.mark.parametrize("engine", ["ns2", "ns3"])
def test_simulators_have_no_radios(engine):
    one = scenario.load("wireless-lan", quick=True)
    problem = engines.load(engine).cannot(types.SimpleNamespace(scenario=one.resolved(), network=one.network))
    assert (problem.field, str(problem)) == ("topology", f"engine {engine} has no radios")
