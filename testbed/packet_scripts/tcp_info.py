# SPDX-License-Identifier: GPL-2.0-only
"""What TCP_INFO, TCP_CC_INFO and SO_MEMINFO say of a socket, by the names of the kernel's headers."""
from __future__ import annotations

import socket
import struct

from testbed.packet_scripts.constants import INFO

_TCP_CONGESTION, _CC_INFO, _SO_MEMINFO = 13, 26, 55
# struct tcp_info (linux/tcp.h); a kernel tells a prefix of it. The two bytes of bit fields are told apart below
_FIELDS = (
    *((name, "B") for name in ("state", "ca_state", "retransmits", "probes", "backoff", "options", "scales", "bits")),
    *((name, "I") for name in (
        "rto", "ato", "snd_mss", "rcv_mss", "unacked", "sacked", "lost", "retrans", "fackets", "last_data_sent",
        "last_ack_sent", "last_data_recv", "last_ack_recv", "pmtu", "rcv_ssthresh", "rtt", "rttvar", "snd_ssthresh",
        "snd_cwnd", "advmss", "reordering", "rcv_rtt", "rcv_space", "total_retrans")),
    *((name, "Q") for name in ("pacing_rate", "max_pacing_rate", "bytes_acked", "bytes_received")),
    *((name, "I") for name in ("segs_out", "segs_in", "notsent_bytes", "min_rtt", "data_segs_in", "data_segs_out")),
    *((name, "Q") for name in ("delivery_rate", "busy_time", "rwnd_limited", "sndbuf_limited")),
    *((name, "I") for name in ("delivered", "delivered_ce")),
    *((name, "Q") for name in ("bytes_sent", "bytes_retrans")),
    *((name, "I") for name in ("dsack_dups", "reord_seen", "rcv_ooopack", "snd_wnd", "rcv_wnd", "rehash")),
    ("total_rto", "H"), ("total_rto_recoveries", "H"),
    *((name, "I") for name in (
        "total_rto_time", "received_ce", "delivered_e1_bytes", "delivered_e0_bytes", "delivered_ce_bytes",
        "received_e1_bytes", "received_e0_bytes", "received_ce_bytes", "ecn_bits")))
_SIZES = {"B": 1, "H": 2, "I": 4, "Q": 8}
#: of TCP_CC_INFO, by the congestion control (linux/inet_diag.h)
_CC_FIELDS = {
    "dctcp": ("=HHIII", ("dctcp_enabled", "dctcp_ce_state", "dctcp_alpha", "dctcp_ab_ecn", "dctcp_ab_tot")),
    "bbr": ("=IIIII", ("bbr_bw_lo", "bbr_bw_hi", "bbr_min_rtt", "bbr_pacing_gain", "bbr_cwnd_gain"))}
_VEGAS = ("=IIII", ("tcpv_enabled", "tcpv_rttcnt", "tcpv_rtt", "tcpv_minrtt"))
# SK_MEMINFO_* (linux/sock_diag.h)
_MEMORY = ("RMEM_ALLOC", "RCVBUF", "WMEM_ALLOC", "SNDBUF", "FWD_ALLOC", "WMEM_QUEUED", "OPTMEM", "BACKLOG", "DROPS")


def names_of(connection: socket.socket) -> dict[str, int | str]:
    """Names and values that a script's Python sees: those of the socket, and constants."""
    found: dict[str, int | str] = dict(INFO)
    found |= decoded(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 512))
    cca = connection.getsockopt(socket.IPPROTO_TCP, _TCP_CONGESTION, 16).rstrip(b"\0").decode()
    found["tcp_congestion"] = cca
    said = connection.getsockopt(socket.IPPROTO_TCP, _CC_INFO, 64)
    layout, names = _CC_FIELDS.get(cca, _VEGAS)
    if len(said) >= struct.calcsize(layout):
        found |= zip(names, struct.unpack_from(layout, said))
    memory = connection.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 64)
    values = struct.unpack(f"={len(memory) // 4}I", memory[:len(memory) // 4 * 4])
    return found | {f"SK_MEMINFO_{name}": value for name, value in zip(_MEMORY, values)}


def decoded(info: bytes) -> dict[str, int]:
    """struct tcp_info as names and values; a kernel that knows fewer fields gives fewer bytes."""
    found, place = dict[str, int](), 0
    for name, kind in _FIELDS:
        if place + _SIZES[kind] > len(info):
            break
        found[f"tcpi_{name}"], = struct.unpack_from(f"={kind}", info, place)
        place += _SIZES[kind]
    scales, bits = found.pop("tcpi_scales", 0), found.pop("tcpi_bits", 0)
    found |= {"tcpi_snd_wscale": scales & 15, "tcpi_rcv_wscale": scales >> 4,
              "tcpi_delivery_rate_app_limited": bits & 1, "tcpi_fastopen_client_fail": bits >> 1 & 3}
    ecn = found.pop("tcpi_ecn_bits", None)
    if ecn is not None:
        found |= {"tcpi_ecn_mode": ecn & 3, "tcpi_accecn_opt_seen": ecn >> 2 & 3,
                  "tcpi_accecn_fail_mode": ecn >> 4 & 15, "tcpi_options2": ecn >> 8}
    return found
