# SPDX-License-Identifier: GPL-2.0-only
"""The check of the air: every law fails once. What a module's file of accounts says."""
import copy
import json

import pytest

import topologies
from testbed import fidelity
from testbed.fidelity import air
from testbed.guest import air as guest_air

MESH = topologies.resolve({"kind": "mesh", "nodes": 2})
COUNTS = {"station": 0, "frames": 10, "attempts": 13, "retries": 3, "acknowledged": 9, "given_up": 1, "no_access": 0,
          "received": 10, "garbled": 2, "chance": 1, "delivered": 9, "duplicates": 1, "lost": 1, "airtime_ns": 10**7,
          "queued": 0, "device_tx_packets": 12, "device_rx_packets": 9, "dropped_packets": 2}


def findings(tmp_path, change=lambda found: None, network=MESH):
    counters = {"air_drained": {"n1": dict(COUNTS), "n2": {**COUNTS, "station": 1}}}
    change(counters["air_drained"])
    (tmp_path / "raw").mkdir(exist_ok=True)
    for name, content in (("counters.json", counters), ("network.json", network)):
        (tmp_path / "raw" / name).write_text(json.dumps(content))
    return [(one.level, one.message) for one in air.check(fidelity.Evidence(tmp_path, {}, "virtual", []))]


def changed(**values):
    return lambda found: found["n2"].update(values)


def test_frames_that_are_accounted_for(tmp_path):
    assert findings(tmp_path) == [("ok", "every frame accounted for on the air (20 of 2 stations: 18 delivered, 2 lost "
                                         "after 26 attempts)")]


def test_wires_have_no_air(tmp_path):
    assert not findings(tmp_path, network={**MESH, "cells": []})


@pytest.mark.parametrize("change, level, words", [
    (changed(acknowledged=8), "invalid", "n2 on the air: frames = acknowledged + given up + without access does not hold"),
    (changed(duplicates=0), "invalid", "received = delivered + repeated does not hold: 10 and 9"),
    (changed(device_rx_packets=8), "invalid", "delivered by the channel = received by the device does not hold: 9 and 8"),
    (changed(lost=0), "invalid", "20 frames on the air, but 18 were delivered and 1 lost"),
    (changed(dropped_packets=-3), "invalid", "3 frames more than packets were handed over"),
    (changed(queued=4), "suspect", "4 frames still waited"),
    (lambda found: found.pop("n2"), "invalid", "no counters of the radios of n2"),
    (lambda found: [one.update(dict.fromkeys(one, 0)) for one in found.values()], "suspect", "(0 of 2 stations")])
def test_a_law_that_does_not_hold(tmp_path, change, level, words):
    found = findings(tmp_path, change)
    assert found[0][0] == level and words in found[0][1]
    assert "ok" not in [one for one, _ in found]


def test_a_low_rate_device_sends_what_its_radio_does(tmp_path):
    low = topologies.resolve({"kind": "low-rate", "nodes": 2})
    found = findings(tmp_path, network=low)
    assert [level for level, _ in found] == ["invalid"] * 2 and "sent by the device = frames" in found[0][1]
    assert findings(tmp_path, lambda counts: [one.update(device_tx_packets=10) for one in counts.values()],
                    low)[0][0] == "ok"


def test_accounts_are_read_by_the_names_of_their_columns():
    rows, busy_ns = guest_air.accounts("station frames queued\n0 5 1\n1 6 0\nbusy_ns 77\n")
    assert rows == [{"station": 0, "frames": 5, "queued": 1}, {"station": 1, "frames": 6, "queued": 0}] and busy_ns == 77


def test_what_is_queued_is_no_difference():
    before = {"n1": copy.copy(COUNTS)}, 100
    after = {"n1": {**COUNTS, "frames": 30, "queued": 5}}, 400
    found = guest_air.differences(before, after, after)
    assert found["air_busy_ns"] == {"at_end": 300, "drained": 300}
    assert (found["air_drained"]["n1"]["frames"], found["air_drained"]["n1"]["queued"]) == (20, 5)
