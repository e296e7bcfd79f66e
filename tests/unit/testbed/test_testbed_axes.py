# SPDX-License-Identifier: GPL-2.0-only
"""Sweeps: which values an axis has, and which scenarios come of it."""
from decimal import Decimal

import pytest
from hypothesis import given, settings, strategies as st

from testbed.core.errors import ScenarioError, UsageError
from testbed.scenario import axes, scenario

TEXT = """\
name: small
topology:
  kind: dumbbell
  central: {rate: 20 Mbit/s, queue: {limit: 50}}
  edge: {rate: 100 Mbit/s}
  left_delays: [0 ms]
  right_delays: [2 ms]
traffic: {kind: greedy}
timing: {test: 3 s}
choices:
  size:
    default: small
    options:
      small: {traffic.flows: 1}
      large: {traffic.flows: 9, timing.test: 9 s}
quick: {timing.test: 1 s}
"""
LIMIT = "topology.central.queue.limit"


@pytest.mark.parametrize("text, values", [
    ("85,170,850", ["85", "170", "850"]), ("60 %", ["60 %"]), (" 2 ms , 20 ms ", ["2 ms", "20 ms"]),
    ("1..3", ["1", "2", "3"]), ("3..1", ["3", "2", "1"]), ("10..50/20", ["10", "30", "50"]),
    ("10..55/20", ["10", "30", "50"]),
    ("0..1/0.25", ["0", "0.25", "0.5", "0.75", "1"]), ("0.1..0.3/0.1", ["0.1", "0.2", "0.3"]),
    ("-1..1", ["-1", "0", "1"]),
    ("0..10.5/3.5 Mbit/s", ["0 Mbit/s", "3.5 Mbit/s", "7 Mbit/s", "10.5 Mbit/s"]),
    ("10..30/10%", ["10 %", "20 %", "30 %"]),
    ("10 ms..30 ms/10 ms", ["10 ms", "20 ms", "30 ms"]), ("10..30 ms/10", ["10 ms", "20 ms", "30 ms"]),
    ("5 .. 5", ["5"]),
    ("500 us..2 ms/0.5 ms", ["500 us", "1000 us", "1500 us", "2000 us"]), ("1 Gbit/s..2 Gbit/s/500 Mbit/s", [
        "1 Gbit/s", "1.5 Gbit/s", "2 Gbit/s"]),
    ("1..3,7", ["1", "2", "3", "7"]), ("[14],[14, 28]", ["[14]", "[14, 28]"]),
    ("{a: 1, b: 2},c", ["{a: 1, b: 2}", "c"]),
    ("'a,b',c", ["'a,b'", "c"]), ("100..0/50", ["100", "50", "0"]), ("1..10000", [str(n) for n in range(1, 10_001)]),
])
def test_values(text, values):
    assert axes.values(text) == values


@pytest.mark.parametrize("text, message", [
    ("", "values such as"), ("1,,2", "values such as"), ("1..2/0", "a step other than 0"),
    ("1..10001", "10001 values, at most 10000"),
    ("0..1/0.00001", "100001 values, at most 10000"), ("0..9999999999999999999999999",
                                                       "at most 10000 values are possible"),
    ("1,2,1", "1 is there twice"), ("1..3,2", "2 is there twice"), ("1 ms..2 B", "units of one kind"),
    ("1 ms..2 parsecs", "unknown unit"),
    ("1 ms..3/1 s", "one unit for all, or one for each"), ("0.." + "9" * 80, "fewer digits"),
    (",".join(map(str, range(10_001))), "more than 10000"),
])
def test_refused_values(text, message):
    with pytest.raises(ValueError, match=message) as problem:
        axes.values(text)
    assert "\n" not in str(problem.value)


@settings(deadline=None, max_examples=200, database=None)
@given(st.decimals(-1000, 1000, places=3), st.integers(0, 60), st.decimals(0, 10, places=3).filter(bool))
def test_ranges_are_exact(first, count, step):
    found = [Decimal(value) for value in axes.values(f"{first}..{first + count * step}/{step}")]
    assert found == [first + number * step for number in range(count + 1)]


@settings(deadline=None, max_examples=300, database=None)
@given(st.text(alphabet="0123456789.,/- msMbit%[]{}'\"xe", max_size=30))
def test_any_text_is_values_or_refused(text):
    try:
        found = axes.values(text)
    except ValueError as problem:
        assert "\n" not in str(problem)
        return
    assert found and len(set(found)) == len(found) <= axes.MOST_POINTS


# -- scenarios at points ----------------------------------------------------------------------

@pytest.fixture
def expand(tmp_path):
    """expand(text added to the scenario, sweeps, ...) -> [(point, Scenario)]."""
    def made(more="", sweeps=(), choices=None, quick=False, settings=()):
        (tmp_path / "small.yaml").write_text(TEXT + more)
        return scenario.expand(str(tmp_path / "small.yaml"), choices, quick, settings, (), sweeps)
    return made


def points(expanded):
    return [point for point, _ in expanded]


def limits(expanded):
    return [loaded.topology["central"]["left_to_right"]["queue"]["limit"] for _, loaded in expanded]


def test_without_a_sweep(expand):
    (point, loaded), = expand()
    assert point == {} and loaded.parameters == {"size": "small"}


def test_every_combination(expand):
    expanded = expand(sweeps=[f"{LIMIT}=10..20/10", "timing.test=1 s, 2 s"])
    assert points(expanded) == [
        {LIMIT: limit, "timing.test": test} for limit in ("10", "20") for test in ("1 s", "2 s")]
    assert limits(expanded) == [10, 10, 20, 20]
    assert [loaded.timing.test_us for _, loaded in expanded] == [10**6, 2 * 10**6] * 2
    assert [loaded.parameters for _, loaded in expanded] == [{"size": "small"}] * 4
    assert len({str(loaded.resolved()) for _, loaded in expanded}) == 4


def test_options_of_a_choice(expand):
    expanded = expand(sweeps=["size=large,small"])
    assert points(expanded) == [{"size": "large"}, {"size": "small"}]
    assert [loaded.parameters for _, loaded in expanded] == points(expanded)
    assert [loaded.traffic[0]["flows"] for _, loaded in expanded] == [9, 1]
    with pytest.raises(UsageError, match="--sweep size: size huge: small has size small, large"):
        expand(sweeps=["size=small,huge"])


def test_a_field_that_a_choice_decides(expand):
    assert [loaded.parameters for _, loaded in expand(sweeps=["traffic.flows=2,3"])] == [{}, {}]


def test_axes_of_the_file(expand):
    more = f"sweep:\n  axes:\n    {LIMIT}: 10..30/10\n    topology.central.delay: [2 ms, 4 ms]\n    size: [small]\n"
    expanded = expand(more)
    assert points(expanded) == [{LIMIT: limit, "topology.central.delay": delay, "size": "small"}
                                for limit in ("10", "20", "30") for delay in ("2 ms", "4 ms")]
    # what an option decides is no axis
    assert points(expand(more, sweeps=[f"{LIMIT}=7"])) == [
        {"topology.central.delay": delay, "size": "small", LIMIT: "7"} for delay in ("2 ms", "4 ms")]
    assert [loaded.parameters for _, loaded in expand(more, settings=[f"{LIMIT}=7"], choices={"size": "large"})] == [
        {"size": "large", "set": {LIMIT: "7"}}] * 2
    assert len(points(expand(more, settings=[f"{LIMIT}=7"]))) == 2


def test_points_of_the_file(expand):
    more = f"sweep:\n  points:\n  - {{{LIMIT}: 10, timing.test: 1 s}}\n  - {{{LIMIT}: 20}}\n"
    expanded = expand(more)
    assert points(expanded) == [{LIMIT: "10", "timing.test": "1 s"}, {LIMIT: "20"}]
    assert [loaded.timing.test_us for _, loaded in expanded] == [10**6, 3 * 10**6]
    assert points(expand(more, sweeps=["size=small,large"])) == [
        {**point, "size": size} for point in points(expanded) for size in ("small", "large")]


def test_values_that_are_lists(expand):
    expanded = expand("sweep: {axes: {topology.left_delays: [[0 ms], [1 ms, 2 ms]]}}\n")
    assert [loaded.topology["left_delays_us"] for _, loaded in expanded] == [[0], [1000, 2000]]


def test_a_short_version_may_have_a_sweep_of_its_own(expand):
    more = f"sweep: {{axes: {{{LIMIT}: 10..30/10}}}}\nsmoke: {{timing.test: 1 s, sweep: {{axes: {{{LIMIT}: [20]}}}}}}\n"
    assert points(expand(more)) == [{LIMIT: limit} for limit in ("10", "20", "30")]
    (point, loaded), = expand(more, quick="smoke")
    assert (point, loaded.timing.test_us, loaded.parameters) == ({LIMIT: "20"}, 10**6, {"size": "small", "smoke": True})
    # one without has that of the scenario
    assert points(expand(more, quick=True)) == [{LIMIT: limit} for limit in ("10", "20", "30")]


@pytest.mark.parametrize("more, message", [
    ("smoke: {sweep: 3}", "18: smoke.sweep: a mapping expected"),
    ("smoke: {sweep: {axes: {timing.test: 1..2/0}}}", "18: smoke.sweep.axes.timing.test: 1..2/0: a step other than 0"),
    ("smoke: {sweep: {axes: {tim.test: [1 s]}}}", "18: smoke.sweep.tim.test: no such section"),
    ("smoke: 3", "18: smoke: a mapping expected")])
def test_errors_in_the_sweep_of_a_short_version(expand, more, message):
    with pytest.raises(UsageError) as problem:
        expand("\n" + more, quick="smoke")
    assert message in str(problem.value) and "\n" not in str(problem.value)


def test_loading_leaves_the_sweep_out(tmp_path):
    (tmp_path / "small.yaml").write_text(TEXT + f"sweep: {{axes: {{{LIMIT}: [7]}}}}\n")
    assert limits([({}, scenario.load(str(tmp_path / "small.yaml")))]) == [50]


@pytest.mark.parametrize("more, message", [
    ("sweep: 3", "small.yaml:18: sweep: a mapping expected"),
    ("sweep: {axis: {}}", "18: sweep.axis: unknown field; fields are: axes, points"),
    ("sweep: {axes: {}, points: []}", "sweep.points: either axes or points"),
    ("sweep: {points: []}", "sweep.points: a list of mappings"),
    ("sweep: {points: [3]}", "sweep.points: a list of mappings"),
    ("sweep: {points: [{}]}", "sweep.points: a list of mappings"),
    ("sweep: {axes: [3]}", "sweep.axes: a mapping of fields"),
    ("sweep: {axes: {x: []}}", "18: sweep.axes.x: at least one value"),
    ("sweep: {axes: {timing.test: [1 s, 1 s]}}", "sweep.axes.timing.test: a value is there twice"),
    ("sweep: {axes: {timing.test: 1..2/0}}", "sweep.axes.timing.test: 1..2/0: a step other than 0"),
    ("sweep: {axes: {timing.tests: [1 s]}}", "18: timing.tests: unknown field"),
    ("sweep: {axes: {tim.test: [1 s]}}", "18: sweep.tim.test: no such section"),
    ("sweep: {axes: {timing.test: [1 B]}}", "18: timing.test: a value with a unit"),
    ("sweep: {points: [{size: huge}]}", "size huge: small has size small, large"),
])
def test_errors_in_the_file(expand, more, message):
    with pytest.raises(UsageError) as problem:
        expand("\n" + more)
    assert message in str(problem.value) and "\n" not in str(problem.value)


@pytest.mark.parametrize("sweeps, message", [
    (["timing.test"], "--sweep timing.test: key=values expected"), (["=1"], "key=values expected"),
    (["timing.test="], "--sweep timing.test: values such as"),
    (["timing.test=1 s", "timing.test=2 s"], "--sweep timing.test: given twice"),
    (["timing.test=1..2/0"], "--sweep timing.test: 1..2/0: a step"),
    (["timing.test=3"], "--sweep timing.test: a value with a unit"),
    (["timimg.test=3 s"], "--sweep timimg.test: no such section"),
    (["timing.test=[1"], "--sweep timing.test: "), (["timing.test=1 s,.nan"],
                                                    "--sweep timing.test: a finite number expected"),
    (["choices.size.default=large"], "--sweep choices.size.default: no such section"),
    (["traffic.flows=1..200", "timing.test=1..51 s"], "sweep: 10200 points, at most 10000"),
])
def test_errors_in_options(expand, sweeps, message):
    with pytest.raises(UsageError) as problem:
        expand(sweeps=sweeps)
    assert message in str(problem.value) and "\n" not in str(problem.value)


def test_errors_at_a_point_are_of_the_scenario(expand):
    with pytest.raises(ScenarioError, match=f"--sweep {LIMIT}: from 1 to 4294967295 packets"):
        expand(sweeps=[f"{LIMIT}=1,0"])


NAMED = TEXT + "parameters: {k: traffic.flows, delays: [topology.left_delays.1, topology.right_delays.1]}\n"


@pytest.fixture
def named(tmp_path):
    """Function: lines to add -> scenario file with parameters k and delays."""
    def write(more=""):
        (tmp_path / "small.yaml").write_text(NAMED + more)
        return str(tmp_path / "small.yaml")
    return write


def test_a_parameter_is_a_short_name_for_fields(named):
    one = scenario.load(named(), settings=["k=6", "delays=7 ms"])
    assert one.traffic[0]["flows"] == 6
    assert (one.topology["left_delays_us"], one.topology["right_delays_us"]) == ([7000], [7000])
    assert one.parameters == {"set": {"k": "6", "delays": "7 ms"}}          # flows are not those of `size` any more


def test_sweeps_over_parameters(named):
    points = scenario.expand(named(), sweeps=["k=2,6", "delays=1..2/1 ms"])
    assert [(point, one.traffic[0]["flows"], one.topology["left_delays_us"]) for point, one in points] == [
        ({"k": k, "delays": f"{delay} ms"}, int(k), [delay * 1000]) for k in "26" for delay in (1, 2)]
    in_file = named("sweep: {axes: {k: 3..4}}\n")
    assert [one.traffic[0]["flows"] for _, one in scenario.expand(in_file)] == [3, 4]
    # an option overrides what the file sweeps, under either name
    assert [one.traffic[0]["flows"] for _, one in scenario.expand(in_file, settings=["traffic.flows=5"])] == [5]
    assert [point for point, _ in scenario.expand(in_file, sweeps=["traffic.flows=7"])] == [{"traffic.flows": "7"}]


@pytest.mark.parametrize("options, words", [
    ({"settings": ["k=6"], "sweeps": ["traffic.flows=2,3"]}, "--sweep traffic.flows: another option says what"),
    ({"settings": ["traffic.flows=6"], "sweeps": ["k=2,3"]}, "--sweep k: another option says what k is, too"),
    ({"sweeps": ["k=1,2", "traffic.flows=2,3"]}, "--sweep traffic.flows: k is traffic.flows, too; which of them"),
    ({"settings": ["k=6", "traffic.flows=3"]}, "--set traffic.flows: k is traffic.flows, too; which of them"),
    ({"settings": ["kk=6"]}, "--set kk: no such parameter or section; parameters are: k, delays; sections are: defa"),
    ({"settings": ["k=many"]}, "--set k: a whole number expected, not 'many'"),
    ({"sweeps": ["k=2,x"]}, "--sweep k: a whole number expected, not 'x'")])
def test_refused_parameters_of_options(named, options, words):
    with pytest.raises((UsageError, ScenarioError)) as caught:
        scenario.expand(named(), **options)
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize("section, words", [
    ("{K: traffic.flows}", "parameters.K: a name of lower-case letters"), ("[k]", "parameters: a mapping expected"),
    ("{timing: timing.test}", "parameters.timing: the name of a section or of a choice"),
    ("{size: traffic.flows}", "parameters.size: the name of a section or of a choice"),
    ("{k: 3}", "parameters.k: a field, or a list of fields, expected"),
    ("{k: []}", "parameters.k: a field, or a list of fields, expected"),
    ("{k: sweep.axes}", "parameters.k: a field expected, such as topology.central.rate, not 'sweep.axes'"),
    ("{k: traffic}", "parameters.k: a field expected"),
    ("{k: [traffic.flows, traffic.flows]}", "parameters.k: a field is there twice")])
def test_refused_parameters_of_files(tmp_path, section, words):
    (tmp_path / "small.yaml").write_text(TEXT + f"parameters: {section}\n")
    with pytest.raises(ScenarioError) as caught:
        scenario.load(str(tmp_path / "small.yaml"))
    assert f"small.yaml:17: {words}" in str(caught.value)
