# SPDX-License-Identifier: GPL-2.0-only
"""Where kernel source comes from: Debian's linux-source package, a tarball, or a tree."""
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tarfile

DEFAULT_VERSION = "6.12"

#: what a build calls, and the Debian package it is in
_TOOLS = {"gcc": "gcc", "make": "make", "flex": "flex", "bison": "bison", "bc": "bc", "patch": "patch",
          "xz": "xz-utils", "tar": "tar"}


class KernelError(Exception):
    """The kernel cannot be had or built; the message says what to do."""


def missing_tools():
    """[(program, Debian package)] that a build needs and this machine lacks."""
    return [(tool, package) for tool, package in _TOOLS.items() if not shutil.which(tool)]


def cache_dir():
    """Folder of sources and builds, outside the checkout (TESTBED_CACHE, or XDG's)."""
    base = os.environ.get("TESTBED_CACHE")
    if base:
        return pathlib.Path(base)
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "tcp-testbed"


def identify(spec):
    """(name for people, identity) of the source `spec` stands for; cheap, fetches nothing.

    The identity of a tree changes with its content (git commit and changes, or the
    sizes and times of its files). Raises KernelError if there is no such source.
    """
    spec = spec or DEFAULT_VERSION
    if re.fullmatch(r"\d+\.\d+", spec):
        version = _debian_version(spec)
        return f"Debian linux-source-{spec} {version}", f"debian-{spec}-{version}"
    path = pathlib.Path(spec).resolve()
    if path.is_file():
        digest = hashlib.sha256()
        with open(path, "rb") as f:
            while chunk := f.read(1 << 20):
                digest.update(chunk)
        return str(path), f"tarball-{digest.hexdigest()[:16]}"
    if not (path / "Kbuild").is_file():
        raise KernelError(f"--kernel {spec}: neither a version such as {DEFAULT_VERSION}, nor a kernel tree, nor a tarball")
    return str(path), f"tree-{_tree_digest(path)[:16]}"


def fetch(spec, target, report):
    """Put the source that `spec` stands for into the new folder `target`."""
    spec = spec or DEFAULT_VERSION
    partial = target.with_name(target.name + ".part")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        path = pathlib.Path(spec)
        if re.fullmatch(r"\d+\.\d+", spec):
            _fetch_debian(spec, partial, report)
        elif path.is_file():
            report(f"unpacking {path.name}")
            _unpack(path, partial)
        else:
            report(f"copying {path}")
            tree = partial / path.resolve().name
            shutil.copytree(path, tree, symlinks=True, ignore=shutil.ignore_patterns(".git", "*.o", "*.cmd"))
            _make(tree, "mrproper")
        trees = [p for p in partial.iterdir() if (p / "Kbuild").is_file()]
        if len(trees) != 1:
            raise KernelError(f"{spec}: no kernel tree in it")
        os.replace(trees[0], target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _debian_version(version):
    """Version of linux-source-X that apt would install."""
    package = f"linux-source-{version}"
    try:
        shown = subprocess.run(["apt-cache", "policy", package], capture_output=True, text=True).stdout
    except FileNotFoundError:
        raise KernelError("apt-cache is missing: not a Debian system? Give a kernel tree with --kernel PATH") from None
    match = re.search(r"Candidate: (\S+)", shown)
    if not match or match.group(1) == "(none)":
        raise KernelError(f"apt knows no {package}: run `apt-get update` (Debian 12 has it in bookworm-security), "
                          "or give a kernel tree with --kernel PATH")
    return match.group(1)


def _fetch_debian(version, folder, report):
    package = f"linux-source-{version}"
    report(f"downloading {package}")
    done = subprocess.run(["apt-get", "-q", "download", package], cwd=folder, capture_output=True, text=True)
    debs = list(folder.glob("*.deb"))
    if done.returncode or len(debs) != 1:
        raise KernelError(f"apt-get download {package} failed: {done.stderr.strip() or done.stdout.strip()}")
    report(f"unpacking {package}")
    _run(["dpkg-deb", "-x", str(debs[0]), str(folder / "deb")])
    debs[0].unlink()
    _unpack(next((folder / "deb/usr/src").glob("linux-source-*.tar.*")), folder)
    shutil.rmtree(folder / "deb")


def _unpack(tarball, folder):
    try:
        _run(["tar", "-xf", str(tarball), "-C", str(folder), "--no-same-owner"])
    except KernelError:
        if not tarfile.is_tarfile(tarball):
            raise KernelError(f"{tarball}: not a tarball") from None
        raise


def _tree_digest(path):
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
            new = subprocess.run(["git", "-C", str(path), "ls-files", "-z", "--others", "--exclude-standard"], capture_output=True)
            for name in sorted(filter(None, new.stdout.split(b"\0"))):
                _add_status(digest, os.path.join(os.fsencode(path), name))
            return digest.hexdigest()
    for folder, folders, files in os.walk(os.fsencode(path)):
        folders.sort()
        for name in sorted(files):
            _add_status(digest, os.path.join(folder, name))
    return digest.hexdigest()


def _add_status(digest, name):
    status = os.lstat(name)
    digest.update(b"%s %d %d\n" % (name, status.st_size, status.st_mtime_ns))


def _make(tree, target):
    _run(["make", "-s", "-C", str(tree), "ARCH=um", target])


def _run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise KernelError(f"{' '.join(command[:2])} failed: {done.stderr.strip()[-500:]}")
