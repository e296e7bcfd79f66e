# SPDX-License-Identifier: GPL-2.0-only
"""Kernel settings read back as they were set, and again when the traffic is over."""
from collections.abc import Iterator

from testbed.checks import Evidence, Finding
from testbed.core.guest_files import Late

NEEDS = ("kernel",)
#: sections of late.json that this check has; qdiscs may change as a schedule says (devices.py)
_LATE = {"sysctls": "", "machine_sysctls": "the kernel: ", "parameters": "module ", "offloads": "offloads of ",
         "initcwnd": "initial window of routes of ", "quickack": "ACKs at once on routes of ",
         "gso_max_segs": "segments that TCP may hand over at once at ", "mtu": "MTU of "}
#: nodes named of those that have one setting changed
_MOST_NAMED = 3


def check(evidence: Evidence) -> Iterator[Finding]:
    """What was asked for against what was read back; both were recorded by the run."""
    checks = evidence.measured
    machine, nodes = checks.machine_sysctls_wanted, checks.sysctls_wanted
    for wanted, whose in ((machine, "of the whole kernel"), (nodes, "of the nodes")):
        if not wanted:
            yield Finding("suspect", f"no record of the settings {whose} that were wanted")
    wrong = 0
    for place, settings in [("the kernel", machine), *nodes.items()]:
        found = checks.machine_sysctls if place == "the kernel" else checks.sysctls.get(place, {})
        for name, value in settings.items():
            asked, active = _text(value), found.get(name)
            if active != asked:
                wrong += 1
                yield Finding("invalid", f"{place}: {name} is {active}, not {asked}")
    late = evidence.late if evidence.can("late.json") else None
    if late is None or not late.read.get("sysctls"):
        yield Finding("suspect", "settings were not read again after the traffic")
        return
    changed = list(_changed(late))
    yield from changed
    if nodes and machine and not wrong and not changed:
        yield Finding("ok", f"{len(machine)} settings of the kernel and {max(map(len, nodes.values()))} of each of "
                            f"{len(nodes)} nodes read back as they were set, and again after the traffic")


def _changed(late: Late) -> Iterator[Finding]:
    """What was changed while the traffic went on: by a module, or a program of the traffic."""
    for section, whose in _LATE.items():
        alike: dict[tuple[str, str, str], list[str]] = {}
        for name, (before, after) in late.changes(section).items():
            place, _, setting = name.rpartition(" ")
            alike.setdefault((setting if place else "", _text(before), _text(after)), []).append(place or name)
        for (setting, before, after), places in alike.items():
            named = ", ".join(places[:_MOST_NAMED]) + f" and {len(places) - _MOST_NAMED} more" * (
                len(places) > _MOST_NAMED)
            yield Finding("invalid", f"{whose}{named}{f': {setting}' * bool(setting)} is {after} after the traffic, "
                                     f"and was {before} before it")


def _text(value: object) -> str:
    return " ".join(str(value).split())
