# SPDX-License-Identifier: GPL-2.0-only
"""Whose fault it is where fields of a scenario do not go together: the file's, or an option's."""
import pytest

from testbed.core.errors import ScenarioError
from testbed.scenario import scenario

TEXT = """\
name: small
topology:
  kind: dumbbell
  central: {rate: 20 Mbit/s, delay: 2 ms, queue: {limit: 50}}
  edge: {rate: 100 Mbit/s}
  left_delays: [0 ms, 5 ms]
  right_delays: [2 ms]
timing: {prefill: 1 s, warmup: 2 s, test: 3 s}
traffic:
- {name: one, kind: greedy, tool: sockets, paths: [n3->n1]}
- {name: two, kind: greedy, start: 3 s}
"""


@pytest.fixture
def refused(tmp_path):
    """refused(text, settings, sweeps) -> what is said of it, with FILE in place of its path."""
    def said(text=TEXT, **options):
        path = tmp_path / "small.yaml"
        path.write_text(text)
        with pytest.raises(ScenarioError) as problem:
            scenario.expand(str(path), **options)
        return str(problem.value).replace(str(path), "FILE")
    return said


@pytest.mark.parametrize("settings, says", [
    # it is another field of the file that does not go with them
    (["traffic.one.kind=cbr", "timing.test=2 s"], "--set traffic.one.kind: FILE:10: traffic.one.tool: unknown field"),
    (["traffic.two.stop=2 s"], "--set traffic.two.stop: FILE:11: traffic.two.start: 3 s is not before the stop at 2 s"),
    (["timing.test=100 ms", "timing.warmup=0 s", "hosts.ecn=0"],
     "--set timing.test, --set timing.warmup: FILE:11: traffic.two.start: 3 s is not before the stop at 1.1 s"),
    (["timing.test=1 s", "timing.prefill=0 s", "timing.warmup=0 s"],
     "--set timing.test, --set timing.prefill, --set timing.warmup: FILE:11: traffic.two.start: 3 s is not before"),
    (["topology.left_delays=[0 ms]"], "--set topology.left_delays: FILE:10: traffic.one.paths: no path n3->n1"),
    # they put something else in the place of a component, or give it another name
    (["traffic.one=3"], "--set traffic.one: a mapping expected"),
    (["traffic.one={kind: greedy, flows: [1]}"], "--set traffic.one: flows: a whole number expected"),
    (["traffic.one.name=A B"], "--set traffic.one.name: at most 60 lower-case letters"),
    (["traffic.two.name=one"], "--set traffic.two.name: a second component 'one'"),
    (["traffic.two.flows=0", "timing.test=2 s"], "--set traffic.two.flows: must be at least 1"),
    (["traffic.two.x.y=0", "timing.test=2 s"], "FILE:11 with --set traffic.two.x.y: traffic.two.x: unknown field")])
def test_who_is_to_blame_for_fields_that_do_not_go_together(refused, settings, says):
    assert refused(settings=settings).startswith(says)


def test_what_the_file_says_itself_is_no_settings_fault(refused):
    wrong = TEXT.replace("start: 3 s", "start: 9 s")
    for told in (["hosts.ecn=0"], ["hosts.ecn=0", "timing.warmup=1900 ms"]):
        assert refused(wrong, settings=told).startswith("FILE:11: traffic.two.start: 9 s is not before")


def test_axes_are_named_as_well(refused):
    said = refused(settings=["timing.warmup=1 s"], sweeps=["timing.test=2 s,500 ms"])
    assert said.startswith("--set timing.warmup, --sweep timing.test: FILE:11: traffic.two.start: 3 s is not before")
