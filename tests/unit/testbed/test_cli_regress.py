# SPDX-License-Identifier: GPL-2.0-only
"""`testbed regress`: which runs it asks for, what it says of them, and how it ends."""
import re
import xml.etree.ElementTree as ET

import pandas as pd
import pytest

from analysis import figures
from testbed import cli
from testbed.core.errors import RunFailed, UsageError
from testbed.packet_scripts import results, runner
from testbed.runs import campaign
from testbed.runs.store import results_dir
from tests.unit.analysis import fixture
from tests.unit.core.simple_plans import SMALL
from tests.unit.testbed.test_cli_kernels import put_in_place_of_uml

SUITE = """\
title: Two scenarios
ccas: [reno, cubic]
seeds: 5
parts:
  - {name: first, title: The first, scenario: small.yaml}
  - {name: second, scenario: small.yaml, set: {timing.test: 3 s}, ccas: [cubic], beside: reno}
"""


@pytest.fixture
def regress(monkeypatch, tmp_path):
    """regress(*words) -> exit code. runs: [(kernel, subject, seed)] that were carried out, each once; packets:
    {(kernel, subject): packets of an interval}, 50 where nothing is said; ends: {the same: invalid, or an error}."""
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path / "results"))
    (tmp_path / "small.yaml").write_text(SMALL)
    (tmp_path / "two.yaml").write_text(SUITE)

    def carry_out(plans, *_):
        failures = {}
        for plan in plans:
            folder = results_dir() / "runs" / plan.id
            key = plan.kernel_key.removeprefix("key-"), plan.subject
            ends = call.ends.get(key, "valid")
            if not folder.exists():
                call.runs.append((*key, plan.seed))
                if ends in ("valid", "invalid"):
                    fixture.write_run(folder, plan.seed, fixture.Shape(
                        test_s=2, packets=(call.packets.get(key, 50), 10), tcp_info_rows=200, noise=0.002),
                        subject=plan.subject, verdict=ends, tmix=False, point=plan.point)
                else:
                    fixture.write_failed_run(folder, ends, plan.seed, plan.subject, plan.point)
            if ends not in ("valid", "invalid"):
                failures[plan.id] = ends
        return failures

    def call(*words):
        return cli.main(["regress", "--suite", str(tmp_path / "two.yaml"), "--kernel", "new", "--yes", *words])
    call.runs, call.packets, call.ends, call.folder = [], {}, {}, tmp_path
    put_in_place_of_uml(monkeypatch)
    monkeypatch.setattr(campaign, "carry_out", carry_out)
    monkeypatch.setattr(figures, "draw_all", lambda *_: ([], []))
    monkeypatch.setattr("kernel.resolve", lambda spec, report: spec)
    return call


def test_two_seeds_with_the_same_bytes_are_enough(regress, capsys):
    assert regress() == 0
    assert sorted(set(regress.runs)) == sorted(
        (kernel, subject, seed) for kernel in ("6.12", "new") for subject in ("reno", "cubic", "cubic+reno")
        for seed in (1, 2)) and len(regress.runs) == 12
    said = capsys.readouterr().out.splitlines()
    assert said[:3] == ["With kernel new, against 6.12, nothing changed: 2 scenarios, the same to the byte.",
                        "first: no change in this scenario, the same to the byte",
                        "second: no change in this scenario, the same to the byte"]
    page = regress.folder / "results/regress-two-6.12-new/index.html"
    assert said[3] == f"page: {page}"
    assert page.read_text().count('<span class="chip same">') == 2


def test_only_what_differs_runs_with_more_seeds(regress, capsys):
    regress.packets["new", "cubic"] = 60
    assert regress("--junit", str(regress.folder / "j.xml")) == 1
    assert {seed for kernel, subject, seed in regress.runs if subject == "cubic"} == {1, 2, 3, 4, 5}
    assert {seed for kernel, subject, seed in regress.runs if subject != "cubic"} == {1, 2}
    said = capsys.readouterr().out
    first, second, *lines = said.splitlines()
    assert re.fullmatch(r"With kernel new, against 6.12, 1 of 2 scenarios changed: \d+ metrics changed "
                        r"\(.*\d+ better\)\.", first)
    assert second.startswith("first: ") and lines[0].startswith("  cubic: ")
    assert "    throughput (bottleneck, right to left) from 60.0 to 72.0 Mbit/s, +12.0 in each of 5 seeds: better" \
        in lines
    assert "  reno: no change in this scenario, the same to the byte (2 seeds)" in lines
    assert "second: no change in this scenario, the same to the byte" in lines
    suite, = ET.parse(regress.folder / "j.xml").getroot()
    cases = {(case.get("classname"), case.get("name")): case for case in suite}
    assert set(cases) == {("regress.first", "reno"), ("regress.first", "cubic"), ("regress.second", "cubic+reno")}
    failed, = (case for case in cases.values() if case.find("failure") is not None)
    assert failed.get("name") == "cubic" and suite.get("failures") == "1" and suite.get("tests") == "3"
    markdown = (regress.folder / "results/regress-two-6.12-new/regress.md").read_text()
    assert markdown.startswith("# new against 6.12\n\n**With kernel new, against 6.12, 1 of 2 scenarios changed")
    table = pd.read_csv(regress.folder / "results/regress-two-6.12-new/tables/changes.csv")
    assert set(table[table["metric"] == "throughput_mean"]["better_or_worse"]) == {"better"}


def test_less_throughput_is_worse(regress, capsys):
    regress.packets["new", "cubic"] = 40
    assert regress("--only", "first", "--cca", "cubic") == 1
    assert re.search(r"throughput .* from 60\.\d* to 48\.\d* Mbit/s, \N{MINUS SIGN}12.*: worse\n",
                     capsys.readouterr().out)


def test_the_same_command_again_runs_nothing(regress):
    regress.packets["new", "cubic"] = 60
    assert regress() == 1
    count = len(regress.runs)
    assert regress() == 1 and len(regress.runs) == count


def test_runs_that_become_invalid_are_worse(regress, capsys):
    regress.ends["new", "reno"] = "invalid"
    assert regress("--only", "first") == 1
    said = capsys.readouterr().out
    assert said.startswith("With kernel new, against 6.12, 1 of 1 scenario changed: 1 other change that is worse.\n")
    assert "reno: 2 of 2 runs invalid, and not with the base: offered load is 57.1 %" in said


def test_a_kernel_that_crashes_is_worse(regress, capsys):
    regress.ends["new", "reno"] = "the guest kernel crashed: BUG: no\n  call"
    assert regress("--only", "first") == 1
    assert "reno: 2 of 2 runs failed, and not with the base: the guest kernel crashed: BUG: no\n" in \
        capsys.readouterr().out


def test_a_base_that_crashes_leaves_nothing_to_compare(regress, capsys):
    regress.ends["6.12", "reno"] = regress.ends["6.12", "cubic"] = "the guest kernel crashed"
    assert regress("--only", "first") == RunFailed.exit_code
    caught = capsys.readouterr()
    assert "nothing is known" in caught.out.splitlines()[0] and "not compared: first" in caught.err


@pytest.mark.parametrize("words, says", [
    (("--only", "third"), "--only third: no such scenario in suite two"),
    (("--only", ","), "--only: names of scenarios expected; there are: first, second"),
    (("--base", "new"), "--kernel and --base are both new"),
    (("--base", "6.1,6.12"), "--base 6.1,6.12: one kernel expected"),
    (("--suite", "iccrg"), "--suite iccrg: it compares congestion controls"),
    (("--suite", "nosuch"), "no suite 'nosuch'"), (("--seeds", "0"), "--seeds"),
    (("--junit", "/nowhere/j.xml"), "--junit /nowhere/j.xml: no such folder")])
def test_what_makes_no_sense_is_one_line(regress, capsys, words, says):
    assert regress(*words) == UsageError.exit_code
    said = capsys.readouterr().err
    assert said.startswith(f"testbed: {says}") and said.count("\n") == 1 and not regress.runs


def test_the_suite_that_comes_with_it(monkeypatch, tmp_path, capsys):
    """All of its parts resolve, in the short form and in full."""
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path))
    for words in ([], ["--quick"]):
        assert cli.main(["suite", "list", "regress", *words]) == 0
    said = capsys.readouterr().out
    assert said.count("bin/testbed run ") == 14 and said.count("--cca cubic+reno,bbr+reno") == 2


@pytest.fixture
def scripts(monkeypatch):
    """scripts[kernel]: outcomes of packet scripts, by kernel."""
    told = {"6.12": [], "new": []}

    class Runner:
        def __init__(self, options, report):
            self._kernel = options["kernel"]

        def run(self, sources, cca):
            assert len(sources) > 20 and cca is None
            return iter(told[self._kernel])
    monkeypatch.setattr(runner, "runner", Runner)
    return told


def outcome(name, problem="", trace=("1", "2"), skipped=""):
    return results.Outcome(f"x/{name}.pkt", (problem,) if problem else (), skipped, trace=trace)


def test_packet_scripts_join(regress, scripts, capsys):
    scripts["6.12"] += [outcome("a"), outcome("b"), outcome("c", "c.pkt:3: no"), outcome("d"),
                        outcome("e", skipped="x")]
    scripts["new"] += [outcome("a"), outcome("b", "b.pkt:7: no packet"), outcome("c"), outcome("d", trace=("1", "3")),
                       outcome("e", skipped="x")]
    assert regress("--only", "first", "--scripts") == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("With kernel new, against 6.12, 1 of 2 scenarios changed: 1 other change that is worse, "
                              "1 other change that is better, 1 other change that is different")
    assert next(line for line in said if line.startswith("packet-scripts: ")) == (
        "packet-scripts: b: passes no more: b.pkt:7: no packet; c: passes now; before: c.pkt:3: no; d: passes with "
        "both, and sends other packets; 2 of 5 packet scripts: no change, the same packets at the same times")


def test_packet_scripts_that_change_nothing(regress, scripts, capsys):
    for kernel in scripts:
        scripts[kernel] += [outcome("a"), outcome("c", "c.pkt:3: no")]
    assert regress("--only", "first", "--scripts") == 0
    said = capsys.readouterr().out
    assert "packet-scripts: 2 of 2 packet scripts: no change, the same packets at the same times\n" in said
