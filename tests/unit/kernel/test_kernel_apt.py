# SPDX-License-Identifier: GPL-2.0-only
"""Kernels of other Debian releases, with an apt that is a shell script."""
import os
import pathlib

import pytest

from kernel import apt, source
from kernel.source import KernelError

MADISON = """\
linux-source-6.12 | 6.12.107-1 | http://mirror.example/debian stable/main amd64 Packages
linux-source-7.10 | 7.10~rc7-1~exp1 | http://mirror.example/debian experimental/main amd64 Packages
linux-source-7.2 |   7.2.13-1 | http://mirror.example/debian unstable/main amd64 Packages
linux-source-7.2 | 7.2.12-1~bpo13+1 | http://mirror.example/debian stable-backports/main amd64 Packages
linux-source-7.3 | 7.3.4-1~bpo13+1 | http://mirror.example/debian stable-backports/main amd64 Packages
"""
APT_CACHE = """\
case "$*" in
*search*)  cut -d' ' -f1 {files}/madison | sort -u | sed 's/$/ - Linux kernel source/' ;;
*madison*) cat {files}/madison ;;
*policy*)  echo "  Candidate: $(cat {files}/candidate 2>/dev/null || echo '(none)')" ;;
esac
"""
APT_GET = """\
echo "$*" >> {files}/calls
case "$*" in
*indextargets*) cat {files}/targets ;;
*update*)       [ ! -f {files}/update_error ] || {{ cat {files}/update_error >&2; exit 100; }} ;;
*download*)     [ ! -f {files}/download_error ] || {{ cat {files}/download_error >&2; exit 100; }}; touch got.deb ;;
esac
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    """What the fake apt answers with; the user's own apt knows a mirror and no package."""
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "madison").write_text(MADISON)
    (folder / "targets").write_text(
        "Debian|Debian-Security|http://mirror.example/debian-security/\n"
        "Someone|Debian|http://other.example/\nDebian|Debian|http://mirror.example/debian/\n"
    )
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, script in (("apt-cache", APT_CACHE), ("apt-get", APT_GET)):
        (programs / name).write_text("#!/bin/sh\n" + script.format(files=folder))
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path / "cache"))
    (tmp_path / "keys.gpg").write_text("")
    monkeypatch.setattr(apt, "_KEYRING", tmp_path / "keys.gpg")
    return folder


@pytest.fixture
def others(tmp_path):
    return apt.OtherReleases(tmp_path / "cache" / "debian")


def updates(files):
    return (
        [line for line in (files / "calls").read_text().splitlines() if line.endswith("update")]
        if (files / "calls").exists()
        else []
    )


def grow_old(others, days):
    note = others._folder / "sources.json"
    os.utime(note, (note.stat().st_mtime - days * 86400,) * 2)


def test_nothing_is_known_before_somebody_looked(others):
    assert others.versions() == {} and others.newest() is None and others.age_days() == float("inf")


def test_a_look_finds_the_highest_package_of_every_version(files, others):
    others.look(lambda text: None)
    assert others.versions() == {
        "6.12": "6.12.107-1",
        "7.10": "7.10~rc7-1~exp1",
        "7.2": "7.2.13-1",
        "7.3": "7.3.4-1~bpo13+1",
    }
    assert others.age_days() < 1


def test_the_newest_is_no_release_candidate_and_compared_by_number(files, others):
    others.look(lambda text: None)
    assert others.newest() == "7.3"
    (files / "madison").write_text(MADISON.replace("~rc7-1~exp1", ".1-1"))
    others.look(lambda text: None)
    assert others.newest() == "7.10"


def test_the_users_apt_is_left_alone_and_signatures_are_checked(files, others, tmp_path):
    others.look(lambda text: None)
    (call,) = updates(files)
    for option in (
        f"Dir::State={tmp_path}/cache/debian/state",
        f"Dir::Cache={tmp_path}/cache/debian/cache",
        "Dir::Etc::sourceparts=-",
        f"Dir::Etc::sourcelist={tmp_path}/cache/debian/debian.sources",
    ):
        assert f"-o {option} " in call
    sources = (tmp_path / "cache" / "debian" / "debian.sources").read_text().splitlines()
    assert "URIs: http://mirror.example/debian/" in sources and f"Signed-By: {tmp_path}/keys.gpg" in sources
    assert not any(word in "\n".join(sources) + call for word in ("rusted", "llow", "insecure"))
    assert "#clear APT::Update::Post-Invoke;" in (tmp_path / "cache" / "debian" / "apt.conf").read_text()


def test_without_the_keys_nothing_is_fetched(files, others, monkeypatch):
    monkeypatch.setattr(apt, "_KEYRING", pathlib.Path("/nonexistent"))
    with pytest.raises(apt.AptError, match="apt-get install debian-archive-keyring"):
        others.look(lambda text: None)
    assert not updates(files)


def test_signatures_with_unknown_keys_are_an_error_that_says_what_helps(files, others):
    (files / "madison").write_text("")
    (files / "update_error").write_text("E: GPG error: unstable InRelease: NO_PUBKEY 0123456789ABCDEF")
    with pytest.raises(apt.AptError, match="(?s)NO_PUBKEY.*apt-get install debian-archive-keyring"):
        others.look(lambda text: None)


def test_one_release_that_cannot_be_had_is_reported(files, others):
    (files / "update_error").write_text("E: The repository 'experimental' does not have a Release file.")
    said = []
    others.look(said.append)
    assert others.newest() == "7.3" and "does not have a Release file" in said[-1]


@pytest.mark.parametrize(
    "targets", ["", "Ubuntu|Ubuntu|http://ubuntu.example/\n", "Debian|Debian|cdrom://[Debian]/\n"]
)
def test_without_a_debian_mirror(files, others, targets):
    (files / "targets").write_text(targets)
    with pytest.raises(apt.AptError, match="no Debian mirror: run `apt-get update`"):
        others.look(lambda text: None)


def test_a_version_of_another_release(files, others):
    with pytest.raises(
        KernelError, match="apt knows no linux-source-7.2; `testbed kernel --kernel 7.2` looks for it"
    ):
        source.identify("7.2")
    source.look_up("7.2", lambda text: None)
    assert source.identify("7.2") == ("Debian linux-source-7.2 7.2.13-1", "debian-7.2-7.2.13-1")
    with pytest.raises(
        KernelError, match="no linux-source-6.17; nor does any other Debian release, they have 6.12, 7.2, 7.3, 7.10"
    ):
        source.identify("6.17")


def test_a_version_that_the_users_apt_has_is_taken_from_there(files, others):
    (files / "candidate").write_text("6.12.117-1~deb12u1")
    source.look_up("6.12", lambda text: None)
    assert not updates(files)
    assert source.identify("6.12")[1] == "debian-6.12-6.12.117-1~deb12u1"


def test_lists_are_not_fetched_again_for_every_version(files, others):
    for _ in range(3):
        source.look_up("7.2", lambda text: None)
    assert len(updates(files)) == 1
    grow_old(others, 1)
    source.look_up("7.2", lambda text: None)
    assert len(updates(files)) == 2


def test_newest_becomes_a_version(files, others):
    with pytest.raises(KernelError, match="--kernel newest: not known yet"):
        source.identify("newest")
    assert source.resolve("newest", lambda text: None) == "7.3" and source.version_of("newest") == (7, 3)
    assert source.identify("newest") == source.identify("7.3")
    assert source.resolve("newest", lambda text: None) == "7.3" and len(updates(files)) == 1
    assert source.resolve("6.1", lambda text: None) == "6.1" and source.resolve(None, lambda text: None) is None


def test_without_a_network_newest_is_what_it_was(files, others):
    source.resolve("newest", lambda text: None)
    grow_old(others, 10)
    (files / "targets").write_text("")
    said = []
    assert source.resolve("newest", said.append) == "7.3"
    assert "going by what was known 10 days ago" in said[-1]


def test_a_download_asks_for_exactly_the_version_that_the_build_is_known_by(files, others, tmp_path):
    others.look(lambda text: None)
    (tmp_path / "here").mkdir()
    others.download("7.2", tmp_path / "here")
    assert (tmp_path / "here" / "got.deb").exists()
    assert (files / "calls").read_text().splitlines()[-1].endswith("download linux-source-7.2=7.2.13-1")
    (files / "download_error").write_text("E: Hash Sum mismatch")
    with pytest.raises(apt.AptError, match="Hash Sum mismatch"):
        others.download("7.2", tmp_path / "here")
