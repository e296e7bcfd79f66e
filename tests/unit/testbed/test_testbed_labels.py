# SPDX-License-Identifier: GPL-2.0-only
"""Entries of --cca that have one name: told apart, given a label, or refused; none is dropped."""
import types

import pytest

from kernel import trial
from testbed.cli import suite
from testbed.core.errors import RunFailed, UsageError
from testbed.runs import campaign
from testbed.scenario import ccas
from tests.unit.arguments import parsed
from tests.unit.testbed.module_engine import ModuleEngine, module

SOURCE = '.name = "{}"\n'


class Engine(ModuleEngine):
    """Builds modules at once: each registers what its source says in quotes."""

    def build_module(self, source, report):
        with open(source, encoding="utf-8") as file:
            text = file.read()
        if '"' not in text:
            raise RunFailed(f"{source} does not build")
        return module(source.rpartition("/")[2].removesuffix(".c"), text, (text.split('"')[1],))


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Modules and variant files in two folders; the tests are beside them."""
    monkeypatch.chdir(tmp_path)
    for beta, folder, registers in ((1, "one", "first"), (2, "two", "second"), (3, "three", "first")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tcp_same.c").write_text(SOURCE.format(registers) + folder)
        (tmp_path / folder / "v.yaml").write_text(f"kernel_cca: cubic\nparameters: {{beta: {beta}}}\n")
    (tmp_path / "two/tcp_cubic.c").write_text(SOURCE.format("edited"))
    (tmp_path / "two/tcp_bad.c").write_text("")
    (tmp_path / "one/tcp_bad.c").write_text("")
    (tmp_path / "two/tcp_other.c").write_text(SOURCE.format("first"))
    (tmp_path / "reno.yaml").write_text("kernel_cca: reno\nsysctls: {net.ipv4.tcp_sack: 0}\n")
    return tmp_path


def ready(text):
    return campaign.make_ready(ccas.parse(text), Engine(), print)


def names(text):
    return [subject.name for subject in ready(text).subjects]


@pytest.mark.parametrize("text, wanted", [
    ("one/tcp_same.c,two/tcp_same.c", ["first", "second"]),
    ("cubic,two/tcp_cubic.c", ["cubic", "edited"]), ("two/tcp_cubic.c,cubic", ["edited", "cubic"]),
    ("reno,new=./reno.yaml", ["reno", "new"]), ("a=one/v.yaml,b=two/v.yaml,v=three/v.yaml", ["a", "b", "v"]),
    ("one/tcp_same.c,new=three/tcp_same.c", ["first", "new"]), ("old=reno,reno", ["old", "reno"]),
    ("cubic, cubic ,cubic", ["cubic"]), ("new=reno,new=reno", ["new"]),
    ("new=one/tcp_same.c+cubic,one/tcp_same.c+cubic", ["new+cubic", "first+cubic"]),
    ("a=cubic+b=cubic", ["a+b"])])
def test_told_apart(files, text, wanted):
    assert names(text) == wanted


@pytest.mark.parametrize("text, both, name", [
    ("reno,./reno.yaml", "reno and ./reno.yaml", "reno"), ("one/v.yaml,two/v.yaml", "one/v.yaml and two/v.yaml", "v"),
    ("one/tcp_same.c,three/tcp_same.c", "one/tcp_same.c and three/tcp_same.c", "first"),
    ("one/tcp_same.c,two/tcp_other.c", "one/tcp_same.c and two/tcp_other.c", "first"),
    ("one/tcp_same.c,./one/tcp_same.c", "one/tcp_same.c and ./one/tcp_same.c", "first"),
    ("new=reno,new=cubic", "new=reno and new=cubic", "new"),
    ("cubic+reno,cubic+./reno.yaml", r"cubic\+reno and cubic\+./reno.yaml", r"cubic\+reno")])
def test_two_of_one_name_are_refused_with_both_entries(files, text, both, name):
    with pytest.raises(UsageError, match=f"^--cca: {both} are both called {name}: give one of them a label, such as "
                                         "new="):
        ready(text)


@pytest.mark.parametrize("text, message", [
    ("a=one/tcp_same.c+b=three/tcp_same.c", "a and b cannot be in one run: both register first"),
    ("a=one/tcp_same.c+b=two/tcp_other.c", "a and b cannot be in one run: both register first"),
    ("one/tcp_same.c+two/tcp_same.c", "first and second cannot be in one run: both are modules called tcp_same"),
    ("a=one/v.yaml+b=two/v.yaml", "a and b cannot be in one run: both are cubic, .* two sets of parameters"),
    ("one/v.yaml+two/v.yaml", "two variants are called v: give one of them a label"), ("reno+reno", "called reno")])
def test_what_one_kernel_cannot_have(files, text, message):
    with pytest.raises(UsageError, match=message):
        ready(text)


@pytest.mark.parametrize("text, message", [
    ("New=reno", "'New' is none"), ("=reno", "'' is none"), ("a=b=reno", "one label expected"),
    ("x y=reno", "'x y' is none"), ("new=", "new=cubic or new=./tcp_mine.c expected"), ("new=none.c", "no such file"),
    (f"{'n' * 41}=reno", "at most 40"),
    ("cubic=reno", "'cubic' is the name of another congestion control, and no label for reno$"),
    ("sack=two/tcp_same.c", "'sack' is the name of another")])
def test_labels_that_are_none(files, text, message):
    with pytest.raises(UsageError, match=message):
        ccas.parse(text)


def test_a_label_may_be_what_its_entry_is_called_anyway(files):
    assert names("reno=./reno.yaml,cubic=two/tcp_cubic.c") == ["reno", "cubic"]


def test_a_path_may_have_an_equals_sign(files):
    (files / "a=b").mkdir()
    (files / "a=b/tcp_mine.c").write_text(SOURCE.format("mine"))
    (files / "x=y.yaml").write_text("kernel_cca: reno\n")
    assert names("a=b/tcp_mine.c,c=a=b/tcp_mine.c") == ["mine", "c"]


def test_bad_modules_of_one_name_are_both_told(files):
    found = ready("cubic,one/tcp_bad.c,two/tcp_bad.c,two/tcp_cubic.c")
    assert [subject.name for subject in found.subjects] == ["cubic", "edited"]
    assert list(found.broken) == ["one/tcp_bad.c", "two/tcp_bad.c"]


def test_a_label_is_no_part_of_what_a_run_is_made_from_but_its_name():
    labelled, plain = ccas.find("new=sack").record(), ccas.find("sack").record()
    assert labelled.content() == {**plain.content(), "name": "new"}


def test_a_component_may_name_a_label(files):
    subjects = ready("new=one/tcp_same.c,cubic").subjects
    scenario = types.SimpleNamespace(traffic=[{"kind": "greedy", "cca": ["new", "cubic"]}], cca_places={})
    fixed = campaign._fixed_variants([scenario], subjects, Engine(), print)
    assert fixed["new"] is subjects[0].variants[0] and fixed["cubic"].kernel_cca == "cubic"
    records = campaign._merge(subjects[1], [fixed["new"], fixed["cubic"]])
    assert [(one["name"], one["under_test"]) for one in records] == [("cubic", True), ("new", False)]


def test_a_component_may_not_need_another_module_of_the_name_under_test(files):
    subjects = ready("old=one/tcp_same.c,new=three/tcp_same.c").subjects
    with pytest.raises(UsageError, match="old and new cannot be in one run: both register first"):
        campaign._merge(subjects[0], [subjects[1].variants[0]])


def test_a_suite_calls_its_baseline_by_its_label():
    class Part:
        engines: dict = {}
        seeds, kernel = None, ""

        def words(self, version, baseline):
            return ["scenario", "--set", f"traffic.a.cca={baseline}"]
    arguments = parsed("suite", "run", "mine", "--seeds", 2, "--baseline", "base=./old.c", "--cca", "./new.c",
                       "--cluster", "local:2")
    judged = types.SimpleNamespace(ccas=(), baseline="sack", seeds=5)
    words = suite._words(judged, Part(), "base", arguments)
    assert words[:6] == ["run", "scenario", "--set", "traffic.a.cca=base", "--cca", "base=./old.c,./new.c"]
    assert words[-2:] == ["--cluster", "local:2"]


def test_a_module_called_as_one_of_the_kernel_is_told_from_other_refusals(monkeypatch, tmp_path):
    (tmp_path / "tcp_cubic.ko").write_text("")
    refusals = ("tcp_cubic: module is already loaded\nrefused Invalid argument",
                "TCP: cubic already registered or non-unique key\nrefused File exists")
    logs = iter(f"loading tcp_cubic.ko\n[    0.1] {refusal}\n" for refusal in refusals)
    monkeypatch.setattr(trial.guest, "run_briefly", lambda *_: next(logs))
    with pytest.raises(trial.TakenName, match="the kernel has a module tcp_cubic already"):
        trial.load(types.SimpleNamespace(program=""), [tmp_path / "tcp_cubic.ko"])
    with pytest.raises(trial.TakenName, match="registers cubic, which the kernel has already: give its .name"):
        trial.load(types.SimpleNamespace(program=""), [tmp_path / "tcp_cubic.ko"])
