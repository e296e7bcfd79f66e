# SPDX-License-Identifier: GPL-2.0-only
"""The journal of what runs on the running kernel change: files, modules, processes, one holder at a time."""
import json
import subprocess

import pytest

from testbed.core.errors import EnvironmentProblem
from testbed.engines.host import journal, modules
from testbed.engines.host.journal import Busy, Journal


@pytest.fixture
def of_machine(tmp_path, monkeypatch):
    """A journal in a folder of its own, on a machine whose waits are short."""
    monkeypatch.setattr(journal, "PATIENCE_S", 0.1)
    monkeypatch.setattr(journal, "_PAUSE_S", 0.01)
    monkeypatch.setattr(journal, "TRACE_INSTANCES", tmp_path / "instances")
    (tmp_path / "instances").mkdir()
    (tmp_path / "journal").mkdir()
    return Journal(tmp_path / "journal")


def test_settings_are_as_they_were_and_the_journal_goes(of_machine, tmp_path):
    setting, missing = tmp_path / "setting", tmp_path / "missing"
    setting.write_text("1 2\n")
    of_machine.begin([str(setting), str(missing)])
    setting.write_text("3")
    missing.write_text("of a module that came later")
    assert of_machine.put_back() == []
    assert setting.read_text() == "1 2\n" and of_machine.left() is None
    assert of_machine.put_back() == []


def test_what_cannot_be_put_back_is_said_and_stays_in_the_journal(of_machine, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "setting").write_text("1")
    of_machine.begin([str(folder / "setting")])
    (folder / "setting").unlink()
    (folder / "setting").mkdir()
    assert of_machine.put_back() == [f"{folder / 'setting'} was '1' (Is a directory)"]
    with pytest.raises(EnvironmentProblem, match="cannot be put back.* was '1'"), of_machine.exclusive(None):
        pass
    assert of_machine.left()


def test_a_journal_of_another_boot_means_nothing(of_machine, tmp_path):
    setting = tmp_path / "setting"
    setting.write_text("before")
    of_machine.begin([str(setting)])
    setting.write_text("of this boot")
    of_machine.add(boot_id="another")
    assert of_machine.left() is None and of_machine.put_back() == []
    assert setting.read_text() == "of this boot"


@pytest.mark.parametrize("text", ["{", "\0", ""])
def test_a_damaged_journal_is_one_clear_line(of_machine, tmp_path, text):
    (tmp_path / "journal" / "journal.json").write_text(text)
    with pytest.raises(EnvironmentProblem, match="journal.json: not readable as JSON"):
        of_machine.left()


def test_one_at_a_time(of_machine, tmp_path):
    of_machine.begin()
    with of_machine.exclusive(None):
        of_machine.begin()
        assert of_machine.left_by_dead() == ""          # somebody is there
        with pytest.raises(Busy, match="another run on this kernel"), Journal(tmp_path / "journal").exclusive(None):
            pass
    assert "a run that was killed left" in of_machine.left_by_dead()


def test_a_process_that_is_left_is_ended_and_nobody_else(of_machine):
    with subprocess.Popen(["sleep", "1000"]) as process:
        of_machine.begin()
        of_machine.note_process(process.pid)
        noted = of_machine.left()["process"]
        of_machine.add(process={**noted, "started": "1"})   # the same number, another process
        assert of_machine.put_back() == [] and process.poll() is None
        of_machine.begin()
        of_machine.add(process=noted)
        of_machine.put_back()
        assert process.wait() == -9


def test_trace_instances_that_were_there_before_stay(of_machine, tmp_path):
    (tmp_path / "instances" / "theirs").mkdir()
    of_machine.begin(trace_instances=["theirs", "ours", "never made"])
    (tmp_path / "instances" / "ours").mkdir()
    assert of_machine.put_back() == []
    assert [path.name for path in (tmp_path / "instances").iterdir()] == ["theirs"]
    of_machine.begin(trace_instances=["ours"])
    (tmp_path / "instances" / "ours" / "busy").mkdir(parents=True)
    assert of_machine.put_back() == ["trace instance ours is busy"]


class _Kernel:
    """A kernel's list of modules: {name: modules that need it}; `held` are in use."""

    def __init__(self, monkeypatch, there, held=()):
        self.there, self.held = there, set(held)
        monkeypatch.setattr(modules, "loaded", lambda: {name: set(users) for name, users in self.there.items()})
        monkeypatch.setattr(modules, "_unload", self._unload)

    def _unload(self, name):
        if name not in self.held and not self.there[name]:
            del self.there[name]
            for users in self.there.values():
                users.discard(name)


def _once(attempt, longest_s=0.0):
    return any(attempt() for _ in range(10 + int(longest_s)))


def test_modules_that_a_run_brought_go_with_what_they_need(monkeypatch):
    kernel = _Kernel(monkeypatch, {"sch_netem": set(), "tcp_diag": set(), "inet_diag": {"tcp_diag"}, "mine": set(),
                                   "crc": {"sch_netem"}, "nvme": set(), "ext4": set(), "jbd2": {"ext4"}})
    assert modules.remove_new({"ext4", "jbd2"}, {"mine"}, _once) == []
    assert set(kernel.there) == {"nvme", "ext4", "jbd2"}        # nvme came meanwhile, from somebody else


def test_a_module_that_is_in_use_is_said(monkeypatch):
    _Kernel(monkeypatch, {"sch_cake": set(), "ifb": set()}, held={"sch_cake"})
    assert modules.remove_new(set(), set(), _once) == ["module sch_cake is in use"]


def test_a_congestion_control_may_be_in_use_for_minutes(monkeypatch):
    kernel = _Kernel(monkeypatch, {"tcp_bbr": set(), "sch_tbf": set()}, held={"tcp_bbr"})
    attempts = []

    def patient(attempt, longest_s=0.0):
        attempts.append(longest_s)
        if longest_s > 100:                 # as long as orphaned connections last
            kernel.held.clear()
        return attempt()
    assert modules.remove_new(set(), set(), patient) == []
    assert len(attempts) == 2 and not kernel.there


def test_the_journal_is_whole_at_any_time(of_machine, tmp_path):
    of_machine.begin()
    of_machine.add(extra_modules=["tcp_mine"])
    path = tmp_path / "journal" / "journal.json"
    assert json.loads(path.read_text())["extra_modules"] == ["tcp_mine"]
    assert [file.name for file in path.parent.iterdir()] == ["journal.json"]
