# SPDX-License-Identifier: GPL-2.0-only
"""Kernel options by name: what they add to the configuration, and which kernel that is. Toy fragments, no kernel."""
import json
import re

import pytest

from kernel import build, configuration, patching, pruning, source
from kernel.source import KernelError
from testbed import engines
from testbed.core.fields import FieldError
from tests.unit.kernel.toy_patch import add_patch


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A configuration and options of the test's own."""
    folder = tmp_path / "kernel"
    (folder / "fragments").mkdir(parents=True)
    add_patch(folder / "patches", "0001-needed.patch")
    (folder / "uml.config").write_text("CONFIG_NET=y\n# CONFIG_TUN is not set\n")
    for name, text in (("tun", "CONFIG_TUN=y\n"), ("ipv6", "CONFIG_IPV6=y\n"), ("mptcp", "CONFIG_MPTCP=y\n"),
                       ("ipv6+mptcp", "CONFIG_MPTCP_IPV6=y\n")):
        (folder / "fragments" / f"{name}.config").write_text(text)
    monkeypatch.setattr(patching, "FOLDER", folder / "patches")
    monkeypatch.setattr(configuration, "CONFIG", folder / "uml.config")
    monkeypatch.setattr(configuration, "FRAGMENTS", folder / "fragments")
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path / "cache"))
    return folder


def test_options_are_files(here):
    assert configuration.option_names() == ["ipv6", "mptcp", "stock", "tun"]
    assert configuration.ordered(["tun", "ipv6", "tun"]) == ("ipv6", "tun")
    for name in ("ipv4", "ipv6+mptcp", "../uml", ""):
        with pytest.raises(KernelError, match="^no kernel option '.*'; there are: ipv6, mptcp, stock, tun$"):
            configuration.ordered(["tun", name])


def test_an_option_brings_what_it_needs():
    """What a kernel that checks itself looks at, the patches for speed leave out."""
    assert configuration.ordered(["debug"]) == configuration.ordered(["stock", "debug"]) == ("debug", "stock")
    assert configuration.ordered(["stock"]) == ("stock",)
    config = configuration.text(["debug"]).splitlines()
    assert {"CONFIG_SLUB_DEBUG=y", "CONFIG_PROVE_LOCKING=y", "CONFIG_DEBUG_KMEMLEAK=y"} <= set(config)


def test_what_options_need_together_is_added_for_both_only(here):
    assert configuration.text() == "CONFIG_NET=y\n# CONFIG_TUN is not set\n"
    assert configuration.text(["mptcp"]).endswith("not set\nCONFIG_MPTCP=y\n")
    assert set(configuration.fragments(["tun", "mptcp", "ipv6"])) == {
        "CONFIG_IPV6=y\n", "CONFIG_MPTCP=y\n", "CONFIG_MPTCP_IPV6=y\n", "CONFIG_TUN=y\n"}


def test_a_file_of_settings_is_taken_as_far_as_a_kernel_can(here, tmp_path):
    """So are those of a tree's own tests."""
    path = tmp_path / "some.config"
    path.write_text("CONFIG_VETH=m\nCONFIG_TUN=y\n# a comment\nCONFIG_NET=m\nCONFIG_KVM=m\n")
    name = str(path)
    assert configuration.fragments([name]) == [
        "CONFIG_VETH=y\nCONFIG_TUN=y\n# a comment\nCONFIG_NET=y\nCONFIG_KVM=y\n"]
    said = []
    (tmp_path / ".config").write_text("CONFIG_NET=y\nCONFIG_VETH=y\n# CONFIG_TUN is not set\n")
    configuration.check(tmp_path / ".config", [name], said.append)
    assert said == ["this kernel has no CONFIG_TUN, CONFIG_KVM: built without"]
    (tmp_path / ".config").write_text("CONFIG_VETH=y\n# CONFIG_NET is not set\n")
    with pytest.raises(KernelError, match="refuses CONFIG_NET=y"):
        configuration.check(tmp_path / ".config", [name], said.append)
    with pytest.raises(KernelError, match="refuses CONFIG_NET=y, CONFIG_TUN=y"):
        configuration.check(tmp_path / ".config", [name, "tun"], said.append)
    keys = {build.build_dir_of("tree-1", None, 1000, options) for options in ((), (name,))}
    path.write_text("CONFIG_VETH=y\n")
    assert len(keys) == 2 and build.build_dir_of("tree-1", None, 1000, [name]) not in keys
    with pytest.raises(KernelError, match="no kernel option"):
        configuration.ordered([str(tmp_path / "other.config")])


def test_a_file_that_has_a_setting_of_all_kernels_otherwise(here, tmp_path):
    (here / "uml.config").write_text("CONFIG_HZ=1000\nCONFIG_NET=y\n")
    (tmp_path / "some.config").write_text("CONFIG_NET=n\n")
    (tmp_path / ".config").write_text("CONFIG_HZ=1000\n# CONFIG_NET is not set\n")
    said = []
    configuration.check(tmp_path / ".config", [str(tmp_path / "some.config")], said.append)
    assert len(said) == 1


def test_each_combination_is_a_kernel_of_its_own(here):
    keys = [build.build_dir_of("tree-1", None, 1000, options)
            for options in ((), ("ipv6",), ("tun",), ("ipv6", "tun"), ("ipv6", "mptcp"))]
    assert len(set(keys)) == len(keys)
    assert build.build_dir_of("tree-1", None) == keys[0]
    assert build.build_dir_of("tree-1", None, options=("tun", "ipv6", "tun")) == keys[3], "in whatever order"
    (here / "fragments" / "ipv6.config").write_text("CONFIG_IPV6=y\nCONFIG_IPV6_SIT=y\n")
    assert build.build_dir_of("tree-1", None) == keys[0]
    assert build.build_dir_of("tree-1", None, 1000, ["tun"]) == keys[2]
    assert build.build_dir_of("tree-1", None, 1000, ["ipv6"]) not in keys


def test_a_stock_kernel_has_the_same_configuration_and_other_patches(here):
    assert configuration.text(["stock"]) == configuration.text() and configuration.lacking("", ["stock"]) == []
    keys = [build.build_dir_of("tree-1", None, 1000, options) for options in ((), ("stock",), ("ipv6", "stock"))]
    assert keys[0] == keys[1], "there is no patch to be left out"
    add_patch(here / "patches", "speed/0001-fast.patch")
    assert build.build_dir_of("tree-1", None) not in keys
    assert [build.build_dir_of("tree-1", None, options=found) for found in (("stock",), ("ipv6", "stock"))] == keys[1:]


def test_a_kernel_without_an_option_that_was_asked_for_is_refused(here, tmp_path):
    config, said = tmp_path / ".config", []
    config.write_text("CONFIG_NET=y\nCONFIG_IPV6=y\n# CONFIG_MPTCP is not set\n")
    configuration.check(config, ["ipv6"], said.append)
    with pytest.raises(KernelError, match="^this kernel refuses CONFIG_MPTCP=y$"):
        configuration.check(config, ["mptcp"], said.append)
    # of uml.config what a kernel has never heard of is left out, of what was asked for by name nothing is
    with pytest.raises(KernelError, match="^this kernel refuses CONFIG_TUN=y$"):
        configuration.check(config, ["tun"], said.append)
    assert said == []


def test_what_the_configuration_of_a_running_kernel_lacks(here):
    config = "CONFIG_NET=y\nCONFIG_TUN=m\n# CONFIG_IPV6 is not set\n"
    assert configuration.lacking(config, ["tun", "ipv6"]) == ["ipv6"]
    assert configuration.lacking(config, ["tun"]) == []


def test_a_build_says_its_options_and_is_pruned_by_them(here, tmp_path):
    tree = tmp_path / "linux"
    tree.mkdir()
    (tree / "Kbuild").write_text("")
    identity = source.identify(str(tree))[1]
    folder = build.build_dir(str(tree), identity, 1000, ["tun"])
    folder.mkdir(parents=True)
    (folder / "linux").write_text("#!/bin/sh\n")
    (folder / "linux").chmod(0o755)
    facts = {"release": "6.99", "congestion_controls": ["reno"], "config_sha256": "ab", "source_dir": str(tree),
             "features": [], "options": ["tun"]}
    (folder / "testbed.json").write_text(json.dumps(facts))
    assert build.find(str(tree)) is None and build.find(str(tree), options=["ipv6"]) is None
    assert build.find(str(tree), options=["tun"]).options == ("tun",)
    pruning.prune(report=lambda text: None)
    assert folder.is_dir()
    (here / "fragments" / "tun.config").unlink()
    pruning.prune(report=lambda text: None)
    assert not folder.exists(), "there is no such option any more"


def test_the_options_that_there_are_say_what_they_are():
    names = configuration.option_names()
    assert {"bpf", "ipv6", "mptcp", "netfilter", "stock", "tun", "tunnels"} <= set(names)
    for path in configuration.FRAGMENTS.iterdir():
        assert path.suffix == ".config" and set(path.stem.split("+")) <= set(names), path.name
        first, *lines = path.read_text().splitlines()
        assert first == "# SPDX-License-Identifier: GPL-2.0-only"
        assert "+" in path.stem or lines[0].startswith("# ")
        assert all(re.fullmatch(r"# .*|CONFIG_\w+=y", line) for line in lines), path.name


def test_an_engine_gets_the_options_of_the_command_and_of_the_scenarios():
    options = {"kernel_options": ["tun"]}
    engine = engines.load("uml", options)
    engine.require([])
    assert engine.options == options
    engine.require(["ipv6"])
    engine.require(["ipv6"])
    assert engine.options["kernel_options"] == ["ipv6", "tun"] and options == {"kernel_options": ["tun"]}
    for name in ("ns2", "ns3"):
        engines.load(name).require([])
        with pytest.raises(FieldError, match=f"^engine {name} has no kernel that could have ipv6, tun$"):
            engines.load(name).require(["ipv6", "tun"])


@pytest.mark.parametrize("asked, refused", [
    ("", "{}:6: topology.ip: engine ns2 has no IPv6"),
    ("kernel: {options: ipv6}", "{}:8: kernel.options: engine ns2 has no kernel that could have ipv6")])
def test_a_simulator_refuses_the_network_and_what_the_file_asks_for(tmp_path, monkeypatch, capsys, asked, refused):
    from testbed import cli
    from testbed.engines import ns2
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(ns2.Engine, "problems", lambda self: [])
    monkeypatch.setattr(ns2.Engine, "prepare", lambda self, report: None)
    monkeypatch.setattr(ns2.Engine, "kernel_key", lambda self: "ns2")
    path = tmp_path / "six.yaml"
    path.write_text(f"""name: six
title: Six
source: none
timing: {{warmup: 1 s, test: 1 s}}
traffic: {{kind: greedy, tool: sockets}}
topology: {{ip: 6, kind: dumbbell, central: {{rate: 20 Mbit/s}}, edge: {{rate: 100 Mbit/s}}, left_delays: [0 ms],
           right_delays: [1 ms]}}
{asked}
""")
    assert cli.main(["run", str(path), "--engine", "ns2", "--cca", "reno"]) == 2
    assert refused.format(path) in capsys.readouterr().err


def test_the_running_kernel_has_to_have_them(monkeypatch, tmp_path):
    from testbed.engines.host import needs
    monkeypatch.setattr(needs, "_CONFIG", str(tmp_path / "config.gz"))
    import gzip
    with gzip.open(tmp_path / "config.gz", "wt") as file:
        file.write("CONFIG_TUN=m\n")
    engines.load("host").require(["tun"])
    with pytest.raises(FieldError, match=r"^engine host takes the running kernel, which has no mptcp"):
        engines.load("host").require(["mptcp", "tun"])
