# SPDX-License-Identifier: GPL-2.0-only
"""impact-on-standard, fairness and multi-bottleneck: times, paths and commands are those of docs/howto/suite.md."""
import re
import shlex

import pytest
import yaml

from testbed import PROJECT_DIR
from testbed.core.errors import ScenarioError, UsageError
from testbed.scenario import scenario

DOCS = PROJECT_DIR / "docs"
PAGE = (DOCS / "howto/suite.md").read_text()
RTTS = ("10-10", "20-20", "40-40", "80-80", "160-160", "160-10", "160-20", "160-40", "160-80")


def one(name, **asked):
    return scenario.expand(name, **asked)[0][1]


def table_of(title):
    """{load in percent: prefill, warm-up, test, UNC scale, UNC window} of a section of the page."""
    section = PAGE[PAGE.index(f"## {title}"):].split("\n## ")[0]
    rows = re.findall(r"(\d+) % \|((?: [\d.]+ \|){5})$", section, re.MULTILINE)
    return {int(load): [float(text) for text in numbers.strip("| ").split("|")] for load, numbers in rows}


@pytest.mark.parametrize("name, title, loads", [
    ("impact-on-standard", "Impact on standard TCP", (50, 100)),
    ("multi-bottleneck", "Multiple bottlenecks", (60, 80, 100))])
def test_loads_and_times_are_the_published_ones(name, title, loads):
    for load in loads:
        found = one(name, choices={"load": str(load)})
        parts = found.traffic
        assert sum(part["load_percent"] for part in parts) == load
        assert {part.get("load_of_all_percent", load) for part in parts} == {load}
        for part in parts:
            assert [found.timing.prefill_us / 1e6, found.timing.warmup_us / 1e6, found.timing.test_us / 1e6,
                    part["unc_scale"], part["unc_prefill_window_us"] / 1e6] == table_of(title)[load]


def test_camps_are_alike_but_for_hosts_and_congestion_control():
    standard, tested = one("impact-on-standard").traffic
    assert (standard["cca"], tested.get("cca"), tested["draws"]) == (["sack"], None, "a")
    differ = {key for key in {*standard, *tested} if standard.get(key) != tested.get(key)}
    assert differ == {"name", "cca", "paths", "draws"}
    found = one("impact-on-standard")
    rtt_us = {(path["initiator"], path["acceptor"]): path["base_rtt_us"] for path in found.network["paths"]}
    assert [rtt_us[tuple(path.split("->"))] for path in standard["paths"]] == [
        rtt_us[tuple(path.split("->"))] for path in tested["paths"]]
    assert sorted(set(rtt_us.values())) == [1000 * ms for ms in (8, 32, 58, 78, 102, 128, 154, 178, 204)]
    assert found.default_ccas[0] == "sack"


@pytest.mark.parametrize("rtts", RTTS)
def test_round_trips_of_the_two_flows(rtts):
    found = one("fairness", choices={"rtts": rtts, "buffer": "25"}, sweeps=[])
    rtt_us = {(path["acceptor"], path["initiator"]): path["base_rtt_us"] for path in found.network["paths"]}
    assert [rtt_us["n9", "n4"], rtt_us["n10", "n5"]] == [1000 * int(ms) for ms in rtts.split("-")]
    link, = (link for link in found.network["links"] if link["name"] == "right_to_left")
    assert link["capacity_us"] == pytest.approx(25_000, rel=0.02)


def test_the_sweep_of_fairness():
    points = scenario.expand("fairness")
    assert len(points) == 36 and [point["rtts"] for point, _ in points[::4]] == list(RTTS)
    assert "`, `".join(RTTS) in PAGE


def test_paths_of_multi_bottleneck():
    found = one("multi-bottleneck")
    assert {path["base_rtt_us"] for path in found.network["paths"]} == {60_000}
    assert [len(path["hops_back"]) for path in found.network["paths"]] == [5, 3, 3, 3]


@pytest.mark.parametrize("words", [shlex.split(line) for line in re.findall(
    r"^    bin/testbed run ((?:impact-on-standard|fairness|multi-bottleneck) .*)$", PAGE, re.MULTILINE)], ids=" ".join)
def test_commands_of_the_page(words):
    chosen = dict(word.split("=") for word, before in zip(words[1:], words) if before == "--choose")
    if "--load" in words:
        chosen["load"] = words[words.index("--load") + 1]
    assert scenario.expand(words[0], chosen, "--quick" in words)
    assert ("sack" in words[words.index("--cca") + 1].split(",")) or words[0] == "fairness"


def test_the_example_of_camps(tmp_path):
    """docs/howto/tmix.md, on the network of docs/howto/scenarios.md."""
    tree = yaml.safe_load(re.search(r"```yaml\n(.*?)```", (DOCS / "howto/scenarios.md").read_text(), re.DOTALL)[1])
    camps = yaml.safe_load(re.search(r"```yaml\n(.*?)```", (DOCS / "howto/tmix.md").read_text(), re.DOTALL)[1])
    tree = {**{key: tree[key] for key in ("name", "topology", "timing", "probes")}, **camps}
    file = tmp_path / "camps.yaml"
    file.write_text(yaml.safe_dump(tree))
    assert [part.get("draws") for part in one(str(file)).traffic] == [None, "a"]
    file.write_text(file.read_text().replace("draws: a", "draws: c"))
    with pytest.raises(ScenarioError, match=r"traffic\.b\.draws: another tmix component with draws of its own"):
        scenario.expand(str(file))


def test_parameters_of_camps(tmp_path):
    """Another standard; traces for both camps, in the order of their paths."""
    assert one("impact-on-standard", settings=["standard=reno"]).traffic[0]["cca"] == ["reno"]
    for number in range(9):
        (tmp_path / f"{number}.cvec").write_text("SEQ 0 1 1 1\n> 100\nt 1\n< 1000\n")
    traced = one("impact-on-standard", settings=[f"traces={tmp_path}", "scale=unc"]).traffic
    assert [(part["traces"], part["scale"]) for part in traced] == [(str(tmp_path), ["unc"])] * len(traced)
    (tmp_path / "0.cvec").unlink()
    with pytest.raises(UsageError, match="has 8 vector files; this network takes 9"):
        one("impact-on-standard", settings=[f"traces={tmp_path}", "scale=unc"])
