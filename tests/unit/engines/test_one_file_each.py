# SPDX-License-Identifier: GPL-2.0-only
"""An engine without a kernel, and one more of everything else, each added as one file to a copy of the checkout."""
import json
import os
import pathlib
import shutil
import subprocess

import pytest

from testbed import PROJECT_DIR, engines
from testbed.core.errors import RunFailed, UsageError
from testbed.runs import campaign
from testbed.scenario import ccas
from tests.unit.engines import toy_engine

HEADER = "# SPDX-License-Identifier: GPL-2.0-only\n"
TOPOLOGY = '''"""Two Ys: two hosts at either end of one link."""
import dataclasses

from topologies.base import EmulatedTopo
from topologies.links.link import BothWays, both_ways


@dataclasses.dataclass(frozen=True)
class YSection:
    """central: the link between the routers; access: those of the hosts."""
    central: BothWays = both_ways()
    access: BothWays = both_ways()


class YShape(EmulatedTopo):
    """n1 and n2 on the left, n3 and n4 on the right."""
    Section = YSection

    def build(self, section):
        routers = [self.router("r1", "left"), self.router("r2", "right")]
        self.link(*routers, section.central.left_to_right, section.central.right_to_left, bottleneck=True,
                  a_is_left=True)
        for number, side in ((1, "left"), (2, "left"), (3, "right"), (4, "right")):
            self.link(self.host(f"n{number}", side), routers[side == "right"], section.access.left_to_right,
                      section.access.right_to_left)
        self.path("n1", "n3")
        self.path("n2", "n4")
'''
TRAFFIC = '''"""Flows that send for a while, then rest."""
import dataclasses

from testbed.core import fields
from traffic.workload import routes
from traffic.workload.components import Flow, Prepared


@dataclasses.dataclass(frozen=True)
class Section:
    """on, off: how long a flow sends and rests."""
    on_us: int = fields.time(least=1)
    off_us: int = fields.time(least=1)


def validate(section, component, network, timing):
    pass


def flows(section, component, context):
    route, = routes.find(context.network, ())
    return [Flow(**dataclasses.asdict(route), start_us=start, stop_us=min(start + section.on_us, component.stop_us))
            for start in range(component.start_us, component.stop_us, section.on_us + section.off_us)]


def prepare(section, component, flows, context):
    return Prepared([], {"bursts": len(flows)})


def collect(component, workload, context, raw_dir):
    return {}
'''
PROBE = '''"""Nothing at all, every now and then."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Options:
    """There is nothing to set."""
'''
CHECK = '''from testbed.checks import Finding


def check(evidence):
    yield Finding("ok", f"{len(evidence.flows)} bursts")
'''
METRIC = '''from analysis.figures import Figure
from analysis.metrics import Metric, Shown

UNITS = {"bursts": "1"}
SHOWN = [Shown("run", "bursts", "number of bursts", 10)]
NOT_COMPARED = {"bursts"}
ORDER = 1


def compute(run):
    return [Metric("bursts", "all", "1", len(run.flows))]


def draw(experiment, folder):
    (folder / "bursts.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (folder / "bursts.csv").write_text("bursts")
    return [Figure("bursts", "Bursts", "How many.")]
'''
EXECUTOR = '''"""One run after the other, in this process."""
from testbed.runs.executor import ExecutorBase
from testbed.runs.run import execute


class Executor(ExecutorBase):
    def __init__(self, engine, store, jobs_at_a_time):
        self.engine, self.store = engine, store

    def run(self, jobs, listener):
        with self.store.shared_folder() as shared_dir:
            for number, job in enumerate(jobs):
                listener.started(number)
                listener.ended(number, execute(job, self.engine, self.store, shared_dir, 0, lambda phase, t_us: None))
'''
SCENARIO = '''name: h
title: The H
topology: {kind: y-shape, central: {rate: 10 Mbit/s, delay: 10 ms, queue: {limit: 50}}, access: {rate: 100 Mbit/s}}
traffic: {kind: now-and-then, on: 1 s, off: 1 s}
timing: {warmup: 1 s, test: 5 s}
probes: {queue: {interval: 100 ms}}
defaults: {ccas: [reno], seeds: 1}
'''
ADDED = {"testbed/engines/toy.py": (pathlib.Path(__file__).parent / "toy_engine.py").read_text(),
         "topologies/y_shape.py": HEADER + TOPOLOGY, "traffic/now_and_then.py": HEADER + TRAFFIC,
         "testbed/probes/nothing.py": HEADER + PROBE, "testbed/checks/bursts.py": HEADER + CHECK,
         "analysis/metrics/bursts.py": HEADER + METRIC,
         "testbed/executors/here.py": HEADER + EXECUTOR, "scenarios/h.yaml": SCENARIO}
CODE = ("analysis", "bin", "ccas", "kernel", "kernel-modules", "scenarios", "testbed", "topologies", "traffic")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """testbed(word...) in a copy of the checkout that has one more of everything."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in CODE:
        shutil.copytree(PROJECT_DIR / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(PROJECT_DIR / "packages.txt", folder / "packages.txt")
    for name, text in ADDED.items():
        assert not (folder / name).exists()
        (folder / name).write_text(text)

    def testbed(*words):
        environment = {**os.environ, "TESTBED_RESULTS": str(folder / "results"), "COLUMNS": "200",
                       "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run([folder / "bin/testbed", *words], env=environment, capture_output=True, text=True,
                              timeout=300)
    testbed.folder = folder
    return testbed


@pytest.fixture(scope="module")
def run_dir(checkout):
    done = checkout("run", "h", "--engine", "toy", "--executor", "here")
    assert done.returncode == 0, done.stderr
    return next((checkout.folder / "results/h-toy/runs").iterdir()).resolve()


def test_a_run_uses_them_all(checkout, run_dir):
    verdict = json.loads((run_dir / "verdict.json").read_text())
    assert verdict["verdict"] == "valid" and verdict["errors"] == [], verdict
    levels = {(check["check"], check["level"]) for check in verdict["checks"]}
    assert {("bursts", "ok"), ("sampling", "ok"), ("minimum", "ok"), ("settings", "not applicable"),
            ("conservation", "not applicable"), ("idle_network", "not applicable")} <= levels
    metrics = (run_dir / "metrics.csv").read_text()
    assert "bursts,all,1,3\n" in metrics and "throughput_mean,r1_to_r2,Mbit/s,10\n" in metrics
    page = (checkout.folder / "results/h-toy/report/index.html").read_text()
    assert "How many." in page and "toy" in page and "<th>number of bursts" in page
    plan = json.loads((run_dir / "plan.json").read_text())
    assert (plan["engine"], plan["kernel_key"]) == ("toy", "toy-1")


def test_commands_know_it(checkout, run_dir):
    listed = json.loads(checkout("list", "engines", "topologies", "traffic", "probes", "ccas", "--engine", "toy",
                                 "--json").stdout)
    for kind, name in (("engines", "toy"), ("topologies", "y-shape"), ("traffic", "now-and-then"),
                       ("probes", "nothing")):
        assert name in {next(iter(row.values())) for row in listed[kind]}
    states = {row["name"]: row["here"] for row in listed["ccas"]}
    assert states["reno"] == "ready" and states["cubic"] == "not in this engine"
    assert "cannot set net.ipv4.tcp_sack" in states["newreno"] and "no modules" in states["libra"]
    helped = checkout("run", "--help").stdout
    assert "--gears N" in helped and "--no-oil" in helped
    assert "engine uml has no option --no-oil" in checkout("run", "h", "--no-oil").stderr
    assert "engine toy: ready (simulated time)" in checkout("doctor", "--engine", "toy").stdout
    verified = checkout("verify", str(run_dir))
    assert verified.returncode == 0 and "identical: 4 raw files" in verified.stdout, verified.stderr


def test_an_edited_engine_makes_another_run(checkout, run_dir):
    """The code of an engine is a part of what a run is made from; that of other engines is not."""
    engine = checkout.folder / "testbed/engines/toy.py"
    (checkout.folder / "testbed/engines/other.py").write_text(engine.read_text())
    done = checkout("run", "h", "--engine", "toy", "--no-report")
    assert "1 run is already there" in done.stderr, done.stderr
    engine.write_text(engine.read_text() + "# edited\n")
    assert checkout("run", "h", "--engine", "toy", "--no-report").returncode == 0
    assert len(list((checkout.folder / "results/runs").glob("*/plan.json"))) == 2


@pytest.fixture
def engine():
    made = toy_engine.Engine({})
    made.name = "toy"
    return made


@pytest.mark.parametrize("name, message", [
    ("cubic", "engine toy has no congestion control 'cubic'; it has: reno"),
    ("newreno", "engine toy cannot set net.ipv4.tcp_sack, .* which newreno needs"),
    ("libra", "engine toy loads no modules")])
def test_congestion_controls_that_it_does_not_have(engine, name, message):
    with pytest.raises((UsageError, RunFailed), match=message):
        ccas.make_ready(*ccas.parse(name), engine, print)


def test_probes_and_options_that_it_does_not_have(engine):
    campaign.check_probes(["queue"], engine)
    with pytest.raises(UsageError, match="--probe nothing: engine toy has only queue"):
        campaign.check_probes(["nothing"], engine)
    with pytest.raises(UsageError, match="engine uml has no option --gpu"):
        engines.load("uml", {"gpu": 1})


def test_options_are_declared_without_importing_an_engine():
    for name, options in engines.declared().items():
        assert options == engines.kind(name).OPTIONS


@pytest.mark.parametrize("declared", ['("gpu",)', 'Option("gpu", NAME, "help")', '(Option("gpu", "--gpu"),)'])
def test_options_that_cannot_be_read(tmp_path, declared):
    path = tmp_path / "gpu.py"
    path.write_text(f"class Engine:\n    OPTIONS = {declared}\n")
    with pytest.raises(UsageError, match="gpu.py, line 2: OPTIONS: a tuple of Option"):
        engines._declared(path)


def test_an_option_as_it_is_typed_again():
    kernel, hz, more, confine = engines.declared()["uml"]
    assert kernel.words("6.1") == ["--kernel", "6.1"] and hz.words(250) == ["--hz", "250"]
    assert more.words(["stock", "bpf", "stock"]) == ["--kernel-option", "bpf", "--kernel-option", "stock"]
    assert confine.words(False) == ["--no-confine"]


def test_nothing_else_knows_what_the_default_engine_is():
    """Only the default's name, in one place, and the engine itself."""
    named = []
    for folder in ("analysis", "testbed", "topologies", "traffic", "benchmarks", "bin"):
        for path in (PROJECT_DIR / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts and "uml" not in path.parts:
                named += [str(path.relative_to(PROJECT_DIR)) for line in path.read_text(errors="replace").splitlines()
                          if "uml" in line.lower() and 'DEFAULT_ENGINE = "uml"' not in line]
    assert named == []
