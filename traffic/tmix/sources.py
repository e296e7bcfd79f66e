# SPDX-License-Identifier: GPL-2.0-only
"""The connections of each source: read from the user's trace files, or synthesised."""
import pathlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from traffic.tmix import batch as batches
from traffic.tmix.load import pieces
from traffic.tmix.order import Run, WorkloadError
from traffic.tmix.reader import Limits, read_vectors
from traffic.tmix.synth import SynthParameters, expected_connections, synthesise
from traffic.tmix.vectors import MAX_TIME_US

#: connections between two words of progress
_REPORT_EVERY = 100_000
# what counts as a connection more
_ADUS_PER_CONNECTION = 20


@dataclass(frozen=True)
class Synthesised:
    """Stands for the sources when there are no trace files: `count` sources.

    weights: of each source's rate of connections, relative to the others'; () for equal ones.
    """
    count: int = 9
    parameters: SynthParameters = SynthParameters()
    weights: Sequence[float] = ()


def trace_files(folder: str | pathlib.Path) -> list[pathlib.Path]:
    """The vector files of a folder by name: one source each.

    Raises WorkloadError if there are none.
    """
    try:
        found = sorted(path for path in pathlib.Path(folder).iterdir()
                       if path.is_file() and not path.name.startswith(".")
                       and path.suffix.lower() not in (".md", ".part", ".json"))
    except OSError as problem:
        raise WorkloadError(f"{folder}: {problem.strerror}", "traces") from None
    if not found:
        raise WorkloadError(f"{folder}: no vector files; a source is one file", "traces")
    return found


def read(sources: Sequence[Any], limits: Limits, report: Callable[[str], None]) -> list[batches.Batch]:
    """The connections of vector files (or Batches, as they are), in their order.

    Raises VectorError for a defect in a file, WorkloadError for too many connections.
    """
    loaded: list[batches.Batch] = []
    for number, source in enumerate(sources):
        if not isinstance(source, batches.Batch):
            name = pathlib.Path(source).name
            source = batches.from_vectors(_counted(
                read_vectors(source, limits=limits), sum(map(len, loaded)), limits,
                lambda count, name=name, number=number: report(          # type: ignore[misc]
                    f"reading {name} ({number + 1} of {len(sources)}): {count} connections")))
        loaded.append(source)
    return loaded


def _counted(vectors: Any, before: int, limits: Limits, report: Callable[[int], None]) -> Any:
    """The same vectors, with progress shown. WorkloadError if there are too many."""
    adus = 0
    for count, vector in enumerate(vectors, start=1):
        adus += len(vector.adus)
        if count % _REPORT_EVERY == 1:
            report(count - 1)
        if before + count > limits.connections or adus > _ADUS_PER_CONNECTION * limits.connections:
            raise WorkloadError(_too_many(f"more than {limits.connections}"), "most_connections")
        yield vector


def _too_many(number: str) -> str:
    return f"{number} connections; if that is meant, allow it with most_connections"


def synthesised(sources: Synthesised, run: Run, margin: float, report: Callable[[str], None]) \
        -> list[batches.Batch]:
    """Batches of about the right arrival rate: the search then finds a scale near 1."""
    if sources.count != len(run.rtts_us):
        raise WorkloadError(f"{sources.count} sources but {len(run.rtts_us)} paths")
    weights = np.array(sources.weights or [1.0] * sources.count, float)
    weights /= weights.mean()
    # The mean of the distribution, measured on a fixed sample, is the same for every seed.
    sample = synthesise(200.0, 0, replace(sources.parameters, connections_per_second=200.0))
    sample = sample.with_explicit_fins()
    wire = pieces(sample, np.mean(run.rtts_us), float(run.shares_bps.min()))
    # how often a byte of each side crosses a target, on the mean of the connections
    crossings = np.average((run.weights @ run.crossing.reshape(len(run.weights), -1)).reshape(-1, 2), axis=0,
                           weights=weights)
    bits = 8 * float(np.mean(crossings @ wire.connection_bytes))
    parameters = replace(sources.parameters,
                         connections_per_second=run.target_bps / bits / sources.count)
    duration_s = run.to_us / 1e6 * margin
    if duration_s * 1e6 > MAX_TIME_US:
        raise WorkloadError(f"{duration_s:.0f} s are too long to synthesise")
    expected = sources.count * expected_connections(duration_s, parameters)
    if expected > run.order.limits.connections:
        raise WorkloadError(_too_many(f"about {expected:.0f}"), "most_connections")
    report(f"synthesising about {expected:.0f} connections")
    return [synthesise(duration_s, (run.order.seed, source), replace(
        parameters, connections_per_second=weight * parameters.connections_per_second))
        for source, weight in enumerate(weights)]
