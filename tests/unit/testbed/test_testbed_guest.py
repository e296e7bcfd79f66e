# SPDX-License-Identifier: GPL-2.0-only
"""What runs in the guest and needs no kernel: deadlines, settings, counters."""
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.guest import counters, sampler, tuning

T0_NS = 10**12


class Clock:
    """Virtual time: it passes only in sleep, and in what samplers do."""

    def __init__(self, now_ns=T0_NS - 10**9):
        self.now = now_ns

    def now_ns(self):
        return self.now

    def sleep(self, seconds):
        assert seconds > 0
        self.now += round(seconds * 1e9)


class Probe:
    def __init__(self, clock, interval_us, takes_us=lambda t_us: 0):
        self.clock, self.interval_us, self.takes_us, self.times = clock, interval_us, takes_us, []

    def sample(self, t_us):
        self.times.append(t_us)
        self.clock.now += self.takes_us(t_us) * 1000


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(sampler, "now_ns", made.now_ns)
    monkeypatch.setattr(sampler.time, "sleep", made.sleep)
    return made


def test_samples_from_start_to_end_inclusive(clock):
    fast, slow, seconds = Probe(clock, 250_000), Probe(clock, 1_000_000), []
    assert sampler.run([fast, slow], T0_NS, 2_000_000, seconds.append) == {0: 0, 1: 0}
    assert fast.times == list(range(0, 2_000_001, 250_000)) and slow.times == [0, 1_000_000, 2_000_000] == seconds
    assert clock.now == T0_NS + 2 * 10**9


def test_an_interval_that_does_not_divide_the_duration(clock):
    probe = Probe(clock, 300_000)
    sampler.run([probe], T0_NS, 1_000_000, lambda t_us: None)
    assert probe.times == [0, 300_000, 600_000, 900_000]


def test_a_late_sample_delays_no_other(clock):
    """One sample takes 25 ms: the two that were due meanwhile are taken at once, the rest on time."""
    probe = Probe(clock, 10_000, lambda t_us: 25_000 if t_us == 30_000 else 0)
    assert sampler.run([probe], T0_NS, 90_000, lambda t_us: None) == {0: 15_000}
    assert probe.times == [0, 10_000, 20_000, 30_000, 55_000, 55_000, 60_000, 70_000, 80_000, 90_000]


def test_lateness_is_told_per_probe(clock):
    slow = Probe(clock, 20_000, lambda t_us: 3_000)
    fast = Probe(clock, 10_000)
    assert sampler.run([slow, fast], T0_NS, 100_000, lambda t_us: None) == {0: 0, 1: 3_000}
    assert len(fast.times) == 11


def test_without_probes_the_seconds_still_pass(clock):
    seconds = []
    assert sampler.run([], T0_NS, 3_500_000, seconds.append) == {}
    assert seconds == [0, 1_000_000, 2_000_000, 3_000_000]


def test_an_error_of_a_program_ends_the_sampling(clock):
    def every_second(t_us):
        if t_us:
            raise RuntimeError("a program ended")
    with pytest.raises(RuntimeError):
        sampler.run([Probe(clock, 100_000)], T0_NS, 10**9, every_second)
    assert clock.now == T0_NS + 10**9


@settings(deadline=None, max_examples=50, database=None)
@given(st.lists(st.integers(1_000, 400_000), min_size=1, max_size=4), st.integers(0, 1_500_000))
def test_every_deadline_is_met_once_where_sampling_takes_no_time(intervals_us, duration_us):
    with pytest.MonkeyPatch.context() as patch:
        clock = Clock()
        patch.setattr(sampler, "now_ns", clock.now_ns)
        patch.setattr(sampler.time, "sleep", clock.sleep)
        probes = [Probe(clock, interval_us) for interval_us in intervals_us]
        assert set(sampler.run(probes, T0_NS, duration_us, lambda t_us: None).values()) == {0}
    for probe in probes:
        assert probe.times == list(range(0, duration_us + 1, probe.interval_us))


# -- settings -------------------------------------------------------------------------------

def network(rate_bps=10**8, rtt_us=204_000, limit=850):
    return {"nodes": [{"name": "n1"}], "links": [{"rate_bps": rate_bps, "limit_packets": limit, "bottleneck": True}, {"rate_bps": 10**12, "limit_packets": 10**6, "bottleneck": False}],
            "paths": [{"base_rtt_us": 8000}, {"base_rtt_us": rtt_us}]}


def test_socket_buffers_hold_four_times_path_and_queue():
    assert tuning.socket_buffer_bytes(network()) == 4 * (100_000_000 // 8 * 204 // 1000 + 850 * 1514)
    assert tuning.socket_buffer_bytes(network(rate_bps=10**6, limit=None)) == 4 << 20
    assert tuning.socket_buffer_bytes({**network(limit=1), "paths": []}) == 4 << 20


def test_settings_of_machine_and_hosts_agree():
    described = network()
    machine = tuning.machine_sysctls(described)
    bbr = {"name": "bbr", "kernel_cca": "bbr", "sysctls": {"net.ipv4.tcp_timestamps": 0}}
    host = tuning.node_sysctls(described, {"ecn": True, "sack": 0, "sysctls": {"net.ipv4.tcp_timestamps": 1, "net.ipv4.tcp_fack": 1}}, [bbr])["n1"]
    assert host["net.ipv4.tcp_congestion_control"] == "bbr"
    assert (host["net.ipv4.tcp_ecn"], host["net.ipv4.tcp_sack"]) == (1, 0)
    assert (host["net.ipv4.tcp_timestamps"], host["net.ipv4.tcp_fack"]) == (0, 1)
    for direction, key in (("rmem", "rmem_max"), ("wmem", "wmem_max")):
        low, default, high = map(int, host[f"net.ipv4.tcp_{direction}"].split())
        assert low <= default <= high == machine[f"net.core.{key}"] == tuning.socket_buffer_bytes(described)


def test_difference_of_counters():
    before = {"a": {"from": "r1", "sent_packets": 5, "queued_packets": 3, "wire_queued_packets": 1}}
    after = {"a": {"from": "r1", "sent_packets": 12, "queued_packets": 2, "wire_queued_packets": 0}}
    assert counters.difference(after, before) == {"a": {"from": "r1", "sent_packets": 7, "queued_packets": 2, "wire_queued_packets": 0}}
    assert after["a"]["sent_packets"] == 12
