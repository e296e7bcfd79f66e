# SPDX-License-Identifier: GPL-2.0-only
"""`testbed run --kernel a,b`: kernels as levels of a factor, in one experiment."""
import json

import pytest

from testbed import cli, engines
from testbed.cli import _kernels
from testbed.core.errors import RunFailed
from testbed.runs import campaign
from tests.unit.core.simple_plans import SMALL, QuickEngine

CHOICE = "choices: {kernel: {default: a, options: {a: {timing.test: 2 s}, b: {timing.test: 3 s}}}}\n"


class Kernel(QuickEngine):
    """The kernel old has no cubic."""
    OPTIONS = engines.declared()["uml"][:1]

    def __init__(self, options):
        super().__init__(None)
        self.options = options

    def problems(self):
        return []

    def congestion_controls(self):
        return ("reno",) if self.options.get("kernel") == "old" else ("reno", "cubic")

    def parameters(self, kernel_cca):
        return {}

    def kernel_key(self):
        return f"key-{self.options.get('kernel')}"

    def kernel_release(self):
        return f"{self.options.get('kernel')}.1-testbed"


def put_in_place_of_uml(monkeypatch):
    """The engine uml is a Kernel."""
    real = engines.load

    def load(name, options=None):
        if name != "uml":
            return real(name, options)
        engine = Kernel(options or {})
        engine.name = name
        return engine
    monkeypatch.setattr(engines, "load", load)


@pytest.fixture
def run(monkeypatch, tmp_path):
    """run(*words) -> exit code; .plans: [(kernel key, names of runs)] in the order in which they were carried out."""
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path / "results"))
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)

    def carry_out(plans, *_):
        call.plans += [(plan.kernel_key, plan.subject, plan.seed, plan.point) for plan in plans]
        return {}

    def call(*words):
        return cli.main(["run", str(path), "--no-report", "--cca", "reno,cubic", "--seeds", "1", *words])
    call.plans, call.results, call.path = [], tmp_path / "results", path
    put_in_place_of_uml(monkeypatch)
    monkeypatch.setattr(campaign, "carry_out", carry_out)
    monkeypatch.setattr("kernel.resolve", lambda spec, report: "7.3" if spec == "newest" else spec)
    return call


def listed(run, name):
    return json.loads((run.results / name / "experiment.json").read_text())


def test_each_kernel_is_a_level_in_one_experiment(run, capsys):
    assert run("--kernel", "6.12, newest,7.3,6.12") == 0
    assert run.plans == [(f"key-{kernel}", cca, 1, {"kernel": kernel})
                         for kernel in ("6.12", "7.3") for cca in ("reno", "cubic")]
    there = listed(run, "small-kernels6.12-7.3")
    assert there["kernels"] == there["axes"]["kernel"] == ["6.12", "7.3"]
    assert [one["name"] for one in there["runs"]] == [
        "reno-kernel6.12-seed1", "cubic-kernel6.12-seed1", "reno-kernel7.3-seed1", "cubic-kernel7.3-seed1"]
    assert there["command"][-2:] == ["--kernel", "6.12,7.3"]
    assert "kernels: 6.12 (6.12.1-testbed), 7.3 (7.3.1-testbed)" in capsys.readouterr().err


def test_runs_are_those_of_the_kernel_by_itself(run):
    assert run("--kernel", "6.12,7.3") == 0 and run("--kernel", "6.12") == 0
    both, one = listed(run, "small-kernels6.12-7.3")["runs"], listed(run, "small-kernel6.12")
    assert [each["id"] for each in one["runs"]] == [each["id"] for each in both[:2]]
    assert "kernels" not in one and one["axes"] == {} and one["kernel_spec"] == "6.12"


def test_several_names_of_one_kernel_are_one_kernel(run):
    assert run("--kernel", "newest,7.3") == 0
    assert listed(run, "small-kernel7.3")["command"][-2:] == ["--kernel", "7.3"]


def test_with_a_sweep_it_is_one_more_axis(run):
    assert run("--kernel", "6.12,7.3", "--sweep", "topology.central.queue.limit=50,100") == 0
    there = listed(run, "small-sweep-limit-kernels6.12-7.3")
    assert there["axes"] == {"topology.central.queue.limit": ["50", "100"], "kernel": ["6.12", "7.3"]}
    assert len(there["runs"]) == 8 and there["runs"][0]["name"] == "reno-limit50-kernel6.12-seed1"


def test_what_one_kernel_lacks_is_told_and_the_others_run(run, capsys):
    assert run("--kernel", "old,7.3") == RunFailed.exit_code
    assert [plan[:2] for plan in run.plans] == [("key-old", "reno"), ("key-7.3", "reno"), ("key-7.3", "cubic")]
    assert "not run: cubic (kernel old)" in capsys.readouterr().err


def test_a_kernel_that_can_run_nothing_keeps_nothing_from_the_others(run, capsys):
    assert run("--kernel", "old,7.3", "--cca", "cubic") == RunFailed.exit_code
    assert [plan[:2] for plan in run.plans] == [("key-7.3", "cubic")]
    assert "kernel old: not run: cubic" in capsys.readouterr().err


@pytest.mark.parametrize("words, says", [
    (("--kernel", "6.12,,7.3"), "--kernel 6.12,,7.3: versions or paths separated by commas expected"),
    (("--kernel", "6.12,7.3", "--engine", "uml,ns3"), "several kernels in several engines"),
    (("--kernel", "6.12,7.3", "--engine", "ns3"), "engine ns3 has no option --kernel")])
def test_what_makes_no_sense_is_one_line(run, capsys, words, says):
    assert run(*words) == 2
    assert says in capsys.readouterr().err and run.plans == []


def test_an_axis_of_that_name_is_not_mixed_up_with_kernels(run, capsys):
    run.path.write_text(SMALL + CHOICE)
    assert run("--sweep", "kernel=a,b", "--kernel", "6.12,7.3") == 2
    assert "the sweep has an axis kernel already" in capsys.readouterr().err
    assert run("--sweep", "kernel=a,b") == 0 and "kernels" not in listed(run, "small-sweep-kernel")


def test_kernels_are_called_by_what_tells_them_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a/linux", "b/linux", "c/other"):
        (tmp_path / name).mkdir(parents=True)
    assert _kernels.names(["6.12", "a/linux", str(tmp_path / "b/linux"), "c/other/"]) == [
        "6.12", "a/linux", "b/linux", "other"]


def test_a_path_with_a_comma_is_one_kernel(run, tmp_path):
    (tmp_path / "linux,mine").mkdir()
    assert run("--kernel", str(tmp_path / "linux,mine")) == 0
    assert {plan[0] for plan in run.plans} == {f"key-{tmp_path / 'linux,mine'}"}
    assert listed(run, "small-kernellinux_mine")["axes"] == {}


def test_names_of_many_kernels_stay_short(run):
    kernels = [f"{'very-long-name-of-a-tree' * 2}{number}" for number in range(8)]
    assert run("--kernel", ",".join(kernels)) == 0
    folder, = run.results.glob("small-kernels*")
    assert len(folder.name) < 30
