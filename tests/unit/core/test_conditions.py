# SPDX-License-Identifier: GPL-2.0-only
"""Which runs a text of conditions stands for."""
import pytest

from testbed.core.errors import UsageError
from testbed.runs import conditions


def run(identity, **facts):
    return {"id": identity, "scenario": "access-link", "subject": "cubic", "seed": 1, "engine": "uml",
            "kernel": "6.12.117-testbed", "kernel_key": "debian-6.12-6.12.117-1-b89f8e3051c4", "modules": None,
            "kernel_tree": "Debian linux-source-6.12 6.12.117-1", "kernel_spec": None,
            "status": "finished", "verdict": "valid", "virtual_s": 60.0, "wall_s": 9.5,
            "parameters": {}, "point": {}, "experiments": {}, "pinned": None, **facts}


RUNS = [
    run("a", parameters={"load": "85", "quick": True}, experiments={"one": "cubic-seed1", "two": "x"}),
    run("b", subject="bbr", seed=10, parameters={"load": "110"}, pinned="the paper"),
    run("c", kernel="6.1.140-testbed", verdict="suspect", point={"topology.central.queue.limit": "85"}),
    run("d", kernel=None, engine="ns3", scenario="mixed",
        point={"topology.central.queue.limit": "170", "topology.edge.queue.limit": "9"}),
    run("e", subject=None, seed=None, status="damaged", verdict=None, scenario=None, kernel=None, virtual_s=None)]
PATCHED = [
    run("s"), run("p", kernel_key="tree-9e3a-00aa11bb22cc", kernel_tree="/home/me/linux", kernel_spec="../linux"),
    run("q", kernel_key="tree-77aa-33dd44ee55ff", kernel_tree="/home/you/linux", point={"kernel": "you/linux"}),
    run("o", kernel="6.1.140-testbed"), run("n", kernel=None, kernel_key="ns-3.37-00aa11bb22cc", kernel_tree=None)]


@pytest.mark.parametrize("text, ids", [
    ("", "abcde"), ("  ", "abcde"), ("scenario=access-link", "abc"), ("cca=cubic,bbr", "abcd"), ("cca!=cubic", "be"),
    ("cca=cubic scenario=access-link verdict=valid", "a"), ("cca=cub", ""), ("seed=1", "acd"), ("seed=1.0", "acd"),
    ("seed>1", "b"), ("seed>=1", "abcd"), ("seed<10", "acd"), ("virtual_s<=60", "abcd"),
    # as many numbers of a release as are asked about
    ("kernel=6.12", "ab"), ("kernel=6.1", "c"), ("kernel=6", "abc"), ("kernel=6.12.117", "ab"), ("kernel!=6.12", "cde"),
    ("kernel>=6.12", "ab"), ("kernel>6.12", ""), ("kernel>6.12.9", "ab"), ("kernel<6.12", "c"), ("kernel<=6.12", "abc"),
    ("load=85", "a"), ("load>85", "b"), ("load>=85", "ab"), ("quick=yes", "a"), ("quick!=yes", "bcde"),
    ("quick=no", ""),
    ("topology.central.queue.limit=85", "c"), ("central.queue.limit>=85", "cd"), ("edge.queue.limit=9", "d"),
    ("experiment=two", "a"), ("experiment!=two", "bcde"), ("name=cubic-seed1", "a"), ("listed=yes", "a"),
    ("listed=no", "bcde"), ("pinned=yes", "b"), ("pinned=no listed=no engine=ns3", "d"), ("id=a,e", "ae"),
    ("'cca=cubic'", "acd")])
def test_runs_that_meet_conditions(text, ids):
    assert "".join(one["id"] for one in conditions.select(RUNS, conditions.parse(text))) == ids


@pytest.mark.parametrize("text, ids", [
    ("kernel=6.12", "spq"), ("kernel=linux", "pq"), ("kernel=me/linux", "p"), ("kernel=/home/me/linux", "p"),
    ("kernel=../linux", "p"), ("kernel=you/linux", "q"), ("kernel=00aa11bb", "p"),
    ("kernel=tree-77aa-33dd44ee55ff", "q"), ("kernel=b89f8e3051c4", "so"), ("kernel!=linux", "son"),
    ("kernel=linux,6.1", "pqo"), ("kernel_hash=33dd44ee55ff", "q"), ("kernel_tree=linux", "pq"),
    ("kernel=6.12.117-testbed", "spq"), ("'kernel=Debian linux-source-6.12 6.12.117-1'", "so"), ("kernel=7.9", "")])
def test_kernels_of_one_release_are_known_by_tree_and_hash(text, ids):
    assert "".join(one["id"] for one in conditions.select(PATCHED, conditions.parse(text))) == ids


def test_a_tree_is_known_by_whole_parts_of_its_path():
    with pytest.raises(UsageError, match="kernel=e/linux: no run has such a kernel; there are"):
        conditions.select(PATCHED, conditions.parse("kernel=e/linux"))


@pytest.mark.parametrize("text, words", [
    ("kernel=nosuch", r"kernel=nosuch: no run has such a kernel; there are \(release, tree, hash\): "
     "6.12.117-testbed Debian linux-source-6.12 6.12.117-1 b89f8e3051c4; "),
    ("cubic", "'cubic': a condition expected, such as cca=cubic,bbr or kernel>=6.12"),
    ("=cubic", "'=cubic': a condition expected"), ("cca=", "'cca=': a condition expected"),
    ("seed=abc", "'seed=abc': a number expected, not 'abc'"), ("wall_s=1,nan", "a number expected, not 'nan'"),
    ("cca==reno", "'cca==reno': one of = != < <= > >= expected, not =="),
    ("cca=a,,b", "'cca=a,,b': an empty value"), ("seed>1,2", "'seed>1,2': one value expected after >"),
    ("cca='", "No closing quotation"), ("pinned=maybe", "'pinned=maybe': pinned=yes or pinned=no expected"),
    ("kernl>=6.12", "no run has a field kernl; there are: scenario, cca, .* also load, quick, topology.central.queue"),
    ("limit=85", "limit: which of topology.central.queue.limit, topology.edge.queue.limit"),
    ("kernel>=new", "kernel>=new: a release expected, such as 6.12"),
    ("cca>1", "cca>1: only numbers have an order, and kernels; cubic is neither"),
    ("seed>x", "'seed>x': only numbers have an order, and kernels; 'x' is neither"), ("seed>nan", "'nan' is neither"),
    # whether there is something to compare or not
    ("scenario=none kernel=new", "kernel=new: no run has such a kernel"),
    ("verdict=vaild", "'verdict=vaild': verdict=valid or verdict=suspect or verdict=invalid expected"),
    ("status>failed", "status=finished or status=failed or status=damaged expected"),
    ("quick=true", "quick=true: quick=yes or quick=no expected"),
    ("a; rm=1", "'a;': a condition expected")])
def test_what_is_no_condition(text, words):
    with pytest.raises(UsageError, match=words):
        conditions.select(RUNS, conditions.parse(text))


def test_a_sweep_over_a_choice():
    """The experiment has one option, each of its runs another."""
    swept = run("s", parameters={"load": "60"}, point={"load": "110"})
    assert conditions.value_of(swept, "load") == "110" and conditions.varied([swept]) == ["load"]


def test_settings_are_fields_of_their_own():
    given = run("g", parameters={"smoke": True, "set": {"timing.test": "3s"}})
    assert conditions.varied([given]) == ["smoke", "timing.test"]
    assert conditions.value_of(given, "test") == "3s" and conditions.select([given], conditions.parse("test=3s"))
