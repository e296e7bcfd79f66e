# SPDX-License-Identifier: GPL-2.0-only
"""What not every kernel has is asked for before a run, with one line that names the kernel and what has it."""
import types

import pytest

from testbed import engines
from testbed.engines._features import FEATURES, features_needed
from testbed.scenario.scenario import Resolved

LINK = {"queue": "pfifo"}


def scenario(ecn=1, queue="pfifo"):
    return types.SimpleNamespace(scenario=Resolved({
        "hosts": {"ecn": ecn}, "network": {"links": [LINK, {"queue": queue}]}}))


def lacks_of(engine, asked):
    """In words."""
    return engine.lacks(asked.scenario.network, asked.scenario.hosts["ecn"])


@pytest.mark.parametrize("asked, features", [
    (scenario(), []), (scenario(ecn=2), []), (scenario(ecn=3), ["accecn"]), (scenario(queue="dualpi2"), ["dualpi2"]),
    (scenario(3, "dualpi2"), ["accecn", "dualpi2"])])
def test_what_a_scenario_needs_of_a_kernel(asked, features):
    assert features_needed(asked.scenario.network, asked.scenario.hosts["ecn"]) == features
    assert set(features) <= set(FEATURES)


@pytest.mark.parametrize("release, lacks", [
    ("6.12.117-testbed", ["accecn", "dualpi2"]), ("6.17.0", ["accecn"]), ("6.18.1", []), ("7.3.4-testbed", []),
    ("", ["accecn", "dualpi2"])])
def test_a_kernel_has_what_its_version_has(monkeypatch, release, lacks):
    engine = engines.load("host")
    monkeypatch.setattr(engine, "kernel_release", lambda: release)
    assert [feature for feature in FEATURES if not engine.has(feature)] == lacks
    assert bool(lacks_of(engine, scenario(ecn=3))) == ("accecn" in lacks) and lacks_of(engine, scenario()) == ""


def test_the_refusal_names_the_kernel_and_what_has_it(monkeypatch):
    engine = engines.load("uml")
    monkeypatch.setattr(type(engine), "has", lambda *_: False)
    monkeypatch.setattr(engine, "kernel_release", lambda: "6.12.117-testbed")
    assert lacks_of(engine, scenario(queue="dualpi2")) == (
        "a queue of kind dualpi2 is not in this kernel, 6.12.117-testbed: Linux has it from 6.17 on, such as "
        "--kernel newest")


def test_the_refusal_is_of_the_field_that_asks_for_it(monkeypatch):
    """So that a user is told file and line."""
    engine = engines.load("uml")
    monkeypatch.setattr(type(engine), "has", lambda *_: False)
    monkeypatch.setattr(engine, "kernel_release", lambda: "6.12.117-testbed")
    for asked, field in ((scenario(ecn=3), "hosts.ecn"), (scenario(queue="dualpi2"), "topology")):
        problem = engine.cannot(asked)
        assert problem.field == field and str(problem) == lacks_of(engine, asked)
    assert engine.cannot(scenario()) is None
