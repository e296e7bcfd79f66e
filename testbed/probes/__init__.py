# SPDX-License-Identifier: GPL-2.0-only
"""Probes: what is measured during a run, one file each, found by listing this folder.

A probe file has two halves that never run in the same process, and says what can be set:

* `Options` is a dataclass of testbed/core/fields.py: what a scenario may say of the probe.
* `Sampler(options, network, description, work_dir)` runs inside the kernel under test,
  with the standard library only. It opens what it needs (`open()`), is called at absolute
  deadlines every `interval_us` (`sample(t_us)`), and writes binary files to `work_dir`,
  cheaply: every system call there is dear. `network` is the Mininet
  network with its namespaces, `description` what raw/network.json holds. What `close()` returns, a
  dict for JSON, is in raw/guest.json (`probes`), and may be {}.
* `collect(work_dir, raw_dir, context)` runs afterwards, outside, and turns these files
  into the CSV files of docs/reference/run-folder.md: `raw_files.write_table(table, raw_dir, name)`, with the
  columns of `raw_tables.TABLES[name]` (see cpu.py). `context`: testbed/probes/_context.py.

A probe may have a kernel module that makes it cheaper: `MODULE` names its C file or folder in this folder; several
probes may have the same. Engines that build modules load it before `Sampler` is made; without it the probe measures the
same in another way.

A Sampler may have `starts(t0_ns, measure_from_us, duration_us)`: it is called once it is known when traffic will begin.

A Sampler may have `sample_until(t0_ns, due_us, until_us)`: with one system call it takes the samples that are due
from due_us on and before until_us. It returns when the next one is due and how late the latest was, in us.

`STARTS_PROCESSES = True`: it is called before the others of an instant (see ss.py).

Files whose names start with an underscore are helpers.
"""
import importlib
import pathlib
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Protocol


class Sampler(Protocol):
    """What runs in the guest, see above."""

    @property
    def interval_us(self) -> int:
        """From a call of `sample` to the next one."""

    def open(self) -> None:
        """Before the first call."""

    def sample(self, __t_us: int) -> None:
        """Take a sample; the time is so much."""

    def close(self) -> Mapping[str, object]:
        """After the last call; a note for raw/guest.json."""


def names() -> list[str]:
    """Names of all probes, as scenarios spell them."""
    return sorted(f.stem for f in pathlib.Path(__file__).parent.glob("[a-z]*.py"))


def module_sources(names: Iterable[str]) -> dict[pathlib.Path, list[str]]:
    """{source of a kernel module: those of these probes that it makes cheaper}."""
    found: dict[pathlib.Path, list[str]] = {}
    for name in names:
        if source := getattr(load(name), "MODULE", None):
            found.setdefault(pathlib.Path(__file__).with_name(source), []).append(name)
    return found


def load(name: str) -> ModuleType:
    """A probe's module; ValueError if there is none."""
    if name not in names():
        raise ValueError(f"no probe {name!r}; there are: {', '.join(names())}")
    return importlib.import_module(f"testbed.probes.{name}")
