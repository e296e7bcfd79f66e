# SPDX-License-Identifier: GPL-2.0-only
"""The section `search` of scenarios: what may change, in which order values are tried, and what is refused."""
import pytest
import yaml

from testbed.core.errors import ScenarioError
from testbed.scenario import scenario, search_space
from testbed.scenario.search_space import Candidate, Setting, Step

LINK = "topology.central.right_to_left"
TREE = {
    "name": "small",
    "topology": {
        "kind": "dumbbell", "edge": {"rate": "1 Gbit/s", "queue": {"kind": "pfifo", "limit": 1000}},
        "central": {"left_to_right": {"rate": "1 Gbit/s", "delay": "10 ms", "queue": {"kind": "pfifo", "limit": 1000}},
                    "right_to_left": {"rate": "10 Mbit/s", "delay": "20 ms", "queue": {"kind": "pfifo", "limit": 33}}},
        "left_delays": ["0 ms"], "right_delays": ["0 ms"]},
    "traffic": {"kind": "greedy", "paths": ["n2->n1"]},
    "timing": {"warmup": "1 s", "test": "4 s"},
    "parameters": {"rate": f"{LINK}.rate", "delay": f"{LINK}.delay"},
}


@pytest.fixture
def write(tmp_path):
    """write(section, **sections) -> path of a scenario with this section `search`."""
    def make(section, **others):
        path = tmp_path / "small.yaml"
        path.write_text(yaml.safe_dump({**TREE, **others, "search": section}, sort_keys=False))
        return str(path)
    return make


def space_of(path, *settings):
    one = scenario.load(path, settings=settings)
    assert one.search is not None
    return one.search


def test_values_are_in_order_of_the_distance_from_the_usual_one_which_is_none_of_them(write):
    space = space_of(write({"fields": {"rate": ["1 Mbit/s", "10000 kbit/s", "20 Mbit/s", "5 Mbit/s", "30 Mbit/s"],
                                       f"{LINK}.queue.limit": "31..35", "delay": ["0 ms", "30 ms", "21 ms"]}}))
    assert [one.values for one in space.fields] == [
        ("20 Mbit/s", "5 Mbit/s", "30 Mbit/s", "1 Mbit/s"), ("34", "32", "35", "31"), ("21 ms", "30 ms", "0 ms")]


def test_the_usual_value_is_that_of_settings(write):
    path = write({"fields": {"rate": "8..12/1 Mbit/s"}})
    assert space_of(path, "rate=12 Mbit/s").fields[0].values == ("11 Mbit/s", "10 Mbit/s", "9 Mbit/s", "8 Mbit/s")


def test_words_stay_in_the_order_of_the_file(write):
    space = space_of(write({"fields": {f"{LINK}.queue": ["{kind: codel}", "{kind: bfifo, limit: 9 kB}"]}}))
    assert space.fields[0].values == ("{kind: codel}", "{kind: bfifo, limit: 9 kB}")


def test_steps(write):
    steps, = space_of(write({"steps": {LINK: {"at": "1..3/1 s", "most": 2, "rate": ["1 Mbit/s", "9 Mbit/s"],
                                              "limit": [1, 30]}}})).steps
    assert (steps.link, steps.most, steps.at) == (LINK, 2, ("1 s", "2 s", "3 s"))
    assert steps.quantities == {"rate": ("9 Mbit/s", "1 Mbit/s"), "limit": ("30", "1")}


def test_settings_change_the_section(write):
    path = write({"fields": {"rate": ["5 Mbit/s"]}, "steps": {LINK: {"at": ["2 s"], "outage": ["2 s", "500 ms"]}}})
    assert space_of(path).steps[0].quantities == {"outage": ("500 ms", "2 s")}
    changed = space_of(path, "search.fields.rate=[1 Mbit/s, 9 Mbit/s]", f"search.fields.{LINK}.loss=1..2/1 %",
                       "search.steps={}")
    assert [(one.name, one.values) for one in changed.fields] == [
        ("rate", ("9 Mbit/s", "1 Mbit/s")), (f"{LINK}.loss", ("1 %", "2 %"))]
    assert changed.steps == ()
    with pytest.raises(ScenarioError, match=r"--set search\.fields\.rate: .*at least one value"):
        space_of(path, "search.fields.rate=[]")


def test_a_value_is_one_value(write):
    value = "1 Mbit/s}, {at: 3 s, rate: 2 Mbit/s"
    path = write({"steps": {LINK: {"at": ["1 s"], "rate": [value]}}})
    with pytest.raises(ScenarioError, match="rate"):
        scenario.load(path, settings=Candidate((), (Step(LINK, "rate", "1 s", value),)).options())


def test_a_candidate_as_settings(write):
    candidate = Candidate((Setting("rate", "5 Mbit/s"),), (
        Step(LINK, "delay", "3 s", "90 ms"), Step(LINK, "rate", "1500 ms", "1 Mbit/s")))
    assert candidate.options() == ["rate=5 Mbit/s", f"{LINK}.schedule=[{{at: 1500 ms, rate: 1 Mbit/s}}, "
                                                    "{at: 3 s, delay: 90 ms}]"]
    path = write({"fields": {"rate": ["5 Mbit/s"]}, "steps": {LINK: {"at": ["1500 ms"], "rate": ["1 Mbit/s"]}}})
    links = scenario.load(path, settings=candidate.options()).resolved().network.content()["links"]
    link, = [one for one in links if one["rate_bps"] == 5_000_000]
    assert link["schedule"] == [{"at_us": 1_500_000, "rate_bps": 1_000_000}, {"at_us": 3_000_000, "delay_us": 90_000}]


def test_several_outages_are_one_step(write):
    row = "3 x 500 ms every 1 s"
    path = write({"steps": {LINK: {"at": ["1500 ms"], "outage": ["200 ms", row]}}})
    assert space_of(path).steps[0].quantities == {"outage": ("200 ms", row)}
    step = Step(LINK, "outage", "1500 ms", row)
    assert space_of(path).simpler(step) == [Step(LINK, "outage", "1500 ms", "200 ms")]
    links = scenario.load(path, settings=Candidate((), (step,)).options()).resolved().network.content()["links"]
    schedule, = [one["schedule"] for one in links if one.get("schedule")]
    assert [(one["at_us"], one["up"]) for one in schedule] == [
        (at_us, up) for begin in (1.5e6, 2.5e6, 3.5e6) for at_us, up in ((begin, False), (begin + 5e5, True))]


def test_parts_are_taken_out_and_moved(write):
    space = space_of(write({"fields": {"rate": ["5 Mbit/s", "1 Mbit/s"]},
                            "steps": {LINK: {"at": ["1 s", "2 s"], "delay": ["30 ms", "90 ms"]}}}))
    setting, step = Setting("rate", "1 Mbit/s"), Step(LINK, "delay", "2 s", "30 ms")
    candidate = Candidate((setting,), (step,))
    assert candidate.without(step) == Candidate((setting,)) and candidate.without(setting) == Candidate((), (step,))
    nearer, earlier = Setting("rate", "5 Mbit/s"), Step(LINK, "delay", "1 s", "30 ms")
    assert (space.simpler(setting), space.simpler(nearer), space.simpler(step)) == ([nearer], [], [earlier])
    assert candidate.replaced(setting, nearer) == Candidate((nearer,), (step,))
    assert Candidate((), (earlier, step)).replaced(step, earlier) is None
    assert space.size(candidate) == (2, 2) and space.size(Candidate()) == (0, 0)


@pytest.mark.parametrize("section, says", [
    ([1], "search: a mapping expected"),
    ({}, "search: says nothing that may change"),
    ({"knobs": {}}, "search.knobs: unknown field; fields are: fields, steps"),
    ({"fields": {"rate": {"from": 1}}}, "search.fields.rate: a list of values, or a range"),
    ({"fields": {"rate": []}}, "search.fields.rate: at least one value"),
    ({"fields": {"rate": ["1 Mbit/s", "1 Mbit/s"]}}, "search.fields.rate: a value is there twice"),
    ({"fields": {"rate": "1..1000000000/1 bit/s"}}, "search.fields.rate: .*at most 10000"),
    ({"fields": {"rate": True}}, "search.fields.rate: a list of values"),
    ({"fields": {"rate": "1..2/0 Mbit/s"}}, "search.fields.rate: .*a step other than 0"),
    ({"fields": {"no such": ["1"]}}, "search.fields.no such: names such as 'topology.central.rate'"),
    ({"fields": {"rate": ["1 Mbit/s"], f"{LINK}.rate": ["2 Mbit/s"]}},
     f"search.fields.{LINK}.rate: rate is {LINK}.rate, too; which of them"),
    ({"fields": {f"{LINK}.schedule": ["[]"]}, "steps": {LINK: {"at": ["1 s"], "rate": ["1 Mbit/s"]}}},
     f"search.steps.{LINK}: field .*which of them"),
    ({"steps": {LINK: {"rate": ["1 Mbit/s"]}}}, f"search.steps.{LINK}.at: is missing"),
    ({"steps": {LINK: {"at": ["1 s"]}}},
     f"search.steps.{LINK}: says nothing that changes: rate, delay, loss, limit or"),
    ({"steps": {LINK: {"at": ["soon"], "rate": ["1 Mbit/s"]}}}, f"search.steps.{LINK}.at: times such as 2 s"),
    ({"steps": {LINK: {"at": [3], "rate": ["1 Mbit/s"]}}}, f"search.steps.{LINK}.at: times such as 2 s"),
    ({"steps": {LINK: {"at": ["1 s"], "rate": ["1 Mbit/s"], "most": 0}}}, f"search.steps.{LINK}.most: must be"),
    *(({"steps": {LINK: {"at": ["1 s"], "outage": [text]}}}, f"search.steps.{LINK}.outage: times such as 500 ms")
      for text in ("often", "1 x 500 ms every 1 s", "3 x 2 s every 1 s", "3 x 500 ms every 9 kB", "3 x 500 ms",
                   "1001 x 1 ms every 2 ms")),
    ({"steps": {LINK: {"at": ["1 s"], "jitter": ["1 ms"]}}}, f"search.steps.{LINK}.jitter: unknown field"),
])
def test_hostile_sections(write, section, says):
    with pytest.raises(ScenarioError, match=rf"small\.yaml:\d+: {says}"):
        scenario.load(write(section))


def test_the_line_is_that_of_the_field(write):
    path = write({"fields": {"rate": ["1 Mbit/s"], "delay": []}})
    line = next(number for number, text in enumerate(open(path), start=1) if text.startswith("    delay"))
    with pytest.raises(ScenarioError, match=rf"small\.yaml:{line}: search\.fields\.delay"):
        scenario.load(path)


def test_a_scenario_that_has_nothing_to_change(write):
    one = scenario.load(write({"fields": {"rate": ["10000 kbit/s"]}}))
    with pytest.raises(search_space.FieldError, match="no value but the one"):
        search_space.check(one.search, one.file)
    one = scenario.load(write({"steps": {LINK: {"at": ["1 s"], "rate": ["1 Mbit/s"]}}}),
                        settings=[f"{LINK}.schedule=[{{at: 2 s, rate: 1 Mbit/s}}]"])
    with pytest.raises(search_space.FieldError, match="has a schedule already"):
        search_space.check(one.search, one.file)


@pytest.mark.parametrize("name", ["search-one-flow", "search-two-flows"])
def test_every_value_of_our_scenarios_is_one_that_they_take(name):
    one = scenario.load(name)
    search_space.check(one.search, one.file)
    for _, candidate in one.search.single_parts():
        scenario.load(name, settings=candidate.options())
