# SPDX-License-Identifier: GPL-2.0-only
"""Traffic programs as processes: which are one, how they are started, what they say, how they fail."""
import pathlib

import pytest

from testbed.guest.programs import ProgramFailed, Programs, processes
from tests.unit.testbed.no_network import NoNetwork
from traffic.workload.records import Program

#: serves nodes; says of each what is in the descriptor it was given, and what its orders are
_PROGRAM = """
import json, os, sys
words = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
if "fail" in words:
    sys.exit("flow 2, sender on n2: refused")
if len(words) == 1:
    print("done", json.dumps({"orders": words[0]}))
else:
    print("done", json.dumps({node: {"orders": orders, "there": os.read(int(descriptor), 100).decode()}
                              for node, descriptor, orders in zip(words[::3], words[1::3], words[2::3])}))
"""


def programs_of(*threads, component="greedy"):
    """A program for each node n1, n2 ... with so many threads."""
    return [Program({"node": f"n{number}", "module": "served", "arguments": [f"{component}{number}"], "threads": count,
                     "component": component}) for number, count in enumerate(threads, 1)]


def nodes_of(made):
    return [[program["node"] for program in process] for process in made]


@pytest.mark.parametrize("threads, sizes", [
    ([1], [1]), (2 * [1], [2]), (17 * [0], 17 * [1]), (128 * [1], [128]), (130 * [1], [128, 2]),
    (40 * [3], [40]), (40 * [5], [25, 15]), ([200, *16 * [1]], [1, 16]), (17 * [None], 17 * [1])])
def test_programs_of_few_threads_are_one_process(threads, sizes):
    """With 128 threads at most; not those that have none."""
    programs = programs_of(*threads)
    made = processes(programs)
    assert [len(process) for process in made] == sizes
    assert [program for process in made for program in process] == programs


def test_programs_of_other_components_stay_apart():
    """Those of one component that cannot be together do, too; a process comes where its first program does."""
    first, second = programs_of(*3 * [1]), programs_of(*2 * [1], component="other")
    alone, = programs_of(0)
    made = processes([alone, first[0], second[0], alone, *first[1:], *second[1:]])
    assert nodes_of(made) == [["n1"], ["n1", "n2", "n3"], ["n1", "n2"], ["n1"]]


def test_two_programs_of_a_node_are_no_process():
    """Of which account is whose, the node tells."""
    senders, receivers = programs_of(*10 * [1]), programs_of(*10 * [1])
    made = processes([*senders, *receivers])
    assert nodes_of(made) == 2 * [[f"n{number}" for number in range(1, 11)]]


@pytest.fixture
def start(tmp_path):
    """Function: lists of programs -> these, started with t0."""
    (tmp_path / "served.py").write_text(_PROGRAM)
    made = []

    def of(*groups, network=NoNetwork()):
        made.append(Programs(network, groups, str(tmp_path), str(tmp_path)))
        made[-1].wait_until_ready()
        made[-1].start(5)
        return made[-1]
    yield of
    for one in made:
        one.kill()


def test_a_process_of_several_nodes_has_their_namespaces_and_an_account_of_each(start):
    network = NoNetwork()
    open_before = len(list(pathlib.Path("/proc/self/fd").iterdir()))
    one, two, three = programs_of(1, 1, 1)
    running = start([one, two], [three], network=network)
    # standard input, standard output and the log of each: no namespace is kept
    assert len(list(pathlib.Path("/proc/self/fd").iterdir())) == open_before + 2 * 3
    assert running.finish(30) == [{"node": "n1", "orders": "greedy1", "there": "n1"},
                                  {"node": "n2", "orders": "greedy2", "there": "n2"},
                                  {"node": "n3", "orders": "greedy3"}]
    assert network.entered == ["n1", "n3"]


@pytest.mark.parametrize("others, where", [(0, "n1"), (2, "n1 and 2 other nodes")])
def test_a_failure_is_one_line_with_its_own_words(start, others, where):
    group = programs_of(*(1 + others) * [1])
    group[0] = group[0].changed(arguments=["fail"])
    running = start(group)
    with pytest.raises(ProgramFailed) as problem:
        running.finish(30)
    assert str(problem.value) == f"served on {where} ended with status 1: flow 2, sender on n2: refused"
