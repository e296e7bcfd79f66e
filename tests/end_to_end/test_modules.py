# SPDX-License-Identifier: GPL-2.0-only
"""A congestion control of one's own: from the C file to the report, and everything that can be wrong with it."""
import json
import re

import pandas as pd
import pytest

from tests.end_to_end import module_sources
from tests.end_to_end.command_line import CommandLine


@pytest.fixture
def module(tmp_path):
    """module(text, name) -> path of a .c file."""
    def write(text, name="tcp_mine"):
        path = tmp_path / f"{name}.c"
        path.write_text(text)
        return str(path)
    return write


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A command line whose results all tests of this file see."""
    return CommandLine(tmp_path_factory.mktemp("shared"))


def run_json(testbed, run):
    return json.loads((testbed.folder / "results/small/runs" / run / "run.json").read_text())


def test_from_c_file_to_report(testbed, module):
    source = module(module_sources.GOOD)
    done = testbed("run", testbed.scenario(), "--cca", f"reno,{source}")
    assert done.returncode == 0, done.stderr
    runs = testbed.folder / "results/small/runs"
    verdict = json.loads((runs / "mine-seed1/verdict.json").read_text())
    assert verdict["verdict"] == "valid", verdict["reasons"]
    assert any("flows report mine" in check["message"] for check in verdict["checks"])
    samples = pd.read_csv(runs / "mine-seed1/raw/tcp_info.csv.gz")
    assert set(samples["cca"]) == {"mine"}
    report = (testbed.folder / "results/small/report/index.html").read_text()
    assert "mine" in report and "reno" in report
    # nothing was written beside the user's file
    assert [p.name for p in testbed.folder.glob("*tcp_mine*")] == ["tcp_mine.c"]
    assert not list(testbed.folder.glob("*.ko"))

    again = testbed("run", testbed.scenario(), "--cca", f"reno,{source}", "--no-report")
    assert "2 runs are already there" in again.stderr
    module(module_sources.GOOD.replace("* 7 / 10", "* 8 / 10"))
    changed = testbed("run", testbed.scenario(), "--cca", f"reno,{source}", "--no-report")
    assert "1 run is already there" in changed.stderr
    # the sources are still known by their hash
    same = testbed("verify", str(runs / "mine-seed1"))
    assert same.returncode == 0 and "identical" in same.stdout, same.stderr


def test_an_edited_copy_of_the_kernels_own_and_labels(testbed, module, tmp_path):
    """A file that is called as one of the kernel's modules, and two modules that register one name."""
    copy = module(module_sources.GOOD.replace('"mine"', '"edited"'), "tcp_cubic")
    (tmp_path / "two").mkdir()
    first, second = module(module_sources.GOOD), tmp_path / "two/tcp_mine.c"
    second.write_text(module_sources.GOOD.replace("* 7 / 10", "* 8 / 10"))
    done = testbed("run", testbed.scenario(), "--cca", f"cubic,{copy},old={first},new={second}")
    assert done.returncode == 0, done.stderr
    summary = pd.read_csv(testbed.folder / "results/small/report/tables/summary.csv")
    assert set(summary["subject"]) == {"cubic", "edited", "old", "new"}
    samples = {name: set(pd.read_csv(testbed.folder / f"results/small/runs/{name}-seed1/raw/tcp_info.csv.gz")["cca"])
               for name in ("cubic", "edited", "old", "new")}
    assert samples == {"cubic": {"cubic"}, "edited": {"edited"}, "old": {"mine"}, "new": {"mine"}}
    same = testbed("verify", str(testbed.folder / "results/small/runs/new-seed1"))
    assert same.returncode == 0 and "identical" in same.stdout, same.stderr
    refused = testbed("run", testbed.scenario(), "--cca", f"{first},{second}", "--no-report")
    assert refused.returncode == 2 and f"{first} and {second} are both called mine" in refused.stderr
    refused = testbed("run", testbed.scenario(), "--cca", f"old={first}+new={second}", "--no-report")
    assert refused.returncode == 2 and "old and new cannot be in one run: both register mine" in refused.stderr


def test_an_edited_copy_that_keeps_its_name(testbed, module):
    """It is there under another name, beside the kernel's own."""
    source = module(module_sources.TAKEN_NAME, "tcp_cubic")
    done = testbed("run", testbed.scenario(), "--cca", f"new={source}+cubic", "--no-report")
    assert done.returncode == 0, done.stderr
    assert "tcp_cubic.c: the kernel has a congestion control cubic of its own: this one is called cubic_2" \
        in done.stderr
    folder, = testbed.folder.glob("results/small/runs/*")
    assert set(pd.read_csv(folder / "raw/tcp_info.csv.gz")["cca"]) == {"cubic_2"}


def test_two_modules_of_one_folder(testbed):
    """Each is loaded for its own runs; a name with capitals is written without them in names of runs."""
    folder = testbed.folder / "both"
    folder.mkdir()
    (folder / "Makefile").write_text("obj-m := tcp_one.o tcp_two.o\n")
    (folder / "tcp_one.c").write_text(module_sources.GOOD.replace('"mine"', '"one"'))
    (folder / "tcp_two.c").write_text(module_sources.GOOD.replace('"mine"', '"Two"'))
    refused = testbed("run", testbed.scenario(), "--cca", str(folder), "--no-report")
    assert refused.returncode == 4 and "registers one, Two: say which" in refused.stderr
    done = testbed("run", testbed.scenario(), "--cca", f"one={folder},two={folder}", "--no-report")
    assert done.returncode == 0, done.stderr
    for name, cca in (("one", "one"), ("two", "Two")):
        run = testbed.folder / f"results/small/runs/{name}-seed1"
        assert set(pd.read_csv(run / "raw/tcp_info.csv.gz")["cca"]) == {cca}
        assert list(json.loads((run / "raw/checks.json").read_text())["congestion_controls"]["parameters"]) == [
            f"tcp_{name}"]


def test_a_folder_and_a_variant_file(testbed, module):
    folder = testbed.folder / "my-cca"
    folder.mkdir()
    parameter = "static int keep = 7;\nmodule_param(keep, int, 0644);\nMODULE_PARM_DESC(keep, \"tenths kept\");\n\n"
    (folder / "tcp_mine.c").write_text(
        module_sources.GOOD.replace("static u32", parameter + "static u32").replace("* 7 / 10", "* keep / 10"))
    (folder / "Makefile").write_text(
        "obj-m := tcp_mine.o\n\nall:\n\t$(MAKE) -C /lib/modules/$(shell uname -r)/build M=$(CURDIR)\n")
    (testbed.folder / "gentle.yaml").write_text("kernel_cca: mine\nmodule: my-cca\nparameters: {keep: 9}\n")
    done = testbed("run", testbed.scenario(), "--cca", f"{folder},{testbed.folder}/gentle.yaml", "--no-report")
    assert done.returncode == 0, done.stderr
    for name, keep in (("mine", "7"), ("gentle", "9")):
        checks = json.loads((testbed.folder / f"results/small/runs/{name}-seed1/raw/checks.json").read_text())
        assert checks["congestion_controls"]["parameters"] == {"tcp_mine": {"keep": keep}}
    (testbed.folder / "gentle.yaml").write_text("kernel_cca: mine\nmodule: my-cca\nparameters: {keeep: 9}\n")
    wrong = testbed("run", testbed.scenario(), "--cca", f"{testbed.folder}/gentle.yaml", "--no-report")
    assert wrong.returncode == 4
    assert "module tcp_mine has no parameter keeep; it has: keep" in wrong.stderr


@pytest.mark.parametrize("text, words", [
    (module_sources.DOES_NOT_COMPILE, ["{path}:14:", "error: ", "mine_sstresh"]),
    (module_sources.WRONG_SYMBOL, ['"tcp_no_such_cong_avoid"', "undefined!", "EXPORT_SYMBOL"]),
    (module_sources.NO_SSTHRESH, ["tcp_mine.ko cannot be loaded: Invalid argument",
                                  "mine does not implement required ops"]),
    (module_sources.REGISTERS_NOTHING, ["tcp_mine.ko loads, but registers no congestion control"]),
    (module_sources.CRASHING_INIT, ["the kernel crashed while tcp_mine.ko was loaded", "in mine_init+0x",
                                    "do_init_module"]),
], ids=["does not compile", "wrong symbol", "no ssthresh", "registers nothing", "crashing init"])
def test_bad_before_any_run(shared, module, text, words):
    """All in one results folder: Reno is run once."""
    path = module(text)
    done = shared("run", shared.scenario(), "--cca", f"{path},reno", "--no-report")
    assert done.returncode == 4, done.stderr
    for word in words:
        assert word.format(path=path) in done.stderr
    assert "Traceback" not in done.stderr
    assert "not run: mine; the others are in" in done.stderr
    assert run_json(shared, "reno-seed1")["status"] == "finished"


@pytest.mark.parametrize("text, name, words", [
    (module_sources.NULL_DEREFERENCE, "nullderef",
     ["nullderef-seed1: the guest kernel crashed: Kernel panic", "(a NULL pointer was followed",
      "in mine_cong_avoid+0x", "[tcp_mine] (tcp_mine.c:{line})", "tcp_ack+0x"]),
    (module_sources.DIVISION_BY_ZERO, "divzero",
     ["divzero-seed1: the guest kernel crashed: Kernel mode signal 8 (an integer was divided by zero", "in mine_pkts_",
      "[tcp_mine] (tcp_mine.c:{line})", "tcp_ack+0x"]),
    (module_sources.SLEEPS, "sleeps",
     ["sleeps-seed1: the guest kernel has a bug at ", "BUG: scheduling while atomic", "(something slept where",
      "in mine_pkts_acked+0x", "[tcp_mine] (tcp_mine.c:{line})"]),
    (module_sources.ENDLESS_LOOP, "endless",
     ["endless-seed1: virtual time stands still at ", "5 s of CPU time without end", "in mine_pkts_acked+0x",
      "tcp_ack+0x"]),
], ids=["NULL dereference in cong_avoid", "division in pkts_acked", "msleep in pkts_acked", "loop in pkts_acked"])
def test_bad_in_the_middle_of_a_run(testbed, module, text, name, words):
    done = testbed.with_limit("testbed.engines._watch", "STALL_CPU_S", 5, "run", testbed.scenario(), "--cca",
                              f"{module(text)},reno")
    assert done.returncode == 4, done.stderr
    line = 1 + next((i for i, code in enumerate(text.splitlines()) if re.search("WRITE_ONCE|000 /|msleep", code)), 0)
    for word in words:
        assert word.format(line=line) in done.stderr
    assert "Traceback" not in done.stderr and "1 of 2 runs failed" in done.stderr
    record = run_json(testbed, f"{name}-seed1")
    assert record["status"] == "failed" and "mine_" in record["error"]
    assert (testbed.folder / f"results/small/runs/{name}-seed1/log.txt").exists()
    # the other one has its results, and the report shows both
    assert run_json(testbed, "reno-seed1")["status"] == "finished"
    report = (testbed.folder / "results/small/report/index.html").read_text()
    assert f"{name}-seed1" in report and "reno-seed1" in report
    testbed.assert_nothing_left()


def test_loading_that_never_ends(module, monkeypatch):
    """Found by the trial load, which does nothing else and is given a minute; here less."""
    import kernel
    from kernel import modules, trial
    monkeypatch.setattr(trial, "_LONGEST_S", 5)
    with pytest.raises(kernel.ModuleError, match="its init function computes without end"):
        modules.build(kernel.ensure(), module(module_sources.GOOD.replace(
            "return tcp_register", "while (!READ_ONCE(mine.flags))\n\t\tbarrier();\n\treturn tcp_register")))
