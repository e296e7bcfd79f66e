# SPDX-License-Identifier: GPL-2.0-only
"""Packet scripts: what a socket and a peer do, and which packets the kernel must send, at exact times.

    language.py     what a script consists of        parser.py       text -> Script
    options.py      options of TCP                   packets.py      packets, by scapy
    constants.py    names of C's constants           calls.py        system calls
    device.py       the TUN device, and waiting      tcp_info.py     what TCP_INFO says
    interpreter.py  carries out one script           init.py         process 1 of the guest
    runner.py       boots guests, collects results   results.py      lines, and files of JUnit

The language is that of packetdrill (docs/reference/packet-scripts.md). All but runner.py runs in the guest.
"""
