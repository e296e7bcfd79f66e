# SPDX-License-Identifier: GPL-2.0-only
"""Runs in whose kernels something is not as the scenario says, one thing each, as bad_runs.py has others."""
from tests.unit.testbed.bad_runs import Bad
from tests.unit.testbed.spoils import at, both, greedy, put, wide_red, with_threshold, without_key

DCTCP = {"variants": ("dctcp",)}

CHECKS = [
    Bad("devices", "not read", without_key("checks.json", "devices"), "suspect",
        "devices and routes were not read back"),
    Bad("devices", "another MTU", at("checks.json", "devices", "n2/n2-eth0", "mtu", 9000), "invalid",
        "n2/n2-eth0 has an MTU of 9000 B, not of 1500 B"),
    Bad("devices", "large packets", at("checks.json", "devices", "n2/n2-eth0", "gso_max_segs", 65535), "invalid",
        "n2/n2-eth0: TCP may hand over 65535 segments at once, not 1"),
    Bad("devices", "another queue", at("checks.json", "devices", "r2/r2-eth0", "qdiscs", "10:", "fq_codel "),
        "invalid", "r2/r2-eth0: 10: is fq_codel, not pfifo"),
    Bad("devices", "no shaper", at("checks.json", "devices", "r2/r2-eth0", "qdiscs", {"10:": "pfifo 52030000"}),
        "invalid", "r2/r2-eth0: 3: is nothing, not htb"),
    Bad("devices", "a shorter queue", at("checks.json", "devices", "r2/r2-eth0", "qdiscs", "10:", "pfifo 51030000"),
        "invalid", "r2/r2-eth0: pfifo 10: has limit 849, not 850"),
    Bad("devices", "a queue that became shorter", at("late.json", "changed", {"qdiscs": {
        "r2/r2-eth0 10:": ["pfifo 52030000", "pfifo 51030000"]}}), "invalid",
        "r2/r2-eth0 after the traffic: pfifo 10: has limit 849, not 850"),
    Bad("devices", "a wire that became another", at("late.json", "changed", {"qdiscs": {
        "r1/wr1-eth9 2:": ["netem 00", "netem 01"]}}), "invalid",
        r"r1/wr1-eth9: 2: \(netem\) is not what it was before the traffic"),
    Bad("devices", "a probability that the kernel cannot hold", wide_red, "suspect",
        "right_to_left: red marks with a probability of at most 0.0186, not 0.02"),
    Bad("devices", "another initial window", at("checks.json", "initcwnd", "n1", [3]), "invalid",
        "n1: connections begin with 3 segments, not 10"),
    Bad("devices", "ACKs at once", at("checks.json", "quickack", "n1", [1]), "invalid", "n1: its ACKs are not delayed"),
    Bad("devices", "another initial threshold", with_threshold({"10.0.1.1": 2**31 - 1}), "invalid",
        "n2: a connection to 10.0.1.1 began with a slow-start threshold of 2147483647 segments, not 10"),
    Bad("devices", "threshold not tried", with_threshold({}), "invalid",
        "n2: nobody tried whether connections begin with a slow-start threshold of 10"),
    Bad("ecn", "no queue marks", greedy(variant="dctcp", cca="dctcp"), "suspect",
        "dctcp answers marks, and no queue on the way of 1 of its 1 flows can mark, such as flow 1", DCTCP),
    Bad("kernel_log", "not read", without_key("late.json", "tainted"), "suspect", "is not known"),
    Bad("kernel_log", "a warning", both(put("late.json", "tainted", 4608), put("late.json", "trouble", [
        "WARNING: CPU: 0 PID: 0 at include/net/tcp.h:1322 x_avoid+0x57/0x63 [tcp_x]"])), "suspect",
        r"warned of itself during the traffic: WARNING: .* x_avoid\+0x57"),
    Bad("kernel_log", "a module's init warned", both(
        put("late.json", "tainted", 4608), put("checks.json", "tainted", 4608)), "suspect",
        "warned of itself before the traffic: its log has nothing of it"),
    Bad("kernel_log", "a sleep where none may be", both(put("late.json", "tainted", 4608), put("late.json", "trouble", [
        "BUG: scheduling while atomic: python3/1/0x101 (x_avoid+0x10/0x20 [tcp_x])", "WARNING: y"])), "invalid",
        r"warned of itself .*x_avoid.* \(and 1 more\)$"),
    Bad("kernel_log", "a leak", put("late.json", "kept_more_mb", 80), "suspect",
        "the kernel had at least 80 MB more memory in use after the traffic than before it, where 16 MB"),
    Bad("kernel_log", "a leak of each connection", put("late.json", "kept_of_connections", {"leak": 8192}), "suspect",
        "^leak: the kernel keeps 8192 B of each connection that is over"),
    Bad("kernel_log", "memory not read", without_key("late.json", "kept_more_mb"), "suspect",
        "how much memory the kernel kept is not known"),
    Bad("kernel_log", "an oops", put("late.json", "tainted", 4224), "invalid", "had an oops or BUG during the traffic"),
    Bad("settings", "changed later", at("late.json", "changed", {"sysctls": {
        f"n{number} net.ipv4.tcp_sack": ["1", "0"] for number in (1, 2)}}), "invalid",
        "^n1, n2: net.ipv4.tcp_sack is 0 after the traffic, and was 1 before it"),
    Bad("settings", "of the kernel changed later", at("late.json", "changed", {"machine_sysctls": {
        "net.ipv4.tcp_mem": ["1 2 3", "1 2 4"]}}), "invalid",
        "^the kernel: net.ipv4.tcp_mem is 1 2 4 after the traffic, and was 1 2 3"),
    Bad("settings", "not read again", at("late.json", "read", {}), "suspect", "were not read again after the traffic"),
    Bad("settings", "of a node", put("checks.json", "sysctls/r1/net.ipv4.tcp_congestion_control", "reno"), "invalid",
        "r1: net.ipv4.tcp_congestion_control is reno, not cubic"),
    Bad("settings", "of no node", put("checks.json", "sysctls", {}), "invalid", "is None"),
    Bad("settings", "of the kernel", put("checks.json", "machine_sysctls/net.ipv4.tcp_mem", "1 2 4"), "invalid",
        "the kernel: net.ipv4.tcp_mem is 1 2 4, not 1 2 3"),
    Bad("settings", "not recorded", put("checks.json", "sysctls_wanted", {}), "suspect",
        "no record of the settings of the nodes"),
    Bad("settings", "the kernel's not recorded", put("checks.json", "machine_sysctls_wanted", {}), "suspect",
        "no record of the settings of the whole kernel"),
]
