# SPDX-License-Identifier: GPL-2.0-only
"""A kernel tree's own tests: how they are compiled, chosen and judged. A toy tree and a toy guest, no kernel."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import threading
import types

import pytest

from kernel import build, guest, selftests
from kernel.source import KernelError

#: what a tree's Makefiles do, in short
MAKEFILE = """\
headers:
\tmkdir -p $(O)/usr/include
"""
TESTS = """\
install:
\tmkdir -p $(INSTALL_PATH)/$(TARGETS)
\tcp $(TARGETS)/*.sh $(TARGETS)/settings $(INSTALL_PATH)/$(TARGETS)/
\tfor one in first.sh second.sh gone.sh; do echo $(TARGETS):$$one >> $(INSTALL_PATH)/kselftest-list.txt; done
\t@echo "tool.c:3: fatal error: libmnl.h: No such file or directory"
\t@echo "tool.c:3: fatal error: libmnl.h: No such file or directory"
"""


@pytest.fixture
def tree(tmp_path, monkeypatch):
    folder = tmp_path / "linux"
    tests = folder / "tools/testing/selftests/net/toy"
    tests.mkdir(parents=True)
    (folder / "Makefile").write_text(MAKEFILE)
    (tests.parents[1] / "Makefile").write_text(TESTS)
    (tests / "Makefile").write_text("")
    (tests / "config").write_text("CONFIG_VETH=m\n")
    (tests / "settings").write_text("timeout=300\n")
    for name in ("first.sh", "second.sh"):
        (tests / name).write_text("#!/bin/sh\n")
        (tests / name).chmod(0o644)
    kernels = tmp_path / "cache/kernels/toy"
    kernels.mkdir(parents=True)
    asked = []

    def ensure(spec, report, options=()):
        asked.append(list(options))
        return types.SimpleNamespace(source_dir=folder, source="the toy", program=kernels / "linux", key="toy",
                                     build_dir=kernels / "build")
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(build, "ensure", ensure)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    return types.SimpleNamespace(folder=folder, tests=tests, asked=asked)


def prepare(name="net/toy"):
    return selftests.prepare("6.12", name, lambda text: None, ["bpf"])


def test_a_collection_is_installed_once_with_the_kernel_that_it_asks_for(tree):
    found = prepare()
    assert found.tests == ("first.sh", "second.sh") and found.longest_s == 300
    assert found.not_compiled == ("tool.c:3: fatal error: libmnl.h: No such file or directory",)
    (usual, (name, config)) = tree.asked
    assert usual == ["bpf"] and name == "bpf" and pathlib.Path(config).read_text() == \
        "CONFIG_VETH=m\n\nCONFIG_IP_ROUTE_MULTIPATH=y\n"
    (tree.tests / "third.sh").write_text("")
    assert prepare() == found and not (found.installed / "net/toy/third.sh").exists(), "installed again"
    (tree.tests / "config").write_text("CONFIG_TUN=m\n")
    prepare()
    assert tree.asked[-1][1] != config


def test_without_settings_a_test_has_as_long_as_its_own_runner_gives_it(tree):
    (tree.tests / "settings").write_text("# nothing\n")
    assert prepare().longest_s == 45


@pytest.mark.parametrize("name, said", [
    ("../../etc", "a folder of tools/testing/selftests expected"), ("", "a folder of"), ("net/ toy", "a folder of"),
    ("net/other", "net/other: the toy has no such tests; of the network it has net/toy$")])
def test_collections_that_are_none(tree, name, said):
    with pytest.raises(KernelError, match=said):
        prepare(name)


def test_what_cannot_be_compiled_is_told(tree):
    (tree.folder / "Makefile").write_text("headers:\n\tfalse\n")
    with pytest.raises(KernelError, match="headers of the kernel cannot be compiled; see .*make.log"):
        prepare()
    (tree.folder / "Makefile").write_text(MAKEFILE)
    (tree.tests.parents[1] / "Makefile").write_text("install:\n\ttrue\n")
    with pytest.raises(KernelError, match="none of its tests could be compiled"):
        prepare()


def test_without_rsync(tree, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(KernelError, match="apt-get install rsync"):
        prepare()


def test_tests_are_chosen_by_patterns(tree):
    found = prepare()
    assert selftests.choose(found, []) == ["first.sh", "second.sh"] == selftests.choose(found, ["s*", "first.sh"])
    assert selftests.choose(found, ["s*"]) == ["second.sh"]
    with pytest.raises(KernelError, match="net/toy has no test thrid.sh; it has first.sh, second.sh"):
        selftests.choose(found, ["first.sh", "thrid.sh"])


def test_a_script_that_the_tree_does_not_have_is_refused_before_the_kernel_is_built_for_it(tree):
    with pytest.raises(selftests.NoSuchTest, match="net/toy has no test thrid.sh; its scripts are first.sh, second.sh"):
        selftests.prepare("6.12", "net/toy", lambda text: None, (), ["first.sh", "thrid.sh"])
    assert tree.asked == [[]]                   # only the usual kernel, for the source
    assert selftests.prepare("6.12", "net/toy", lambda text: None, (), ["f*.sh", "tool"]).tests


@pytest.fixture
def judged(tree, monkeypatch):
    """judged(log, result) -> what becomes of a guest that leaves these."""
    def run(log, said=None, output="1..1\nok 1\n", built_in=None):
        if built_in is not None:
            build_dir = build.ensure("6.12", print).build_dir
            build_dir.mkdir()
            (build_dir / "modules.builtin.modinfo").write_text(built_in)

        def briefly(program, folder, init, scratch, timeout_s, memory_mb, seed, stop):
            run.words, run.built_in = init, (folder / "built-in").read_text()
            assert os.access(scratch / "tests/net/toy/first.sh", os.X_OK) and (folder / "init.py").exists()
            (scratch / "output.txt").write_text(output)
            if said is not None:
                (scratch / "result.json").write_text(json.dumps(said))
            return log
        monkeypatch.setattr(guest, "run_briefly", briefly)
        return selftests.run(prepare(), "first.sh")
    return run


def test_one_that_passes(judged):
    found = judged("[    0.1] TCP: ok\n", {"exit_code": 0, "virtual_s": 3.25})
    assert found.passed and not found.skipped and found.virtual_s == 3.25 and found.output == "1..1\nok 1\n"
    assert judged.words == ["init.py", "net/toy", "first.sh", "300.0"]


def test_the_guest_knows_what_is_built_in(judged):
    """For its modprobe, which finds nothing else."""
    judged("", {"exit_code": 0, "virtual_s": 1},
           built_in="tcp_vegas.parm=beta:upper bound\0tcp_vegas.license=GPL\0sch_red.license=GPL\0")
    assert judged.built_in == "sch_red\ntcp_vegas\n"


@pytest.mark.parametrize("words, code", [
    (["sch_red"], 0), (["-q", "tcp-vegas"], 0), (["nosuch"], 1), (["-n", "nosuch", "sch_red"], 1),
    (["-r", "nosuch"], 0)])
def test_modprobe(tmp_path, words, code):
    script = re.search(r'_MODPROBE = """(.*?)"""', selftests._INIT.read_text(), re.S)[1]
    (tmp_path / "modprobe").write_text(script.replace("$BUILT_IN", str(tmp_path / "built-in")))
    (tmp_path / "built-in").write_text("sch_red\ntcp_vegas\n")
    done = subprocess.run(["sh", tmp_path / "modprobe", *words], capture_output=True, text=True)
    assert done.returncode == code and ("nosuch" in done.stderr) == bool(code)


@pytest.mark.parametrize("log, said, passed, skipped, trouble", [
    ("", {"exit_code": 1, "virtual_s": 1}, False, False, "^$"),
    ("", {"exit_code": 4, "virtual_s": 1}, False, True, "^$"),
    ("", {"exit_code": None, "virtual_s": 300}, False, False, "not over after 300 s of virtual time"),
    (None, None, False, False, "stopped after 3600 s of wall time"),
    ("no room", None, False, False, "the guest ended early: no room"),
    ("[ 1.5] Kernel panic - not syncing: Fatal\n", None, False, False, "Kernel panic - not syncing: Fatal"),
    ("[ 2.5] WARNING: CPU: 0 PID: 0 at net/x.c:3 f+0x1/0x2\n" * 2, {"exit_code": 0, "virtual_s": 1}, False, False,
     r"^WARNING: CPU: 0 PID: 0 at net/x.c:3 f\+0x1/0x2$"),
    ("[ 2.5] WARNING: CPU: 0 at x.c:3\n", {"exit_code": 4, "virtual_s": 1}, False, False, "^WARNING"),
    ("", {"exit_code": 0}, False, False, "the guest ended early")])
def test_verdicts(judged, log, said, passed, skipped, trouble):
    found = judged(log, said)
    assert (found.passed, found.skipped) == (passed, skipped)
    assert re.search(trouble, found.trouble)


def test_a_guest_is_stopped_from_another_thread(tmp_path, monkeypatch):
    monkeypatch.setattr(guest, "command", lambda *_, **__: ["sleep", "60"])
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    assert guest.run_briefly(tmp_path, tmp_path, [], tmp_path, 60, stop=stop) is None
    monkeypatch.setattr(guest, "command", lambda *_, **__: ["echo", "done"])
    assert guest.run_briefly(tmp_path, tmp_path, [], tmp_path, 60, stop=threading.Event()) == "done\n"
    monkeypatch.setattr(guest, "command", lambda *_, **__: ["sleep", "60"])
    assert guest.run_briefly(tmp_path, tmp_path, [], tmp_path, 0.1) is None
