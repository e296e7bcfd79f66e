# SPDX-License-Identifier: GPL-2.0-only
"""Vector files that are called after paths, and files that are not."""
import itertools
import pathlib
import random

import pytest

from traffic.tmix.names import in_order_of_paths
from traffic.tmix.order import WorkloadError

#: as a dumbbell has them: initiators outside, acceptors inside
PATHS = [(f"n{initiator}", f"n{acceptor}") for initiator in (1, 2, 3) for acceptor in (4, 5, 6)]
UNC = ["r4s1", "r5s1", "r6s1", "r4s2", "r5s2", "r6s2", "r4s3", "r5s3", "r6s3"]       # of these paths


def files(names):
    return sorted(pathlib.Path("traces", name) for name in names)


@pytest.mark.parametrize("form", ["{}", "{}.cvec", "{}.cvec.gz", "unc-{}.txt", "2004_{}_all.gz", "1{}.cvec", "trace{}"])
def test_files_called_after_paths(form):
    found = in_order_of_paths(files(map(form.format, UNC)), PATHS)
    assert [file.name for file in found] == [form.format(name) for name in UNC]
    assert found != files(map(form.format, UNC))        # six of nine have another place by alphabet
    assert sum(a != b for a, b in zip(found, files(map(form.format, UNC)))) == 6


def test_case_leading_zeros_and_order_of_the_paths_do_not_matter():
    names = [f"R0{name[1]}S0{name[3]}" for name in UNC]
    assert [file.name for file in in_order_of_paths(files(names), PATHS)] == names
    shuffled = random.Random(1).sample(range(9), 9)
    found = in_order_of_paths(files(UNC), [PATHS[place] for place in shuffled])
    assert [file.name for file in found] == [UNC[place] for place in shuffled]


def test_both_directions_between_two_hosts():
    assert [file.name for file in in_order_of_paths(files(["r1s10", "r10s1"]), [("n10", "n1"), ("n1", "n10")])] == [
        "r1s10", "r10s1"]


def test_other_names_are_in_their_order():
    names = [f"t{number}.cvec" for number in range(9)]
    assert [file.name for file in in_order_of_paths(files(names), PATHS)] == names
    assert in_order_of_paths([], []) == []


@pytest.mark.parametrize("names, words", [
    ([*UNC[:8], "t8"], r"r4s1 is called after its path .*, t8 is not; call all files so, or none"),
    ([*UNC[:8], "r4s1-new"], "r4s1 and r4s1-new are called after the same path"),
    ([*UNC[:8], "R4S01"], "R4S01 and r4s1 are called after the same path"),
    ([*UNC[:8], "r7s1"], "r7s1 is called after a path that this traffic does not have .*its paths are n1->n4, n1->n5"),
    ([*UNC[:8], "r3s6"], "r3s6 is called after a path that this traffic does not have"),
    ([*UNC[:8], "r6s3-r4s1"], "r6s3-r4s1 is called after 2 paths")])
def test_sets_that_are_ambiguous(names, words):
    with pytest.raises(WorkloadError, match=words) as problem:
        in_order_of_paths(files(names), PATHS)
    assert problem.value.field == "traces" and "\n" not in str(problem.value)


def test_hosts_without_numbers():
    paths = [("alice", "bob"), ("carol", "bob")]
    assert in_order_of_paths(files(["x", "y"]), paths) == files(["x", "y"])
    with pytest.raises(WorkloadError, match="its paths are alice->bob, carol->bob"):
        in_order_of_paths(files(["r2s1", "r1s2"]), paths)


def test_many_paths():
    paths = [(f"n{one}", f"n{other}") for one, other in itertools.product(range(1, 41), range(41, 81))]
    names = [f"r{acceptor[1:]}s{initiator[1:]}" for initiator, acceptor in paths]
    assert [file.name for file in in_order_of_paths(files(names), paths)] == names
    with pytest.raises(WorkloadError, match=r"n1->n52 \.\.\.$"):
        in_order_of_paths(files([*names[1:], "r1s1"]), paths)
