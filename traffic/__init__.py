# SPDX-License-Identifier: GPL-2.0-only
"""What the hosts of a network send: components, each of a kind, each emitting flows.

A kind of traffic is one module, `traffic/<kind>.py` or `traffic/<kind>/scenario.py`, found by
listing (traffic/workload/components.py says what is in it). Its programs run in the nodes' namespaces as
`python3 -m module argument...`: each prints "ready", reads "start <t0 in ns of CLOCK_MONOTONIC>" from
its standard input, and ends by itself at the end of the experiment with "done {account}".

This package is imported by those programs, so what only makes and collects traffic is loaded
when it is asked for.
"""
import importlib

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from traffic.workload.components import (Component, Context, Flow, Kind, Prepared, Program, as_given, bulk_routes,
                                             check_socket_options, collect, component_ccas, inputs, is_under_test, kind,
                                             names, prepare, validate)

__all__ = ["Component", "Context", "Flow", "Kind", "Prepared", "Program", "as_given", "bulk_routes",
           "check_socket_options", "collect", "component_ccas", "inputs", "is_under_test", "kind", "names", "prepare",
           "validate"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("traffic.workload.components"), name)
