# SPDX-License-Identifier: GPL-2.0-only
"""Criteria of an assessment: their files, what is run of them, and what is wrong with them in one line."""

import pytest

from testbed import cli
from testbed.cli import _series, _suite_pages
from testbed.core import metric_names
from testbed.core.errors import ScenarioError
from testbed.scenario import suites
from tests.unit.arguments import parsed

SUITE = """\
title: Few criteria
criteria: mine
against: [reno, cubic]
thresholds:
  beside.harm: {meets: 0.3, fails: 0.6, why: some harm}
"""
CRITERION = """\
title: Beside others
section: 5.2.1
level: MUST
asks: no harm
pairs: yes
scenario: long-flows
tests: [{name: harm, label: harm, metric: mean_throughput_l4, scope: seat, of: harm, better: higher}]
"""


@pytest.fixture
def written(tmp_path):
    (tmp_path / "mine").mkdir()

    def write(suite=SUITE, criterion=CRITERION):
        (tmp_path / "few.yaml").write_text(suite, encoding="utf-8")
        (tmp_path / "mine/beside.yaml").write_text(criterion, encoding="utf-8")
        return tmp_path / "few.yaml"
    return write


def test_a_pair_runs_in_both_seats(written):
    part, = suites.read(written()).parts
    assert part.subjects(["mine"]) == "mine,reno,cubic,mine+reno,reno+mine,mine+cubic,cubic+mine"
    assert part.subjects(["cubic"]) == "cubic,reno,cubic+reno,reno+cubic"
    test, = part.about().tests
    assert (test.of, test.threshold.meets, test.high_meets) == ("harm", 0.3, False)


def test_a_criterion_may_have_its_own_threshold(written):
    """A new criterion is then one file."""
    nobody_s = SUITE[:SUITE.index("thresholds")]

    def own(meets):
        return CRITERION.replace("better: higher", f"better: higher, threshold: {{meets: {meets}, fails: 0.5, why: a}}")
    part, = suites.read(written(nobody_s, own(0.2))).parts
    test, = part.about().tests
    assert (test.threshold.meets, test.threshold.fails, test.threshold.why) == (0.2, 0.5, "a")
    for suite, meets, message in (
            (nobody_s, 0.7, "beside.yaml:7: tests.1.threshold: meets below fails expected, not 0.7 and 0.5"),
            (SUITE, 0.2, r"few.yaml:5: thresholds.beside.harm: .*beside.yaml has one, too")):
        with pytest.raises(ScenarioError, match=message):
            suites.read(written(suite, own(meets)))


def test_a_test_may_ask_for_every_seed(written):
    part, = suites.read(written(criterion=CRITERION.replace("better: higher", "better: higher, every_seed: yes"))).parts
    assert part.about().tests[0].every_seed
    part, = suites.read(written()).parts
    assert not part.about().tests[0].every_seed


def test_a_suite_may_name_the_candidate_and_the_kernel(capsys, tmp_path, monkeypatch, written):
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path))
    path = written(SUITE + "ccas: [vegas]\nkernel: 6.1\n")
    for words, candidate, kernel in (([], "vegas", "6.1"),
                                     (["--cca", "bbr", "--kernel", "6.12"], "bbr", "6.12")):
        assert cli.main(["suite", "list", str(path), "--quick", *words]) == 0
        line = capsys.readouterr().out.splitlines()[0]
        assert f"--cca {candidate},reno,cubic," in line
        assert line.count("--kernel") == 1 and f"--kernel {kernel} " in line


def test_what_the_kernel_lacks_is_not_run(capsys, tmp_path, monkeypatch, written):
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path))
    words = ["assess", "--list", "--quick", "--criteria", str(written(
        criterion=CRITERION.replace("pairs:", "needs: dualpi2\npairs:")))]
    # as long as no kernel is there, nobody knows
    monkeypatch.setattr("testbed.cli._runs.is_ready", lambda engine, scenarios: False)
    assert cli.main(words) == 0 and "not run" not in capsys.readouterr().out
    monkeypatch.setattr("testbed.cli._runs.is_ready", lambda engine, scenarios: True)
    monkeypatch.setattr("testbed.engines.uml.Engine.has", lambda engine, feature: False)
    monkeypatch.setattr("testbed.engines.uml.Engine.kernel_release", lambda engine: "6.12.1")
    assert cli.main(words) == 0
    line = capsys.readouterr().out.splitlines()[1]
    assert line.endswith("(not run: a queue of kind dualpi2 is not in this kernel, 6.12.1: Linux has it from 6.17 on, "
                         "such as --kernel newest)")
    monkeypatch.setattr("testbed.engines.uml.Engine.has", lambda engine, feature: True)
    assert cli.main(words) == 0 and "not run" not in capsys.readouterr().out
    with pytest.raises(ScenarioError, match="needs: there is no scenario that does"):
        suites.read(written(criterion="title: T\nsection: 5\nasks: a\nneeds: dualpi2\nnot_run: why\n"))


def test_the_list_has_names_of_files_and_seconds(capsys, tmp_path, monkeypatch, written):
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path))
    assert cli.main(["assess", "--list", "--quick", "--criteria", str(written())]) == 0
    _, line, total = capsys.readouterr().out.splitlines()
    section, file, runs, seconds, *title = line.split()
    # seven subjects and five seeds, of which the suite says nothing: the scenario's
    assert (section, file, " ".join(title)) == ("5.2.1", "beside.yaml", "Beside others")
    assert int(runs) % 7 == 0 and int(seconds) > 0 and total.startswith(f"all: {runs} runs, about ")


def test_without_a_kernel_the_list_says_that_runs_are_not_known(capsys, tmp_path, monkeypatch, written):
    """It does not say that there are 0 runs."""
    def plans(words, build=True):
        raise _series.NotReady("the guest kernel is not built yet")
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path))
    monkeypatch.setattr(_series, "plans", plans)
    assert cli.main(["assess", "--list", "--quick", "--criteria", str(written())]) == 0
    _, line, total = capsys.readouterr().out.splitlines()
    assert line.split()[2:4] == ["-", "-"] and total.startswith("all: the guest kernel is not built yet; files in ")


@pytest.mark.parametrize("old, new, said", [
    ("pairs: yes", "pairs: no", "beside.yaml:7: tests.1.of: harm needs pairs: yes"),
    ("mean_throughput_l4", "mean_throughput", "beside.yaml:7: tests.1.metric: no such metric"),
    ("of: harm", "of: pain", "beside.yaml:7: tests.1.of: one of value, ratio, harm, share, beside expected"),
    ("section: 5.2.1\n", "", "section: is missing"),
    ("scenario: long-flows\n", "", "beside.yaml:1: scenario: either scenario or not_run expected"),
    ("name: harm", "name: pain", "few.yaml:4: thresholds: beside.pain of"),
    ("level: MUST", "level: WOULD", "beside.yaml:3: level: one of MUST, SHOULD, MAY expected"),
])
def test_what_is_wrong_with_a_criterion_is_said_with_its_field(written, old, new, said):
    assert old in CRITERION
    with pytest.raises(ScenarioError) as problem:
        suites.read(written(criterion=CRITERION.replace(old, new)))
    assert said in str(problem.value)


@pytest.mark.parametrize("old, new, said", [
    ("meets: 0.3", "meets: 0.7", "few.yaml:5: thresholds.beside.harm: meets below fails expected, not 0.7 and 0.6"),
    ("beside.harm", "beside.pain", "thresholds: beside.harm of"),
    ("against: [reno, cubic]\n", "", "against: criteria and against belong together"),
    ("criteria: mine", "criteria: other", "few.yaml:2: criteria: no file"),
    ("title: Few criteria", "title: Few\nbaseline: reno", "baseline: criteria have `against`"),
    ("  beside.harm", "  other.harm: {meets: 1, fails: 2, why: x}\n  beside.harm",
     "thresholds.other.harm: no such test"),
])
def test_what_is_wrong_with_a_suite_of_criteria_is_said(written, old, new, said):
    assert old in SUITE
    with pytest.raises(ScenarioError) as problem:
        suites.read(written(suite=SUITE.replace(old, new)))
    assert said in str(problem.value)


@pytest.mark.parametrize("words, said", [
    ("", "a congestion control expected, such as `testbed assess cubic --quick`"),
    ("cubic,reno", "one congestion control, which is assessed, expected"),
    ("cubic+reno", "one congestion control, which is assessed, expected"),
    ("nosuch --quick --only 5.1.2", "no congestion control 'nosuch' in this kernel"),
    ("quic --quick", "quic:STACK:CONTROL expected"),
    ("quic:nosuch:cubic --quick", "no QUIC stack 'nosuch'"),
    ("quic:quinn:nosuch --quick", "quinn has no nosuch"),
    ("cubic --only 5.9", "--only 5.9: no such criterion; did you mean"),
    ("cubic --only nosuch", "there are: 5.1.1, 5.1.2, 5.1.3,"),
    ("cubic --criteria iccrg", "--criteria iccrg: it has no criteria"),
    ("cubic --against nosuch/x.c --only 5.1.2", "nosuch/x.c"),
    ("cubic --against cubic --only 5.1.2", "--against cubic: that is the candidate"),
    ("--list nosuch", "no congestion control 'nosuch'"),
    ("bbr --against reno,nosuch", "no congestion control 'nosuch'"),
    ("bbr --quick --only 5.1.2 --cluster nosuch:x", "--cluster nosuch:x: local, local:N, tcp://host:port"),
    ("bbr --quick --only 5.1.2 --executor cluster", "--executor cluster: which one?"),
])
def test_what_cannot_be_assessed_is_said_in_a_line(capsys, tmp_path, monkeypatch, words, said):
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path))
    assert cli.main(["assess", *words.split()]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_all_sections_of_the_rfc_have_a_criterion():
    suite = suites.load("rfc9743")
    sections = {part.section for part in suite.parts}
    assert {"5.1.1", "5.1.2", "5.1.3", "5.1.4", "5.1.5", "5.2.1", "5.2.2", "5.2.3", "5.3.1", "5.3.2", "6.1", "6.2",
            "6.3", "6.4", "7.1", "7.1.1", "7.2", "7.3", "7.4", "7.5", "7.6", "7.7", "7.7.1", "7.8", "7.9"} == sections
    assert all(part.scenario or part.not_run for part in suite.parts)


def test_a_quic_program_is_measured_by_what_it_shares_with_the_kernel(written):
    part, = suites.read(written()).parts
    fitted = part.of_programs("")
    assert [test.metric for test in fitted.about().tests] == ["arrived_rate_l2"]
    assert fitted.selection(True).set == fitted.selection(False).set == {
        "probes.queue.interval": "10 ms", "probes.queue.edge_interval": "10 ms"}
    assert "packets with all headers" in fitted.about().deviations[0][1]
    assert part.about().tests[0].threshold == fitted.about().tests[0].threshold


def test_a_short_version_with_settings_of_its_own_has_the_same_probes(written):
    path = written(criterion=CRITERION + "set: {timing.test: 9 s}\nquick: {set: {timing.test: 3 s}}\n")
    fitted = suites.read(path).parts[0].of_programs("")
    assert [fitted.selection(short).set.get("probes.queue.edge_interval") for short in (True, False)] == ["10 ms"] * 2
    assert fitted.selection(True).set["timing.test"] == "3 s"


@pytest.mark.parametrize("metric, why", [("mean_cwnd_l4", ""), ("mean_throughput_l4", "its traffic is Tmix's")])
def test_what_a_quic_program_cannot_be_tested_for_says_why(written, metric, why):
    part, = suites.read(written(criterion=CRITERION.replace("mean_throughput_l4", metric))).parts
    fitted = part.of_programs(why)
    assert not fitted.scenario and not fitted.tests
    assert fitted.not_run == (why or "mean_cwnd_l4 is not known to be the same for a program")


@pytest.mark.usefixtures("quic_programs")
def test_some_criteria_of_the_rfc_cannot_be_tested_with_a_quic_program(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path))
    assert cli.main(["assess", "--list", "--quick", "quic:quinn:cubic"]) == 0
    listed = {line.split()[1].removesuffix(".yaml"): line for line in capsys.readouterr().out.splitlines()[1:-1]}
    assert {name for name, line in listed.items() if "sends greedy flows only" in line} == {
        "short-flows", "others-short-flows"}
    runs, seconds = map(int, listed["bufferbloat"].split()[2:4])
    assert runs == 15
    assert listed["incremental-deployment"].split()[2] == "0"
    assert "all its runs are those of coexistence" in listed["incremental-deployment"]
    assert cli.main(["assess", "--list", "--quick", "--only", "bufferbloat", "bbr"]) == 0
    of_kernel = capsys.readouterr().out.splitlines()[1].split()
    assert of_kernel[2] == "15" and seconds > 1.5 * int(of_kernel[3])


@pytest.mark.parametrize("name", [part.name for part in suites.load("rfc9743").parts if part.scenario])
def test_every_metric_of_the_criteria_has_a_counterpart_or_is_told(name):
    """What of_programs leaves out is left out on purpose."""
    part = suites.load("rfc9743").part(name)
    left_out = {test.metric for test in part.tests} - {*metric_names.of_any_sender()}
    assert left_out <= {"tcp_goodput", "flow_completion_time_p50", "flow_completion_time_p99", "transfer_time_mean"}


def test_metrics_of_any_sender_are_metrics():
    known = metric_names.of_any_sender()
    assert {*known, *known.values()} <= {*metric_names.units()}
    assert (known["drop_rate"], known["mean_throughput_l4"]) == ("drop_rate", "arrived_rate_l2")


def test_the_folder_of_a_page_has_names_and_no_paths():
    asked = parsed("suite", "run", "rfc9743", "--quick", "--cca", "./a/tcp_mine.c", "--against",
                   "./refs/tcp_b.c, quic:quinn:cubic")
    assert _suite_pages.folder_name(suites.load("rfc9743"), [], asked) == \
        "suite-rfc9743-quick-tcp_mine-against-tcp_b-quic-quinn-cubic"


@pytest.mark.usefixtures("quic_programs")
def test_a_reference_that_is_a_program_changes_the_metrics(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path))
    assert cli.main(["assess", "--list", "--quick", "cubic", "--against", "quic:quinn:cubic"]) == 0
    assert "sends greedy flows only" in capsys.readouterr().out
