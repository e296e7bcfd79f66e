# SPDX-License-Identifier: GPL-2.0-only
"""Somebody's git tree is read without changing it and without running what it says; the search over it."""
import os
import pathlib
import subprocess

import pytest

from testbed.core.errors import UsageError
from testbed.runs import bisection
from testbed.runs.git_history import History


def git(folder, *words):
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1",
                   **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (
                       ("NAME", "a"), ("EMAIL", "a@b"), ("DATE", "2026-01-02T03:04:05Z"))}}
    done = subprocess.run(["git", *words], cwd=folder, env=environment, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(folder, subject, **files):
    for name, text in files.items():
        (folder / name).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", subject)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def tree(tmp_path):
    """Eight commits; file is `old` up to the fifth and `new` from the sixth on, other changes every time."""
    folder = tmp_path / "user's tree"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    for number in range(8):
        commit(folder, f"change {number}", file="old" if number < 5 else "new", other=str(number))
    return folder


@pytest.fixture
def history(tree, tmp_path):
    return History(tree, tmp_path / "ours")


def snapshot(folder):
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


def measured_by(history, folder, skip=(), undecided=()):
    """Bad is what has `new` in its file."""
    asked = []

    def measure(one):
        asked.append(one.subject)
        if one.subject in skip or one.subject in undecided:
            return bisection.Step(one, bisection.SKIPPED if one.subject in skip else bisection.UNDECIDED, "says so")
        text = history.extract(one, "file", folder).read_text()
        return bisection.Step(one, bisection.BAD if text == "new" else bisection.GOOD)
    return measure, asked


def run(history, tmp_path, paths=(), **options):
    measure, asked = measured_by(history, tmp_path / "out", **options)
    said = []
    found = bisection.search(history, history.resolve("--good", "HEAD~7"), history.resolve("--bad", "main"),
                             list(paths), measure, said.append)
    return found, asked, said


def test_the_commit_is_found_and_the_tree_is_as_it_was(tree, history, tmp_path):
    before = snapshot(tree)
    found, asked, said = run(history, tmp_path)
    assert [one.subject for one in found.suspects] == ["change 5"] and found.undecided is None
    assert found.suspects[0].date == "2026-01-02T03:04:05+00:00" and len(asked) <= 3 and len(said) == len(asked)
    assert snapshot(tree) == before


def test_paths_leave_out_commits_that_change_nothing_there(history, tmp_path):
    found, asked, _ = run(history, tmp_path, ["file"])
    assert [one.subject for one in found.suspects][-1] in ("change 5", "change 7")
    assert asked == ["change 5"]


def test_what_cannot_be_measured_is_skipped(history, tmp_path):
    found, asked, _ = run(history, tmp_path, skip=["change 3", "change 4"])
    assert {one.subject for one in found.suspects} == {"change 3", "change 4", "change 5"}
    assert {step.commit.subject for step in found.steps if step.state == "skipped"} == {"change 3", "change 4"}


def test_it_stops_where_nothing_can_be_said(history, tmp_path):
    found, asked, _ = run(history, tmp_path, undecided=["change 3", "change 4"])
    assert found.undecided.commit.subject == asked[-1] and len(found.suspects) > 1


def test_branches_that_were_merged(tree, tmp_path):
    git(tree, "checkout", "-q", "-b", "side", "HEAD~4")
    culprit = commit(tree, "on the side", third="new")
    commit(tree, "on the side, later", fourth="1")
    git(tree, "checkout", "-q", "main")
    git(tree, "merge", "-q", "--no-edit", "side")
    commit(tree, "after the merge", other="9")
    history = History(tree, tmp_path / "ours")

    def measure(one):
        try:
            history.extract(one, "third", tmp_path / "out")
        except UsageError:
            return bisection.Step(one, bisection.GOOD)
        return bisection.Step(one, bisection.BAD)
    found = bisection.search(history, history.resolve("--good", "main~2"), history.resolve("--bad", "main"), [],
                             measure, lambda text: None)
    assert [one.hash for one in found.suspects] == [culprit]


def test_nothing_that_the_tree_says_is_run(tree, tmp_path):
    """Hooks, filters, monitors, pagers, programs that check signatures: all of them would leave a file."""
    trap = tmp_path / "sprung"
    script = tmp_path / "trap.sh"
    script.write_text(f"#!/bin/sh\ntouch '{trap}'\ncat\n")
    script.chmod(0o755)
    for hook in ("post-checkout", "post-index-change", "reference-transaction", "fsmonitor-watchman"):
        (tree / ".git/hooks").mkdir(exist_ok=True)
        (tree / ".git/hooks" / hook).symlink_to(script)
    (tree / ".gitattributes").write_text("* filter=evil diff=evil\n")
    commit(tree, "attributes")
    for key in ("filter.evil.smudge", "filter.evil.process", "core.fsmonitor", "core.pager", "gpg.program",
                "diff.evil.textconv", "core.sshCommand", "diff.external", "core.alternateRefsCommand"):
        git(tree, "config", key, str(script))
    git(tree, "config", "log.showSignature", "true")
    trap.unlink(missing_ok=True)
    history = History(tree, tmp_path / "ours")
    head = history.resolve("--bad", "HEAD")
    assert history.extract(head, "file", tmp_path / "out").read_text() == "new"
    history.check_out(head, tmp_path / "work")
    assert (tmp_path / "work/other").read_text() == "7" and not trap.exists()
    git(tree, "log", "-1")                              # the same tree does run something where git is run in it
    git(tree, "checkout", "-q", "--force", "HEAD~3")
    assert trap.exists()


def test_a_folder_of_a_revision(tree, tmp_path):
    (tree / "module").mkdir()
    (tree / "module/tcp_a.c").write_text("a")
    (tree / "module/secret").symlink_to("/etc/passwd")
    one = commit(tree, "a folder")
    (tree / "module/tcp_a.c").unlink()
    two = commit(tree, "another", **{"module/tcp_b.c": "b"})
    history = History(tree / "module", tmp_path / "ours")
    assert history.prefix == "module"
    folder = history.extract(history.commit(one), "module", tmp_path / "out")
    assert (folder / "tcp_a.c").read_text() == "a" and not (folder / "secret").is_symlink()
    assert (folder / "secret").read_text() == "/etc/passwd"
    folder = history.extract(history.commit(two), "module", tmp_path / "out")
    assert sorted(path.name for path in folder.iterdir()) == ["secret", "tcp_b.c"]


def test_a_work_tree_keeps_the_times_of_what_is_the_same(tree, history, tmp_path):
    history.check_out(history.resolve("--bad", "main"), tmp_path / "work")
    times = {name: (tmp_path / "work" / name).stat().st_mtime_ns for name in ("file", "other")}
    (tmp_path / "work/new.o").write_text("built")
    (tmp_path / "work/other").write_text("patched")
    history.check_out(history.resolve("--bad", "main~1"), tmp_path / "work")
    assert (tmp_path / "work/other").read_text() == "6" and not (tmp_path / "work/new.o").exists()
    assert (tmp_path / "work/file").stat().st_mtime_ns == times["file"]


def test_files_whose_times_were_changed_keep_them(history, tmp_path):
    """So they have those of a build that the first one began from."""
    history.check_out(history.resolve("--bad", "main"), tmp_path / "work")
    os.utime(tmp_path / "work/file", ns=(1, 1))
    history.check_out(history.resolve("--bad", "main~1"), tmp_path / "work")
    assert (tmp_path / "work/file").stat().st_mtime_ns == 1 and (tmp_path / "work/other").read_text() == "6"


def test_a_work_tree_of_its_own_and_packed_references(tree, tmp_path):
    git(tree, "tag", "v1", "HEAD~2")
    git(tree, "pack-refs", "--all")
    git(tree, "gc", "-q")
    git(tree, "worktree", "add", "-q", "--detach", str(tmp_path / "second"), "v1")
    history = History(tmp_path / "second", tmp_path / "ours")
    assert history.resolve("--good", "HEAD").subject == history.resolve("--good", "v1").subject == "change 5"
    assert history.resolve("--bad", "main").subject == "change 7"


def test_new_commits_are_seen_by_the_same_folder(tree, history, tmp_path):
    commit(tree, "later")
    assert history.resolve("--bad", "main").subject == "change 7"
    assert History(tree, tmp_path / "ours").resolve("--bad", "main").subject == "later"


def test_a_subject_cannot_play_with_the_terminal(tree, tmp_path):
    commit(tree, "red \x1b[31m alert")
    assert History(tree, tmp_path / "ours").resolve("--bad", "main").subject == "red \ufffd[31m alert"


@pytest.mark.parametrize("revision", ["", "nothing", "--all", "HEAD:file", "a\nb", "HEAD~99", "x" * 5000])
def test_revisions_that_are_none(history, revision):
    with pytest.raises(UsageError, match="--good"):
        history.resolve("--good", revision)


@pytest.mark.parametrize("path", ["", "nothing", "../file", "/etc/passwd", ":(exclude)file", "file/x"])
def test_paths_that_are_none(history, tmp_path, path):
    head = history.resolve("--bad", "HEAD")
    if path == "":
        assert history.extract(head, path, tmp_path / "out").is_dir()      # the whole tree is a folder, too
        return
    with pytest.raises(UsageError, match="not in"):
        history.extract(head, path, tmp_path / "out")


def test_trees_that_are_none(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken/.git").mkdir(parents=True)
    for name, says in (("nothing", "no such folder"), ("broken", "is no git repository")):
        with pytest.raises(UsageError, match=says):
            History(tmp_path / name, tmp_path / "ours")
    with pytest.raises(UsageError, match="no git tree"):
        History(pathlib.Path("/proc/self"), tmp_path / "ours")


def test_a_damaged_object_is_one_line(tree, tmp_path):
    head = git(tree, "rev-parse", "HEAD")
    path = tree / ".git/objects" / head[:2] / head[2:]
    path.chmod(0o644)
    path.write_bytes(b"nonsense")
    with pytest.raises(UsageError, match="no such revision|git says"):
        History(tree, tmp_path / "ours").resolve("--bad", "main")
