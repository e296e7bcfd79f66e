# SPDX-License-Identifier: GPL-2.0-only
"""delay-throughput, ramp-up and transients: quick versions with reno are valid, and their metrics are plausible.

A few minutes; not part of `make test`.
"""
import math
import os

import pandas as pd
import pytest

from testbed import campaign, ccas, engines, run, scenario
from testbed.fidelity import read_verdict
from testbed.store import Store

LINK, BUFFER = "right_to_left", "topology.central.queue.limit"


@pytest.fixture(scope="module")
def engine():
    loaded = engines.load("uml")
    loaded.prepare(print)
    return loaded


@pytest.fixture(scope="module")
def metrics_of(tmp_path_factory, engine):
    """metrics_of(scenario) -> [(value of the swept axis, {(metric, scope): value})] of its quick version with reno."""
    def carry_out(name):
        store = Store(tmp_path_factory.mktemp(name) / "results")
        store.create()
        subject = ccas.make_ready(ccas.parse("reno")[0], engine, print)
        found = []
        for plan in campaign.make_plans(scenario.expand(name, {}, True), [subject], [1], engine, print):
            with store.shared_folder() as shared:
                outcome = run.execute(run.Job(plan), engine, store, shared, min(os.sched_getaffinity(0)),
                                      lambda *_: None)
            assert outcome.error is None
            folder = store.run_dir(plan.id)
            verdict = read_verdict(folder)
            assert verdict["verdict"] == "valid", verdict["reasons"]
            table = pd.read_csv(folder / "metrics.csv")
            value, = plan.point.values()
            found.append((value, {(one.metric, one.scope): one.value for one in table.itertuples()}))
        return found
    return carry_out


def test_longer_buffers_delay_more_and_drop_less(metrics_of):
    found = [(int(limit), values) for limit, values in metrics_of("delay-throughput")]
    delays = [values["queueing_delay_mean", LINK] for _, values in found]
    drops = [values["drop_rate", LINK] for _, values in found]
    assert len(found) == 3 and delays == sorted(delays) and drops == sorted(drops, reverse=True)
    for limit, values in found:
        assert values["queueing_delay_mean", LINK] < limit * 0.122
        assert values["offered_load_share", LINK] == pytest.approx(85, rel=0.05)


def test_ramp_up_begins_fast_and_the_second_flow_without_slow_start(metrics_of):
    """10 Mbit/s carry 15 MB in 12 s; half of them are the background's, which has the first nine numbers."""
    for delays, values in metrics_of("ramp-up"):
        for flow, rtt_s in ((10, 0.08 if delays == "equal" else 0.12), (11, 0.08 if delays == "equal" else 0.03)):
            times = [values["ramp_up_time", f"flow_{flow}/bytes_{1500 * 10**n}"] for n in range(4)]
            assert times == sorted(times)
            # a handshake, and half a round trip; a sample each 20 ms
            assert 1.5 * rtt_s < times[0] < 1.5 * rtt_s + 0.3 and 1.2 < times[3] < 40


def test_transients(metrics_of):
    found = dict(metrics_of("transients"))
    down, up, steps = (found[f"short-{name}"] for name in ("down", "up", "steps"))
    times = [down[f"time_to_bdp_window_{percent}", "flow_1"] for percent in (60, 80, 90)]
    # at most a segment per round trip of 100 ms: 83 take no longer than 10 s
    assert times == sorted(times) and 0 < times[2] < 10
    assert 1 <= down["largest_window_change", "flow_1"] <= 3
    for values in (up, steps):
        assert 0 < values["transient_drops", LINK] < 2000 and math.isfinite(values["time_to_room_left", "flow_1"])
    assert up["time_to_room_left", "flow_1"] < steps["time_to_room_left", "flow_1"] + 6
