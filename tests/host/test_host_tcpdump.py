# SPDX-License-Identifier: GPL-2.0-only
"""`pcap: {tool: tcpdump}` on the running kernel: a tcpdump at each end of the flow sees all of it."""
import shutil

import pytest

from analysis.packets import captures

pytestmark = pytest.mark.skipif(not shutil.which("tcpdump"), reason="tcpdump is not installed")


def test_each_end_has_a_capture(visit):
    machine = visit("inside_tcpdump.py")
    assert machine.findings["run"]["code"] == 0, machine.findings["run"]["said"]
    assert machine.run_json("raw/guest.json")["probes"]["pcap"] == {"lost_packets": 0}
    raw, = machine.results.glob("runs/*/raw")
    for node in ("n1", "n2"):
        segments = list(captures.segments(raw / f"capture-{node}-eth0.pcap.gz"))
        assert sum(one.payload_bytes for one in segments) >= 300_000
        assert all(0 <= one.t_us < 60_000_000 for one in segments), "not experiment time"
