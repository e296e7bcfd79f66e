# SPDX-License-Identifier: GPL-2.0-only
"""What a kernel says of memory that nobody points to."""
from testbed.guest import kmemleak

OBJECT = """\
unreferenced object 0x6459{number:04x} (size {size}):
  comm "softirq", pid 0, jiffies 4294689554
  hex dump (first 32 bytes):
    6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b  kkkkkkkkkkkkkkkk
  backtrace (crc 8448c546):
    kmemleak_alloc+0x31/0x40
    __kmalloc_cache_noprof+0x2a4/0x370
    {place}
    tcp_init_congestion_control+0x2b/0x60
"""


def test_places_in_modules_are_counted():
    mine, other = "x_init+0x2f/0x3c [tcp_x]", "[<(____ptrval____)>] x_main+0x1/0x3c [tcp_x]"
    text = "".join(OBJECT.format(number=number, size=size, place=place) for number, (size, place) in enumerate(
        [(64, other), (4096, mine), (32, "kernel_only+0x1/0x2"), (4096, mine)]))
    assert kmemleak.found(text) == ["4096 B 2 times, allocated in x_init+0x2f/0x3c [tcp_x]",
                                    "64 B 1 times, allocated in x_main+0x1/0x3c [tcp_x]"]
    assert kmemleak.found("") == []
