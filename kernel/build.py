# SPDX-License-Identifier: GPL-2.0-only
"""Configuring, building and caching the guest kernel."""
from __future__ import annotations

import contextlib
import dataclasses
import glob
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence

from kernel import configuration, make, patching, source as sources, tree_copy, work_folder
from kernel.make import USUAL_HZ, Facts, Report, facts_of
from kernel.source import KernelError, NoSuchKernel
from kernel.work_folder import Base, WorkFolder

#: specs of kernels that are in the cache already begin so, such as those of kernel/revisions.py; their key follows
BUILT = "build:"
#: folder of the cache with work folders of trees
TREES = "trees"


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A built guest kernel."""
    program: pathlib.Path        # the `linux` executable
    source_dir: pathlib.Path
    build_dir: pathlib.Path
    release: str
    source: str
    key: str
    config_sha256: str
    congestion_controls: tuple[str, ...]
    features: frozenset[str] = frozenset()     # what not every kernel has, see kernel/make.py
    hz: int = USUAL_HZ
    options: tuple[str, ...] = ()              # what it was built with beyond uml.config: configuration.option_names()

    @property
    def takes_modules(self) -> bool:
        """Whether modules can be built for it: a tree or commit may have gone on to another kernel."""
        return (self.build_dir / "Makefile").is_file()

    def make_command(self) -> list[str]:
        """make for this kernel, to be followed by its target."""
        return make.make_command(self.source_dir, self.build_dir)

    def make_reads(self) -> list[pathlib.Path]:
        """Folders that a build of a module has to read."""
        return [self.source_dir, self.build_dir]


def find(spec: str | None = None, hz: int = USUAL_HZ, options: Sequence[str] = ()) -> Kernel | None:
    """The built kernel for `spec` with so many jiffies per second and these options if it is in the cache, else None.

    A cache with kernels/given.json has one kernel, built elsewhere: it is that, whatever the spec.
    """
    given = _given()
    if given:
        return given
    if spec is not None and spec.startswith(BUILT):
        return _built(spec)
    try:
        name, identity = sources.identify(spec)
        return _load(build_dir(spec, identity, hz, options), name)
    except KernelError:
        return None


def ensure(spec: str | None = None, report: Report = print, hz: int = USUAL_HZ,
           options: Sequence[str] = ()) -> Kernel:
    """The kernel for `spec`, built if need be (some minutes). Raises KernelError.

    report(text) is called with what is being done; hz: jiffies per second, one of HZ; options: names of
    configuration.option_names().
    """
    options = configuration.ordered(options)
    spec = spec if _given() else sources.resolve(spec, report)
    built = find(spec, hz, options)
    missing = sources.missing_tools()
    if built and (built.takes_modules or missing or not sources.is_tree(spec)):
        _note_use(built)
        return built
    if spec is not None and spec.startswith(BUILT):
        raise NoSuchKernel(f"--kernel {spec}: no such build in {sources.cache_dir() / 'kernels'}")
    sources.look_up(spec, report)
    name, identity = sources.identify(spec)
    target = build_dir(spec, identity, hz, options)
    if missing:
        raise KernelError(f"to build a kernel, first: apt-get install {' '.join(p for _, p in missing)}")
    if re.search(r"[\s:]", str(sources.cache_dir())):
        raise KernelError(f"{sources.cache_dir()}: kernels are not built in folders with spaces or colons in their "
                          "names; set TESTBED_CACHE")
    if spec is not None and sources.is_tree(spec):
        _build_tree(pathlib.Path(os.path.realpath(spec)), target, report, hz, options)
    else:
        _build_source(spec, identity, target, report, hz, options)
    built = _load(target, name)
    if not built:
        raise KernelError(f"{target}: what was built has gone")
    return built


def _build_tree(tree: pathlib.Path, target: pathlib.Path, report: Report, hz: int, options: Sequence[str]) -> None:
    """Build a tree that may change, from what its last build left."""
    name = hashlib.sha256("\0".join([os.fspath(tree), str(hz), *options]).encode(errors="surrogateescape")).hexdigest()
    folder = WorkFolder(sources.cache_dir() / TREES / name[:16])

    def fill(copy: pathlib.Path, patched: Sequence[str]) -> None:
        tree_copy.follow(tree, copy, folder.folder / "copied.json", patched)

    with make.lock(report, folder.folder.name):
        if folder.at == target.name and _load(target, ""):
            return                             # somebody else has built it meanwhile
        report(f"copying what changed in {tree}" if folder.build.exists() else f"copying {tree}")
        try:
            version = folder.fetch(fill, report, options)
        except KernelError as problem:
            raise KernelError(f"{tree}: {problem}") from None
        with nearest(version, hz, options, folder.build.exists()) as base:
            folder.compile(target, base, report, hz, options)


def _build_source(spec: str | None, identity: str, target: pathlib.Path, report: Report, hz: int,
                  options: Sequence[str]) -> None:
    """Build a version or a tarball, whose source never changes."""
    source_dir = _source_dir(spec, identity, options)
    with make.lock(report, source_dir.name):
        if not source_dir.is_dir():
            source_dir.parent.mkdir(parents=True, exist_ok=True)
            fresh = source_dir.with_name(source_dir.name + ".unpatched")
            shutil.rmtree(fresh, ignore_errors=True)
            try:
                sources.fetch(spec, fresh, report)
                patching.put_all(fresh, report, options)
                os.replace(fresh, source_dir)
            finally:
                shutil.rmtree(fresh, ignore_errors=True)
    with make.lock(report, target.name):
        if _load(target, ""):                  # somebody else may have built it meanwhile
            return
        if not target.exists():
            same = [base for facts, base in _bases() if base.tree == source_dir]
            if same:
                work_folder.begin_from(same[0], source_dir, target)
        make.build_once(source_dir, target, report, hz, options)


def _built(spec: str) -> Kernel | None:
    """A build in the cache, by its key; modules can be built for it while its work tree is still at it."""
    key = spec.removeprefix(BUILT)
    if not re.fullmatch(r"[a-z0-9][\w.+~-]*-[0-9a-f]{12}", key, re.ASCII):
        return None
    commit = re.match(r"commit-([0-9a-f]{16})-", key)
    return _load(sources.cache_dir() / "kernels" / key, f"commit {commit[1]}" if commit else key)


@contextlib.contextmanager
def nearest(version: tuple[int, ...], hz: int, options: Sequence[str], has_build: bool = False) \
        -> Iterator[Base | None]:
    """The finished build that a first build of such a tree had best begin from; it stays while it is in use.

    has_build: there is an earlier one of the same tree, and nothing is needed.
    """
    with contextlib.ExitStack() as held:
        yield None if has_build else _nearest(held, version, hz, options)


def _nearest(held: contextlib.ExitStack, version: tuple[int, ...], hz: int, options: Sequence[str]) -> Base | None:
    def distance(found: tuple[Facts, Base]) -> tuple[bool, int]:
        return found[0].hz != hz, len(set(found[0].options) ^ set(options))
    for _, base in sorted(_bases(), key=distance):
        if sources.tree_version(base.tree) != version:
            continue
        if base.build.name != work_folder.BUILD:
            return base
        lock = make.try_lock(base.build.parent.name)        # a work folder: somebody may be changing it
        if lock is not None:
            held.enter_context(lock)
            return base
    return None


def _bases() -> list[tuple[Facts, Base]]:
    """Finished builds with their sources, the newest first."""
    cache, found = sources.cache_dir(), []
    for folder in (*cache.glob("kernels/*"), *cache.glob(f"{TREES}/*/{work_folder.BUILD}")):
        facts = facts_of(folder)
        if facts and (folder / "Makefile").is_file() and pathlib.Path(facts.source_dir).is_dir():
            found.append((facts, Base(pathlib.Path(facts.source_dir), folder)))
    return sorted(found, key=lambda one: (one[1].build / "testbed.json").stat().st_mtime, reverse=True)


def build_dir(spec: str | None, identity: str, hz: int = USUAL_HZ, options: Sequence[str] = ()) -> pathlib.Path:
    """Where the build of `spec`, which has this identity, is or will be."""
    return build_dir_of(identity, sources.version_of(spec), hz, options)


def build_dir_of(identity: str, version: tuple[int, ...] | None, hz: int = USUAL_HZ,
                 options: Sequence[str] = ()) -> pathlib.Path:
    """A build is known by its source, configuration, patches and compiler. KernelError for unknown options.

    Where there is no compiler, whichever made one that is there: the newest of them.
    """
    kernels = sources.cache_dir() / "kernels"
    compilers = [subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True, check=False).stdout] \
        if shutil.which("gcc") else [*_compilers_of(kernels.glob(f"{glob.escape(identity)}-*/.config")), ""]
    of_hz = [f"CONFIG_HZ={hz}"] if hz != USUAL_HZ else []
    before = [identity, configuration.CONFIG.read_text(), patching.digest(version, options)]
    after = [*of_hz, *configuration.fragments(options)]
    keys = [hashlib.sha256("\0".join([*before, compiler, *after]).encode()).hexdigest() for compiler in compilers]
    folders = [kernels / f"{identity}-{key[:12]}" for key in keys]
    return next((folder for folder in folders if folder.is_dir()), folders[-1])


def _compilers_of(configs: Iterable[pathlib.Path]) -> list[str]:
    """What the compilers of builds with these configurations said of their version, the newest first."""
    found = set()
    for path in configs:
        try:
            said = re.search(r"^CONFIG_GCC_VERSION=(\d+)$", path.read_text(encoding="utf-8"), re.M)
        except (OSError, ValueError):
            continue
        if said:
            found.add(int(said.group(1)))
    return [f"{number // 10_000}.{number // 100 % 100}.{number % 100}\n" for number in sorted(found, reverse=True)]


def _source_dir(spec: str | None, identity: str, options: Sequence[str]) -> pathlib.Path:
    """A patched tree is known by its source and patches."""
    return sources.cache_dir() / "sources" / f"{identity}-{patching.digest(sources.version_of(spec), options)[:8]}"


def _load(folder: pathlib.Path, name: str) -> Kernel | None:
    """The kernel in a folder of the cache, if it is whole."""
    facts = facts_of(folder)
    if not facts or not os.access(folder / "linux", os.X_OK):
        return None
    source_dir = pathlib.Path(facts.source_dir)
    work = WorkFolder(source_dir.parent)
    return Kernel(program=folder / "linux", source_dir=source_dir,
                  build_dir=work.build if work.at == folder.name else folder,
                  release=facts.release, source=name, key=folder.name, config_sha256=facts.config_sha256,
                  congestion_controls=facts.congestion_controls, features=frozenset(facts.features), hz=facts.hz,
                  options=facts.options)


def write_given(built: Kernel, path: pathlib.Path) -> None:
    """The given.json of a cache that is to have this kernel only."""
    path.write_text(json.dumps({"key": built.key, "source": built.source}), encoding="utf-8")


def _given() -> Kernel | None:
    """The one kernel of a cache that was given it."""
    folder = sources.cache_dir() / "kernels"
    try:
        given = json.loads((folder / "given.json").read_text(encoding="utf-8"))
        return _load(folder / given["key"], given["source"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _note_use(built: Kernel) -> None:
    """For kernel/pruning.py: when a kernel was last wanted."""
    try:
        os.utime(built.program.parent / "testbed.json")
    except OSError:
        pass                                      # somebody else's cache
