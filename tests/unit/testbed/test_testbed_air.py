# SPDX-License-Identifier: GPL-2.0-only
"""The check of the air where all is well (bad_air.py has the rest), and what a module's file of accounts says."""
import pathlib

import pandas as pd
import pytest

import topologies
from testbed import checks
from testbed.checks import _sockets, idle_network
from testbed.core import derived
from testbed.guest import air
from tests.unit.testbed import evidence_files
from tests.unit.testbed.bad_air import COUNTS, LOW_RATE, MESH, counted, datagrams_on_air, in_vain, wires_and_radio
from topologies import standards
from topologies.links.records import Network
from topologies.wireless import air_accounts
from traffic.workload.records import Flow


def findings(tmp_path, **how):
    files = evidence_files.good_files()
    counted(**how)(files)
    return evidence_files.findings(tmp_path, "air", files)


def test_frames_that_are_accounted_for(tmp_path):
    assert findings(tmp_path) == [("ok", "every frame accounted for on the air (20 of 2 stations: 18 delivered, 2 lost "
                                         "after 26 attempts)")]


def test_wires_have_no_air(tmp_path):
    assert not evidence_files.findings(tmp_path, "air", evidence_files.good_files())


def test_a_low_rate_device_sends_what_its_radio_does(tmp_path):
    (level, _), = findings(tmp_path, network=LOW_RATE, change=lambda counts: [one.update(
        device_tx_packets=10) for one in counts.values()])
    assert level == "ok"


def asked(state, **flow):
    """Samples of a sender of a flow from n1 to n2 of a mesh of two, and what was seen of it while it asked."""
    flow = {"flow": 1, "transport": "tcp", "sender": "n1", "receiver": "n2", "sport": None, "dport": 5000,
            "src": "10.0.1.1", "dst": "10.0.1.2", **flow}
    samples = pd.DataFrame([{"t_us": 1, "node": "n1", "sport": 1024, "dst": "10.0.1.2", "dport": 5000, "state": state}])
    return _sockets.trying(samples, [Flow(flow)], Network(MESH))


def test_a_flow_over_the_air_may_ask_for_long():
    assert list(asked("SYN-SENT")["flow"]) == [1]
    assert asked("ESTAB") is None and asked("SYN-SENT", sender="r1") is None


def test_a_flow_that_the_air_starves_is_counted(tmp_path):
    files = evidence_files.good_files()
    in_vain()(files)
    for check, words in (("connected", "1 of 1 flows over the air were never connected: they asked 16 times again, and "
                                       "68 packets were lost or dropped by radios and queues on their ways"),
                         ("sockets", "1 flows from their beginning to their end")):
        (level, message), = evidence_files.findings(tmp_path, check, files)
        assert level == "ok" and words in message
    assert [level for level, message in evidence_files.findings(tmp_path, "ccas", files)
            if "no connection of" in message] == []


def test_a_router_with_wires_and_a_radio(tmp_path):
    files = evidence_files.good_files()
    wires_and_radio()(files)
    found = evidence_files.findings(tmp_path, "conservation", files)
    assert {level for level, _ in found} == {"ok"}
    assert any(message.startswith("r2: 160 packets in = 160 out") for _, message in found)


@pytest.mark.parametrize("lost, network", [(67, MESH), (67, LOW_RATE), (150, LOW_RATE)])
def test_datagrams_may_be_lost_on_the_air(tmp_path, lost, network):
    """Where a packet takes several frames, more of these may be lost than packets."""
    files = evidence_files.good_files()
    datagrams_on_air(lost, network)(files)
    (level, message), = evidence_files.findings(tmp_path, "datagrams", files)
    assert level == "ok" and message.startswith("1000 packets sent = 900 received + 100 lost of 2 UDP flows")


@pytest.mark.parametrize("link, mbps, expected", [
    ("right_to_left", 6, True),         # all of its 20 Mbit/s come over the air, which carries 5.4
    ("right_to_left", 54, False),       # or 30.5
    ("left_to_right", 6, False),        # it is before the air
    ("r1_to_n1", 54, True)])            # behind right_to_left
def test_a_link_behind_the_air(link, mbps, expected):
    network = Network(topologies.resolve({
        "kind": "wireless-cell", "central": {"rate_bps": 2 * 10**7, "delay_us": 2000}, "edge": {"rate_bps": 10**9},
        "left_delays_us": [0], "stations": 2, "radio": {"rate_bps": mbps * 10**6}}))
    links = {one.name: one for one in network.links}
    assert idle_network._behind_others(links[link], links, network) is expected


class Channel:
    """A network whose radios do what a list says: (frames so far, how many wait, of how many it is known how they
    ended), then stay as they are."""
    description = Network({"paths": [{"base_rtt_us": 500_000}]})

    def __init__(self, monkeypatch, *readings):
        self.readings, self.slept_s = list(readings), 0.0
        monkeypatch.setattr(air, "read", self.read)
        monkeypatch.setattr(air.time, "sleep", self.sleep)

    def sleep(self, seconds):
        self.slept_s += seconds

    def read(self, _network):
        frames, queued, ended = self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]
        return {"n1": {"frames": frames, "queued": queued, "acknowledged": ended, "given_up": 0, "no_access": 0}}, 0


def test_the_air_has_settled_when_nothing_was_sent_for_a_round_trip_and_a_second(monkeypatch):
    channel = Channel(monkeypatch, (3, 1, 2), (4, 0, 3), (4, 0, 4), (5, 0, 5))
    assert air.settled(channel)[0]["n1"]["frames"] == 5
    assert 1.5 < channel.slept_s < 2.5
    assert Channel(monkeypatch, (0, 0, 0)) and air.settled(channel)[0]["n1"]["frames"] == 0


@pytest.mark.parametrize("forever", [(4, 1, 4), (4, 0, 3)])
def test_air_that_does_not_settle(monkeypatch, forever):
    """A frame that waits for ever, or one that is never done with."""
    with pytest.raises(RuntimeError, match="frames still wait for the air after 120 s"):
        air.settled(Channel(monkeypatch, forever))


def test_wires_connect_everybody(tmp_path):
    assert not evidence_files.findings(tmp_path, "connected", evidence_files.good_files())


def test_accounts_are_read_by_the_names_of_their_columns():
    rows, busy_ns = air_accounts.parse("station frames queued\n0 5 1\n1 6 0\nbusy_ns 77\n")
    assert rows == [{"station": 0, "frames": 5, "queued": 1}, {"station": 1, "frames": 6, "queued": 0}]
    assert busy_ns == 77


def test_what_is_queued_is_no_difference():
    before, after = ({"n1": dict(COUNTS)}, 100), ({"n1": {**COUNTS, "frames": 30, "queued": 5}}, 400)
    found = air.differences(before, after, after)
    assert found["air_busy_ns"] == {"at_end": 300, "drained": 300}
    assert (found["air_drained"]["n1"]["frames"], found["air_drained"]["n1"]["queued"]) == (20, 5)


def test_a_verdict_is_made_again_when_a_standard_of_radios_changes(monkeypatch):
    """Checks find standards by listing their folder: no import says that they need them."""
    covered, closure = set(), derived._closure
    monkeypatch.setattr(derived, "_hashes", {})         # of what this process has imported for all runs, if it has
    monkeypatch.setattr(derived, "_closure", lambda places: [found := closure(places), covered.update(found)][0])
    checks._code()
    assert set(pathlib.Path(standards.__path__[0]).glob("*.py")) <= covered
