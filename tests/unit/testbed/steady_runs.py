# SPDX-License-Identifier: GPL-2.0-only
"""Greedy flows whose windows and rates are told second by second, in good evidence otherwise."""
import numpy as np
import pandas as pd

from tests.unit.testbed import evidence_files

SECONDS = np.arange(0, 30.01, 0.1)
PACKET_BITS = 1514 * 8


def flows(rates_mbps, losses_s=((),), drops=0, waits=100, ssthresh=2**31 - 1, **changes):
    """A spoil: flow n sends rates_mbps[n] (a function of seconds) and answers a loss at each of losses_s[n] for 0.2 s.

    drops: of the link at the first loss of the first flow, others have one each; waits: packets in its queue, a
    function of seconds or a number; ssthresh: of windows of 50 segments.
    """
    def spoil(files):
        records, rows = [], []
        for number, (rate, losses) in enumerate(zip(rates_mbps, losses_s), start=1):
            records.append(evidence_files.flow(number, "n2", "n1", sport=5000 + number, dport=1223 + number, **changes))
            acked = np.cumsum(np.append(0, np.array([rate(at) for at in SECONDS[1:]]) * 1e5 / 8))
            losing = np.any([(SECONDS >= at) & (SECONDS < at + 0.2) for at in losses] or [SECONDS < 0], axis=0)
            rows.append(pd.DataFrame({
                "t_us": (SECONDS * 1e6).astype(int), "node": "n2", "src": "10.0.3.1", "sport": 5000 + number,
                "dst": "10.0.2.1", "dport": 1223 + number, "state": "ESTAB", "cca": "cubic", "cwnd": 50.0,
                "ssthresh": ssthresh,
                "ca_state": np.where(losing, 3, 0), "total_retrans": np.cumsum(np.diff(losing, prepend=False) & losing),
                "bytes_acked": acked}))
        files["workload.json"] = {"components": [{"name": "greedy", "kind": "greedy"}], "flows": records}
        files["tcp_info"] = pd.concat(rows, ignore_index=True).sort_values("t_us", kind="stable")
        sent = sum(table["bytes_acked"].to_numpy() for table in rows)
        first = losses_s[0][0] if losses_s[0] else 99
        of_losses = [np.array([drops if at == first else 1 for at in losses]) for losses in losses_s]
        queued = np.array([waits(at) if callable(waits) else waits for at in SECONDS])
        files["queue"] = pd.DataFrame({
            "t_us": (SECONDS * 1e6).astype(int), "link": "right_to_left", "sent_bytes": sent,
            "sent_packets": sent // 1514, "backlog_packets": queued, "backlog_bytes": queued * 1514,
            "drops": sum((np.array(losses)[None, :] <= SECONDS[:, None]) @ counts
                         for losses, counts in zip(losses_s, of_losses) if len(losses)) + np.zeros(len(SECONDS))})
    return spoil


def sawtooth(period_s, most_mbps=50):
    """From half of the most to it, period by period."""
    return lambda at: most_mbps * (0.5 + 0.5 * (at % period_s) / period_s)


def climbing(until_s, most_mbps=50):
    """Twice as fast each tenth of the time until then, and at the most from then on."""
    return lambda at: most_mbps * min(1.0, 2.0 ** (10 * (at / until_s - 1)))
