# SPDX-License-Identifier: GPL-2.0-only
"""Objects of JSON files with attributes."""
import json

import pytest

from testbed.core.errors import DamagedRun
from testbed.core.record import Record, plain
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


def test_objects_in_lists_are_records_and_come_out_as_they_went_in():
    workload = Workload(CONTENT, "raw/workload.json")
    assert isinstance(workload.flows[0], Flow) and workload.flows[0].hops == ["a"]
    assert isinstance(workload.components[0], Component) and workload.programs == ()
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
