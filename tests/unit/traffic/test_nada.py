# SPDX-License-Identifier: GPL-2.0-only
"""NADA: its equations (RFC 8698), sections and jobs."""
import math

import pytest

import traffic
from testbed.core.fields import FieldError
from tests.unit.traffic.traffic_setup import TIMING, variant
from traffic.nada import control

NADA = {"kind": "nada"}


def observed(delays_ms, lost=(), gap_ms=10):
    """What an observer reports after packets with these one-way delays."""
    observer = control.Observer()
    for number, delay_ms in enumerate(delays_ms):
        if number not in lost:
            observer.note(number * gap_ms, number, delay_ms, 1000)
    return observer.report(len(delays_ms) * gap_ms)


def test_a_queue_counts_less_the_longer_it_is():
    assert control.warped_ms(49) == 49 and control.warped_ms(50) == 50
    assert control.warped_ms(150) == pytest.approx(50 / math.e)


def test_a_short_queue_and_no_loss_allow_to_ramp_up():
    assert observed(50 * [20]) == (0, pytest.approx(800_000, rel=0.03), True)
    assert observed(49 * [20] + [31])[2] is False       # one packet that waited 11 ms
    assert observed(50 * [20], lost=[30])[2] is False


def test_jitter_is_filtered_but_a_queue_is_seen():
    assert observed(30 * [20] + 20 * [45, 60])[0] == 25


def test_losses_count_by_their_share_squared():
    x_ms, _, _ = observed(40 * [20], lost=[20, 21])
    # of 40, two: smoothed by a tenth
    assert x_ms == pytest.approx(10 * (0.1 * 2 / 40 / 0.01) ** 2)


def test_only_beside_losses_long_queues_are_warped():
    assert observed(20 * [20] + 30 * [170])[0] == 150
    x_ms, _, _ = observed(20 * [20] + 30 * [170], lost=[40])
    assert x_ms == pytest.approx(50 / math.e + 10 * (0.1 / 49 / 0.01) ** 2)      # the first of 50 is too old


def test_the_warping_fades_over_a_loss_interval(monkeypatch):
    """The interval is of ten packets, as the tenth is the first that is lost; seven of them are waited for."""
    monkeypatch.setattr(control, "DLOSS_MS", 0)
    observer, found = control.Observer(), {}
    for number in range(100):
        if number != 10:
            observer.note(10 * number, number, 20 if number < 20 else 170, 1000)
        if number % 5 == 4:
            found[number], _, _ = observer.report(10 * number)
    warped_ms = 50 / math.e
    assert found[79] == pytest.approx(warped_ms)
    assert found[84] == pytest.approx(0.6 * warped_ms + 0.4 * 150)
    assert found[89] == pytest.approx(0.1 * warped_ms + 0.9 * 150)
    assert found[94] == found[99] == 150


def test_the_rate_ramps_up_by_what_arrived():
    rate = control.Rate(150e3, 1.5e6)
    rate.update(100, 40, 0, 1e6, True)
    assert rate.bps == pytest.approx(1e6 * (1 + 50 / 260))
    rate.update(200, 40, 0, 1e5, True)
    assert rate.bps == pytest.approx(1e6 * (1 + 50 / 260))      # never down
    rate.update(300, 40, 0, 9e6, True)
    assert rate.bps == 1.5e6


def test_the_rate_rests_where_the_signal_is_inverse_to_it():
    rate = control.Rate(150e3, 1.5e6)
    rate.update(0, 40, 15, 1e6 / (1 + 50 / 260), True)
    assert rate.bps == pytest.approx(1e6)
    rate.update(100, 40, 15, 1e6, False)
    assert rate.bps == pytest.approx(1e6)
    # 15 ms more: a tenth of 15/500 by the offset (100 of 500 ms, times a half), and 15/500 by the change
    rate.update(200, 40, 30, 1e6, False)
    assert rate.bps == pytest.approx(1e6 * (1 - 0.1 * 15 / 500 - 15 / 500))
    for step in range(100):
        rate.update(300 + 100 * step, 40, 500, 1e6, False)
    assert rate.bps == 150e3


@pytest.mark.parametrize("field, changes, words", [
    ("least", {"least_bps": 2_000_000}, "must not be above most"), ("most", {"most_bps": 10**12}, "every 100 ns"),
    ("packet", {"packet_bytes": 1501}, "at most 1500 B"), ("paths", {"paths": ["n1->n2"]}, "no path")])
def test_refused_sections(network, field, changes, words):
    with pytest.raises(FieldError, match=words) as problem:
        traffic.validate([{**NADA, **changes}], network, TIMING)
    assert problem.value.field == field


def test_jobs(context, jobs):
    workload = traffic.prepare([{**NADA, "paths": ["n3->n1"]}], [variant("cubic")], context)
    flow, = workload["flows"]
    assert (flow["transport"], flow["rate_bps"], flow["variant"]) == ("udp", 1_500_000, None)
    (n1, module, receiving), (n3, _, sending) = jobs(workload)
    assert (n1, n3, module) == ("n1", "n3", "traffic.nada.program")
    assert {key: sending[key] for key in ("role", "address", "port", "payload_bytes", "frame_bytes", "least_bps")} == {
        "role": "send", "address": "10.0.2.1", "port": 7000, "payload_bytes": 972, "frame_bytes": 1014,
        "least_bps": 150_000}
    assert receiving["drained_us"] > 11_000_000


def test_account(context, tmp_path):
    workload = traffic.prepare([NADA], [variant("cubic")], context)
    (context.work_dir / "nada-1-send.counts.json").write_text('{"sent_packets": 9, "sent_bytes": 90}')
    (context.work_dir / "nada-1-receive.counts.json").write_text('{"received_packets": 7, "received_bytes": 70}')
    assert traffic.collect(workload, context, tmp_path)["nada"]["flows"] == [
        {"flow": 1, "sent_packets": 9, "sent_bytes": 90, "received_packets": 7, "received_bytes": 70,
         "lost_packets": 2}]
