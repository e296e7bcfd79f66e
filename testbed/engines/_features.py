# SPDX-License-Identifier: GPL-2.0-only
"""What not every Linux kernel has, and which part of a scenario asks for it."""
from __future__ import annotations

import re

from testbed.core.fields import FieldError
from testbed.guest.tuning import Hosts
from testbed.runs.engine import EngineBase
from testbed.runs.plan import Plan
from topologies import queues
from topologies.links.records import Network

#: {feature: (what a scenario asks for, the first version of Linux that has it)}
FEATURES = {"accecn": ("Accurate ECN (ecn: 3)", (6, 18)), "dualpi2": ("a queue of kind dualpi2", (6, 17))}

#: which part of a scenario asks for it
_FIELDS = {"accecn": "hosts.ecn", "dualpi2": "topology"}


def features_needed(network: Network, ecn: int) -> list[str]:
    """Those of FEATURES that a resolved scenario needs; ecn: of its hosts."""
    needed = {queues.kind(link.queue).KERNEL_FEATURE for link in network.links}
    if ecn > 2:
        needed.add("accecn")
    return [name for name in FEATURES if name in needed]


class LinuxEngine(EngineBase):
    """An engine whose runs take place in a Linux kernel, wherever that is."""

    def cannot(self, plan: Plan) -> FieldError | None:
        network, ecn = plan.scenario.network, int(Hosts(plan.scenario.hosts).ecn)
        return next((FieldError(_FIELDS[feature], self.lacks(network, ecn))
                     for feature in features_needed(network, ecn) if not self.has(feature)), None)

    def has(self, feature: str) -> bool:
        """Whether the kernel has one of FEATURES: by its version, where nothing better is known."""
        version = re.match(r"(\d+)\.(\d+)", self.kernel_release())
        return version is not None and (int(version[1]), int(version[2])) >= FEATURES[feature][1]

    def lacks(self, network: Network, ecn: int) -> str:
        """The first thing of a resolved scenario that this kernel does not have, in words; '' if it has all."""
        return next(filter(None, map(self.lacks_feature, features_needed(network, ecn))), "")

    def lacks_feature(self, name: str) -> str:
        """That this kernel does not have one of FEATURES, in words; '' if it has."""
        if self.has(name):
            return ""
        what, (major, minor) = FEATURES[name]
        return (f"{what} is not in this kernel, {self.kernel_release()}: Linux has it from {major}.{minor} on"
                + ", such as --kernel newest" * any(option.name == "kernel" for option in self.OPTIONS))
