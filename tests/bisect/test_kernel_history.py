# SPDX-License-Identifier: GPL-2.0-only
"""Faults that were put back into Linux, each in a commit among others: the one that brought it is found."""
import pathlib
import re

import pytest

from tests.bisect import history

HERE = pathlib.Path(__file__).parent


def bisected(testbed, linux, scenario, *words):
    """CompletedProcess of a bisection of the whole history."""
    return testbed("bisect", str(HERE / scenario), "--tree", str(linux), "--good", f"main~{len(history.EDITS)}",
                   "--bad", "main", "--path", "net/ipv4", *words)


@pytest.mark.parametrize("scenario, words, subject", [
    ("requests.yaml", ("--metric", "TCPHystartTrainCwnd:whole_run"), history.HYSTART),
    ("idle.yaml", ("--metric", "queueing_delay_p95"), history.IDLE),
    ("paced.yaml", ("--metric", "DelayedACKs"), history.DELAYED),
    ("drops.yaml", ("--metric", "drop_rate"), history.DCTCP),
    ("drops.yaml", ("--by", "warning", "--seeds", "1"), history.WARNING)],
    ids=["by a counter", "by a metric", "by another counter", "by another metric", "by a warning"])
def test_the_commit_is_found(testbed, linux, scenario, words, subject):
    done = bisected(testbed, linux, scenario, *words)
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"first bad commit: {history.commits(linux)[subject]}\n  {subject}\n" in done.stdout


def test_the_commit_is_found_by_a_packet_script(testbed, linux):
    """Of the last four; the line of the script that fails is said of each that is bad."""
    commits = history.commits(linux)
    done = testbed("bisect", str(HERE / "dctcp-loss.pkt"), "--tree", str(linux), "--good",
                   history.before(linux, history.DELAYED), "--bad", "main", "--path", "net/ipv4")
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"first bad commit: {commits[history.DCTCP]}\n  {history.DCTCP}\n" in done.stdout
    assert re.search(r"dctcp-loss\.pkt:2[56]: ", done.stdout)


def test_a_commit_that_does_not_compile_is_skipped(testbed, linux):
    """It is the middle of the four that are looked at, and thus the first choice."""
    commits = history.commits(linux)
    done = testbed("bisect", str(HERE / "idle.yaml"), "--tree", str(linux), "--good",
                   history.before(linux, history.IDLE), "--bad", commits[history.HYSTART], "--metric",
                   "queueing_delay_p95")
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"\n{commits[history.BROKEN][:12]} skipped: " in done.stdout and "tcp_westwood.c" in done.stdout
    assert f"first bad commit: {commits[history.IDLE]}\n" in done.stdout
