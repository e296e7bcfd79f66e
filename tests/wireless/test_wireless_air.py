# SPDX-License-Identifier: GPL-2.0-only
"""Linux's own stacks on the computed channel: round trips by hand, what the standard and Bianchi's model let through,
and nothing beyond the range."""
import re
import subprocess

import pytest
import yaml

from testbed import PROJECT_DIR
from tests.unit.air import test_air_channel as channel
from topologies import standards
from topologies.links.records import Cell

QUEUES = {"queue": {"interval": "100 ms"}, "air": {"interval": "100 ms"}, "tcp_info": {"interval": "100 ms"}}
#: for each link or hop over the air
TIMER_US = 0.5


def cell(stations, rate="8 Mbit/s", seconds=3):
    """Stations that send as much as they can to a wired host."""
    return {"name": "cell", "topology": {
        "kind": "wireless-cell", "central": {"rate": "100 Mbit/s", "delay": "2 ms"}, "edge": {"rate": "1 Gbit/s"},
        "left_delays": ["0 ms"], "stations": stations},
        "traffic": {"kind": "cbr", "rate": rate, "packet": "1500 B",
                    "paths": [f"n{number}->n1" for number in range(2, stations + 2)]},
        "timing": {"warmup": "0 s", "test": f"{seconds} s"}, "probes": QUEUES}


def grid(kind, nodes, packet, packets, radio=None):
    return {"name": "grid", "topology": {"kind": kind, "nodes": nodes, **({"radio": radio} if radio else {})},
            "traffic": {"kind": "paced", "flows": nodes // 2, "packet": packet, "packets": packets},
            "timing": {"warmup": "1 s", "test": "3 s"},
            "probes": {name: QUEUES[name] for name in ("air", "tcp_info")}}


MESH = grid("mesh", 8, "1000 B", 20, {"range": "45 m", "sensing": "90 m"})


@pytest.fixture(scope="module")
def one(run_scenario):
    return run_scenario(cell(1))


@pytest.fixture(scope="module")
def mesh(run_scenario):
    return run_scenario(MESH)


@pytest.fixture(scope="module")
def low_rate(run_scenario):
    return run_scenario(grid("low-rate", 6, "400 B", 5))


def is_valid(run):
    verdict = run.json("verdict.json")
    return verdict["verdict"] == "valid" or verdict["reasons"]


def frames_per_s(run, seconds=3):
    """Of all stations, without the router."""
    counters = run.json("raw/counters.json")["air_at_end"]
    return sum(row["acknowledged"] for node, row in counters.items() if node != "r2") / seconds


def waits_us(run, hops_us, links=0):
    """What the idle round trips of a run took beyond hops_us and the wires; then how exact that is."""
    return [path["measured_rtt_us"] - path["base_rtt_us"] - path["serialisation_us"] - hops_us
            for path in run.json("raw/checks.json")["paths"]], TIMER_US * links + 1


def test_runs_are_valid(one, mesh, low_rate):
    assert [is_valid(run) for run in (one, mesh, low_rate)] == [True] * 3


def test_round_trip_of_a_ping_is_the_airtimes(one):
    """84 bytes of IP in 120: 26 us and 41 symbols each way; between them SIFS, acknowledgement, DIFS, and slots."""
    (wait_us,), exact_us = waits_us(one, 2 * (26 + 41 * 4) + 10 + 50 + 28, links=6)
    slots = round(wait_us / 9)
    assert 0 <= slots <= 15 and 0 <= wait_us - 9 * slots < exact_us


def test_low_rate_round_trip_is_the_airtimes(low_rate):
    """104 bytes of IPv6 in a frame of 125, six more before it, 32 us each; back-off of up to seven periods of 320 us,
    eight symbols of listening and twelve of turning round. The answer begins after the acknowledgement at the earliest.
    """
    network = low_rate.json("raw/network.json")
    assert [len(path["air"]) for path in network["paths"]] == [1] * 3
    for wait_us in waits_us(low_rate, 2 * (128 + 192 + 131 * 32))[0]:
        starts = {320 * there + max(320 * back, 192 + 11 * 32) for there in range(8) for back in range(8)}
        assert min(abs(wait_us - start) for start in starts) < 2 * TIMER_US + 1


def test_one_station_sends_what_the_standard_lets_it(one):
    described, = one.json("raw/network.json")["cells"]
    assert frames_per_s(one) * 12000 == pytest.approx(standards.of(Cell(described)).saturated_bps(1500), rel=0.01)


@pytest.mark.parametrize("stations", [2, 10])
def test_saturated_stations_share_the_channel_as_in_bianchis_model(run_scenario, stations):
    run = run_scenario(cell(stations, "4 Mbit/s" if stations == 2 else "1 Mbit/s"))
    assert is_valid(run) is True
    assert frames_per_s(run) == pytest.approx(channel.bianchi(stations), rel=0.05)


def test_one_station_with_ipv6(run_scenario):
    tree = cell(1, seconds=1)
    tree["topology"]["ip"] = 6
    run = run_scenario(tree)
    assert is_valid(run) is True
    rows = run.json("raw/counters.json")["air_drained"]
    assert [rows[node]["chance"] + rows[node]["retries"] for node in ("r2", "n2")] == [0, 0]


def test_one_station_of_80211b_with_losses(run_scenario):
    tree = cell(1, seconds=2)
    tree["topology"]["radio"] = {"standard": "802.11b", "rate": "11 Mbit/s", "loss": "5 %"}
    run = run_scenario(tree)
    assert is_valid(run) is True
    rows = run.json("raw/counters.json")["air_drained"]
    assert rows["r2"]["chance"] == rows["n2"]["retries"] == pytest.approx(0.05 * rows["n2"]["attempts"], rel=0.5)
    assert frames_per_s(run, 2) == pytest.approx(1e6 / channel.lossy_frame_us(channel.DSSS, 0.05), rel=0.03)


def test_packets_of_a_mesh_take_several_hops(mesh):
    network, counters = mesh.json("raw/network.json"), mesh.json("raw/counters.json")["air_drained"]
    assert max(len(path["air"]) for path in network["paths"]) > 1
    assert all(row["frames"] > 50 for row in counters.values())


def test_the_same_bytes_twice(mesh, run_scenario):
    again = run_scenario(MESH)
    assert again.json("run.json")["raw_sha256"] == mesh.json("run.json")["raw_sha256"]


@pytest.mark.parametrize("address, arrives", [("10.0.1.2", True), ("10.0.1.4", False)])
def test_nothing_arrives_beyond_the_range(engine, tmp_path, address, arrives):
    """On a square of 40 m with a range of 45 m, n4 is opposite of n1; in real time, at Mininet's command line."""
    (tmp_path / "square.yaml").write_text(yaml.safe_dump(grid("mesh", 4, "1000 B", 20, {"range": "45 m"})))
    mac = f"02:00:00:a1:00:{int(address.rsplit('.', 1)[1]) - 1:02x}"
    (tmp_path / "commands").write_text(f"""
n1 ip neigh replace {address} lladdr {mac} nud permanent dev n1-wlan0
n1 ip route replace {address}/32 dev n1-wlan0
n1 ping -c 2 -i 0.2 -W 1 {address}
n1 cat /proc/air_wlan
""")
    with open(tmp_path / "commands", encoding="utf-8") as commands:
        done = subprocess.run([PROJECT_DIR / "bin/testbed", "shell", tmp_path / "square.yaml"], stdin=commands,
                              capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert ("2 received" if arrives else "0 received") in done.stdout, done.stdout
    rows = [line.split() for line in re.findall(r"^\d[\d ]+$", done.stdout, re.MULTILINE)]
    assert len(rows) == 4
    names = re.search(r"^station .*$", done.stdout, re.MULTILINE).group().split()
    first = dict(zip(names, map(int, rows[0])))
    # of whom it has not heard, a station sends nothing to
    assert first["frames"] == first["received"] == (2 if arrives else 0)
