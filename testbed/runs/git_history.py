# SPDX-License-Identifier: GPL-2.0-only
"""The history of somebody's git tree, read without touching it and without running anything that it says.

git is never run in the tree: a bare repository of our own borrows its objects (as an alternate) and has copies of its
references. So none of its configuration counts: no hooks, filters, pagers, aliases, fetches of what is missing. Files
of a revision are written to folders that are named, never to the user's.
"""
from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Collection, Sequence
from typing import NamedTuple

from testbed.core.errors import EnvironmentProblem, UsageError

_REFERENCE = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64}|ref: refs/[^\s]+)\n?")
_LONGEST_REFERENCE = 4096
_MOST_BYTES = 32 << 20              # of what is checked out as a module, as kernel/modules.py has it


class Commit(NamedTuple):
    """hash in full; date: the author's, as ISO 8601 has it; subject: printable, on one line."""
    hash: str
    date: str
    subject: str

    @property
    def short(self) -> str:
        return self.hash[:12]


class History:
    """A git tree at `tree` (or above it); folder: an empty or earlier one for the borrowing repository.

    prefix: where `tree` is below the top of the work tree, '' at the top. UsageError if there is no git tree.
    """

    def __init__(self, tree: pathlib.Path, folder: pathlib.Path) -> None:
        if not shutil.which("git"):
            raise EnvironmentProblem("git is missing: apt-get install git")
        check_tree(tree)
        top, git_dir = _find(tree)
        self.prefix = "" if tree.resolve() == top else tree.resolve().relative_to(top).as_posix()
        common = _common(git_dir)
        self._name, self._repository = str(tree), folder / "history.git"
        references = _references(git_dir, common)
        kind = "sha256" if any(len(text.strip()) == 64 for text in references.values()) else "sha1"
        folder.mkdir(parents=True, exist_ok=True)
        self._git("init", "--quiet", "--bare", "--template=", f"--object-format={kind}",
                  str(self._repository.absolute()), anywhere=True)
        self._borrow(common, references)

    def _borrow(self, common: pathlib.Path, references: dict[str, str]) -> None:
        """Objects by a link, since a line of `alternates` cannot hold every name; references as copies."""
        link = self._repository / "borrowed"
        link.unlink(missing_ok=True)
        link.symlink_to(common / "objects", target_is_directory=True)
        (self._repository / "objects/info").mkdir(parents=True, exist_ok=True)
        (self._repository / "objects/info/alternates").write_text(f"{link.absolute()}\n", encoding="utf-8")
        shutil.rmtree(self._repository / "refs", ignore_errors=True)
        (self._repository / "refs").mkdir()
        for name in ("packed-refs", "shallow"):
            (self._repository / name).unlink(missing_ok=True)
            if (common / name).is_file():
                shutil.copyfile(common / name, self._repository / name)
        for name, text in references.items():
            path = self._repository / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def resolve(self, option: str, revision: str) -> Commit:
        """The commit that a revision stands for, as git spells them: a tag, a branch, a hash, HEAD~3. UsageError."""
        if not revision or not revision.isprintable() or len(revision) > _LONGEST_REFERENCE:
            raise UsageError(f"{option}: a revision of {self._name} expected, such as v6.12, main or a hash")
        done = self._run("rev-parse", "--quiet", "--verify", "--end-of-options", f"{revision}^{{commit}}")
        if done.returncode:
            raise UsageError(f"{option} {revision}: {self._name} has no such revision")
        return self.commit(done.stdout.decode().strip())

    def commit(self, name: str) -> Commit:
        # %aI ends in Z or +00:00, by git's version
        said = self._git("log", "-1", "--no-show-signature", "--date=format:%Y-%m-%dT%H:%M:%S%z",
                         "--format=%H%x00%ad%x00%s", name).decode("utf-8", "replace")
        found, date, subject = said.rstrip("\n").split("\0", 2)
        return Commit(found, f"{date[:-2]}:{date[-2:]}",
                      "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in subject))

    def is_ancestor(self, one: Commit, other: Commit) -> bool:
        done = self._run("merge-base", "--is-ancestor", one.hash, other.hash)
        if done.returncode not in (0, 1):
            raise UsageError(self._complaint(done))
        return done.returncode == 0

    def merge_base(self, one: Commit, other: Commit) -> Commit | None:
        """The best common ancestor, None if there is none."""
        found = self._run("merge-base", one.hash, other.hash).stdout.decode().split()
        return self.commit(found[0]) if found else None

    def candidates(self, bad: Commit, good: Collection[Commit], paths: Sequence[str]) -> list[str]:
        """What may be the first bad commit, `bad` itself included, the best one to test first: git's own choice, also
        where branches were merged. paths: only commits that change something there (and bad)."""
        said = self._git("rev-list", "--bisect-all", bad.hash, *(f"^{one.hash}" for one in good),
                         *(["--", *paths] if paths else ["--"])).decode()
        found = [line.split()[0] for line in said.splitlines()]
        # where no commit but others' merges touch the paths, bad is what remains
        return found if bad.hash in found else [*found, bad.hash]

    def extract(self, commit: Commit, path: str, folder: pathlib.Path) -> pathlib.Path:
        """A file or folder of a revision, put into a new folder -> its path there. UsageError if it has none.

        Links become files that say where they lead; submodules are left out.
        """
        name = f"{commit.hash}:{path}"
        kind = self._run("cat-file", "-t", name).stdout.decode().strip()
        if kind not in ("blob", "tree"):
            raise UsageError(f"{path}: not in {commit.short}")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        target = folder / (pathlib.PurePosixPath(path).name or "tree")
        if kind == "blob":
            if int(self._git("cat-file", "-s", name)) > _MOST_BYTES:
                raise UsageError(f"{path} in {commit.short}: more than {_MOST_BYTES >> 20} MB")
            target.write_bytes(self._git("cat-file", "blob", name))
            return target
        target.mkdir()
        index = {"GIT_INDEX_FILE": str(folder / ".index")}
        self._git("read-tree", name, environment=index)
        self._git("-c", "core.symlinks=false", f"--work-tree={target}", "checkout-index", "--all", "--force",
                  environment=index, cwd=target)
        (folder / ".index").unlink()
        return target

    def check_out(self, commit: Commit, folder: pathlib.Path) -> None:
        """Make a whole work tree in `folder` that of a revision. Files that are the same keep their times, so that make
        builds only what changed; what builds and patches have changed or added is put right."""
        folder.mkdir(parents=True, exist_ok=True)
        # by content: files whose times somebody has changed would be written again
        self._run("--work-tree", str(folder), "update-index", "-q", "--refresh", cwd=folder)
        self._git("--work-tree", str(folder), "checkout", "--quiet", "--force", "--detach", commit.hash, cwd=folder)
        self._git("--work-tree", str(folder), "clean", "--quiet", "-ffdx", cwd=folder)

    def _git(self, *words: str, anywhere: bool = False, environment: dict[str, str] | None = None,
             cwd: pathlib.Path | None = None) -> bytes:
        done = self._run(*words, anywhere=anywhere, environment=environment, cwd=cwd)
        if done.returncode:
            raise UsageError(self._complaint(done))
        return done.stdout

    def _run(self, *words: str, anywhere: bool = False, environment: dict[str, str] | None = None,
             cwd: pathlib.Path | None = None) -> subprocess.CompletedProcess[bytes]:
        where = [] if anywhere else [f"--git-dir={self._repository.absolute()}"]
        return subprocess.run(["git", "--no-pager", "--literal-pathspecs", "--no-replace-objects", *where, *words],
                              env={**_environment(), **(environment or {})}, stdin=subprocess.DEVNULL,
                              capture_output=True, check=False, cwd=cwd or "/")

    def _complaint(self, done: subprocess.CompletedProcess[bytes]) -> str:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"git ended with {done.returncode}"]
        return f"--tree {self._name}: git says: {said[0]}"


def _environment() -> dict[str, str]:
    """Nothing of the user's but where programs are."""
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": "/nonexistent", "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"}


def check_tree(tree: pathlib.Path) -> None:
    """UsageError unless a folder is a git tree, or inside of one."""
    common = _common(_find(tree)[1])
    if not (common / "objects").is_dir():
        raise UsageError(f"--tree {tree}: {common} is no git repository")


def _find(tree: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """(top of the work tree, git's folder)"""
    if not tree.is_dir():
        raise UsageError(f"--tree {tree}: no such folder")
    start = tree.resolve()
    if (start / "HEAD").is_file() and (start / "objects").is_dir():
        return start, start                                         # a bare repository
    for folder in (start, *start.parents):
        entry = folder / ".git"
        if entry.is_dir():
            return folder, entry
        if entry.is_file():                                         # a work tree of its own, or a submodule
            first = entry.read_text(encoding="utf-8", errors="replace").strip()
            if first.startswith("gitdir: "):
                return folder, (folder / first.removeprefix("gitdir: ")).resolve()
    raise UsageError(f"--tree {tree}: no git tree, nor inside of one")


def _common(git_dir: pathlib.Path) -> pathlib.Path:
    """Where objects and branches are: of a work tree of its own, in the repository that it belongs to."""
    try:
        return (git_dir / (git_dir / "commondir").read_text(encoding="utf-8").strip()).resolve()
    except OSError:
        return git_dir


def _references(git_dir: pathlib.Path, common: pathlib.Path) -> dict[str, str]:
    """{HEAD, refs/heads/main, ...: what the file says}; what is no reference is left out."""
    found = {}
    for base, folder, names in [(git_dir, str(git_dir), ["HEAD"]), *(
            (common, folder, names) for folder, _, names in os.walk(common / "refs"))]:
        for name in names:
            path = pathlib.Path(folder) / name
            if path.is_symlink() or not path.is_file() or path.stat().st_size > _LONGEST_REFERENCE:
                continue
            text = path.read_text(encoding="utf-8", errors="replace")
            if _REFERENCE.fullmatch(text):
                found[path.relative_to(base).as_posix()] = text
    return found
