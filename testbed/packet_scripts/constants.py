# SPDX-License-Identifier: GPL-2.0-only
"""Constants of C's headers by name: those that Python knows, and those that it does not."""
from __future__ import annotations

import errno
import fcntl
import os
import re
import select
import socket
import termios

_MODULES = (socket, select, fcntl, os, errno, termios)
_NAMED = re.compile("(?:AF|PF|SOCK|IPPROTO|SOL|SO|MSG|TCP|UDP|IP|IPV6|O|F|FD|SHUT|POLL|EPOLL|E|SIOC|FION)[A-Z0-9_]*")

#: names of states, and of states of congestion control, as TCP_INFO numbers them (net/tcp_states.h, linux/tcp.h)
STATES = {name: number for number, name in enumerate((
    "TCP_ESTABLISHED", "TCP_SYN_SENT", "TCP_SYN_RECV", "TCP_FIN_WAIT1", "TCP_FIN_WAIT2", "TCP_TIME_WAIT", "TCP_CLOSE",
    "TCP_CLOSE_WAIT", "TCP_LAST_ACK", "TCP_LISTEN", "TCP_CLOSING", "TCP_NEW_SYN_RECV"), 1)}
INFO = {**STATES,
        **{f"TCP_CA_{name}": number for number, name in enumerate(("Open", "Disorder", "CWR", "Recovery", "Loss"))},
        **{f"TCPI_OPT_{name}": 1 << bit for bit, name in enumerate((
            "TIMESTAMPS", "SACK", "WSCALE", "ECN", "ECN_SEEN", "SYN_DATA", "USEC_TS", "TFO_CHILD"))},
        "TCP_ACCECN_OPT_NOT_SEEN": 0, "TCP_ACCECN_OPT_EMPTY_SEEN": 1, "TCP_ACCECN_OPT_COUNTER_SEEN": 2,
        "TCP_ACCECN_OPT_FAIL_SEEN": 3, "TCP_ACCECN_ACE_FAIL_SEND": 1, "TCP_ACCECN_ACE_FAIL_RECV": 2,
        "TCP_ACCECN_OPT_FAIL_SEND": 4, "TCP_ACCECN_OPT_FAIL_RECV": 8,
        "TCPI_ECN_MODE_DISABLED": 0, "TCPI_ECN_MODE_RFC3168": 1, "TCPI_ECN_MODE_ACCECN": 2,
        "TCPI_ECN_MODE_PENDING": 3}

_MORE = {
    # asm-generic/socket.h
    "SO_TIMESTAMPING": 37, "SCM_TIMESTAMPING": 37, "SO_MAX_PACING_RATE": 47, "SO_MEMINFO": 55, "SO_ZEROCOPY": 60,
    "SO_TXTIME": 61, "SO_RCVLOWAT": 18, "SO_SNDLOWAT": 19, "SO_RCVTIMEO": 20, "SO_SNDTIMEO": 21, "SO_SNDBUFFORCE": 32,
    "SO_RCVBUFFORCE": 33, "SO_TIMESTAMP": 29, "SO_TIMESTAMPNS": 35, "SO_BUSY_POLL": 46, "SO_RESERVE_MEM": 73,
    "MSG_ZEROCOPY": 0x4000000, "MSG_FASTOPEN": 0x20000000, "MSG_SPLICE_PAGES": 0x8000000, "MSG_PROBE": 0x10,
    # linux/tcp.h
    "TCP_MD5SIG": 14, "TCP_THIN_LINEAR_TIMEOUTS": 16, "TCP_THIN_DUPACK": 17, "TCP_USER_TIMEOUT": 18,
    "TCP_REPAIR": 19, "TCP_REPAIR_QUEUE": 20, "TCP_QUEUE_SEQ": 21, "TCP_REPAIR_OPTIONS": 22, "TCP_FASTOPEN": 23,
    "TCP_TIMESTAMP": 24, "TCP_NOTSENT_LOWAT": 25, "TCP_CC_INFO": 26, "TCP_SAVE_SYN": 27, "TCP_SAVED_SYN": 28,
    "TCP_REPAIR_WINDOW": 29, "TCP_FASTOPEN_CONNECT": 30, "TCP_ULP": 31, "TCP_MD5SIG_EXT": 32, "TCP_FASTOPEN_KEY": 33,
    "TCP_FASTOPEN_NO_COOKIE": 34, "TCP_ZEROCOPY_RECEIVE": 35, "TCP_INQ": 36, "TCP_CM_INQ": 36, "TCP_TX_DELAY": 37,
    "TCP_RTO_MAX_MS": 44, "TCP_RTO_MIN_US": 45, "TCP_DELACK_MAX_US": 46, "SOL_TCP": 6, "SOL_IP": 0, "SOL_IPV6": 41,
    # linux/in.h, linux/in6.h
    "IP_MTU_DISCOVER": 10, "IP_RECVERR": 11, "IP_MTU": 14, "IP_FREEBIND": 15, "IP_RECVTTL": 12, "IP_RECVTOS": 13,
    "IP_PMTUDISC_DONT": 0, "IP_PMTUDISC_WANT": 1, "IP_PMTUDISC_DO": 2, "IP_PMTUDISC_PROBE": 3,
    "IP_LOCAL_PORT_RANGE": 51, "IPV6_RECVERR": 25, "IPV6_MTU_DISCOVER": 23, "IPV6_FLOWINFO_SEND": 33,
    # linux/errqueue.h, linux/net_tstamp.h
    "SO_EE_ORIGIN_NONE": 0, "SO_EE_ORIGIN_LOCAL": 1, "SO_EE_ORIGIN_ICMP": 2, "SO_EE_ORIGIN_ICMP6": 3,
    "SO_EE_ORIGIN_TIMESTAMPING": 4, "SO_EE_ORIGIN_ZEROCOPY": 5, "SO_EE_CODE_ZEROCOPY_COPIED": 1,
    "SCM_TSTAMP_SND": 0, "SCM_TSTAMP_SCHED": 1, "SCM_TSTAMP_ACK": 2,
    "SOF_TIMESTAMPING_TX_HARDWARE": 1 << 0, "SOF_TIMESTAMPING_TX_SOFTWARE": 1 << 1,
    "SOF_TIMESTAMPING_RX_HARDWARE": 1 << 2, "SOF_TIMESTAMPING_RX_SOFTWARE": 1 << 3,
    "SOF_TIMESTAMPING_SOFTWARE": 1 << 4, "SOF_TIMESTAMPING_RAW_HARDWARE": 1 << 6, "SOF_TIMESTAMPING_OPT_ID": 1 << 7,
    "SOF_TIMESTAMPING_TX_SCHED": 1 << 8, "SOF_TIMESTAMPING_TX_ACK": 1 << 9, "SOF_TIMESTAMPING_OPT_CMSG": 1 << 10,
    "SOF_TIMESTAMPING_OPT_TSONLY": 1 << 11, "SOF_TIMESTAMPING_OPT_STATS": 1 << 12,
    # asm-generic/ioctls.h, linux/sockios.h
    "SIOCINQ": 0x541B, "SIOCOUTQ": 0x5411, "SIOCOUTQNSD": 0x894B, "SIOCATMARK": 0x8905,
    "SPLICE_F_MOVE": 1, "SPLICE_F_NONBLOCK": 2, "SPLICE_F_MORE": 4,
    "EPOLL_CTL_ADD": 1, "EPOLL_CTL_DEL": 2, "EPOLL_CTL_MOD": 3, "EPOLLEXCLUSIVE": 1 << 28, "EPOLLWAKEUP": 1 << 29,
    "ENOTSUPP": 524, "INADDR_ANY": 0, "INADDR_LOOPBACK": 0x7F000001, **STATES}

#: names whose value depends on the version of IP, as in the kernel's own scripts
_BY_VERSION = {"CMSG_LEVEL_IP": ("SOL_IP", "SOL_IPV6"), "CMSG_TYPE_RECVERR": ("IP_RECVERR", "IPV6_RECVERR")}


def value_of(name: str, ip_version: str) -> int | None:
    """The value of a name; None if there is none."""
    if name in _BY_VERSION:
        name = _BY_VERSION[name][ip_version != "ipv4"]
    if name in _MORE:
        return _MORE[name]
    if not _NAMED.fullmatch(name):
        return None
    for module in _MODULES:
        found = getattr(module, name, None)
        if isinstance(found, int):
            return int(found)
    return None
