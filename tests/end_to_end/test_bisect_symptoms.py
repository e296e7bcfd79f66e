# SPDX-License-Identifier: GPL-2.0-only
"""A history of four commits of a module, in the guest: which of them brought a warning, and which a crash."""
import pytest

from tests.end_to_end.command_line import PROJECT, CommandLine
from tests.end_to_end.module_sources import GOOD
from tests.unit.testbed.test_history import commit, git

CHECK = """
static void mine_check(struct sock *sk)
{
	WARN_ON_ONCE(tcp_snd_cwnd(tcp_sk(sk)) > 12);
}
"""
_OPS = "static struct tcp_congestion_ops mine"
_AVOID = """
static void mine_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
BODY	tcp_reno_cong_avoid(sk, ack, acked);
}
"""


def with_body(body, before=""):
    """The module whose window grows as Reno's, with something before that."""
    return GOOD.replace("= tcp_reno_cong_avoid", "= mine_cong_avoid").replace(
        _OPS, f"{before}{_AVOID.replace('BODY', body)}\n{_OPS}")


WARNS = with_body("\tmine_check(sk);\n", CHECK)
CRASHES = with_body("""\
	mine_check(sk);
	if (tcp_snd_cwnd(tcp_sk(sk)) > 20)
		WRITE_ONCE(*(volatile u32 *)(unsigned long)READ_ONCE(tcp_sk(sk)->undo_marker), acked);
""", CHECK)


@pytest.fixture(scope="module")
def bisect(tmp_path_factory):
    """bisect(*words) -> CompletedProcess; .commits: hashes by their subjects."""
    testbed = CommandLine(tmp_path_factory.mktemp("symptoms"))
    tree = testbed.folder / "tree"
    tree.mkdir()
    git(tree, "init", "-q", "-b", "main")

    def call(*words):
        return testbed("bisect", testbed.scenario(), "--tree", str(tree), "--module", "tcp_mine.c", "--good", "main~3",
                       "--bad", "main", *words)
    call.commits = {subject: commit(tree, subject, **{"tcp_mine.c": source}) for subject, source in (
        ("First version", GOOD), ("Words", f"{GOOD}/* thanks */\n"), ("Check the window", WARNS),
        ("Keep a count", CRASHES))}
    return call


@pytest.mark.parametrize("symptom, culprit", [("warning", "Check the window"), ("crash", "Keep a count")])
def test_the_commit_is_found(bisect, symptom, culprit):
    done = bisect("--by", symptom, "--seeds", "1")
    assert done.returncode == 0, done.stderr
    assert f"first bad commit: {bisect.commits[culprit]}\n  {culprit}\n" in done.stdout
    line = next(line for line in done.stdout.splitlines() if line.startswith(f"{bisect.commits[culprit][:12]} bad: "))
    assert "mine_cong_avoid+" in line


def test_a_symptom_that_nothing_shows(bisect):
    done = bisect("--by", "verdict", "--seeds", "1", "--bad", "main~1")
    assert done.returncode == 1 and "no verdict in 1 run; another scenario" in done.stderr


def test_a_packet_script_says_which_commit(tmp_path):
    """A module that halves its window like Reno, as a script of ours asks for, until its third commit."""
    tree = tmp_path / "tree"
    tree.mkdir()
    git(tree, "init", "-q", "-b", "main")
    assert GOOD.count("* 7 / 10") == 1
    half = GOOD.replace("* 7 / 10", "/ 2")
    commits = [commit(tree, subject, **{"tcp_mine.c": source}) for subject, source in (
        ("First version", half), ("Words", f"{half}/* thanks */\n"), ("Be gentle", GOOD), ("More", f"{GOOD}/**/\n"))]
    done = CommandLine(tmp_path)("bisect", str(PROJECT / "packet-scripts/reno-beta.pkt"), "--tree", str(tree),
                                 "--module", "tcp_mine.c", "--good", "main~3", "--bad", "main")
    assert done.returncode == 0, done.stderr
    assert f"{commits[2][:12]} bad: failure in 1 of 1 runs: " in done.stdout and "reno-beta.pkt:" in done.stdout
    assert f"first bad commit: {commits[2]}\n  Be gentle\n" in done.stdout
