# SPDX-License-Identifier: GPL-2.0-only
"""Knobs: what their files mean, and what they make of a scenario."""
import pytest

from testbed.core.errors import ScenarioError, UsageError
from testbed.scenario import knobs

LINK = "{rate: 10 Mbit/s, delay: 10 ms, queue: {limit: 50}}"
TEXT = f"""\
name: small
topology: {{kind: dumbbell, central: {LINK}, edge: {{rate: 1 Gbit/s}}, left_delays: [0 ms], right_delays: [0 ms]}}
traffic: {{kind: greedy, tool: sockets}}
timing: {{test: 1 s}}
"""


@pytest.fixture
def base(tmp_path):
    """Function: text of a scenario -> knobs.Base of it."""
    def of(text=TEXT, settings=(), **engine):
        (tmp_path / "small.yaml").write_text(text)
        return knobs.Base(str(tmp_path / "small.yaml"), {}, False, settings, (), engine)
    return of


@pytest.fixture
def knob(tmp_path):
    """Function: text of `values` -> the knob of a file with it."""
    def of(values, name="turned", more=""):
        (tmp_path / f"{name}.yaml").write_text(f"title: a knob\nwhy: it may matter.\nvalues: {values}\n{more}")
        return knobs.read(tmp_path / f"{name}.yaml")
    return of


def turned(found):
    variations, left_out = found
    return {one.label: one for one in variations}, {one.label: one.reason for one in left_out}


def test_all_knobs_there_are_concern_the_access_link():
    """All of their values, but for what the scenario has already."""
    every = [knobs.load(name) for name in knobs.names()]
    assert all(one.title and one.why.endswith(".") for one in every)
    variations, left_out = turned(knobs.Base("access-link", {}, True, [], (), {}).variations(every))
    assert {one.knob.name for one in variations.values()} == set(knobs.names()) and not left_out
    as_it_is = {"idle-1", "initcwnd-10", "hz-1000", *(f"no-{name}" for name in knobs.names())}
    assert not as_it_is & variations.keys()


def test_a_knob_is_a_change_of_fields(base, knob):
    (label, one), = turned(base().variations([knob("{2: {set: {hosts.initcwnd: 2, hosts.ecn: 1}}}")]))[0].items()
    assert (label, one.scenario.hosts["initcwnd"], one.scenario.hosts["ecn"]) == ("turned-2", 2, 1)


def test_names_of_what_is_on_and_off(base, knob):
    on_off = knob("{on: {set: {hosts.sack: 0}}, off: {set: {hosts.sack: 1}}}", "plain")
    assert set(turned(base().variations([on_off]))[0]) == {"plain"}
    assert set(turned(base(settings=["hosts.sack=0"]).variations([on_off]))[0]) == {"no-plain"}


def test_what_is_as_it_is_is_left_out_whether_it_is_written_down_or_not(base, knob):
    same = knob("{a: {set: {hosts.initcwnd: 10}}, b: {components: {greedy: {flows: 1}}}, c: {engine: {hz: 1000}}}")
    assert base().variations([same]) == ([], [])
    assert base(settings=["traffic.flows=1"]).variations([same]) == ([], [])
    assert set(turned(base(settings=["traffic.flows=2"], hz=250).variations([same]))[0]) == {"turned-b", "turned-c"}


def test_the_time_of_a_packet_is_that_of_the_slowest_link(base, knob):
    """1514 bytes at 10 Mbit/s: 1211.2 us. Greedy traffic has that much jitter already."""
    jitter = knob('{off: {set: {hosts.jitter: 0 us}}, on: {set: {hosts.jitter: "{packet_time}"}}}', "jitter")
    for settings, label, jitter_us in ((["hosts.jitter=0 us"], "jitter", 1211), ([], "no-jitter", 0),
                                       (["traffic={kind: cbr, rate: 1 Mbit/s}"], "jitter", 1211)):
        (found, one), = turned(base(settings=settings).variations([jitter]))[0].items()
        assert (found, one.scenario.hosts["jitter_us"]) == (label, jitter_us)


def test_components_of_a_kind(base, knob):
    """All of them, by their names where there is a list, even of one."""
    flows = knob("{3: {components: {greedy: {flows: 3}}}}")
    for traffic, expected in (
            ("{kind: greedy}", [3]), ("[{kind: greedy}]", [3]),
            ("[{kind: greedy, name: a}, {kind: cbr, rate: 1 Mbit/s}, {kind: greedy, name: b}]", [3, None, 3])):
        one = turned(base(TEXT.replace("{kind: greedy, tool: sockets}", traffic)).variations([flows]))[0]["turned-3"]
        assert [component.get("flows") for component in one.scenario.traffic] == expected


def test_what_cannot_be_is_left_out_with_the_reason(base, knob):
    found = turned(base(TEXT.replace("sockets", "iperf3")).variations([
        knob("{on: {set: {hosts.wakeup_cost: 1 us}}}", "woken"), knob("{on: {components: {tmix: {x: 1}}}}", "windows"),
        knob("{on: {components: {greedy: {flows: 2}}}}", "more", "unless: tool\n")]))
    assert not found[0]
    assert "iperf3 knows no cost of wake-ups" in found[1]["woken"]
    assert found[1]["windows"] == "no traffic of kind tmix"
    assert found[1]["more"] == "no traffic of kind greedy without tool"


def test_options_of_the_engine(base, knob):
    one = turned(base(hz=300, kernel="6.1").variations([knob("{250: {engine: {hz: 250}}}", "hz")]))[0]["hz-250"]
    assert one.engine == {"hz": 250, "kernel": "6.1"} and one.scenario == base().scenario


@pytest.mark.parametrize("values, message", [
    ("{}", "values: at least one value expected"), ("[2]", "values: a mapping"),
    ("{2: {}}", "values.2: a mapping with components, engine, set expected"),
    ("{2: 3}", "values.2: a mapping with"), ("{2: {hosts.ecn: 1}}", "values.2: a mapping with"),
    ("{A/B: {set: {hosts.ecn: 1}}}", "in the name of a value"),
    ("{2: {set: [1]}}", "values.2.set: a mapping of fields"),
    ("{2: {components: {tmix: 1}}}", "values.2.components.tmix: a mapping of fields"),
    ("{2: {components: {tmx: {flows: 2}}}}", "values.2.components.tmx: one of cbr, flows, greedy, "),
    ("{2: {engine: [1]}}", "values.2.engine: a mapping of options"), ("{2: {engine: 3}}", "values.2.engine: a mapping"),
    ("{2: {components: 1}}", "values.2.components: a mapping of kinds")])
def test_files_that_make_no_sense(knob, values, message):
    with pytest.raises(ScenarioError, match="turned.yaml:3: ") as problem:
        knob(values)
    assert message in str(problem.value)


def test_a_knob_that_is_not_there():
    with pytest.raises(UsageError, match="no knob 'nosuch'; there are: balance, fq"):
        knobs.load("nosuch")


def test_a_knob_without_words(tmp_path):
    (tmp_path / "x.yaml").write_text("title: x\nvalues: {2: {set: {hosts.ecn: 1}}}\n")
    with pytest.raises(ScenarioError, match="x.yaml:1: why: a sentence expected"):
        knobs.read(tmp_path / "x.yaml")
