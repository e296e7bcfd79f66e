# SPDX-License-Identifier: GPL-2.0-only
"""Every segment a TCP socket receives, with its congestion state before it (-> tcp_probe.csv.gz).

The tracepoint tcp:tcp_probe of all namespaces and both ends of every connection: exact, and
large (some 10,000 events a second at 60 Mbit/s). On request: `--probe tcp_probe`.
"""
from testbed.probes._ring import TraceInstance, TraceSampler, column, decode, read_format

_EVENT = "tcp/tcp_probe"
#: column -> field of the event
_FIELDS = {"mark": "mark", "data_len": "data_len", "snd_nxt": "snd_nxt", "snd_una": "snd_una", "snd_cwnd": "snd_cwnd",
           "ssthresh": "ssthresh", "snd_wnd": "snd_wnd", "srtt_us": "srtt", "rcv_wnd": "rcv_wnd",
           "sock_cookie": "sock_cookie"}


class Sampler(TraceSampler):
    """Records the tracepoint and empties its buffer ten times a second."""
    interval_us = 100_000

    def __init__(self, settings, network, description, work_dir):
        self._trace = TraceInstance("tcp_probe", {_EVENT: ""}, buffer_kb=32768, work_dir=work_dir)


def collect(work_dir, raw_dir, context):
    from testbed.probes._tables import write_csv
    write_csv(_tables(work_dir, context), raw_dir / "tcp_probe.csv.gz")


def _tables(work_dir, context):
    """One table for each batch of trace pages, in order of time."""
    import pandas as pd
    event_id, fields = read_format(work_dir / f"{_EVENT.replace('/', '-')}.format")
    for time_ns, ids, starts, raw in decode(work_dir / "tcp_probe.pages"):
        time_ns = time_ns - context["t0_ns"]
        mine = (ids == event_id) & (time_ns >= 0) & (time_ns < context["duration_us"] * 1000)
        at = starts[mine]
        table = {"t_us": time_ns[mine] // 1000, "src": _endpoints(raw, at, fields["saddr"]),
                 "dst": _endpoints(raw, at, fields["daddr"])}
        table.update({name: column(raw, at, fields[field]) for name, field in _FIELDS.items()})
        yield pd.DataFrame(table)


def _endpoints(raw, starts, field):
    """'10.0.1.2:5000' of the struct sockaddr_in at a field of every event."""
    import numpy as np
    address = np.ascontiguousarray(raw[(starts + field[0] + 4)[:, None] + np.arange(4)]).view(">u4")[:, 0]
    port = np.ascontiguousarray(raw[(starts + field[0] + 2)[:, None] + np.arange(2)]).view(">u2")[:, 0]
    distinct, which = np.unique(address.astype(np.uint64) << np.uint64(16) | port, return_inverse=True)
    names = [".".join(str(int(n) >> shift & 255) for shift in (40, 32, 24, 16)) + f":{int(n) & 0xFFFF}" for n in distinct]
    return np.array(names, dtype=object)[which]
