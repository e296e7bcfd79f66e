# SPDX-License-Identifier: GPL-2.0-only
"""A QUIC flow whose qlog is what its link carried, and runs in which it is not."""
import numpy as np
import pandas as pd

from tests.unit.testbed import evidence_files
from tests.unit.testbed.bad_runs import Bad

#: with the wait in the queue
RTT_US = 181_160


def quic(**factors):
    """n2 sends to n1 by QUIC in place of everything else; factors: of columns of quic_info."""
    def spoil(files):
        flow = evidence_files.flow(1, "n2", "n1", None, transport="program", kind="quic", component="quic")
        files["workload.json"] = {"components": [{"name": "quic", "kind": "quic"}], "flows": [flow]}
        wire = files["edge_queue"][files["edge_queue"]["link"] == "n2_to_r2"]
        t_us = np.arange(0, 30_000_001, 100_000)
        packets = np.interp(t_us, wire["t_us"], wire["sent_packets"])
        payload = wire["sent_bytes"] - 42 * wire["sent_packets"]
        left = np.interp(t_us, wire["t_us"], payload) - np.interp(t_us - RTT_US, wire["t_us"], payload)
        table = pd.DataFrame({
            "t_us": t_us, "flow": 1, "cwnd_bytes": left, "in_flight_bytes": left, "ssthresh_bytes": None,
            "pacing_rate_bps": None, "srtt_us": RTT_US, "latest_rtt_us": RTT_US, "min_rtt_us": 8100.0,
            "sent_packets": packets.astype(int), "received_packets": 0, "lost_packets": 0, "state": ""})
        for name, factor in factors.items():
            table[name] = table[name] * factor
        files["quic_info"] = table
    return spoil


def without_a_table(files):
    quic()(files)
    del files["quic_info"]


CHECKS = [
    Bad("qlog", "no table", without_a_table, "suspect", "no record"),
    Bad("qlog", "half the window", quic(cwnd_bytes=0.5), "suspect", "more leaves the host"),
    Bad("qlog", "twice in flight", quic(in_flight_bytes=2), "suspect", "in flight on average"),
    Bad("qlog", "more packets", quic(sent_packets=2), "suspect", "packets sent"),
    Bad("qlog", "round trips in seconds", quic(srtt_us=0.001, latest_rtt_us=0.001, min_rtt_us=0.001), "suspect",
        "when it is idle"),
    Bad("qlog", "long round trips", quic(srtt_us=10), "suspect", "full queues take at most")]
