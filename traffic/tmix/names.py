# SPDX-License-Identifier: GPL-2.0-only
"""Which vector file belongs to which path.

The evaluation suite calls the files of its UNC traces rAsI after the nodes of a connection: A is the acceptor's
number, I the initiator's. Files that are called so, with anything before and behind it (unc-r4s2.cvec.gz), go to
the path between these nodes. Their alphabetical order is not that of the paths: it has the acceptors outside, the
initiators inside. Files that are called otherwise belong to the paths in the order of their names.
"""
import pathlib
import re
from collections.abc import Sequence

from traffic.tmix.order import WorkloadError

#: anywhere in a name: what only looks like it is refused below, and better so than given a wrong path in silence
_PAIR = re.compile(r"r([0-9]{1,9})s([0-9]{1,9})", re.IGNORECASE)
_HOST = re.compile(r"n([0-9]{1,9})")

_Ends = tuple[str, str]         # initiator, acceptor


def in_order_of_paths(files: Sequence[pathlib.Path], paths: Sequence[_Ends]) -> list[pathlib.Path]:
    """The files, sorted by name, in the order of the paths (initiator, acceptor), of which there are as many.

    Raises WorkloadError for names from which the path does not follow.
    """
    named = [_pair(file) for file in files]
    if not any(named):
        return list(files)
    if not all(named):
        one, other = files[[bool(pair) for pair in named].index(True)], files[named.index(None)]
        raise WorkloadError(f"{one.name} is called after its path (rAsI: acceptor A, initiator I), {other.name} is "
                            "not; call all files so, or none", "traces")
    numbers = {_numbers(ends): place for place, ends in enumerate(paths)}
    found: dict[int, pathlib.Path] = {}
    for file, pair in zip(files, named):
        place = numbers.get(pair)
        if pair is None or place is None:
            some = ", ".join(f"{initiator}->{acceptor}" for initiator, acceptor in paths[:12])
            raise WorkloadError(f"{file.name} is called after a path that this traffic does not have (rAsI: acceptor "
                                f"A, initiator I); its paths are {some}{' ...' * (len(paths) > 12)}", "traces")
        if place in found:
            raise WorkloadError(f"{found[place].name} and {file.name} are called after the same path", "traces")
        found[place] = file
    return [found[place] for place in range(len(paths))]


def _pair(file: pathlib.Path) -> tuple[int, int] | None:
    """(acceptor, initiator) as a name has them; None if it has no such pair. WorkloadError if it has several."""
    pairs = {(int(acceptor), int(initiator)) for acceptor, initiator in _PAIR.findall(file.name)}
    if len(pairs) > 1:
        raise WorkloadError(f"{file.name} is called after {len(pairs)} paths (rAsI: acceptor A, initiator I)", "traces")
    return pairs.pop() if pairs else None


def _numbers(ends: _Ends) -> tuple[int, int] | None:
    """(acceptor, initiator) of a path between hosts that are called by numbers."""
    initiator, acceptor = (_HOST.fullmatch(host) for host in ends)
    return (int(acceptor[1]), int(initiator[1])) if initiator and acceptor else None
