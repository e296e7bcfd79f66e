# SPDX-License-Identifier: GPL-2.0-only
"""The connections of each source: read from the user's trace files, or synthesised."""
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from traffic.tmix import batch as batches
from traffic.tmix.marginals import connection_bytes
from traffic.tmix.order import Run, WorkloadError
from traffic.tmix.reader import Limits, read_vectors
from traffic.tmix.reverse import Reverse, wire_growth
from traffic.tmix.synth import SynthParameters, expected_connections, synthesise
from traffic.tmix.vectors import MAX_TIME_US, Vector
from traffic.tmix.wire import wire_bytes

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


def read(sources: Sequence[batches.Batch | str | pathlib.Path], limits: Limits,
         report: Callable[[str], None]) -> list[batches.Batch]:
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


def _counted(vectors: Iterable[Vector], before: int, limits: Limits, report: Callable[[int], None]) -> Iterator[Vector]:
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
    sampled_bits, _, parameters = _bits_per_connection(sources, run)
    parameters = replace(parameters, connections_per_second=run.target_bps / sampled_bits / sources.count)
    duration_s = run.to_us / 1e6 * margin
    if duration_s * 1e6 > MAX_TIME_US:
        raise WorkloadError(f"{duration_s:.0f} s are too long to synthesise")
    expected = sources.count * expected_connections(duration_s, parameters)
    if expected > run.order.limits.connections:
        raise WorkloadError(_too_many(f"about {expected:.0f}"), "most_connections")
    report(f"synthesising about {expected:.0f} connections")
    return [synthesise(duration_s, (run.order.seed, source), replace(
        parameters, connections_per_second=weight * parameters.connections_per_second))
        for source, weight in enumerate(_relative_weights(sources))]


def mean_scale(sources: Synthesised, run: Run) -> float:
    """The scale at which what is synthesised offers the target on the mean over seeds."""
    sampled_bits, expected_bits, _ = _bits_per_connection(sources, run)
    return expected_bits / sampled_bits


def _relative_weights(sources: Synthesised) -> np.ndarray:
    weights = np.array(sources.weights or [1.0] * sources.count, float)
    return weights / weights.mean()


def _bits_per_connection(sources: Synthesised, run: Run) -> tuple[float, float, SynthParameters]:
    """Mean bits that a connection puts on the targets: of a fixed sample, the same for every seed; and of the
    distribution, whose mean payload the sample misses by the more the heavier its tail. And the parameters, in which a
    mean is another where the reverse load is given."""
    def crossings(links: np.ndarray) -> np.ndarray:
        """How often a byte of each side crosses them, on the mean of the connections."""
        return np.average(run.crossings(links), axis=0, weights=_relative_weights(sources))

    parameters = sources.parameters
    targets, reverse = crossings(run.weights), Reverse.of(run)
    if reverse:
        _, expected = _wire_bytes(parameters, run)
        parameters = reverse.parameters(parameters, run, targets, crossings(reverse.links), expected)
    sampled, expected = _wire_bytes(parameters, run)
    return 8 * float(np.mean(targets @ sampled)), 8 * float(targets @ expected), parameters


def _wire_bytes(parameters: SynthParameters, run: Run) -> tuple[np.ndarray, np.ndarray]:
    """What connections put on the wire from each side: those of a fixed sample, float64[2, n], and the mean of the
    distribution, float64[2]."""
    sample = synthesise(200.0, 0, replace(parameters, connections_per_second=200.0)).with_explicit_fins()
    overhead = run.order.counted
    wire = np.add.reduceat(wire_bytes(sample, overhead), sample.first[:-1], axis=1)
    missed = [parameters.mean_initiator_bytes, parameters.mean_acceptor_bytes] - connection_bytes(sample).mean(axis=1)
    # what is missed are bytes of large transfers, in full packets
    return wire, wire.mean(axis=1) + missed @ wire_growth(overhead)
