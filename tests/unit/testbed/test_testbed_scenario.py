# SPDX-License-Identifier: GPL-2.0-only
"""Scenario files: what they mean, and how errors in them are reported."""
import itertools
import json

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import topologies
from testbed import scenario
from testbed.errors import ScenarioError, UsageError

TEXT = """\
name: small
title: A small one
description: >
  Two lines
  of text.
topology:
  kind: dumbbell
  central: {rate: 20 Mbit/s, delay: 2 ms, queue: {limit: 50}}
  edge: {rate: 100 Mbit/s}
  left_delays: [0 ms, 5 ms]
  right_delays: [2 ms]
traffic: {kind: greedy, target: right_to_left}
timing: {prefill: 1 s, warmup: 2 s, test: 3 s}
hosts: {ecn: 1, sysctls: {net.ipv4.tcp_rmem: 4096 131072 6291456}}
probes:
  queue: {interval: 10 ms}
  tcp_info:
defaults: {ccas: [reno, cubic], seeds: 3}
choices:
  size:
    default: small
    options:
      small: {traffic.flows: 1}
      large: {traffic.flows: 9, topology.central.rate: 1 Gbit/s}
quick: {timing.test: 1 s, timing.prefill: 0 s}
"""


@pytest.fixture
def load(tmp_path):
    """load(text, ...) -> Scenario."""
    def loaded(text=TEXT, **options):
        path = tmp_path / "small.yaml"
        path.write_text(text)
        return scenario.load(str(path), **options)
    return loaded


def refused(load, text=TEXT, error=ScenarioError, **options):
    with pytest.raises(error) as problem:
        load(text, **options)
    message = str(problem.value)
    assert "\n" not in message
    return message


def test_every_field(load):
    small = load()
    assert (small.name, small.title, small.source, small.description) == ("small", "A small one", "", "Two lines of text.")
    assert small.topology["central"] == {"rate_bps": 20_000_000, "delay_us": 2000, "queue": {"limit": 50}}
    assert small.topology["left_delays_us"] == [0, 5000]
    assert small.traffic == {"kind": "greedy", "target": "right_to_left", "flows": 1}
    assert (small.timing.prefill_us, small.timing.warmup_us, small.timing.test_us, small.timing.duration_us) == (10**6, 2 * 10**6, 3 * 10**6, 6 * 10**6)
    assert small.hosts == {"ecn": 1, "sack": 1, "sysctls": {"net.ipv4.tcp_rmem": "4096 131072 6291456"}}
    assert small.probes == {"queue": {"interval_us": 10_000}, "tcp_info": {}}
    assert (small.default_ccas, small.default_seeds, small.parameters) == (["reno", "cubic"], 3, {"size": "small"})


def test_what_may_be_left_out(load):
    tree = yaml.safe_load(TEXT)
    bare = load(yaml.safe_dump({k: tree[k] for k in ("name", "topology", "traffic")} | {"timing": {"test": "1 s"}}))
    assert bare.title == "small" and bare.parameters == {} and bare.probes == {}
    assert bare.hosts == {"ecn": 0, "sack": 1, "sysctls": {}} and (bare.default_ccas, bare.default_seeds) == (["cubic"], 1)
    assert bare.timing.duration_us == 1_000_000
    assert load(TEXT.replace("probes:\n  queue: {interval: 10 ms}\n  tcp_info:\n", "probes:\n")).probes == {}


def test_choices_quick_and_settings_are_applied_in_this_order(load):
    large = load(choices={"size": "large"}, quick=True, settings=["timing.test=7 s", "topology.central.queue.kind=codel", "traffic.flows=4"])
    assert large.topology["central"]["rate_bps"] == 10**9 and large.topology["central"]["queue"] == {"limit": 50, "kind": "codel"}
    assert (large.timing.prefill_us, large.timing.test_us, large.traffic["flows"]) == (0, 7_000_000, 4)
    assert large.parameters == {"size": "large", "quick": True, "set": {
        "timing.test": "7 s", "topology.central.queue.kind": "codel", "traffic.flows": "4"}}
    assert load(settings=["probes.sojourn={}", "hosts.sack=0"]).probes.keys() == {"queue", "tcp_info", "sojourn"}


def test_resolved_is_json_and_leads_back(load):
    small = load(choices={"size": "large"})
    fields = json.loads(json.dumps(small.resolved()))
    again = scenario.from_resolved({**fields, "cca": "bbr", "seed": 7})
    assert again.resolved() == small.resolved()


@pytest.mark.parametrize("old, new, message", [
    ("name: small", "name: Small Things", "small.yaml:1: name: lower-case letters"),
    ("name: small", "name: 3", "small.yaml:1: name: lower-case"),
    ("title: A small one", "titel: x", "small.yaml:2: titel: unknown section; sections are: choices"),
    ("rate: 20 Mbit/s", "rate: 20 Mbps", "small.yaml:8: topology.central.rate: unknown unit 'Mbps'"),
    ("rate: 20 Mbit/s", "rate: 20", "small.yaml:8: topology.central.rate: a value with a unit such as '100 Mbit/s'"),
    ("rate: 20 Mbit/s", "rate: 20 ms", "small.yaml:8: topology.central.rate: "),
    ("limit: 50", "limit: -1", "small.yaml:8: topology.central.queue.limit: a number >= 0"),
    ("left_delays: [0 ms, 5 ms]", "left_delays: [0, 5 ms]", "small.yaml:10: topology.left_delays: "),
    ("kind: dumbbell", "kind: ring", "small.yaml:7: topology.kind: no topology 'ring'"),
    ("kind: greedy", "kind: gready", "small.yaml:12: traffic.kind: no traffic 'gready'; there are: greedy"),
    ("target: right_to_left", "target: up", "small.yaml:12: traffic.target: one of left_to_right, right_to_left"),
    ("traffic: {kind: greedy, target: right_to_left}", "traffic: greedy", "small.yaml:12: traffic: a mapping expected"),
    ("traffic: {kind: greedy, target: right_to_left}", "traffic:", "small.yaml:12: traffic: a mapping expected"),
    ("test: 3 s", "test: 0 s", "small.yaml:13: timing.test: must be longer than 0 s"),
    ("test: 3 s", "test: 3", "small.yaml:13: timing.test: a value with a unit such as '20 ms'"),
    ("test: 3 s", "test: 3 kB", "small.yaml:13: timing.test: a value with a unit"),
    ("test: 3 s", "warm: 3 s", "small.yaml:13: timing.warm: unknown field; fields are: prefill, warmup, test"),
    (", test: 3 s", "", "small.yaml:13: timing: 'test' is missing"),
    ("warmup: 2 s", "warmup: -2 s", "small.yaml:13: timing.warmup: a time >= 0"),
    ("timing: {prefill: 1 s, warmup: 2 s, test: 3 s}", "timing: long", "small.yaml:13: timing: a mapping expected"),
    ("ecn: 1", "ecn: on please", "small.yaml:14: hosts.ecn: a number from 0 to 2"),
    ("ecn: 1", "sack: 2", "small.yaml:14: hosts.sack: a number from 0 to 1"),
    ("net.ipv4.tcp_rmem", "kernel.hostname", "small.yaml:14: hosts.sysctls.kernel.hostname: only net.ipv4"),
    ("{net.ipv4.tcp_rmem: 4096 131072 6291456}", "none", "small.yaml:14: hosts.sysctls: a mapping"),
    ("interval: 10 ms", "interval: 10", "small.yaml:16: probes.queue.interval: a value with a unit"),
    ("interval: 10 ms", "interval: 0 ms", "small.yaml:16: probes.queue.interval: must be above 0"),
    ("queue: {interval: 10 ms}", "queue: 10 ms", "small.yaml:16: probes.queue: a mapping expected"),
    ("tcp_info:", "tcp_inf:", "small.yaml:17: probes.tcp_inf: no such probe; there are: "),
    ("ccas: [reno, cubic]", "ccas: cubic", "small.yaml:18: defaults.ccas: a list of names"),
    ("ccas: [reno, cubic]", "ccas: []", "small.yaml:18: defaults.ccas: a list of names"),
    ("seeds: 3", "seeds: few", "small.yaml:18: defaults.seeds: a number"),
    ("default: small", "standard: small", "small.yaml:20: choices.size: a mapping with 'default' and 'options'"),
    ("small: {traffic.flows: 1}", "small: few", "small.yaml:22: choices.size.options: a mapping of fields"),
    ("small: {traffic.flows: 1}", "small: {traffic.flows: 0}", "small.yaml:23: traffic.flows: a whole number from 1"),
    ("small: {traffic.flows: 1}", "small: {trafic.flows: 0}", "small.yaml:23: trafic.flows: no such section"),
    ("name: small", "name: small\n  x: 3", "small.yaml:2: mapping values are not allowed here"),
    ("title: A small one", "title: !thing x", "small.yaml:2: could not determine a constructor"),
    ("title: A small one", "title: 2024-13-45", "small.yaml: month must be in"),
    ("title: A small one", "title: &x [*x]", "small.yaml:"),
    ("title: A small one", "title: *x", "small.yaml:2: found undefined alias"),
])
def test_errors_say_file_line_and_field(load, old, new, message):
    assert TEXT.count(old) >= 1
    assert message in refused(load, TEXT.replace(old, new, 1))


@pytest.mark.parametrize("section", ["name", "topology", "traffic", "timing"])
def test_missing_sections(load, section):
    tree = yaml.safe_load(TEXT)
    del tree[section]
    assert f"section '{section}' is missing" in refused(load, yaml.safe_dump(tree))


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "just words", "[" * 50, "a: " + "{b: " * 30 + "1" + "}" * 30, "\0"])
def test_files_that_are_no_scenario(load, text):
    assert "small.yaml" in refused(load, text)


def test_unreadable_files(tmp_path):
    (tmp_path / "x.yaml").write_bytes(b"name: \xff\xfe")
    with pytest.raises(ScenarioError, match="not a text file in UTF-8"):
        scenario.load(str(tmp_path / "x.yaml"))
    for name in (str(tmp_path / "missing.yaml"), "nosuch"):
        with pytest.raises(UsageError, match="no such scenario file|there are: access-link"):
            scenario.load(name)


@pytest.mark.parametrize("options, message", [
    ({"choices": {"size": "huge"}}, "size huge: small has size small, large ("),
    ({"choices": {"load": "60"}}, "load 60: scenario small has no choice of load"),
    ({"settings": ["timing.test"]}, "--set timing.test: key=value expected"),
    ({"settings": ["=3"]}, "key=value expected"),
    ({"settings": ["timing.test=[1"]}, "is not a value"),
    ({"settings": ["timing.test=3 parsecs"]}, "--set timing.test: unknown unit"),
    ({"settings": ["timing.test=-3 s"]}, "--set timing.test: a time >= 0"),
    ({"settings": ["timing.test.x=3"]}, "--set timing.test.x: timing.test is not a section"),
    ({"settings": ["timimg.test=3 s"]}, "--set timimg.test: no such section"),
    ({"settings": ["rate=3 bit/s"]}, "--set rate: no such section"),
    ({"settings": ["topology.central.queue.kind=cake"]}, "--set topology.central.queue.kind: no queue 'cake'"),
    ({"settings": ["probes.nosuch={}"]}, "--set probes.nosuch: no such probe"),
])
def test_errors_in_options(load, options, message):
    assert message in refused(load, error=UsageError, **options)


def test_no_quick_version(load):
    assert "has no quick version" in refused(load, TEXT.replace("quick: {timing.test: 1 s, timing.prefill: 0 s}\n", ""), UsageError, quick=True)


@settings(deadline=None, max_examples=120, database=None, suppress_health_check=list(HealthCheck))
@given(at=st.integers(0, len(TEXT)), cut=st.integers(0, 12), insert=st.sampled_from(
    ["", " ", "\n", ":", "-", "{", "}", "[", "]", "'", "*", "&", "!", "#", "null", "1", "ms", "\t", "true", "~", "|", "?", ",", "é"]))
def test_a_spoilt_file_is_loaded_or_refused_with_one_line(load, at, cut, insert):
    try:
        load(TEXT[:at] + insert + TEXT[at + cut:])
    except (ScenarioError, UsageError) as problem:
        assert "small.yaml" in str(problem)


def every_variant():
    for name in scenario.names():
        tree = yaml.safe_load(scenario.find(name).read_text())
        choices = tree.get("choices") or {}
        for options in itertools.product(*([str(o) for o in choice["options"]] for choice in choices.values())):
            for quick in (False, True)[:1 + ("quick" in tree)]:
                yield name, dict(zip(choices, options)), quick


@pytest.mark.parametrize("name, choices, quick", every_variant())
def test_every_scenario_loads_in_every_choice(name, choices, quick):
    loaded = scenario.load(name, choices, quick)
    assert loaded.name == name and loaded.title and loaded.description and loaded.source
    assert loaded.timing.test_us > 0 and loaded.default_ccas
    assert topologies.from_section(loaded.topology).describe()["paths"]
    assert scenario.from_resolved(json.loads(json.dumps(loaded.resolved()))).resolved() == loaded.resolved()
    assert not quick or loaded.timing.duration_us < scenario.load(name, choices).timing.duration_us
