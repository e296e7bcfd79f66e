# SPDX-License-Identifier: GPL-2.0-only
"""An engine that runs nothing, for tests of what --cca names."""
import types

from testbed.runs.engine import Capabilities


def module(name, sha256, registers, warnings="", renamed=None):
    """What building a module gives."""
    return types.SimpleNamespace(file=None, sha256=sha256, congestion_controls=registers, warnings=warnings,
                                 renamed=renamed or {}, part_name=lambda congestion_control: name)


class ModuleEngine:
    """It has Reno and CUBIC, and refuses nothing. How modules are built is for the tests to say."""

    name, capabilities = "fake", Capabilities(clock="virtual")

    def kernel_release(self):
        return "6.12.117-testbed"

    def refusal(self, variant):
        return ""

    def congestion_controls(self):
        return ("reno", "cubic")
