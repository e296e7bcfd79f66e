# SPDX-License-Identifier: GPL-2.0-only
"""tcp_info of every connected socket of every host, at an interval (-> tcp_info.csv.gz).

What `ss -tin` prints, taken from the same place (inet_diag) and kept undecoded until
the run is over. Offsets: struct tcp_info, include/uapi/linux/tcp.h.
"""
import struct

from testbed.probes._netlink import HEADER, TcpSockets, attributes

_RECORD = struct.Struct("=qHHI")            # t_us, node number, 0, length of the dump that follows

#: column -> (offset in struct tcp_info, struct code)
_FIELDS = {
    "ca_state": (1, "B"), "rto_us": (8, "I"), "mss": (16, "I"), "unacked": (24, "I"), "lost": (32, "I"),
    "retrans": (36, "I"), "srtt_us": (68, "I"), "rttvar_us": (72, "I"), "ssthresh": (76, "I"),
    "cwnd": (80, "I"), "total_retrans": (100, "I"), "pacing_rate": (104, "Q"), "bytes_acked": (120, "Q"),
    "bytes_received": (128, "Q"), "min_rtt_us": (148, "I"), "delivery_rate": (160, "Q"),
    "busy_us": (168, "Q"), "rwnd_limited_us": (176, "Q"), "sndbuf_limited_us": (184, "Q"),
    "delivered": (192, "I"), "bytes_sent": (200, "Q"), "bytes_retrans": (208, "Q"),
}
_COLUMNS = ("t_us", "node", "src", "sport", "dst", "dport", "state", "cca", "ca_state", "cwnd", "ssthresh",
            "srtt_us", "rttvar_us", "min_rtt_us", "rto_us", "mss", "unacked", "lost", "retrans", "total_retrans",
            "bytes_acked", "bytes_received", "bytes_sent", "bytes_retrans", "delivered", "delivery_rate_bps",
            "pacing_rate_bps", "busy_us", "rwnd_limited_us", "sndbuf_limited_us")
_STATES = {1: "ESTAB", 2: "SYN-SENT", 3: "SYN-RECV", 4: "FIN-WAIT-1", 5: "FIN-WAIT-2",
           8: "CLOSE-WAIT", 9: "LAST-ACK", 11: "CLOSING"}
_DIAG_INFO, _DIAG_CONG = 2, 4
_DIAG_MSG_BYTES = 72


class Sampler:
    """Dumps the sockets of every host."""

    def __init__(self, settings, network, description, work_dir):
        self.interval_us = settings.get("interval_us", 1_000_000)
        self._network = network
        self._hosts = [n["name"] for n in description["nodes"] if n["role"] == "host"]
        self._file = open(f"{work_dir}/tcp_info.bin", "wb", buffering=1 << 20)
        self._sockets = []

    def open(self):
        for host in self._hosts:
            with self._network.in_namespace(host):
                self._sockets.append(TcpSockets())

    def sample(self, t_us):
        for number, sockets in enumerate(self._sockets):
            def write(dump):
                self._file.write(_RECORD.pack(t_us, number, 0, len(dump)))
                self._file.write(dump)
            sockets.dump_into(write)

    def close(self):
        self._file.close()
        for sockets in self._sockets:
            sockets.close()
        return {}


def collect(work_dir, raw_dir, context):
    import pandas as pd

    from testbed.probes._tables import write_csv
    hosts = [n["name"] for n in context["network"]["nodes"] if n["role"] == "host"]
    data = (work_dir / "tcp_info.bin").read_bytes()
    rows, at = [], 0
    while at < len(data):
        t_us, number, _, length = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        rows += _decode(data, at, at + length, t_us, hosts[number])
        at += length
    table = pd.DataFrame(rows, columns=_COLUMNS)
    # the order in which the kernel walks its hash table says nothing
    write_csv(table.sort_values(["t_us", "node", "src", "sport", "dst", "dport"], kind="stable"),
              raw_dir / "tcp_info.csv.gz")


_CODES = [(struct.Struct("=" + code).unpack_from, offset, offset + struct.calcsize(code))
          for offset, code in _FIELDS.values()]


def _decode(data, at, end, t_us, node):
    """Rows of one dump: netlink messages with struct inet_diag_msg and its attributes."""
    while at + HEADER.size <= end:
        length = HEADER.unpack_from(data, at)[0]
        if length < HEADER.size:
            return
        if length < HEADER.size + _DIAG_MSG_BYTES:        # the end of the dump, not a socket
            at += (length + 3) & ~3
            continue
        body = at + HEADER.size
        state = data[body + 1]
        sport, dport = struct.unpack_from(">HH", data, body + 4)
        src, dst = data[body + 8:body + 12], data[body + 24:body + 28]
        cca, info = "", None
        for kind, offset, size in attributes(data, body + _DIAG_MSG_BYTES, at + length):
            if kind == _DIAG_CONG:
                cca = data[offset:offset + size].rstrip(b"\0").decode("ascii", "replace")
            elif kind == _DIAG_INFO:
                info = {name: unpack(data, offset + first)[0] if first_end <= size else 0
                        for name, (unpack, first, first_end) in zip(_FIELDS, _CODES)}
        at += (length + 3) & ~3
        if info is None:
            continue
        info["delivery_rate_bps"] = info.pop("delivery_rate") * 8
        pacing = info.pop("pacing_rate")
        info["pacing_rate_bps"] = "" if pacing == 2**64 - 1 else pacing * 8
        head = {"t_us": t_us, "node": node, "src": ".".join(map(str, src)), "sport": sport,
                "dst": ".".join(map(str, dst)), "dport": dport, "state": _STATES.get(state, str(state)), "cca": cca}
        yield tuple((head[c] if c in head else info[c]) for c in _COLUMNS)
