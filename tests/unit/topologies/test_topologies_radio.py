# SPDX-License-Identifier: GPL-2.0-only
"""Topologies with radios: sections, who reaches whom, routes, and airtimes by hand."""
import ipaddress
import re

import pytest

import topologies
from testbed import PROJECT_DIR
from testbed.core.fields import FieldError
from topologies import standards
from topologies.links.records import Cell, Path
from topologies.wireless import airways

WIRE = {"rate_bps": 10**8, "delay_us": 2000}
CELL = {"kind": "wireless-cell", "central": WIRE, "edge": {"rate_bps": 10**9}, "left_delays_us": [0]}
MESH = {"kind": "mesh", "nodes": 10, "spacing_mm": 40_000, "radio": {"range_mm": 45_000}}
LOW = {"kind": "low-rate", "nodes": 4}


def problem_of(section):
    with pytest.raises(FieldError) as found:
        topologies.resolve(section)
    return found.value.field, str(found.value)


def nodes_of(section):
    return {node["name"]: node for node in topologies.resolve(section)["nodes"]}


@pytest.mark.parametrize("section, field, words", [
    ({**CELL, "stations": 2, "right_delays_us": [0]}, "stations", "either stations or right_delays"),
    (CELL, "stations", "either stations or right_delays"),
    ({**CELL, "stations": 128}, "stations", "at most 127"),
    ({**CELL, "stations": 2, "spacing_mm": 110_000}, "spacing",
     "no path from n1 to n2: radios reach 100 m, and stations are 110 to 155.563 m apart"),
    ({**CELL, "stations": 2, "radio": {"rate_bps": 7_000_000}}, "radio.rate", "one of 6 Mbit/s, 9 Mbit/s"),
    ({**CELL, "stations": 2, "radio": {"standard": "802.15.4"}}, "radio.standard", "one of 802.11b, 802.11g"),
    ({**CELL, "stations": 2, "radio": {"range_mm": 5000, "sensing_mm": 4000}}, "radio.sensing", "no less than range"),
    ({**MESH, "nodes": 9}, "nodes", "an even number"),
    ({**MESH, "nodes": 130}, "nodes", "at most 128"),
    ({**MESH, "radio": {"range_mm": 39_999}}, "radio.range",
     "no path from n1 to n6: radios reach 39.999 m, and stations are 40 to "),
    ({**MESH, "radio": {"range_mm": 10**8}, "coverage": 5}, "radio.range", "beyond 300 km"),
    ({**LOW, "radio": {"standard": "802.11g"}}, "radio.standard", "one of 802.15.4"),
    ({**LOW, "queue": 0}, "queue", "at least 1"),
    ({**LOW, "ip": 4}, "ip", "6 expected, not 4: low-rate has no other"),
    ({**LOW, "ip": True}, "ip", "6 expected")])
def test_sections_that_make_no_sense(section, field, words):
    found, message = problem_of(section)
    assert found == field and words in message


def test_the_version_that_low_rate_has_anyway_may_be_named():
    assert topologies.resolve({**LOW, "ip": 6}) == topologies.resolve(LOW)
    assert topologies.complete({**LOW, "ip": 6}) == topologies.complete(LOW)


def test_a_cell_with_wires_behind_its_stations():
    network = topologies.resolve({**CELL, "right_delays_us": [1000, 2000]})
    assert [station["node"] for station in network["cells"][0]["stations"]] == ["r2", "s1", "s2"]
    first, second = network["paths"]
    assert first["hops"] == ["n1_to_r1", "left_to_right", "s1_to_n2"] and first["base_rtt_us"] == 6000
    assert first["air"] == [["air", "r2", "s1"]] and first["air_back"] == [["air", "s1", "r2"]]
    assert second["air"] == [["air", "r2", "s2"]]
    nodes = nodes_of({**CELL, "right_delays_us": [1000, 2000]})
    assert ["10.0.4.0/24", "10.0.5.3", "r2-wlan0"] in nodes["r2"]["routes"]
    assert ["10.0.5.0/24", "10.0.1.2", "r1-eth0"] in nodes["r1"]["routes"]
    assert nodes["r2"]["addresses"] == ["10.0.1.2", "10.0.5.1"] and "forwards" not in nodes["n2"]
    assert topologies.kernel_options(network) == ["wireless"]


def test_wired_devices_are_numbered_as_if_there_were_no_radio():
    network = topologies.resolve({**CELL, "stations": 3})
    assert [link["device"] for link in network["links"]] == ["r1-eth0", "r2-eth0", "n1-eth0", "r1-eth1"]


def follow(network, source, target):
    """Nodes that a packet passes, by routes and what is directly reached."""
    nodes = {node["name"]: node for node in network["nodes"]}
    at_address = {station["address"]: station["node"] for station in network["cells"][0]["stations"]}
    address = next(where for where, node in at_address.items() if node == target)
    passed = [source]
    while passed[-1] != target:
        assert len(passed) < 30, f"a loop: {passed}"
        via = {ipaddress.ip_network(to): gateway for to, gateway, _ in nodes[passed[-1]]["routes"]}
        passed.append(at_address[via[ipaddress.ip_network(address)]])
    return passed


@pytest.mark.parametrize("section", [MESH, {**MESH, "nodes": 24, "coverage": 2}, {**LOW, "nodes": 16}])
def test_routes_lead_everywhere_by_stations_in_range(section):
    network = topologies.resolve(section)
    cell, = network["cells"]
    places = {one["node"]: (one["x_mm"], one["y_mm"]) for one in cell["stations"]}
    for path in network["paths"]:
        for ends, hops in (((path["initiator"], path["acceptor"]), path["air"]),
                           ((path["acceptor"], path["initiator"]), path["air_back"])):
            passed = follow(network, *ends)
            assert [[cell["name"], *pair] for pair in zip(passed, passed[1:])] == hops
            for one, other in zip(passed, passed[1:]):
                assert sum((a - b) ** 2 for a, b in zip(places[one], places[other])) <= cell["range_mm"] ** 2
    known = {node["name"]: {address for address, _, _ in node["neighbours"]} for node in network["nodes"]}
    for one in cell["stations"]:
        near = {other["address"] for other in cell["stations"] if other is not one and (
            one["x_mm"] - other["x_mm"]) ** 2 + (one["y_mm"] - other["y_mm"]) ** 2 <= cell["range_mm"] ** 2}
        assert known[one["node"]] == near


def test_coverage_widens_range_and_sensing():
    narrow, wide = (topologies.resolve({**MESH, "coverage": times}) for times in (1, 3))
    for key in ("range_mm", "sense_mm"):
        assert wide["cells"][0][key] == 3 * narrow["cells"][0][key]
    assert [len(path["air"]) for path in narrow["paths"]] == [2, 2, 2, 5, 2]
    assert [len(path["air"]) for path in wide["paths"]] == [1, 1, 1, 2, 1]


def test_low_rate_stations_have_ipv6_and_its_smallest_packets():
    network = topologies.resolve(LOW)
    assert (network["ip_version"], network["mtu_bytes"]) == (6, 1280)
    station = network["cells"][0]["stations"][1]
    assert station == {"node": "n2", "device": "n2-lowpan0", "address": "fd00:0:0:1::2", "x_mm": 20_000, "y_mm": 0,
                       "mac": "02:00:00:00:a1:54:00:01"}
    assert network.segment_bytes() == 1280 - 40 - 20 - 12
    assert topologies.kernel_options(network) == ["wireless"]


G6, G54, B11, LOW_CELL = (Cell({"standard": standard, "rate_bps": rate_bps}) for standard, rate_bps in (
    ("802.11g", 6 * 10**6), ("802.11g", 54 * 10**6), ("802.11b", 11 * 10**6), ("802.15.4", 250_000)))


@pytest.mark.parametrize("cell, size, airtime_us, ack_us", [
    # preamble 16, SIGNAL 4, symbols of 24 and 216 bits, silence 6; answers at 6 and 24 Mbit/s
    (G6, 1536, 26 + 4 * 513, 26 + 4 * 6), (G54, 1536, 26 + 4 * 57, 26 + 4 * 2),
    (B11, 1536, 192 + 1118, 192 + 56), (LOW_CELL, 127, 133 * 32, 11 * 32)])
def test_airtimes_by_hand(cell, size, airtime_us, ack_us):
    standard = standards.of(cell)
    assert (standard.frame_us(size), standard.ack_us()) == (airtime_us, ack_us)


def test_what_one_station_can_send():
    """DIFS, 7.5 slots, the frame, SIFS and the acknowledgement for 1500 bytes."""
    assert standards.of(G6).saturated_bps(1500) == pytest.approx(12e9 / (28 + 67.5 + 2078 + 10 + 50))
    assert standards.of(G6).most_bps() == standards.of(G6).saturated_bps(1500)


def test_how_many_round_trips_find_one_without_a_repetition():
    """With half of all attempts lost, one hop there and one back, one round trip in 16 has nothing repeated."""
    path = Path({"initiator": "a", "acceptor": "b", "air": [["air", "a", "b"]], "air_back": [["air", "b", "a"]]})
    tries = [airways.round_trips_for_a_clean_one({"air": G6.changed(loss_percent=loss)}, path)
             for loss in (0, 10, 50, 99)]
    assert tries == [1, 9, 143, 300]


def test_round_trips_by_hand():
    def path(*hops):
        return Path({"initiator": "a", "acceptor": hops[-1][1], "air": [["air", *hop] for hop in hops],
                     "air_back": [["air", *hop[::-1]] for hop in hops[::-1]]})
    frame_us, wait_us = 26 + 4 * 41, 10 + 50 + 28           # 84 bytes of IP in a frame of 120
    # the answer waits for the acknowledgement, then DIFS, and backs off for up to 15 slots
    assert airways.round_trip({"air": G6}, path(("a", "b")), 84) == airways.Way(2 * frame_us + wait_us, 135)
    assert airways.round_trip({"air": G6}, path(("a", "b"), ("b", "c")), 84) == airways.Way(
        4 * frame_us + 3 * wait_us, 3 * 135)
    # behind a wire it may be on its way when nobody has to wait
    behind = path(("a", "b")).changed(acceptor="host behind b")
    assert airways.round_trip({"air": G6}, behind, 84) == airways.Way(2 * frame_us, wait_us + 135)
    # 104 bytes of IPv6 in a frame of 125; up to 7 periods of 320 us, of which two pass during the acknowledgement
    low_us, answer_us = 128 + 192 + 131 * 32, 192 + 11 * 32
    assert airways.round_trip({"air": LOW_CELL}, path(("a", "b")), 104) == airways.Way(
        2 * low_us + answer_us, 2 * 7 * 320 - answer_us)


# -- others' files ----------------------------------------------------------------------

@pytest.fixture
def contributed(tmp_path, monkeypatch):
    """The examples of CONTRIBUTING.md, beside what there is."""
    page = (PROJECT_DIR / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for package, name in ((topologies, "topologies/hidden.py"), (standards, "topologies/standards/ieee802_11_dsss.py")):
        (tmp_path / package.__name__).mkdir()
        text, = re.findall(rf"^`{name}`.*?```python\n(.*?)```", page, re.DOTALL | re.MULTILINE)
        (tmp_path / package.__name__ / name.rpartition("/")[2]).write_text(text)
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path / package.__name__)])
    standards.found.cache_clear()
    yield
    standards.found.cache_clear()


def test_a_standard_is_one_file(contributed):
    assert "802.11-dsss" in standards.names("mac80211") and standards.modules() == ("air_lowpan", "air_wlan")
    standard = standards.of(Cell({"standard": "802.11-dsss", "rate_bps": 10**6}))
    assert standard.frame_us(100) == 192 + 800 and standard.module_settings() == {"rate": 10, "dsss": 1}


def test_a_topology_with_radios_is_one_file(contributed):
    network = topologies.resolve({"kind": "hidden"})
    path, = network["paths"]
    assert path["air"] == [["air", "n1", "n2"], ["air", "n2", "n3"]] and network["cells"][0]["standard"] == "802.11g"
    assert topologies.kernel_options(network) == ["wireless"]


def test_every_standard_says_what_is_asked_of_it():
    for name, standard in standards.found().items():
        cell = Cell({"standard": name, "rate_bps": standard.RATES_BPS[0], "queue_packets": 10, "stations": [{}, {}]})
        found = standards.of(cell)
        assert 0 < found.ack_us() < found.frame_us(100) < found.longest_queue_us()
        assert 0 < found.most_bps() < standard.RATES_BPS[0] and found.data_bytes(100) > 20
        first, later = found.hop_us(100, first=True, follows=False), found.hop_us(100, first=False, follows=True)
        assert found.frame_us(100) <= first[0] < later[0]
        assert len({standard.link_address(number) for number in range(300)}) == 300
        assert standard.MODULE in standards.modules() and (PROJECT_DIR / "kernel-modules" / standard.MODULE).is_dir()
