# SPDX-License-Identifier: GPL-2.0-only
"""What apt said is remembered until something that it reads changes."""
import json
import os

import pytest

from kernel import apt_memory


class Apt:
    """Files that apt reads, and how often it was asked."""

    def __init__(self, folder, monkeypatch):
        self.memory = folder / "cache" / "apt.json"
        self.configuration, self.lists, self.status = folder / "etc", folder / "lists", folder / "status"
        self.program = folder / "bin" / "apt-cache"
        for path in (self.configuration / "apt.conf.d" / "docker-clean", self.lists / "main_Packages", self.status,
                     self.program):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text('Dir::Cache::pkgcache "";\n')
        self.program.chmod(0o755)
        monkeypatch.setenv("PATH", str(self.program.parent))
        monkeypatch.delenv("APT_CONFIG", raising=False)
        monkeypatch.setattr(apt_memory, "_CONFIGURATION", self.configuration)
        monkeypatch.setattr(apt_memory, "_READ", (self.lists, self.status))
        self.answer, self.asked = "6.12.1-1", 0

    def ask(self):
        self.asked += 1
        return self.answer

    def candidate(self, package="linux-source-6.12"):
        return apt_memory.remembered(self.memory, package, self.ask)


@pytest.fixture
def apt(tmp_path, monkeypatch):
    return Apt(tmp_path, monkeypatch)


def test_apt_is_asked_once_for_each_package(apt):
    assert [apt.candidate() for _ in range(3)] == ["6.12.1-1"] * 3 and apt.asked == 1
    apt.candidate("linux-source-6.1")
    apt.candidate("linux-source-6.1")
    assert apt.candidate() == "6.12.1-1" and apt.asked == 2


@pytest.mark.parametrize("changed", ["lists/new_Packages", "lists/main_Packages", "status", "etc/sources.list",
                                     "etc/apt.conf.d/docker-clean", "bin/apt-cache"])
def test_apt_is_asked_again_when_something_that_it_reads_has_changed(apt, tmp_path, changed):
    apt.candidate()
    apt.answer = "6.12.2-1"
    assert apt.candidate() == "6.12.1-1"
    path = tmp_path / changed
    path.write_text("changed")
    os.utime(path, ns=(1, 1))
    if path == apt.program:
        path.chmod(0o755)
    assert apt.candidate() == "6.12.2-1"


@pytest.mark.parametrize("line", ['Dir::State "/elsewhere";', 'dir::etc::sourceparts "-";', 'Dir { State "/x"; };',
                                  'Dir "/elsewhere";'])
def test_nothing_is_remembered_of_an_apt_that_looks_elsewhere(apt, line):
    (apt.configuration / "apt.conf.d" / "mine").write_text(line + "\n")
    apt.candidate()
    apt.candidate()
    assert apt.asked == 2


def test_nothing_is_remembered_of_another_configuration(apt, monkeypatch):
    monkeypatch.setenv("APT_CONFIG", "/elsewhere")
    apt.candidate()
    apt.candidate()
    assert apt.asked == 2


@pytest.mark.parametrize("content", ["", "[]", "{", '{"linux-source-6.12": 7}',
                                     '{"linux-source-6.12": {"state": 1, "answer": []}}'])
def test_a_damaged_memory_is_none(apt, content):
    apt.memory.parent.mkdir()
    apt.memory.write_text(content)
    assert apt.candidate() == apt.candidate() == "6.12.1-1" and apt.asked == 1
    assert json.loads(apt.memory.read_text())["linux-source-6.12"]["answer"] == "6.12.1-1"


def test_a_package_that_apt_does_not_know_is_asked_for_again(apt):
    apt.answer = None
    assert apt.candidate() is None and apt.candidate() is None and apt.asked == 2


def test_a_memory_that_cannot_be_kept_costs_time_only(apt):
    apt.memory.parent.write_text("no folder")
    assert apt.candidate() == apt.candidate() == "6.12.1-1" and apt.asked == 2
    assert apt.memory.parent.read_text() == "no folder"
