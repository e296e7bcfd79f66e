# SPDX-License-Identifier: GPL-2.0-only
"""Scenario files: what they mean, and how errors in them are reported."""
import itertools
import json
import re

import pytest
import yaml
from hypothesis import HealthCheck, given, settings, strategies as st

import topologies
from testbed.core import fields
from testbed.core.errors import ScenarioError, UsageError
from testbed.scenario import scenario
from topologies.links import end_hosts

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
traffic: {kind: greedy, paths: [n3->n1]}
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


#: as Linux has them, without what is a model of hosts
PLAIN_HOSTS = {"ecn": 0, "sack": 1, "slow_start_after_idle": 1, "initcwnd": 10, "delayed_acks": True, "qdisc": "link",
               "offloads": "none", "jitter_us": 0, "coalescing_us": 0, "packet_cost_us": 0, "wakeup_cost_us": 0,
               "sysctls": {}}


def network_of(scenario):
    """What follows from a scenario's sections `topology` and `hosts`."""
    return end_hosts.apply(fields.decode(end_hosts.HostsSection, scenario.hosts),
                           topologies.resolve(scenario.topology))


def test_every_field(load):
    small = load()
    assert (small.name, small.title, small.source) == ("small", "A small one", "")
    assert small.description == "Two lines of text."
    central = small.topology["central"]["left_to_right"]
    assert (central["rate_bps"], central["delay_us"]) == (20_000_000, 2000)
    assert central["queue"] == {"kind": "pfifo", "limit": 50}
    assert small.network == network_of(small) and len(small.network["paths"]) == 2
    assert small.topology["left_delays_us"] == [0, 5000]
    assert small.traffic == [{"name": "greedy", "kind": "greedy", "start_us": 0, "stop_us": 6_000_000,
                              "paths": ["n3->n1"], "flows": 1}]
    assert small.timing.record() == {
        "prefill_us": 10**6, "warmup_us": 2 * 10**6, "test_us": 3 * 10**6, "duration_us": 6 * 10**6}
    # a full packet at 20 Mbit/s takes 605.6 us
    assert small.hosts == {**PLAIN_HOSTS, "jitter_us": 606, "ecn": 1,
                           "sysctls": {"net.ipv4.tcp_rmem": "4096 131072 6291456"}}
    assert small.probes == {"queue": {"interval_us": 10_000, "edge_interval_us": 1_000_000},
                            "tcp_info": {"interval_us": 1_000_000, "buffers": False, "bbr": False}}
    assert (small.default_ccas, small.default_seeds, small.parameters) == (["reno", "cubic"], 3, {"size": "small"})


def test_what_may_be_left_out(load):
    tree = yaml.safe_load(TEXT)
    bare = load(yaml.safe_dump({k: tree[k] for k in ("name", "topology", "traffic")} | {"timing": {"test": "1 s"}}))
    assert bare.title == "small" and bare.parameters == {} and bare.probes == {}
    assert bare.hosts == {**PLAIN_HOSTS, "jitter_us": 606}
    assert (bare.default_ccas, bare.default_seeds) == (["cubic"], 1)
    assert bare.timing.duration_us == 1_000_000
    assert load(TEXT.replace("probes:\n  queue: {interval: 10 ms}\n  tcp_info:\n", "probes:\n")).probes == {}


def test_choices_quick_and_settings_are_applied_in_this_order(load):
    large = load(choices={"size": "large"}, quick=True, settings=[
        "timing.test=7 s", "topology.central.queue.kind=codel", "traffic.flows=4"])
    central = large.topology["central"]["right_to_left"]
    assert central["rate_bps"] == 10**9 and central["queue"] == {"limit": 50, "kind": "codel"}
    assert (large.timing.prefill_us, large.timing.test_us, large.traffic[0]["flows"]) == (0, 7_000_000, 4)
    # who sets what the choice decides has not made that choice any more
    assert large.parameters == {"quick": True, "set": {
        "timing.test": "7 s", "topology.central.queue.kind": "codel", "traffic.flows": "4"}}
    assert load(settings=["probes.sojourn={}", "hosts.sack=0"]).probes.keys() == {"queue", "tcp_info", "sojourn"}


def test_resolved_is_json_and_has_no_labels(load):
    small = load(choices={"size": "large"})
    resolved, labels = small.resolved().content(), small.labels().content()
    assert json.loads(json.dumps(resolved)) == resolved and json.loads(json.dumps(labels)) == labels
    assert set(resolved) == {"topology", "network", "traffic", "timing", "hosts", "probes"}
    assert resolved["timing"] == {"prefill_us": 10**6, "warmup_us": 2 * 10**6, "test_us": 3 * 10**6,
                                  "duration_us": 6 * 10**6}
    assert labels == {"name": "small", "title": "A small one", "source": "", "description": "Two lines of text.",
                      "parameters": {"size": "large"}}


def test_what_is_called_otherwise_is_the_same_run(load):
    """Titles, choices and ways to spell a value do not decide a run."""
    text = TEXT.replace("A small one", "Another").replace("20 Mbit/s", "20000 kbit/s").replace("name: small", "name: x")
    other = load(text, settings=["traffic.flows=1"])
    assert other.resolved() == load().resolved() and other.labels() != load().labels()
    assert other.parameters == {"set": {"traffic.flows": "1"}}


@pytest.mark.parametrize("setting, kept", [
    ("traffic.flows=9", False), ("traffic={kind: greedy}", False), ("topology.central={rate: 1 Mbit/s}", False),
    ("topology.central.rate=3 Mbit/s", False), ("topology.central.rates=3", True),
    ("topology.central.delay=3 ms", True),
    ("timing.test=4 s", True)])
def test_a_choice_whose_field_is_set_is_none(load, setting, kept):
    try:
        parameters = load(choices={"size": "large"}, settings=[setting]).parameters
    except ScenarioError as problem:
        assert kept and "topology.central.rates" in str(problem)
        return
    assert ("size" in parameters) == kept


# -- components -----------------------------------------------------------------------------

LIST = TEXT.replace("traffic: {kind: greedy, paths: [n3->n1]}", """\
traffic:
  - {name: background, kind: tmix, target: right_to_left, load: 50 %, start: 1 s}
  - {kind: greedy, paths: [n3->n1], cca: reno}
  - {kind: greedy, paths: [n3->n2], stop: 5 s, cca: [reno, cubic]}""").replace("traffic.flows", "traffic.greedy.flows")


def test_components(load):
    loaded = load(LIST)
    assert loaded.traffic == [
        {"name": "background", "kind": "tmix", "start_us": 1_000_000, "stop_us": 6_000_000, "target": ["right_to_left"],
         "load_percent": 50},
        {"name": "greedy", "kind": "greedy", "start_us": 0, "stop_us": 6_000_000, "paths": ["n3->n1"], "cca": ["reno"],
         "flows": 1},
        {"name": "greedy-2", "kind": "greedy", "start_us": 0, "stop_us": 5_000_000, "paths": ["n3->n2"],
         "cca": ["reno", "cubic"]}]


def test_components_are_set_by_name_or_number(load):
    for name in ("greedy-2", "3"):
        loaded = load(LIST, settings=[f"traffic.{name}.flows=7", "traffic.background.load=75%"])
        assert [c.get("flows") for c in loaded.traffic] == [None, 1, 7] and loaded.traffic[0]["load_percent"] == 75
        assert loaded.parameters["size"] == "small"
    assert "size" not in load(LIST, settings=["traffic.2.flows=7"]).parameters
    assert "size" not in load(LIST, settings=["traffic=[{kind: greedy}]"]).parameters


@pytest.mark.parametrize("old, new, message", [
    ("load: 50 %", "load: 0 %", "small.yaml:13: traffic.background.load: "),
    ("cca: reno}", "cca: reno, flow: 1}", "small.yaml:14: traffic.greedy.flow: unknown field"),
    ("stop: 5 s", "stop: 0 s", "small.yaml:15: traffic.greedy-2.stop: "),
    ("stop: 5 s", "start: 6 s", "small.yaml:15: traffic.greedy-2.start: "),
    ("stop: 5 s", "name: greedy", "small.yaml:15: traffic.3.name: a second component 'greedy'"),
    ("stop: 5 s", "name: ../x", "small.yaml:15: traffic.3.name: at most 60 lower-case letters"),
    ("stop: 5 s", "name: [x]", "small.yaml:15: traffic.3.name: at most 60 lower-case letters"),
    ("kind: tmix, ", "", "small.yaml:13: traffic.1.kind: is missing; kinds of traffic are: "),
    ("{kind: greedy, paths: [n3->n1], cca: reno}", "greedy", "small.yaml:14: traffic.2: a mapping expected"),
    ("traffic.greedy.flows: 1", "traffic.greedy-3.flows: 1",
     "traffic has no element 'greedy-3'; it has: background, greedy, greedy-2"),
])
def test_errors_in_components(load, old, new, message):
    assert old in LIST
    assert message in refused(load, LIST.replace(old, new, 1))


def test_no_component(load):
    text = TEXT.replace("{kind: greedy, paths: [n3->n1]}", "[]")
    assert "small.yaml:12: traffic: at least one component" in refused(load, text)


@pytest.mark.parametrize("old, new, message", [
    ("name: small", "name: Small Things", "small.yaml:1: name: at most 60 lower-case letters"),
    ("name: small", "name: 3", "small.yaml:1: name: at most 60 lower-case"),
    ("name: small", "name: ../../evil", "small.yaml:1: name: at most 60 lower-case"),
    ("title: A small one", "titel: x", "small.yaml:2: titel: unknown section; did you mean title?"),
    ("title: A small one", "title: [a]", "small.yaml:2: title: printable text expected"),
    ("title: A small one", 'title: "\\e[1m"', "small.yaml:2: title: printable text expected"),
    ("rate: 20 Mbit/s", "rate: 20 Mbps", "small.yaml:8: topology.central.rate: unknown unit 'Mbps'"),
    ("rate: 20 Mbit/s", "rate: 20", "small.yaml:8: topology.central.rate: a value with a unit such as '100 Mbit/s'"),
    ("rate: 20 Mbit/s", "rate: 20 ms", "small.yaml:8: topology.central.rate: a value with a unit such as '100 Mbit/s'"),
    ("rate: 20 Mbit/s", "rate: 1 bit/s", "small.yaml:8: topology.central.rate: must be at least 1 kbit/s, not 1 bit/s"),
    ("rate: 20 Mbit/s", "rate: 9999999999999 Gbit/s",
     "small.yaml:8: topology.central.rate: must be at most 100 Gbit/s"),
    ("rate: 20 Mbit/s", "rate_bps: 20",
     "small.yaml:8: topology.central.rate_bps: the unit belongs to the value: rate: 100 Mbit/s"),
    ("limit: 50", "limit: -1", "small.yaml:8: topology.central.queue.limit: must be at least 0"),
    ("limit: 50", "limit: 18446744073709551616",
     "small.yaml:8: topology.central.queue.limit: '18446744073709551616' is too large"),
    ("limit: 50", "limit: .inf", "small.yaml:8: topology.central.queue.limit: a finite number expected, not '.inf'"),
    ("left_delays: [0 ms, 5 ms]", "left_delays: [0, 5 ms]", "small.yaml:10: topology.left_delays: a value with a unit"),
    ("left_delays: [0 ms, 5 ms]", "left_delays: []", "small.yaml:10: topology.left_delays: a list of at least 1"),
    ("kind: dumbbell", "kind: ring", "small.yaml:7: topology.kind: no topology 'ring'"),
    ("kind: greedy", "kind: gready", "small.yaml:12: traffic.kind: no traffic 'gready'; there are: "),
    ("paths: [n3->n1]", "paths: [n9->n1]", "small.yaml:12: traffic.paths: "),
    ("traffic: {kind: greedy, paths: [n3->n1]}", "traffic: greedy",
     "small.yaml:12: traffic: a mapping or a list of mappings"),
    ("traffic: {kind: greedy, paths: [n3->n1]}", "traffic:", "small.yaml:12: traffic: a mapping or a list of mappings"),
    ("topology:\n  kind: dumbbell", "topology: dumbbell\nquick2:\n  kind: dumbbell",
     "small.yaml:7: quick2: unknown section"),
    ("test: 3 s", "test: 0 s", "small.yaml:13: timing.test: must be at least 1 us, not 0 us"),
    ("test: 3 s", "test: 3", "small.yaml:13: timing.test: a value with a unit such as '20 ms'"),
    ("test: 3 s", "test: 3 kB", "small.yaml:13: timing.test: a value with a unit"),
    ("test: 3 s", "test: 9999999 h", "small.yaml:13: timing.test: must be at most"),
    ("test: 3 s", "warm: 3 s", "small.yaml:13: timing.warm: unknown field; fields are: prefill, warmup, test"),
    (", test: 3 s", "", "small.yaml:13: timing.test: is missing"),
    ("warmup: 2 s", "warmup: -2 s", "small.yaml:13: timing.warmup: must be at least 0 us, not -2 s"),
    ("timing: {prefill: 1 s, warmup: 2 s, test: 3 s}", "timing: long", "small.yaml:13: timing: a mapping expected"),
    ("ecn: 1", "ecn: on please", "small.yaml:14: hosts.ecn: a whole number expected, not 'on please'"),
    ("ecn: 1", "ecn: yes", "small.yaml:14: hosts.ecn: a whole number expected, not True"),
    ("ecn: 1", "sack: 2", "small.yaml:14: hosts.sack: must be at most 1"),
    ("ecn: 1", "offloads: gso+gro", "small.yaml:14: hosts.offloads: gso+gro needs coalescing such as '50 us'"),
    ("net.ipv4.tcp_rmem", "kernel.hostname",
     "small.yaml:14: hosts.sysctls.kernel.hostname: names such as 'net.ipv4.tcp_fack'"),
    ("net.ipv4.tcp_rmem", "net.ipv4..tcp_rmem", "small.yaml:14: hosts.sysctls.net.ipv4..tcp_rmem: names such as"),
    ("net.ipv4.tcp_rmem", "net.ipv4.a/../../b", "small.yaml:14: hosts.sysctls.net.ipv4.a/../../b: names such as"),
    ("4096 131072 6291456", "[4096, 131072]",
     "small.yaml:14: hosts.sysctls.net.ipv4.tcp_rmem: a whole number or a word"),
    ("4096 131072 6291456", '"a\\nb"', "small.yaml:14: hosts.sysctls.net.ipv4.tcp_rmem: "),
    ("{net.ipv4.tcp_rmem: 4096 131072 6291456}", "none", "small.yaml:14: hosts.sysctls: a mapping"),
    ("interval: 10 ms", "interval: 10", "small.yaml:16: probes.queue.interval: a value with a unit"),
    ("interval: 10 ms", "interval: 0 ms", "small.yaml:16: probes.queue.interval: must be at least 100 us"),
    ("interval: 10 ms", "intervall: 10 ms",
     "small.yaml:16: probes.queue.intervall: unknown field; fields are: interval"),
    ("queue: {interval: 10 ms}", "queue: 10 ms", "small.yaml:16: probes.queue: "),
    ("tcp_info:", "tcp_inf:", "small.yaml:17: probes.tcp_inf: no such probe; did you mean tcp_info"),
    ("tcp_info:", "tcp_probe: {interval: 1 s}",
     "small.yaml:17: probes.tcp_probe.interval: unknown field; fields are: none"),
    ("ccas: [reno, cubic]", "ccas: cubic", "small.yaml:18: defaults.ccas: a list expected, not 'cubic'"),
    ("ccas: [reno, cubic]", "ccas: []", "small.yaml:18: defaults.ccas: a list of at least 1"),
    ("seeds: 3", "seeds: few", "small.yaml:18: defaults.seeds: a whole number expected, not 'few'"),
    ("seeds: 3", "seeds: 0", "small.yaml:18: defaults.seeds: must be at least 1"),
    ("default: small", "standard: small", "small.yaml:20: choices.size: a mapping with 'default', 'options'"),
    ("default: small", "default: small\n    unit: 5 ms", "small.yaml:22: choices.size.unit: a unit of options that"),
    ("default: small", "default: small\n    unit: [ms]", "small.yaml:22: choices.size.unit: a unit of options that"),
    ("default: small", "default: tiny",
     "small.yaml:21: choices.size.default: one of small, large expected, not 'tiny'"),
    ("  size:", "  Size:", "small.yaml:20: choices.Size: a name of lower-case letters"),
    ("      large:", "      ../large:", "small.yaml:24: choices.size.options.../large: lower-case letters"),
    ("small: {traffic.flows: 1}", "small: few", "small.yaml:23: choices.size.options.small: a mapping of fields"),
    ("small: {traffic.flows: 1}", "small: {traffic.flows: 0}",
     "small.yaml:23: traffic.flows: must be at least 1, not 0"),
    ("small: {traffic.flows: 1}", "small: {trafic.flows: 0}",
     "small.yaml:23: choices.size.options.small.trafic.flows: no such section"),
    ("small: {traffic.flows: 1}", "small: {choices.size: 0}",
     "small.yaml:23: choices.size.options.small.choices.size: no such"),
    ("small: {traffic.flows: 1}", "small: {topology.kind.x: 0}", "topology.kind is not a section"),
    ("      large:", "      small:",
     "small.yaml:24: choices.size.options.small: is there a second time; the first is in line 23"),
    ("{timing.test: 1 s,", "{timing.test: 1 s, timing.test: 2 s,",
     "small.yaml:25: quick.timing.test: is there a second time"),
    ("title: A small one", "name: other", "small.yaml:2: name: is there a second time; the first is in line 1"),
    ("name: small", "name: small\n  x: 3", "small.yaml:2: mapping values are not allowed here"),
    ("title: A small one", "title: !thing x", "small.yaml:2: title: could not determine a constructor"),
    ("title: A small one", "title: !!python/object/apply:os.system [x]", "small.yaml:2: title: a plain list expected"),
    ("title: A small one", "title: 2024-13-45",
     "small.yaml:2: title: '2024-13-45' is not a value (month must be in 1..12)"),
    ("title: A small one", "title: 2024-12-24",
     "small.yaml:2: title: '2024-12-24' would be a date; put text in quotes"),
    ("title: A small one", "title: &x [*x]", "small.yaml:2: an alias inside of what it stands for"),
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


def test_unreadable_files(tmp_path):
    (tmp_path / "x.yaml").write_bytes(b"name: \xff\xfe")
    with pytest.raises(ScenarioError, match=r"x.yaml:1: not text in UTF-8"):
        scenario.load(str(tmp_path / "x.yaml"))
    for name in (str(tmp_path / "missing.yaml"), "nosuch"):
        with pytest.raises(UsageError, match="no such scenario file|there are: access-link"):
            scenario.load(name)


@pytest.mark.parametrize("options, message", [
    ({"choices": {"size": "huge"}}, "size huge: small has size small, large ("),
    ({"choices": {"load": "60"}}, "load 60: scenario small has no choice of load; its choices: size"),
    ({"settings": ["timing.test"]}, "--set timing.test: key=value expected"),
    ({"settings": ["=3"]}, "key=value expected"),
    ({"settings": ["a\nb=3"]}, "--set: a printable name of a field expected"),
    ({"settings": ["timing.test=[1"]}, "--set timing.test: "),
    ({"settings": ["timing.test=[1 s]"]}, "--set timing.test: a value with a unit such as '20 ms'"),
    ({"settings": ["timing.test={a: 1}"]}, "--set timing.test: "),
    ({"settings": ["timing.test=3 parsecs"]}, "--set timing.test: unknown unit"),
    ({"settings": ["timing.test=-3 s"]}, "--set timing.test: must be at least 1 us"),
    ({"settings": ["timing.test=*x"]}, "--set timing.test: found undefined alias"),
    ({"settings": ["timing.test=2024-02-30"]}, "--set timing.test: '2024-02-30' is not a value"),
    ({"settings": ["timing.test=" + "9" * 5000]}, "--set timing.test: "),
    ({"settings": ["timing.test=" + "9" * 5000 + " s"]}, "more digits than any quantity needs"),
    ({"settings": ["timing.test=" + "[" * 5000]}, "--set timing.test: nested more than 20 deep"),
    ({"settings": ["timing.test=.nan"]}, "--set timing.test: a finite number expected"),
    ({"settings": ["traffic.x={y: .nan}"]}, "--set traffic.x: y: a finite number expected"),
    ({"settings": ["timing.test=" + "x" * 200_000]}, "--set timing.test: longer than 100000 characters"),
    ({"settings": ["timing.test=1 s\n---\n2 s"]},
     "--set timing.test: expected a single document in the stream, but found another"),
    ({"settings": ["timing.test.x=3"]}, "--set timing.test.x: timing.test is not a section"),
    ({"settings": ["timing..test=3"]}, "--set timing..test: a name expected between dots"),
    ({"settings": [".".join(["timing"] * 30) + "=3"]}, "nested more than 20 deep"),
    ({"settings": ["timimg.test=3 s"]}, "--set timimg.test: no such section"),
    ({"settings": ["choices.size=x"]}, "--set choices.size: no such section"),
    ({"settings": ["rate=3 bit/s"]}, "--set rate: no such section"),
    ({"settings": ["name=../../evil"]}, "--set name: at most 60 lower-case letters"),
    ({"settings": ["topology.central.queue.kind=blue"]}, "--set topology.central.queue.kind: one of bfifo, cake"),
    ({"settings": ["topology.central={rate: 5}"]}, "--set topology.central: rate: a value with a unit"),
    ({"settings": ["topology.central.rate=9999999999999 Gbit/s"]},
     "--set topology.central.rate: must be at most 100 Gbit/s"),
    ({"settings": ["probes.nosuch={}"]}, "--set probes.nosuch: no such probe"),
    ({"settings": ["hosts.sysctls.kernel.x=1"]}, "--set hosts.sysctls.kernel.x: names such as"),
    ({"settings": ["traffic=[]"]}, "--set traffic: at least one component"),
    ({"settings": ["traffic=3"]}, "--set traffic: a mapping or a list"),
    ({"probes": ["nosuch"]}, "--probe nosuch: no such probe; there are: "),
])
def test_errors_in_options(load, options, message):
    assert message in refused(load, error=UsageError, **options)


def test_settings_of_the_kernel_have_dots_in_their_names(load):
    assert load(settings=["hosts.sysctls.net.ipv4.tcp_fack=1"]).hosts["sysctls"] == {
        "net.ipv4.tcp_rmem": "4096 131072 6291456", "net.ipv4.tcp_fack": 1}


def test_extra_probes(load):
    assert load(probes=["tcp_probe", "queue"]).probes == {
        "queue": {"interval_us": 10_000, "edge_interval_us": 1_000_000},
        "tcp_info": {"interval_us": 1_000_000, "buffers": False, "bbr": False},
        "tcp_probe": {}}


def test_no_quick_version(load):
    assert "has no quick version" in refused(load, TEXT.replace("quick: {timing.test: 1 s, timing.prefill: 0 s}\n", ""),
                                             UsageError, quick=True)


@settings(deadline=None, max_examples=120, database=None, suppress_health_check=list(HealthCheck))
@given(at=st.integers(0, len(TEXT)), cut=st.integers(0, 12), insert=st.sampled_from(
    ["", " ", "\n", ":", "-", "{", "}", "[", "]", "'", "*", "&", "!", "#", "null", "1", "ms", "\t", "true", "~", "|",
     "?", ",", "é"]))
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
    assert loaded.network["paths"] and network_of(loaded) == loaded.network
    assert json.loads(json.dumps(loaded.resolved().content())) == loaded.resolved().content()
    if quick:       # shorter runs, or fewer
        full = scenario.load(name, choices)
        assert loaded.timing.duration_us * loaded.default_seeds < full.timing.duration_us * full.default_seeds


#: options that count something, and the load, which is a percentage everywhere
_WITHOUT_A_UNIT = {"flows", "losses", "load"}


@pytest.mark.parametrize("name", scenario.names())
def test_options_that_are_numbers_have_a_unit(name):
    loaded = scenario.load(name)
    for choice, options in loaded.choices.items():
        if choice not in _WITHOUT_A_UNIT and all(re.fullmatch(r"[\d.]+", option) for option in options):
            assert loaded.units.get(choice), choice
