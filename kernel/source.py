# SPDX-License-Identifier: GPL-2.0-only
"""Where kernel source comes from: a linux-source package of some Debian release, a tarball, or a tree."""
from __future__ import annotations

import hashlib
import lzma
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import zlib
from collections.abc import Callable, Sequence

from kernel import apt, apt_memory

DEFAULT_VERSION = "6.12"
NEWEST = "newest"
#: what was newest a week ago is new enough; packages of a version that is wanted are looked for sooner
_DAYS_NEWEST, _DAYS_VERSION = 7, 0.2

#: what a build calls, and the Debian package it is in
_TOOLS = {"gcc": "gcc", "make": "make", "flex": "flex", "bison": "bison", "bc": "bc", "patch": "patch",
          "xz": "xz-utils", "tar": "tar"}

_ZSTD = b"\x28\xb5\x2f\xfd"

Report = Callable[[str], None]


class KernelError(Exception):
    """The kernel cannot be had or built; the message says what to do."""


class NoSuchKernel(KernelError):
    """What was given as a kernel is none."""


class NoHome(KernelError, RuntimeError):
    """There is no folder for the cache."""


def missing_tools() -> list[tuple[str, str]]:
    """[(program, Debian package)] that a build needs and this machine lacks."""
    return [(tool, package) for tool, package in _TOOLS.items() if not shutil.which(tool)]


def cache_dir() -> pathlib.Path:
    """Folder of sources and builds, outside the checkout (TESTBED_CACHE, or XDG's). NoHome without any."""
    base = os.environ.get("TESTBED_CACHE")
    if base:
        return pathlib.Path(base)
    try:
        return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "tcp-testbed"
    except RuntimeError:                        # a user whom the system does not know, as in containers
        raise NoHome("there is no home folder that could have the cache; set TESTBED_CACHE to a folder of yours") \
            from None


def identify(spec: str | None) -> tuple[str, str]:
    """(name for people, identity) of the source `spec` stands for; cheap, fetches nothing.

    The identity of a tree changes with its content (git commit and changes, or the
    sizes and times of its files). Raises KernelError if there is no such source.
    """
    spec = _meant(spec)
    if _is_version(spec):
        version = _debian_version(spec)
        return f"Debian linux-source-{spec} {version}", f"debian-{spec}-{version}"
    path = pathlib.Path(os.path.realpath(spec))
    if path.is_file():
        if not _is_tarball(path):
            raise NoSuchKernel(f"--kernel {spec}: not a tarball")
        digest = hashlib.sha256()
        with open(path, "rb") as f:
            while chunk := f.read(1 << 20):
                digest.update(chunk)
        return str(path), f"tarball-{digest.hexdigest()[:16]}"
    if not (path / "Kbuild").is_file():
        raise NoSuchKernel(f"--kernel {spec}: neither a version such as {DEFAULT_VERSION}, nor `{NEWEST}`, "
                           "nor a kernel tree, nor a tarball")
    return str(path), f"tree-{_tree_digest(path)[:16]}"


def resolve(spec: str | None, report: Report) -> str | None:
    """`spec` with a version in place of `newest`, so that what is recorded says which kernel it was."""
    if spec != NEWEST:
        return spec
    if _others().age_days() > _DAYS_NEWEST:
        _look(report)
    return _meant(spec)


def look_up(spec: str | None, report: Report) -> None:
    """Learn what other Debian releases have if `spec` is a version that the user's apt does not know."""
    if _is_version(_meant(spec)) and not _candidate(_meant(spec)) and _others().age_days() > _DAYS_VERSION:
        _look(report)


def version_of(spec: str | None) -> tuple[int, ...] | None:
    """(6, 12) if that can be told without unpacking anything, else None."""
    spec = _meant(spec)
    if _is_version(spec):
        return tuple(_by_number(spec))
    return tree_version(pathlib.Path(spec))


def is_debian(spec: str | None) -> bool:
    """Whether a kernel is one of Debian's, and no tree or tarball of somebody's own."""
    return _is_version(_meant(spec))


def tree_version(tree: pathlib.Path) -> tuple[int, ...] | None:
    """(6, 12) of a kernel tree; None if that is no kernel tree."""
    try:
        text = (tree / "Makefile").read_text()
    except OSError:
        return None
    found = [re.search(rf"^{name} *= *(\d+)$", text, re.M) for name in ("VERSION", "PATCHLEVEL")]
    numbers = tuple(int(match.group(1)) for match in found if match)
    return numbers if len(numbers) == 2 else None


def is_tree(spec: str | None) -> bool:
    """Whether a kernel is a folder with somebody's tree, which may change."""
    meant = _meant(spec)
    return not _is_version(meant) and pathlib.Path(meant).is_dir()


def fetch(spec: str | None, target: pathlib.Path, report: Report, whole: bool = False) -> None:
    """Put the source of a version or a tarball into the new folder `target`.

    whole: of a version, also what no guest kernel is built from.
    """
    spec = _meant(spec)
    partial = target.with_name(target.name + ".part")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        path = pathlib.Path(spec)
        if _is_version(spec):
            _fetch_debian(spec, partial, report, whole)
        elif path.is_file():
            report(f"unpacking {path.name}")
            _unpack(path, partial)
        else:
            raise NoSuchKernel(f"{spec}: a version or a tarball expected")
        trees = [p for p in partial.iterdir() if (p / "Kbuild").is_file()]
        if len(trees) != 1:
            raise NoSuchKernel(f"{spec}: no kernel tree in it")
        os.replace(trees[0], target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def write_source(spec: str | None, folder: pathlib.Path, report: Report) -> None:
    """Put the pristine source of a version or a tarball into a new folder, for somebody to change. KernelError."""
    if is_tree(spec):
        raise NoSuchKernel(f"--kernel {spec}: a folder; a version or a tarball expected, whose source is unpacked")
    if os.path.lexists(folder):
        raise NoSuchKernel(f"--source {folder}: exists; a new folder expected")
    try:
        above = next(path for path in folder.absolute().parents if path.exists())
        if not above.is_dir():
            raise NoSuchKernel(f"--source {folder}: {above} is a file; a new folder expected")
        folder.absolute().parent.mkdir(parents=True, exist_ok=True)
        look_up(spec, report)
        fetch(spec, folder.absolute(), report, whole=True)
        _let_git_see(folder / ".gitignore")
    except OSError as problem:
        raise KernelError(f"--source {folder}: {problem.strerror}") from None


def _let_git_see(ignored: pathlib.Path) -> None:
    """Debian's source tells git to ignore all files at the top."""
    if ignored.is_file():
        text = ignored.read_text(encoding="utf-8", errors="surrogateescape")
        ignored.write_text(re.sub(r"^/\*\n(!/debian/\n)?", "", text, flags=re.M), encoding="utf-8",
                           errors="surrogateescape")


def _is_tarball(path: pathlib.Path) -> bool:
    """Whether tar may unpack it: Python knows no zstd."""
    try:
        with open(path, "rb") as file:
            if file.read(len(_ZSTD)) == _ZSTD:
                return True
        return tarfile.is_tarfile(path)
    except (OSError, EOFError, lzma.LZMAError, zlib.error):
        return False


def _by_number(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def _is_version(spec: str) -> bool:
    return bool(re.fullmatch(r"\d+\.\d+", spec))


def _meant(spec: str | None) -> str:
    """`spec` without its abbreviations."""
    if spec == NEWEST:
        spec = _others().newest()
        if not spec:
            raise KernelError(f"--kernel {NEWEST}: not known yet which that is; "
                              f"`testbed kernel --kernel {NEWEST}` finds out")
    return spec or DEFAULT_VERSION


def _others() -> apt.OtherReleases:
    return apt.OtherReleases(cache_dir() / "debian")


def _look(report: Report) -> None:
    try:
        _others().look(report)
    except apt.AptError as problem:
        if not _others().versions():
            raise KernelError(str(problem)) from None
        report(f"{problem}\ngoing by what was known {_others().age_days():.0f} days ago")


def _candidate(version: str) -> str | None:
    package = f"linux-source-{version}"
    try:
        return apt_memory.remembered(cache_dir() / "apt.json", package, lambda: apt.candidate(package))
    except apt.AptError as problem:
        raise KernelError(str(problem)) from None


def _debian_version(version: str) -> str:
    """Version of linux-source-X that apt would install, else that of the release that has it."""
    others = _others().versions()
    found = _candidate(version) or others.get(version)
    if not found:
        known = f"nor does any other Debian release, they have {', '.join(sorted(others, key=_by_number))}" \
            if others else f"`testbed kernel --kernel {version}` looks for it in other Debian releases"
        raise KernelError(f"apt knows no linux-source-{version}; {known}. "
                          "A kernel tree can be given with --kernel PATH")
    return found


#: what no guest kernel is built from, and is four fifths of Debian's source: files below these folders, but for what
#: configuring reads
_NOT_NEEDED = ("Documentation", "sound", "tools/perf", "drivers/accel", "drivers/clk", "drivers/gpu", "drivers/hwmon",
               "drivers/iio", "drivers/infiniband", "drivers/media", "drivers/net/dsa", "drivers/net/ethernet",
               "drivers/pinctrl", "drivers/scsi", "drivers/staging", "drivers/usb",
               "drivers/video", *(f"arch/{name}" for name in (
                   "alpha", "arc", "arm", "arm64", "csky", "loongarch", "m68k", "microblaze", "mips", "parisc",
                   "powerpc", "riscv", "s390", "sh", "sparc", "xtensa")))
_KINDS_OF_FILES = ("*.[chS]", "*.dts", "*.dtsi", "*.rst", "*.txt", "*.yaml", "*.json")
_SUFFIXES = (".c", ".h", ".S", *(kind.removeprefix("*") for kind in _KINDS_OF_FILES[1:]))
_FOLDERS_NOT_NEEDED = tuple(f"{place}/" for place in _NOT_NEEDED)


def not_unpacked() -> list[str]:
    """Patterns of the files of Debian's source that are left in the package."""
    return [f"*/{place}/{kind}" for place in _NOT_NEEDED for kind in _KINDS_OF_FILES]


def is_needed(name: str) -> bool:
    """Whether a guest kernel may be built from this file of a tree."""
    return not (name.endswith(_SUFFIXES) and name.startswith(_FOLDERS_NOT_NEEDED))


def _fetch_debian(version: str, folder: pathlib.Path, report: Report, whole: bool) -> None:
    package = f"linux-source-{version}"
    report(f"downloading {package} {_debian_version(version)}")
    if _candidate(version):
        done = subprocess.run(["apt-get", "-q", "download", package], cwd=folder, capture_output=True, text=True)
        trouble = (done.stderr.strip() or done.stdout.strip()) if done.returncode else None
    else:
        trouble = _download_other(version, folder)
    debs = list(folder.glob("*.deb"))
    if trouble or len(debs) != 1:
        raise KernelError(f"apt-get download {package} failed: {trouble}")
    report(f"unpacking {package}")
    _run(["dpkg-deb", "-x", str(debs[0]), str(folder / "deb")])
    debs[0].unlink()
    _unpack(next((folder / "deb/usr/src").glob("linux-source-*.tar.*")), folder,
            () if whole else not_unpacked())
    shutil.rmtree(folder / "deb")


def _download_other(version: str, folder: pathlib.Path) -> str | None:
    try:
        _others().download(version, folder)
    except apt.AptError as problem:
        return str(problem)
    return None


def _unpack(tarball: pathlib.Path, folder: pathlib.Path, without: Sequence[str] = ()) -> None:
    """without: patterns of files that are left out."""
    try:
        _run(["tar", "-xf", str(tarball), "-C", str(folder), "--no-same-owner",
              *(f"--exclude={pattern}" for pattern in without)])
    except KernelError:
        if not tarfile.is_tarfile(tarball):
            raise NoSuchKernel(f"{tarball}: not a tarball") from None
        raise


def _tree_digest(path: pathlib.Path) -> str:
    """Digest of a tree's content: its git state, or names, sizes and times of its files."""
    digest = hashlib.sha256()
    if (path / ".git").exists():
        for command in (["rev-parse", "HEAD"], ["diff", "HEAD"]):
            done = subprocess.run(["git", "-C", str(path), *command], capture_output=True)
            if done.returncode:
                break
            digest.update(done.stdout)
        else:
            # files not added yet are no part of the diff
            new = subprocess.run(["git", "-C", str(path), "ls-files", "-z", "--others", "--exclude-standard"],
                                 capture_output=True, check=False)
            for name in sorted(filter(None, new.stdout.split(b"\0"))):
                _add_status(digest, os.path.join(os.fsencode(path), name))
            return digest.hexdigest()
    for folder, folders, files in os.walk(os.fsencode(path)):
        folders.sort()
        for name in sorted(files):
            _add_status(digest, os.path.join(folder, name))
    return digest.hexdigest()


def _add_status(digest: hashlib._Hash, name: bytes) -> None:
    status = os.lstat(name)
    digest.update(b"%s %d %d\n" % (name, status.st_size, status.st_mtime_ns))


def make_target(tree: pathlib.Path, target: str) -> None:
    """make in the tree itself, such as `mrproper`."""
    _run(["make", "-s", "-C", str(tree), "ARCH=um", target])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise KernelError(f"{' '.join(command[:2])} failed: {done.stderr.strip()[-500:]}")
