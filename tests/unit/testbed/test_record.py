# SPDX-License-Identifier: GPL-2.0-only
"""Objects of JSON files with attributes."""
import json

import pytest

from testbed.core.errors import DamagedRun
from testbed.core.record import ListOf, MapOf, Perhaps, Record, Within, plain
from traffic.workload.records import Component, Flow, Workload

CONTENT = {"components": [{"name": "tmix", "kind": "tmix", "offered_bps": {"a": 1.5}}],
           "flows": [{"flow": 1, "hops": ["a"]}], "ccas": {"new": "reno"}}


class Point(Record):
    x: int
    y: int = 7


def test_a_record_has_what_the_file_says_then_defaults_and_else_names_file_and_key():
    assert (Point({"x": 1}).x, Point({"x": 1}).y, Point({"x": 1, "y": 2}).y) == (1, 7, 2)
    with pytest.raises(DamagedRun, match="raw/points.json.*'x'"):
        Point({"y": 1}, "raw/points.json").x


def test_what_no_class_declares_is_a_mistake_of_the_code_and_not_of_the_file():
    with pytest.raises(AttributeError, match="Point has no 'z', nor has raw/points.json"):
        Point({"x": 1}, "raw/points.json").z
    assert Point({"x": 1, "z": 3}).z == 3


def test_objects_in_lists_are_records_and_come_out_as_they_went_in():
    workload = Workload(CONTENT, "raw/workload.json")
    assert isinstance(workload.flows[0], Flow) and workload.flows[0].hops == ["a"]
    assert isinstance(workload.components[0], Component) and not workload.programs
    assert type(workload.content()["flows"][0]) is dict
    assert workload.content() == CONTENT == json.loads(json.dumps({"of": [workload]}, default=plain))["of"][0]
    assert CONTENT["flows"] == [{"flow": 1, "hops": ["a"]}]


def test_a_changed_record_leaves_the_other_as_it_is():
    point = Point({"x": 1})
    assert point.changed(x=2).content() == {"x": 2} and point.content() == {"x": 1}


def test_load_that_is_counted_with_headers_of_layer_2_is_the_offered_one():
    component = Component(CONTENT["components"][0])
    assert component.counted_bps == {"a": 1.5}
    assert component.changed(counted_bps={"a": 2.0}).counted_bps == {"a": 2.0}


class _Radio(Record):
    range_mm: int


class _Node(Record):
    name: str
    gso: bool = True
    radio = Perhaps(_Radio)


class _Network(Record):
    nodes = ListOf(_Node)
    cells = ListOf(_Node, ())
    clock = Within(_Radio)
    hosts = MapOf(_Node)


def _made() -> _Network:
    return _Network({"nodes": [{"name": "n1", "radio": {"range_mm": 5}}, {"name": "n2", "gso": False}],
                     "clock": {"range_mm": 1}, "hosts": {"n9": {"name": "n9"}}}, "raw/x.json")


def test_attributes_are_those_of_the_file_or_the_class():
    one, other = _made().nodes
    assert (one.name, one.gso, other.gso) == ("n1", True, False)
    assert other.has("gso") and not one.has("gso")


def test_a_missing_attribute_names_file_and_key():
    with pytest.raises(DamagedRun, match=r"raw/x\.json.*'name'"):
        _ = _Network({"nodes": [{}]}, "raw/x.json").nodes[0].name
    with pytest.raises(DamagedRun, match=r"raw/x\.json.*'nodes'"):
        _ = _Network({}, "raw/x.json").nodes
    with pytest.raises(DamagedRun, match=r"raw/x\.json.*'clock'"):
        _ = _Network({}, "raw/x.json").clock


def test_objects_within_objects_are_records():
    network = _made()
    assert network.nodes is network.nodes and network.cells == []
    assert network.nodes[0].radio is not None and network.nodes[0].radio.range_mm == 5
    assert network.nodes[1].radio is None
    assert network.clock.range_mm == 1 and network.hosts["n9"].name == "n9"


def test_a_changed_copy_can_be_written():
    network = _made()
    copy = network.changed(nodes=[node.changed(gso=True) for node in network.nodes], clock=_Radio({"range_mm": 2}))
    assert [node.gso for node in copy.nodes] == [True, True] and not network.nodes[1].gso
    assert json.loads(json.dumps(copy.content()))["clock"] == {"range_mm": 2}


def test_a_record_of_a_record_is_a_view_of_the_same_object():
    network = _made()
    again = _Network(network)
    assert vars(again) is vars(network)
    with pytest.raises(DamagedRun, match="raw/x.json"):
        _ = _Node(again.clock).name


def test_inner_records_cannot_be_set():
    with pytest.raises(AttributeError):
        _made().nodes = []
