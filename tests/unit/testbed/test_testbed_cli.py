# SPDX-License-Identifier: GPL-2.0-only
"""The command line, as far as it needs no guest."""
import argparse
import json
import pathlib
import signal

import pytest

import kernel
from testbed import cli, engines
from testbed.cli import _experiment, _runs, run
from testbed.core import errors
from testbed.core.files import hash_raw
from testbed.runs import campaign, experiment
from testbed.runs.engine import Problem
from testbed.scenario import scenario
from tests.unit.core.simple_plans import QuickEngine, plan as make_plan

SMALL = """\
name: small
topology:
  {kind: dumbbell, central: {rate: 20 Mbit/s}, edge: {rate: 100 Mbit/s}, left_delays: [0 ms], right_delays: [2 ms]}
traffic: {kind: greedy}
timing: {test: 2 s}
defaults: {ccas: [reno, cubic], seeds: 2}
choices: {load: {default: 60, options: {60: {traffic.flows: 1}, 85: {traffic.flows: 2}}}}
quick: {timing.test: 1 s}
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """Nothing outside of the test's folder is touched, and signal handlers stay as they are."""
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path / "cache"))
    (tmp_path / "small.yaml").write_text(SMALL)
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(
    "text, seeds",
    [
        ("1", [1]),
        ("3", [1, 2, 3]),
        ("4,7", [4, 7]),
        ("7,4", [7, 4]),
        ("4,", [4]),
        (" 4 , 5 ", [4, 5]),
        ("4,4,4", [4]),
        ("99999999999,", [99999999999]),
    ],
)
def test_seeds(text, seeds):
    assert _runs.seeds(text) == seeds


@pytest.mark.parametrize(
    "text", ["0", "-1", "x", "1.5", ",", "", "1,x", "0,1", "1,-2", str(2**63) + ",", "99999999999", "1-3"]
)
def test_refused_seeds(text):
    with pytest.raises(errors.UsageError, match="--seeds"):
        _runs.seeds(text)


def parse(*words):
    parser = argparse.ArgumentParser()
    run.add_arguments(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--cca", "reno,bbr"],
        ["--sweep", "load=60,85", "--sweep", "a.b=1..2/1"],
        ["--choose", "load=85", "--choose", "colour=red"],
        ["--load", "85", "--quick"],
        ["--smoke", "--cca", "libra"],
        ["--seeds", "4,7", "--kernel", "/src/my linux"],
        ["--slowdown", "--cca", "reno"],
        ["--kernel-option", "ipv6", "--kernel-option", "tun"],
        ["--precision", "2.5%", "--precision-metrics", "goodput,drops:x", "--most-seeds", "12"],
        ["--precision", "5%", "--precision-of", "median"],
        ["--set", "traffic.load=70 %", "--set", "hosts.ecn=1", "--probe", "tcp_probe", "--engine", "host"],
    ],
)
def test_the_command_noted_in_the_experiment_gives_the_same_run_again(words):
    arguments = parse("small", *words, "--jobs", "3", "--again")
    typed = _experiment.command(arguments, arguments.engine, arguments.probe, ["kernel", "hz", "kernel_options"])
    assert typed[:2] == ["bin/testbed", "run"]
    again = vars(parse(*typed[2:]))
    assert again == {**vars(arguments), "jobs": None, "again": False}


def test_jobs_are_a_number_from_one(capsys):
    assert parse("small", "--jobs", "2").jobs == 2
    for text in ("0", "-1", "x", "1.5"):
        with pytest.raises(SystemExit):
            parse("small", "--jobs", text)
    assert "a number from 1 to 99999 expected" in capsys.readouterr().err


class FakeEngine(QuickEngine):
    name = "uml"
    trouble: list = []

    def __init__(self, options):
        super().__init__(pathlib.Path("/dev/null"))
        self.options = options

    def problems(self):
        return self.trouble

    def prepare(self, report):
        report("ready")

    def environment(self):
        return {"kernel_release": "6.12.0-testbed"}

    def congestion_controls(self):
        return ("bbr", "cubic", "reno")


@pytest.fixture
def carried_out(monkeypatch):
    """What commands have carried out: [(plans, jobs at a time, again, keep work)]; `failures`: what comes of it."""

    class Calls(list):
        failures: dict = {}

    calls = Calls()

    def carry_out(plans, executor, store, again, keep_work):
        calls.append((plans, executor._most, again, keep_work))
        return calls.failures

    monkeypatch.setattr(engines, "load", lambda name, options=None: FakeEngine(options))
    monkeypatch.setattr(campaign, "carry_out", carry_out)
    return calls


def listed(tmp_path, name):
    return json.loads((tmp_path / "results" / name / "experiment.json").read_text())


@pytest.mark.parametrize("known, code", [
    (None, 0), (frozenset({"tcp_probe", "tcp_retransmit_skb"}), 2), (frozenset({"tcp_retransmit"}), 0)])
def test_an_event_that_the_kernel_does_not_have_is_refused_before_the_runs(tmp_path, carried_out, monkeypatch, capsys,
                                                                           known, code):
    monkeypatch.setattr(FakeEngine, "trace_events", lambda self: known)
    words = ["run", str(tmp_path / "small.yaml"), "--no-report", "--trace", "tcp:tcp_retransmit: len > 3"]
    assert cli.main(words) == code and bool(carried_out) == (code == 0)
    said = "probes.trace.events:  has no event tcp_retransmit; did you mean tcp_retransmit_skb?"
    assert (said in capsys.readouterr().err) == (code == 2)


def test_run_with_defaults(tmp_path, carried_out):
    assert cli.main(["run", str(tmp_path / "small.yaml"), "--no-report"]) == 0
    ((plans, _, again, keep_work),) = carried_out
    assert [(plan.subject, plan.seed) for plan in plans] == [("reno", 1), ("cubic", 1), ("reno", 2), ("cubic", 2)]
    assert (again, keep_work) == (False, False)
    record = listed(tmp_path, "small-load60")
    assert [run["name"] for run in record["runs"]] == ["reno-seed1", "cubic-seed1", "reno-seed2", "cubic-seed2"]
    assert record["command"] == ["bin/testbed", "run", f"{tmp_path}/small.yaml"] and record["parameters"] == {
        "load": "60"
    }


def test_run_with_options(tmp_path, carried_out):
    words = [
        "--cca",
        "bbr",
        "--seeds",
        "5,",
        "--load",
        "85",
        "--quick",
        "--jobs",
        "1",
        "--probe",
        "queue",
        "--set",
        "hosts.ecn=1",
        "--again",
        "--keep-work",
        "--kernel",
        "6.12",
    ]
    assert cli.main(["run", str(tmp_path / "small.yaml"), "--no-report", *words]) == 0
    ((plans, jobs, again, keep_work),) = carried_out
    (plan,) = plans
    assert (plan.subject, plan.seed, jobs, again, keep_work) == ("bbr", 5, 1, True, True)
    assert plan.scenario["traffic"][0]["flows"] == 2 and plan.timing.test_us == 10**6
    assert plan.scenario["hosts"]["ecn"] == 1 and list(plan.scenario["probes"]) == ["queue"]
    (record,) = (tmp_path / "results").glob("small-load85-quick-ecn1-kernel6.12/experiment.json")
    assert json.loads(record.read_text())["kernel_spec"] == "6.12"


def test_a_sweep_is_all_its_points(tmp_path, carried_out):
    words = [
        "--sweep",
        "topology.central.queue.limit=10..30/10",
        "--sweep",
        "load=60,85",
        "--cca",
        "reno",
        "--seeds",
        "1",
    ]
    assert cli.main(["run", str(tmp_path / "small.yaml"), "--no-report", *words]) == 0
    ((plans, *_),) = carried_out
    assert len({plan.id for plan in plans}) == 6 and plans[0].point == {
        "topology.central.queue.limit": "10",
        "load": "60",
    }
    record = listed(tmp_path, "small-sweep-limit-load")
    assert record["axes"] == {"topology.central.queue.limit": ["10", "20", "30"], "load": ["60", "85"]}
    assert record["runs"][-1]["name"] == "reno-limit30-load85-seed1"


def test_equal_runs_are_one_whatever_they_are_called(tmp_path, carried_out):
    for words in (["--load", "85"], ["--set", "traffic.flows=2"]):
        assert (
            cli.main(["run", str(tmp_path / "small.yaml"), "--no-report", "--cca", "reno", "--seeds", "1", *words])
            == 0
        )
    (one,), (other,) = (plans for plans, *_ in carried_out)
    assert one.id == other.id and one.labels["parameters"] == {"load": "85"}
    assert other.labels["parameters"] == {"set": {"traffic.flows": "2"}}  # not filed as load 60


def test_failed_runs(tmp_path, carried_out, capsys):
    carried_out.failures = {"reno-seed1": "the guest kernel crashed", "reno-seed2": "the guest kernel crashed"}
    assert cli.main(["run", str(tmp_path / "small.yaml"), "--no-report"]) == 4
    shown = capsys.readouterr().err
    assert "testbed: reno-seed1, reno-seed2: the guest kernel crashed" in shown and "2 of 4 runs failed" in shown


def test_a_report_that_cannot_be_made_hides_no_failed_run(tmp_path, carried_out, capsys):
    carried_out.failures = {"reno-seed1": "No space left on device"}
    assert cli.main(["run", str(tmp_path / "small.yaml"), "--cca", "reno", "--seeds", "1"]) == 4
    shown = capsys.readouterr().err
    assert "none of its 1 runs is there" in shown and "1 of 1 runs failed" in shown


def test_what_is_missing_here(tmp_path, carried_out, monkeypatch, capsys):
    monkeypatch.setattr(FakeEngine, "trouble", [Problem("gcc is missing", "apt-get install gcc")])
    assert cli.main(["run", str(tmp_path / "small.yaml")]) == 3 and not carried_out
    assert capsys.readouterr().err == "testbed: gcc is missing (apt-get install gcc); see `testbed doctor`\n"
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    "words, code, message",
    [
        (["run", "nosuch"], 2, "no scenario 'nosuch'; there are: access-link"),
        (
            ["run", "SMALL", "--cca", "nosuch"],
            2,
            "no congestion control 'nosuch' in this kernel; there are: bbr, bbr-ietf, bic, ",
        ),
        (["run", "SMALL", "--cca", "a b"], 2, "is not a name"),
        (["run", "SMALL", "--seeds", "0"], 2, "--seeds 0"),
        (["run", "SMALL", "--load", "61"], 2, "has load 60, 85"),
        (["run", "SMALL", "--set", "x"], 2, "key=value expected"),
        (["run", "SMALL", "--probe", "nosuch"], 2, "no such probe"),
        (["report", "nosuch"], 2, "no experiment 'nosuch'"),
        (["verify", "nosuch"], 2, "nosuch: not a run (a folder with a plan.json"),
        (["tmix", "info", "nosuch.cvec"], 2, "no such file"),
        (["tmix", "synth", "/nonexistent/x", "--duration", "0"], 2, "--duration 0: a number of seconds"),
        (["tmix", "synth", "/nonexistent/x", "--duration", "1"], 1, "No such file or directory"),
        (["kernel", "--kernel", "/nonexistent"], 2, "neither a version"),
    ],
)
def test_errors_are_one_line_and_a_code(tmp_path, carried_out, capsys, words, code, message):
    assert cli.main([str(tmp_path / "small.yaml") if word == "SMALL" else word for word in words]) == code
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("testbed: ") and message in error
    assert not carried_out


def test_a_page_of_another_command_is_no_report(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path))
    (tmp_path / "page").mkdir()
    (tmp_path / "page/index.html").write_text("")
    assert cli.main(["report", "page"]) == 2
    assert "page: neither an experiment nor a scorecard; the command that made its page" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [["nosuch"], ["run"], ["run", "x", "--nosuch"],
     ["tmix"], ["tmix", "shuffle", "a", "b"], ["verify", "x", "--engine", "ns3"]],
)
def test_usage_errors_of_the_parser(words, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 2 and "usage: testbed" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--help"], ["--version"], *([name, "--help"] for name in cli.command_names())])
def test_help(words, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 0 and "testbed" in capsys.readouterr().out


@pytest.mark.parametrize(
    "problem, code",
    [
        (KeyboardInterrupt(), 130),
        (errors.RunFailed("x"), 4),
        (errors.NotReproducible("x"), 5),
        (errors.EnvironmentProblem("x"), 3),
        (errors.TestbedError("x"), 1),
        (errors.ScenarioError("x"), 2),
        (kernel.KernelError("x"), 3),
    ],
)
def test_exit_codes(monkeypatch, capsys, problem, code):
    def fail(_name):
        raise problem

    monkeypatch.setattr(experiment, "find", fail)
    assert cli.main(["report", "x"]) == code
    assert capsys.readouterr().err.count("\n") == 1


def test_sigterm_is_an_interruption(monkeypatch, capsys):
    monkeypatch.setattr(experiment, "find", lambda _name: signal.raise_signal(signal.SIGTERM))
    assert cli.main(["report", "x"]) == 143
    assert capsys.readouterr().err == "testbed: ended by SIGTERM\n"


def test_list(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(kernel, "find", lambda *_: None)
    assert cli.main(["list", "scenarios", "ccas", "topologies", "traffic", "probes", "runs"]) == 0
    shown = capsys.readouterr().out
    for word in (*scenario.names(), "dumbbell", "tmix", "greedy", "sojourn", "not built yet", "none"):
        assert word in shown


@pytest.fixture
def finished_run(tmp_path):
    run_dir = tmp_path / "results/runs" / make_plan().id
    (run_dir / "raw").mkdir(parents=True)
    (run_dir / "raw" / "a.json").write_text("{}")
    make_plan().write(run_dir)
    files, total = hash_raw(run_dir)
    (run_dir / "run.json").write_text(
        json.dumps({"schema": 2, "status": "finished", "raw_files_sha256": files, "raw_sha256": total})
    )
    (run_dir / "environment.json").write_text('{"packages": {"iproute2": "6.1"}}')
    return run_dir


def test_verify_refuses_what_did_not_finish_and_notices_changed_files(finished_run, capsys):
    (finished_run / "raw" / "a.json").write_text("{ }")
    assert cli.main(["verify", finished_run.name]) == 5
    assert "raw files are not as the run left them: a.json" in capsys.readouterr().err
    (finished_run / "run.json").write_text('{"schema": 2, "status": "failed"}')
    assert cli.main(["verify", str(finished_run)]) == 2 and "did not finish" in capsys.readouterr().err


@pytest.mark.parametrize(
    "repeated, code, words",
    [
        ("{}", 0, "identical: 1 raw files"),
        (
            "{ }",
            5,
            "different data in a.json; what differs besides: the testbed's code that runs inside (was code-1, is ",
        ),
    ],
)
def test_verify_says_what_differs_when_bytes_do(finished_run, monkeypatch, capsys, repeated, code, words):
    monkeypatch.setattr(engines, "load", lambda name, options=None: FakeEngine(options))

    def carry_out(plans, executor, store, indexed):
        with store.claim(plans[0].id) as folder:
            (folder / "raw").mkdir()
            (folder / "raw" / "a.json").write_text(repeated)
            (folder / "environment.json").write_text('{"packages": {"iproute2": "6.15"}}')
            store.seal(folder, plans[0].id, {"schema": 2, "status": "finished"})
        return {}

    monkeypatch.setattr(campaign, "carry_out", carry_out)
    assert cli.main(["verify", str(finished_run)]) == code
    out, err = capsys.readouterr()
    assert words in out + err and "note: iproute2 (was 6.1, is 6.15)" in out
    assert sorted(path.name for path in (finished_run.parents[1]).iterdir()) == ["runs"]
