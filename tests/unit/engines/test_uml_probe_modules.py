# SPDX-License-Identifier: GPL-2.0-only
"""Kernel modules that make probes cheaper: built when an engine gets ready, and done without where that fails."""
import types

import pytest

import kernel
import topologies
from kernel import trial
from testbed import engines, probes
from testbed.core.errors import EnvironmentProblem, UsageError
from topologies.links.records import Network


@pytest.fixture
def uml(monkeypatch):
    """An engine whose kernel is there, without compiled code."""
    monkeypatch.setenv("TESTBED_COMPILED", "no")
    monkeypatch.setattr(kernel, "ensure", lambda *_: types.SimpleNamespace(
        key="a-kernel", release="6.12", options=()))
    return engines.load("uml")


def test_a_probe_names_its_module():
    source, = probes.module_sources(["tcp_info", "sojourn", "queue"])
    assert source.name == "queues" and (source / "Kbuild").is_file()
    assert probes.module_sources(["tcp_info", "sojourn", "queue"]) == {source: ["sojourn", "queue"]}
    assert probes.module_sources(["tcp_info"]) == {}


def test_modules_are_built_once_for_a_kernel(uml, monkeypatch, tmp_path):
    built, trials = {}, []

    def build(target, source, report, load):
        built[kernel.digest_of(source)] = types.SimpleNamespace(file=tmp_path / "queues.ko")
        load(tmp_path / "queues.ko")
    monkeypatch.setattr(kernel, "build_module_for", build)
    monkeypatch.setattr(kernel, "find_module", lambda key, sha256: built.get(sha256))
    monkeypatch.setattr(trial, "load", lambda *_, for_congestion_control: trials.append(for_congestion_control) or [])
    uml.prepare(print)
    assert uml.probe_modules(["queue", "sojourn"]) == [tmp_path / "queues.ko"] and uml.probe_modules(["ss"]) == []
    uml.prepare(print)
    assert trials == [False]


def test_a_kernel_for_which_a_module_does_not_build_goes_without(uml, monkeypatch):
    def build(*_):
        raise kernel.ModuleError("queues does not build:\nline two")
    monkeypatch.setattr(kernel, "build_module_for", build)
    monkeypatch.setattr(kernel, "find_module", lambda *_: None)
    said = []
    uml.prepare(said.append)
    assert said == ["queue, sojourn: without the module queues, which makes them slower and may move instants by less "
                    "than 1 us: queues does not build:\nline two"]
    assert uml.probe_modules(["sojourn"]) == []


def test_a_kernel_with_radios_gets_the_modules_that_make_them(uml, monkeypatch, tmp_path):
    built = {}

    def build(_target, source, _report, _load):
        built[kernel.digest_of(source)] = types.SimpleNamespace(file=tmp_path / f"{source.name}.ko")
    monkeypatch.setattr(kernel, "ensure", lambda *_: types.SimpleNamespace(
        key="a-kernel", release="6.12", options=("wireless",)))
    monkeypatch.setattr(kernel, "build_module_for", build)
    monkeypatch.setattr(kernel, "find_module", lambda key, sha256: built.get(sha256))
    uml.prepare(print)
    for kind, name in (("mesh", "air_wlan"), ("low-rate", "air_lowpan")):
        assert uml.radio_modules(topologies.resolve({"kind": kind, "nodes": 2})) == {name: tmp_path / f"{name}.ko"}
    assert uml.radio_modules(Network({"links": []})) == {}
    built.clear()
    with pytest.raises(EnvironmentProblem, match="air_wlan is not built for this kernel yet"):
        uml.radio_modules(topologies.resolve({"kind": "mesh", "nodes": 2}))


def test_runs_without_radios_do_not_depend_on_what_makes_them(uml, monkeypatch):
    wired = topologies.resolve({"kind": "dumbbell", "central": {"rate_bps": 10**7}, "edge": {"rate_bps": 10**8},
                                "left_delays_us": [0], "right_delays_us": [0]})
    mesh = topologies.resolve({"kind": "mesh", "nodes": 2})
    before = uml.code_for(wired), uml.code_for(mesh)
    assert before[0] == uml.code_sha256() != before[1]
    monkeypatch.setattr(type(uml), "radio_sources", lambda _: {"air_wlan": "another"})
    assert uml.code_for(wired) == before[0] and uml.code_for(mesh) != before[1]


def test_other_engines_have_no_radios():
    with pytest.raises(UsageError, match="engine host has no radios"):
        engines.load("host").radio_modules(topologies.resolve({"kind": "mesh", "nodes": 2}))
