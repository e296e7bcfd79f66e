# SPDX-License-Identifier: GPL-2.0-only
"""Kernel settings read back as they were set."""
from collections.abc import Iterator
from typing import Any

from testbed.fidelity import Evidence, Finding

NEEDS = ("kernel",)


def check(evidence: Evidence) -> Iterator[Finding]:
    """What was asked for against what was read back; both were recorded by the run."""
    checks = evidence.json("checks.json")
    machine, nodes = checks.get("machine_sysctls_wanted"), checks.get("sysctls_wanted")
    for wanted, whose in ((machine, "of the whole kernel"), (nodes, "of the nodes")):
        if not wanted:
            yield Finding("suspect", f"no record of the settings {whose} that were wanted")
    wrong = 0
    for place, settings in [("the kernel", machine or {}), *(nodes or {}).items()]:
        found = checks.get("machine_sysctls", {}) if place == "the kernel" else checks["sysctls"].get(place, {})
        for name, value in settings.items():
            value, active = _text(value), found.get(name)
            if active != value:
                wrong += 1
                yield Finding("invalid", f"{place}: {name} is {active}, not {value}")
    if nodes and machine and not wrong:
        yield Finding("ok", f"{len(machine)} settings of the kernel and {max(map(len, nodes.values()))} of each of "
                            f"{len(nodes)} nodes read back as they were set")


def _text(value: Any) -> str:
    return " ".join(str(value).split())
