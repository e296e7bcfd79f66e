# SPDX-License-Identifier: GPL-2.0-only
"""Settings, devices and the kernel's own words once more when the traffic is over: what differs from before it."""
import ctypes
import os
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from testbed.guest import congestion_controls, devices, kmemleak, leaks
from topologies.linux.namespace import get_offloads, read_sysctl
from topologies.linux.network import Network

#: {name: value}
_Values = Mapping[str, object]

_TAINTED = "/proc/sys/kernel/tainted"
#: klogctl(2)
_READ_ALL, _SIZE_BUFFER = 3, 10
#: what a kernel prints where it is wrong, and goes on: WARN(), BUG(), lockdep and KASAN, sleeping where nobody may
_TROUBLE = re.compile(r"\b(WARNING|BUG|UBSAN|Oops|INFO: (task|rcu\S*)): .*")
_TIME_STAMP = re.compile(r"^(<\d+>)?\[ *\d+\.\d+\](\[[^\]]*\])? ")
_MOST_LINES, _FOLLOWING = 5, 40
_KEPT_STEP_KB = 8192
#: bits of the mask that say more than which modules there are: W, M, B, D, L
_WRONG = 1 << 9 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 14


def tainted() -> int:
    """The kernel's taint mask (Documentation/admin-guide/tainted-kernels.rst)."""
    with open(_TAINTED, encoding="ascii") as file:
        return int(file.read())


def kept_kb() -> int:
    """Memory that the kernel itself has and cannot give back at once, in kB."""
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("SUnreclaim:"))


def more_mb(before_kb: int, after_kb: int) -> int:
    """How much more memory the kernel has, in whole steps: what it has by itself differs by some 100 kB between
    checkouts and ways to do the same, and runs are to leave the same bytes."""
    return max(0, after_kb - before_kb) // _KEPT_STEP_KB * (_KEPT_STEP_KB >> 10)


class Before(NamedTuple):
    """What was so before the traffic: of devices, of the kernel and of its modules ({module: {parameter: value}}); and
    memory of the kernel, in kB."""
    found: devices.Found
    machine_sysctls: Mapping[str, str]
    parameters: Mapping[str, Mapping[str, str]]
    kept_kb: int


def read(network: Network, before: Before, modules: Sequence[str] = ()) -> dict[str, object]:
    """What is another at the end; modules: congestion controls that are not the kernel's own.

    {"changed": {section: {name: [before, after]}}, "read": {section: how many}, "tainted": mask,
    "kept_more_mb": memory, "trouble": [lines], "kept_of_connections": {module: bytes of each}, "leaked": [lines]}
    """
    was, now = before.found, devices.read(network)
    sections: dict[str, tuple[_Values, _Values]] = {
        "machine_sysctls": (before.machine_sysctls, {name: read_sysctl(name) for name in before.machine_sysctls}),
        "parameters": _flat({name: (values, congestion_controls.read_parameters(name))
                             for name, values in before.parameters.items()}),
        "initcwnd": (was.initcwnd, now.initcwnd),
        "quickack": (was.quickack, now.quickack),
        "gso_max_segs": ({name: one["gso_max_segs"] for name, one in was.devices.items()},
                         {name: one["gso_max_segs"] for name, one in now.devices.items()}),
        "mtu": ({name: one["mtu"] for name, one in was.devices.items()},
                {name: one["mtu"] for name, one in now.devices.items()}),
        "qdiscs": _flat({name: (one["qdiscs"], now.devices[name]["qdiscs"] if name in now.devices else {})
                         for name, one in was.devices.items()})}
    nodes: dict[str, tuple[_Values, _Values]] = {}
    offloads: dict[str, dict[str, bool]] = {}
    for node, values in network.observed_sysctls.items():
        with network.in_namespace(node):
            nodes[node] = values, {name: read_sysctl(name) for name in values}
            for place in network.offloads:
                if place.startswith(f"{node}/"):
                    offloads[place] = get_offloads(place.partition("/")[2])
    sections |= {"sysctls": _flat(nodes), "offloads": (network.offloads, offloads)}
    mask = tainted()
    kept_more_mb = more_mb(before.kept_kb, kept_kb())       # before more connections are opened
    trouble = _trouble() if mask & _WRONG else []
    kept = {"kept_of_connections": _kept_of_connections(network, modules)} if modules else {}
    leaked = kmemleak.leaks() if modules else []
    return {"changed": {section: changed for section, (first, last) in sections.items()
                        if (changed := {name: [first.get(name), last.get(name)] for name in {**first, **last}
                                        if first.get(name) != last.get(name)})},
            "read": {section: len(last) for section, (_, last) in sections.items()},
            "kept_more_mb": kept_more_mb, "tainted": mask, "trouble": trouble,
            **kept, **({"leaked": leaked} if leaked else {})}


def _kept_of_connections(network: Network, modules: Sequence[str]) -> dict[str, float]:
    with network.in_namespace(next(iter(network.sysctls))):
        return {name: leaks.kept_bytes(name, kept_kb) for name in modules}


def _flat(of: Mapping[str, tuple[_Values, _Values]]) -> tuple[_Values, _Values]:
    """One mapping of "place name" for each, out of one for each place."""
    both = [{f"{place} {name}": value for place, pair in of.items() for name, value in pair[which].items()}
            for which in (0, 1)]
    return both[0], both[1]


def _trouble() -> list[str]:
    """Lines of the kernel's log in which it says that something is wrong, with the function where that is not in them;
    those of the buffer, the last 1/8 MB or more."""
    libc = ctypes.CDLL(None, use_errno=True)
    size = libc.klogctl(_SIZE_BUFFER, None, 0)
    buffer = ctypes.create_string_buffer(max(size, 1))
    length = libc.klogctl(_READ_ALL, buffer, size)
    if length < 0:
        return [f"the kernel's log cannot be read: {os.strerror(ctypes.get_errno())}"]
    lines = [_TIME_STAMP.sub("", line) for line in buffer.raw[:length].decode("utf-8", "replace").splitlines()]
    return complaints(lines)


def complaints(lines: list[str]) -> list[str]:
    """The first lines that say that something is wrong. Behind one that names no function comes the first that its
    call trace has of a module."""
    found = []
    for number, line in enumerate(lines):
        if match := _TROUBLE.search(line):
            words = match.group(0)
            if not re.search(r"\+0x[0-9a-f]+/", words):
                near = lines[number + 1:number + 1 + _FOLLOWING]
                place = next((one.strip() for one in near if re.search(r"\+0x\S+ \[\w+\]", one)), "")
                words += f" ({place})" * bool(place)
            found.append(words[:300])
    return found[:_MOST_LINES]
