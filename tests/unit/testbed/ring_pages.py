# SPDX-License-Identifier: GPL-2.0-only
"""Ring buffer pages made byte by byte, and a decoder so simple that it can be believed.

Layout: struct buffer_data_page and struct ring_buffer_event of kernel/trace/ring_buffer.c.
"""
import struct

PAGE = 4096
PADDING, TIME_EXTEND, TIME_STAMP = 29, 30, 31
ENQUEUE_ID, DEQUEUE_ID, BEFORE_ID, OTHER_ID = 1201, 1200, 1190, 7

_COMMON = """\
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;
"""
ENQUEUE_FORMAT = f"""\
name: qdisc_enqueue
ID: {ENQUEUE_ID}
format:
{_COMMON}
\tfield:struct Qdisc * qdisc;\toffset:8;\tsize:8;\tsigned:0;
\tfield:const struct netdev_queue * txq;\toffset:16;\tsize:8;\tsigned:0;
\tfield:void * skbaddr;\toffset:24;\tsize:8;\tsigned:0;
\tfield:int ifindex;\toffset:32;\tsize:4;\tsigned:1;
\tfield:u32 handle;\toffset:36;\tsize:4;\tsigned:0;
\tfield:u32 parent;\toffset:40;\tsize:4;\tsigned:0;

print fmt: "enqueue ifindex=%d", REC->ifindex
"""
DEQUEUE_FORMAT = f"""\
name: qdisc_dequeue
ID: {DEQUEUE_ID}
format:
{_COMMON}
\tfield:struct Qdisc * qdisc;\toffset:8;\tsize:8;\tsigned:0;
\tfield:const struct netdev_queue * txq;\toffset:16;\tsize:8;\tsigned:0;
\tfield:int packets;\toffset:24;\tsize:4;\tsigned:1;
\tfield:void * skbaddr;\toffset:32;\tsize:8;\tsigned:0;
\tfield:int ifindex;\toffset:40;\tsize:4;\tsigned:1;
\tfield:u32 handle;\toffset:44;\tsize:4;\tsigned:0;

print fmt: "dequeue ifindex=%d", REC->ifindex
"""


BEFORE_FORMAT = f"""\
name: net_dev_queue
ID: {BEFORE_ID}
format:
{_COMMON}
\tfield:void * skbaddr;\toffset:8;\tsize:8;\tsigned:0;
\tfield:unsigned int len;\toffset:16;\tsize:4;\tsigned:0;
\tfield:__data_loc char[] name;\toffset:20;\tsize:4;\tsigned:0;

print fmt: "dev=%s", __get_str(name)
"""


def before(skb):
    """Fields of a net_dev_queue event."""
    return struct.pack("<HBBiQII", BEFORE_ID, 0, 0, 1, skb, 1514, 0)


def enqueue(skb, ifindex):
    """Fields of a qdisc_enqueue event."""
    return struct.pack("<HBBiQQQiII", ENQUEUE_ID, 0, 0, 1, 0xAA, 0xBB, skb, ifindex, 1, 2)


def dequeue(skb, ifindex):
    """Fields of a qdisc_dequeue event."""
    return struct.pack("<HBBiQQi4xQiI", DEQUEUE_ID, 0, 0, 1, 0xAA, 0xBB, 1, skb, ifindex, 1)


def other(size=8):
    """Fields of an event nobody asked for, `size` bytes of them."""
    return struct.pack("<H", OTHER_ID) + bytes(size - 2)


def word(type_len, delta):
    return struct.pack("<I", delta << 5 | type_len)


def event(delta, data, long=False):
    """One event `delta` ns after the one before; a delta above 27 bits needs a time extend."""
    prefix = b""
    if delta >> 27:
        prefix, delta = time_extend(delta), 0
    data = data.ljust((len(data) + 3) & ~3, b"\0")
    if long or len(data) > 112:
        return prefix + word(0, delta) + struct.pack("<I", 4 + len(data)) + data
    return prefix + word(len(data) // 4, delta) + data


def time_extend(delta):
    return word(TIME_EXTEND, delta & (1 << 27) - 1) + struct.pack("<I", delta >> 27)


def time_stamp(t_ns):
    return word(TIME_STAMP, t_ns & (1 << 27) - 1) + struct.pack("<I", t_ns >> 27)


def discarded(delta, data_bytes):
    """An event that was taken back after it had been written."""
    return word(PADDING, max(1, delta)) + struct.pack("<I", data_bytes + 4) + b"\x5a" * data_bytes


def page(t_ns, *events, flags=0, rubbish=b""):
    """A page whose clock starts at t_ns; `rubbish` follows what is committed."""
    data = b"".join(events)
    assert len(data) <= PAGE - 16
    return (struct.pack("<QQ", t_ns, len(data) | flags) + data + rubbish)[:PAGE].ljust(PAGE, b"\0")


def decode_naively(data):
    """[(t_ns, id, fields)] of pages, one event after the other."""
    events = []
    for start in range(0, len(data), PAGE):
        clock, commit = struct.unpack_from("<QQ", data, start)
        at, end = start + 16, start + 16 + (commit & 0xFFFFFF)
        while at < end:
            head, = struct.unpack_from("<I", data, at)
            type_len, delta = head & 31, head >> 5
            if type_len == PADDING and delta == 0:
                break
            first = struct.unpack_from("<I", data, at + 4)[0] if at + 8 <= end else 0
            if type_len == TIME_EXTEND:
                clock += (first << 27) + delta
                at += 8
            elif type_len == TIME_STAMP:
                clock = (first << 27) + delta
                at += 8
            elif type_len == PADDING:
                clock += delta
                at += 4 + first
            elif type_len == 0:
                clock += delta
                fields = data[at + 8:at + 4 + first]
                events.append((clock, struct.unpack_from("<H", fields)[0], fields))
                at += 4 + first
            else:
                clock += delta
                fields = data[at + 4:at + 4 + 4 * type_len]
                events.append((clock, struct.unpack_from("<H", fields)[0], fields))
                at += 4 + 4 * type_len
    return events


def sojourns_naively(events, ids=(ENQUEUE_ID, DEQUEUE_ID)):
    """[(dequeue time, sojourn, ifindex)] of decoded events in their order."""
    entered, found = {}, []
    for t_ns, kind, fields in events:
        if kind == ids[0]:
            entered[struct.unpack_from("<Q", fields, 24)[0]] = t_ns
        elif kind == ids[1]:
            skb, ifindex = struct.unpack_from("<Qi", fields, 32)
            if skb in entered:
                found.append((t_ns, t_ns - entered.pop(skb), ifindex))
    return found
