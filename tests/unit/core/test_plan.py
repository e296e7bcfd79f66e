# SPDX-License-Identifier: GPL-2.0-only
"""What a run is known by."""
import dataclasses
import json

import pytest

from testbed.core.errors import UsageError
from testbed.runs import plan as plans
from tests.unit.core.simple_plans import SCENARIO, VARIANT, plan


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 2},
        {"engine": "other"},
        {"kernel_key": "kernel-2"},
        {"guest_code": "code-2"},
        {"inputs": {"trace": "ab"}},
        {"scenario__topology": {"kind": "bus"}},
        {"scenario__probes": {"queue": {}}},
        {"variants": ({**VARIANT, "module_sha256": "ab"},)},
        {"variants": ({**VARIANT, "sysctls": {"net.ipv4.tcp_sack": 0}},)},
        {"variants": ({**VARIANT, "under_test": False},)},
    ],
)
def test_whatever_decides_bytes_decides_the_id(changes):
    assert plan(**changes).id != plan().id


def test_what_people_call_things_does_not():
    assert plan(point={"load": "60"}).id == plan().id
    assert plan(variants=({**VARIANT, "title": "x", "source": "y", "module": "/tmp/z"},)).id == plan().id
    other = dataclasses.replace(plan(), labels={**plan().labels, "name": "other"})
    assert other.id == plan().id and len(other.id) == 16


def test_the_order_of_keys_does_not():
    turned = dict(reversed(SCENARIO.items()))
    assert dataclasses.replace(plan(), scenario=turned).id == plan().id


def test_a_plan_survives_its_file(tmp_path):
    made = plan("cubic", 3, {"load": "60"}, inputs={"a": "b"})
    made.write(tmp_path)
    assert plans.read(tmp_path) == made and json.loads((tmp_path / "plan.json").read_text())["id"] == made.id


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "[]",
        "null",
        "{",
        "{}",
        '{"schema": 2}',
        '{"schema": 1, "id": "x"}',
        '{"schema": 2, "id": 7}',
        '{"schema": 2, "id": "x", "variants": 3}',
        "[" * 5000,
    ],
)
def test_damaged_plans_are_one_line(tmp_path, damage):
    (tmp_path / "plan.json").write_text(damage)
    with pytest.raises(UsageError, match="plan.json: ") as caught:
        plans.read(tmp_path)
    assert "\n" not in str(caught.value)


def test_an_edited_plan_is_noticed(tmp_path):
    plan().write(tmp_path)
    text = (tmp_path / "plan.json").read_text()
    (tmp_path / "plan.json").write_text(text.replace('"seed": 1', '"seed": 2'))
    with pytest.raises(UsageError, match="it was changed"):
        plans.read(tmp_path)
    with pytest.raises(UsageError, match="No such file"):
        plans.read(tmp_path / "nowhere")
