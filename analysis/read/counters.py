# SPDX-License-Identifier: GPL-2.0-only
"""Counters of the TCP/IP stacks by nstat's names, as metrics of a run that nobody has to list: they are read when they
are asked for (docs/howto/queries.md)."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from analysis.metrics import Metric
from analysis.read.runs import Run
from testbed.core import stack_counters
from testbed.core.guest_files import Snmp

#: scopes besides single nodes: the sum over all nodes of the measured interval, and from the start of the traffic until
#: the network has run empty
ALL, WHOLE_RUN = "all", "whole_run"


def seen(run: Run) -> set[str]:
    """The counters that counted anything in a run."""
    record = run.record(Snmp, "snmp.json")
    return set() if record is None else {name for counts in record.nodes.values() for name in counts}


def table(run: Run, names: Iterable[str]) -> pd.DataFrame:
    """Counters by their full names: of all nodes, of the whole run, and of each node; empty where a run has none
    recorded. What nobody counted is 0."""
    record = run.record(Snmp, "snmp.json")
    rows: list[Metric] = []
    if record is not None:
        begin, end, last = (record.readings.index(name) for name in ("measure_from", "at_end", "drained"))
        for name in names:
            counts = {node: of_node[name] for node, of_node in record.nodes.items() if name in of_node}
            of_nodes = {node: counts[node][end] - counts[node][begin] if node in counts else 0
                        for node in record.nodes}
            rows += [Metric(name, ALL, "1", sum(of_nodes.values())),
                     Metric(name, WHOLE_RUN, "1", sum(values[last] for values in counts.values())),
                     *(Metric(name, node, "1", count) for node, count in of_nodes.items())]
    return pd.DataFrame(rows, columns=list(Metric._fields)).astype({"value": "float64"})


def full_names(texts: Iterable[str], counted: Iterable[str]) -> list[str]:
    """The full names of those of the texts (NAME or NAME:SCOPE) that are counters; all that each may mean. counted:
    those of runs, which may have others than Linux 6.12."""
    known = stack_counters.KNOWN | set(counted)
    found: list[str] = []
    for text in texts:
        name = text.partition(":")[0]
        if stack_counters.is_name(name):
            found += stack_counters.meant(name, known)
    return list(dict.fromkeys(found))
