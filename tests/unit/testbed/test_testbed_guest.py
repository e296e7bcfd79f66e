# SPDX-License-Identifier: GPL-2.0-only
"""What runs in the guest and needs no kernel: deadlines, settings, counters."""
import errno
import os
import socket
import threading
from types import SimpleNamespace

import pytest
from hypothesis import given, settings, strategies as st

import topologies
from testbed.guest import blast, checks, counters, overload, sampler, tuning
from topologies.linux import namespace
from topologies.linux.namespace import write_sysctl
from traffic.workload.records import Flow, Variant

T0_NS = 10**12


def nothing(*_):
    """What a test does not look at."""


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
    assert sampler.run([fast, slow], T0_NS, 2_000_000, seconds.append, nothing) == {0: 0, 1: 0}
    assert fast.times == list(range(0, 2_000_001, 250_000)) and slow.times == [0, 1_000_000, 2_000_000] == seconds
    assert clock.now == T0_NS + 2 * 10**9


def test_an_interval_that_does_not_divide_the_duration(clock):
    probe = Probe(clock, 300_000)
    sampler.run([probe], T0_NS, 1_000_000, nothing, nothing)
    assert probe.times == [0, 300_000, 600_000, 900_000]


def test_a_late_sample_delays_no_other(clock):
    """One sample takes 25 ms: the two that were due meanwhile are taken at once, the rest on time."""
    probe = Probe(clock, 10_000, lambda t_us: 25_000 if t_us == 30_000 else 0)
    assert sampler.run([probe], T0_NS, 90_000, nothing, nothing) == {0: 15_000}
    assert probe.times == [0, 10_000, 20_000, 30_000, 55_000, 55_000, 60_000, 70_000, 80_000, 90_000]


def test_before_the_last_samples_the_kernel_finishes_what_it_has_put_off(clock):
    """Last rows and counters are of one state: a run whose last ACK moved between them was judged invalid."""
    seen = []
    probes = [Probe(clock, 500_000), Probe(clock, 250_000)]
    sampler.run(probes, T0_NS, 1_000_000, nothing, lambda: seen.append([len(probe.times) for probe in probes]))
    assert seen == [[2, 4]] and [len(probe.times) for probe in probes] == [3, 5]


def test_lateness_is_told_per_probe(clock):
    slow = Probe(clock, 20_000, lambda t_us: 3_000)
    fast = Probe(clock, 10_000)
    assert sampler.run([slow, fast], T0_NS, 100_000, nothing, nothing) == {0: 0, 1: 3_000}
    assert len(fast.times) == 11


def test_without_probes_the_seconds_still_pass(clock):
    seconds = []
    assert sampler.run([], T0_NS, 3_500_000, seconds.append, nothing) == {}
    assert seconds == [0, 1_000_000, 2_000_000, 3_000_000]


def test_an_error_of_a_program_ends_the_sampling(clock):
    def every_second(t_us):
        if t_us:
            raise RuntimeError("a program ended")
    with pytest.raises(RuntimeError):
        sampler.run([Probe(clock, 100_000)], T0_NS, 10**9, every_second, nothing)
    assert clock.now == T0_NS + 10**9


class Napper(Probe):
    """Takes samples while it sleeps; `naps` are what it was asked for. At most so many at once."""

    def __init__(self, clock, interval_us, at_once=10**6):
        super().__init__(clock, interval_us)
        self.naps, self.at_once = [], at_once

    def sample_until(self, t0_ns, due_us, until_us):
        self.naps.append((due_us, until_us))
        for _ in range(self.at_once):
            if due_us >= until_us:
                break
            self.clock.now = max(self.clock.now, t0_ns + due_us * 1000)
            self.times.append(due_us)
            due_us += self.interval_us
        return due_us, 7


def test_samples_are_taken_in_a_nap_while_nobody_else_is_due(clock):
    napper, slow, seconds = Napper(clock, 250_000), Probe(clock, 400_000), []
    assert sampler.run([napper, slow], T0_NS, 1_500_000, seconds.append, nothing) == {0: 7, 1: 0}
    assert napper.times == list(range(0, 1_500_001, 250_000)) and seconds == [0, 1_000_000]
    assert slow.times == [0, 400_000, 800_000, 1_200_000] and clock.now == T0_NS + 1_500_000_000
    assert napper.naps == [(250_000, 400_000), (500_000, 800_000), (1_000_000, 1_200_000), (1_250_000, 1_500_000)]


def test_a_nap_that_ends_early_goes_on(clock):
    napper = Napper(clock, 10_000, at_once=7)
    sampler.run([napper], T0_NS, 2_000_000, nothing, nothing)
    assert napper.times == list(range(0, 2_000_001, 10_000))


def test_the_last_samples_are_no_part_of_a_nap(clock):
    seen = []
    napper = Napper(clock, 100_000)
    sampler.run([napper], T0_NS, 500_000, nothing, lambda: seen.append(len(napper.times)))
    assert seen == [5] and len(napper.times) == 6 and napper.naps == [(0, 500_000)]


@settings(deadline=None, max_examples=50, database=None)
@given(st.lists(st.integers(1_000, 400_000), min_size=1, max_size=4), st.integers(0, 1_500_000), st.booleans())
def test_every_deadline_is_met_once_where_sampling_takes_no_time(intervals_us, duration_us, naps):
    with pytest.MonkeyPatch.context() as patch:
        clock = Clock()
        patch.setattr(sampler, "now_ns", clock.now_ns)
        patch.setattr(sampler.time, "sleep", clock.sleep)
        probes = [Probe(clock, interval_us) for interval_us in intervals_us]
        if naps:
            probes[0] = Napper(clock, intervals_us[0])
        assert set(sampler.run(probes, T0_NS, duration_us, nothing, nothing).values()) <= {0, 7}
    for probe in probes:
        assert probe.times == list(range(0, duration_us + 1, probe.interval_us))


# -- settings -------------------------------------------------------------------------------

HOSTS = {"ecn": 1, "sack": 0, "slow_start_after_idle": 0,
         "sysctls": {"net.ipv4.tcp_timestamps": 1, "net.ipv4.tcp_fack": 1}}


def network(rate_bps=10**8, queue=None, right_us=90_000, edge_bps=10**8, left=1):
    return topologies.resolve({
        "kind": "dumbbell", "central": {"rate_bps": rate_bps, "delay_us": 2000, "queue": queue or {"limit": 850}},
        "edge": {"rate_bps": edge_bps, "queue": {"limit": 10**6}}, "left_delays_us": [10_000] * left,
        "right_delays_us": [right_us]})


def test_socket_buffers_hold_four_times_path_and_queue():
    assert tuning.socket_buffer_bytes(network()) == 4 * (100_000_000 // 8 * 204 // 1000 + 850 * 1514)
    assert tuning.socket_buffer_bytes(network(rate_bps=10**6, queue={"limit": 10})) == 4 << 20
    assert tuning.socket_buffer_bytes(network(queue={"limit": 1}).changed(paths=[])) == 4 << 20
    assert tuning.socket_buffer_bytes(network(queue={"limit": 2**32 - 1})) == 1 << 30


@pytest.mark.parametrize("queue", [
    {"kind": "bfifo", "limit_bytes": 850 * 1514}, {"kind": "red", "limit_bytes": 850 * 1514},
    {"kind": "codel", "limit": 850}])
def test_socket_buffers_do_not_depend_on_how_the_queue_counts(queue):
    assert tuning.socket_buffer_bytes(network(queue=queue)) == tuning.socket_buffer_bytes(network())


def test_socket_buffers_hold_all_queues_of_a_path():
    lot = topologies.resolve({
        "kind": "parking-lot", "links": [{"rate_bps": 10**8, "delay_us": 50_000,
                                          "queue": {"limit": limit}} for limit in (100, 200)],
        "access": {"rate_bps": 10**9}, "hosts": [{"router": 1}, {"router": 3}], "paths": ["n1-n2"]})
    assert tuning.socket_buffer_bytes(lot) == 4 * (100_000_000 // 8 * 200 // 1000 + 300 * 1514)


def test_settings_of_machine_and_hosts_agree():
    described = network()
    machine = tuning.machine_sysctls(described)
    bbr = {"name": "bbr", "kernel_cca": "bbr", "under_test": True, "sysctls": {"net.ipv4.tcp_timestamps": 0}}
    host = tuning.node_sysctls(described, tuning.Hosts(HOSTS), [Variant(bbr)], [])["n1"]
    assert host["net.ipv4.tcp_congestion_control"] == "bbr"
    assert (host["net.ipv4.tcp_ecn"], host["net.ipv4.tcp_sack"]) == (1, 0)
    assert (host["net.ipv4.tcp_timestamps"], host["net.ipv4.tcp_fack"]) == (0, 1)
    for direction, key in (("rmem", "rmem_max"), ("wmem", "wmem_max")):
        low, default, high = map(int, host[f"net.ipv4.tcp_{direction}"].split())
        assert low <= default <= high == machine[f"net.core.{key}"] == tuning.socket_buffer_bytes(described)


@pytest.mark.parametrize("connections, seconds, places", [
    (None, 20, 1024), (250, 20, 1024), (257, 20, 2048), (1000, 20, 4096), (3000, 60, 4096), (3000, 30, 4096),
    (30_000, 600, 4096), (10_000_000, 60, 65536)])
def test_each_host_has_places_for_its_connections_of_a_minute(connections, seconds, places):
    flows = [{"sender": "n1", "receiver": "n2", "start_us": 0, "stop_us": seconds * 10**6, "connections": connections},
             {"sender": "n3", "receiver": "n4", "start_us": 0, "stop_us": seconds * 10**6, "connections": 2}]
    assert tuning.connection_places([Flow({"kind": "greedy", **one}) for one in flows]) == places
    assert tuning.connection_places([]) == 1024
    found = tuning.machine_sysctls(network(), places).get(tuning.CONNECTION_PLACES)
    assert found == (places if os.path.exists("/proc/sys/net/ipv4/tcp_child_ehash_entries") else None)
    assert tuning.CONNECTION_PLACES not in tuning.machine_sysctls(network())


def test_only_hosts_with_a_threshold_look_at_that_of_their_route():
    described = network()
    described = described.changed(nodes=[node.changed(initial_ssthresh=10) if node.name == "n1" else node
                                         for node in described.nodes])
    reno = {"name": "reno", "kernel_cca": "reno", "under_test": True, "sysctls": {}}
    key = "net.ipv4.tcp_no_ssthresh_metrics_save"
    settings = tuning.node_sysctls(described, tuning.Hosts(HOSTS), [Variant(reno)], [])
    assert settings["n1"][key] == 0 and key not in settings["n2"]


# -- overloading a link ---------------------------------------------------------------------

@pytest.mark.parametrize("interval_s, at_once", [(0, overload.AT_ONCE), (0.0001, 1), (0.0001, overload.AT_ONCE)])
def test_a_blast_is_of_whole_packets_and_ends_when_it_is_to(interval_s, at_once, monkeypatch):
    payload, stop, sent = bytes(range(100)), threading.Event(), []
    libc = blast.libc
    monkeypatch.setattr(blast, "libc", SimpleNamespace(sendmmsg=lambda *call: sent.append(libc.sendmmsg(*call))
                                                       or sent[-1]))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink:
        sink.bind(("127.0.0.1", 0))
        sink.settimeout(5)
        source = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sender = threading.Thread(target=blast.blast, args=(
            source, sink.getsockname(), payload, stop, interval_s, at_once))
        sender.start()
        taken = {sink.recv(200) for _ in range(10 * overload.AT_ONCE)}
        stop.set()
        sender.join(5)
        assert not sender.is_alive() and source.fileno() == -1 and taken == {payload}
        assert set(sent) == {at_once}


def test_of_very_many_paths_those_are_measured_that_cover_every_link():
    described = topologies.resolve({
        "kind": "dumbbell", "central": {"rate_bps": 10**8}, "edge": {"rate_bps": 10**8},
        "left_delays_us": [0] * 30, "right_delays_us": [0] * 40})
    chosen = checks.covering(described["paths"])
    assert len(chosen) == 69 and checks.covering(described["paths"][:100]) == described["paths"][:100]
    covered = {name for path in chosen for name in path["hops"] + path["hops_back"]}
    assert covered == {link["name"] for link in described["links"]}


# -- settings of the kernel -----------------------------------------------------------------

@pytest.mark.parametrize("name, value, message", [
    ("net.ipv4.tcp_no_such_thing", 1, "net.ipv4.tcp_no_such_thing: the kernel knows no such setting"),
    ("net.ipv4.conf", 1, "net.ipv4.conf: a group of settings, not one"),
    ("kernel.ostype", "x", "kernel.ostype: the kernel refuses 'x'")])
def test_settings_that_cannot_be_are_one_line(name, value, message):
    with pytest.raises(ValueError, match=message) as problem:
        write_sysctl(name, value)
    assert "\n" not in str(problem.value)


def test_a_setting_is_read_back_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(namespace, "sysctl_path", lambda name: str(tmp_path / name))
    for length in (0, 1, 4095, 4096, 8190, 20_000):
        (tmp_path / "long").write_text(length * "7")
        assert write_sysctl("long", "") == length * "7"


def test_a_setting_that_is_only_written_and_one_that_takes_a_part(tmp_path, monkeypatch):
    monkeypatch.setattr(namespace, "sysctl_path", lambda name: str(tmp_path / name))
    (tmp_path / "flush").write_text("")

    def opened(path, flags, whole=os.open):
        if flags & os.O_ACCMODE == os.O_RDWR:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        return whole(path, flags)
    with monkeypatch.context() as patched:
        patched.setattr(namespace.os, "open", opened)
        with pytest.raises(ValueError, match="flush: a setting that cannot be read back"):
            write_sysctl("flush", 1)
    assert (tmp_path / "flush").read_text() == "1"
    monkeypatch.setattr(namespace.os, "write", lambda _fd, data: len(data) - 1)
    with pytest.raises(ValueError, match="flush: the kernel refuses '123' .Argument list too long"):
        write_sysctl("flush", 123)


def test_difference_of_counters():
    before = {"a": {"from": "r1", "sent_packets": 5, "queued_packets": 3, "wire_queued_packets": 1}}
    after = {"a": {"from": "r1", "sent_packets": 12, "queued_packets": 2, "wire_queued_packets": 0}}
    assert counters.difference(after, before) == {"a": {"from": "r1", "sent_packets": 7, "queued_packets": 2,
                                                        "wire_queued_packets": 0}}
    assert after["a"]["sent_packets"] == 12
