# SPDX-License-Identifier: GPL-2.0-only
"""What the hosts of a network send, one folder per kind of traffic.

A kind is a folder with a `scenario.py` in it, which has

    validate(section, network)       ValueError (with .field) if a scenario's traffic
                                     section makes no sense for this network
    prepare(section, context)        writes what the programs need into
                                     context.work_dir and returns a `Workload`
    collect(context, raw_dir)        turns what the programs wrote into raw/*.csv.gz
                                     and returns an account (dict) for the fidelity checks

`network` is a topology's description (a dict: nodes, links, paths). The programs run in
the nodes' namespaces; each prints "ready", reads "start <t0 in ns of CLOCK_MONOTONIC>"
from its standard input, and exits by itself at the end of the experiment.
"""
import dataclasses
import importlib
import pathlib


class ParameterError(ValueError):
    """A field of a scenario's traffic section that makes no sense."""

    def __init__(self, field, message):
        super().__init__(message)
        self.field = field


@dataclasses.dataclass
class Program:
    """A process to run in a node's namespace: `python -m module argument...`."""
    node: str
    module: str
    arguments: list


@dataclasses.dataclass
class Workload:
    """What a kind of traffic wants started, and what it offers (-> workload.json)."""
    programs: list
    description: dict


@dataclasses.dataclass
class Context:
    """What `prepare` and `collect` know of a run.

    work_dir: folder on this side; guest_dir: the same folder as the programs see it;
    network: the topology's description; times in us of experiment time.
    """
    work_dir: pathlib.Path
    guest_dir: str
    network: dict
    seed: int
    prefill_us: int
    warmup_us: int
    test_us: int

    @property
    def duration_us(self):
        return self.prefill_us + self.warmup_us + self.test_us


def names():
    """Names of the kinds of traffic."""
    return sorted(f.parent.name for f in pathlib.Path(__file__).parent.glob("*/scenario.py"))


def load(kind):
    """The `scenario` module of a kind; ParameterError if there is none."""
    if kind not in names():
        raise ParameterError("kind", f"no traffic {kind!r}; there are: {', '.join(names())}")
    return importlib.import_module(f"traffic.{kind}.scenario")
