# SPDX-License-Identifier: GPL-2.0-only
"""What client, workers and the processes of runs say to each other, as dictionaries that JSON and pickles keep."""
from typing import TypedDict


class Facts(TypedDict):
    """What must be the same on every machine of a cluster: kernel, code, packages, programs."""
    kernel: str
    code: str
    radios: dict[str, str]
    packages: dict[str, str]
    files: dict[str, str]


class _OfBoth(TypedDict):
    """engine, options: its name and its options; memory_mb: what is set aside for the guest."""
    engine: str
    options: dict[str, object]
    facts: Facts
    again: bool
    keep_work: bool
    memory_mb: int


class Order(_OfBoth):
    """A client's order to a worker. files: {place in the cache: SHA-256}; dask: version; topic: of the command."""
    id: str
    plan: dict[str, object]
    files: dict[str, str]
    dask: str
    topic: str


class RunOrder(_OfBoth):
    """A worker's order to the process of a run."""
    cpu: int
    order_dir: str
    results: str
    shared_dir: str
    cache: str


class Ended(TypedDict):
    """How a run ended, as testbed.runs.run.Outcome has it."""
    run_id: str
    error: str | None
    verdict: str | None
    was_there: bool


class Said(TypedDict, total=False):
    """What the process of a run says: how far it is, why it cannot, what its guest takes, how it ended."""
    phase: str
    t_us: int
    unfit: str
    memory_mb: int
    outcome: Ended


class Answer(Said, total=False):
    """A worker's answer. lacks: hashes of files; size, sha256: of the archive of the run, piece: the first of it."""
    worker: str
    lacks: list[str]
    size: int | None
    sha256: str
    piece: bytes
