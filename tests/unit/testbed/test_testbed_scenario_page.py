# SPDX-License-Identifier: GPL-2.0-only
"""docs/howto/scenarios.md: its example is a scenario, its options and its errors are what the testbed makes of them."""
import re

import pytest

from testbed import PROJECT_DIR
from testbed.core.errors import ScenarioError
from testbed.scenario import scenario

PAGE = (PROJECT_DIR / "docs/howto/scenarios.md").read_text()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[1])
    return path


def rate(path, **asked):
    (_, one), *_ = scenario.expand(str(path), **asked)
    return one.topology["central"]["left_to_right"]["rate_bps"]


def test_the_example(file):
    points = scenario.expand(str(file))
    assert [point["topology.central.delay"] for point, _ in points] == ["5 ms", "15 ms", "25 ms"]
    one = points[0][1]
    assert (one.timing.duration_us, one.default_ccas, one.default_seeds) == (60_000_000, ["reno", "cubic"], 5)
    assert [component["name"] for component in one.traffic] == ["long", "voice"]
    assert scenario.expand(str(file), quick=True)[0][1].timing.duration_us == 10_000_000


def test_a_setting_counts_more_than_a_choice_and_a_choice_more_than_the_file(file):
    file.write_text(file.read_text().replace("central: {rate: 10", "central: {rate: 1"))
    assert rate(file) == 10**7 and rate(file, choices={"rate": "fast"}) == 10**8
    assert rate(file, choices={"rate": "fast"}, settings=["topology.central.rate=20 Mbit/s"]) == 2 * 10**7


def test_the_settings(file):
    _, one = scenario.expand(str(file), settings=re.findall(r'--set "(t[^"]+)"', PAGE))[0]
    assert one.topology["left_delays_us"] == [0, 40_000] and one.traffic[1]["rate_bps"] == 10**6


def test_the_sweeps(file):
    points = scenario.expand(str(file), sweeps=re.findall(r'--sweep "(topology[^"]+)"', PAGE))
    assert len(points) == 5
    assert len(scenario.expand("access-link", sweeps=re.findall(r"--sweep (\w\S+=\S+)", PAGE)[:2])) == 6


@pytest.mark.parametrize("old, new, error", [
    ("1 Gbit/s, queue", "1000, queue", 0), ('"n3->n1", "n4->n2"', "n3->n9", 1)])
def test_the_errors(file, old, new, error):
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(ScenarioError) as caught:
        scenario.expand(str(file))
    assert str(caught.value).replace(str(file), "mine.yaml") == re.findall(r"testbed: (mine.*)", PAGE)[error]


def test_the_parameters(file):
    (setting, sweep), = re.findall(r'--set "(bw=[^"]+)" --sweep "(edges[^"]+)"', PAGE)
    points = scenario.expand(str(file), settings=[setting], sweeps=[sweep])
    assert len(points) == 2 * 3                 # with the sweep of the file
    assert {one.topology["central"]["left_to_right"]["rate_bps"] for _, one in points} == {2 * 10**7}
    assert {tuple(one.topology["right_delays_us"]) for _, one in points} == {(5000, 5000), (20_000, 20_000)}
