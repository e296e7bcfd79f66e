# SPDX-License-Identifier: GPL-2.0-only
"""What a worker needs to carry out plans: files of the cache by their hashes, and the facts it must share."""
from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Iterable, Mapping
from typing import cast

import kernel
from testbed.core import environment
from testbed.core.errors import TestbedError, UsageError
from testbed.engines._kernel_engine import KernelEngine
from testbed.executors.cluster.messages import Facts
from testbed.executors.cluster.transfer import sha256_of
from testbed.runs.engine import EngineBase
from testbed.runs.plan import Plan

#: of a build of a kernel: what running it takes
_OF_KERNEL = ("linux", "System.map", "testbed.json", "modules.builtin.modinfo")
#: differs from cache to cache, and is the plan's business anyway
_NOT_SHARED = {"kernel"}


class PayloadFiles:
    """Files of an engine and of modules. files: {path in the worker's cache: SHA-256}; paths: {SHA-256: file here}."""

    def __init__(self, engine: EngineBase, scratch: pathlib.Path) -> None:
        if engine.capabilities.clock == "real":
            raise UsageError(f"engine {engine.name}: its runs take place on a wall clock and on this machine, and are "
                             "not given to a cluster")
        self._engine = engine
        self._files: dict[str, str] = {}
        self.paths: dict[str, pathlib.Path] = {}
        self.facts = shared_facts(engine)
        if engine.capabilities.kernel:
            self._add_kernel(scratch)

    def files(self, plan: Plan) -> dict[str, str]:
        """What this plan takes."""
        found = dict(self._files)
        for variant in plan.variants:
            if variant.module_sha256:
                module = self._engine.find_module(variant.module_sha256)
                if module is None or module.file is None:
                    raise TestbedError(f"{variant.name}: its module has gone from the cache")
                found |= self._module(module.file)
        if isinstance(self._engine, KernelEngine):
            for file in (*self._engine.probe_modules([*plan.scenario.probes, *self._engine.CHECKS_USE]),
                         *self._engine.radio_modules(plan.scenario.network).values()):
                found |= self._module(file)
        return found

    def _module(self, file: pathlib.Path) -> dict[str, str]:
        return {f"modules/{path.parent.name}/{path.name}": self._hash(path)
                for path in (*sorted(file.parent.glob("*.ko")), *sorted(file.parent.glob("*.debug")),
                             file.parent / "module.json")}

    def _add_kernel(self, scratch: pathlib.Path) -> None:
        options = self._engine.options
        built = kernel.find(options.get("kernel"), options.get("hz", kernel.USUAL_HZ),
                            options.get("kernel_options", ()))
        if built is None or built.key != self._engine.kernel_key():
            raise TestbedError("the guest kernel has gone from the cache, or its tree has changed; once more, please")
        for name in _OF_KERNEL:
            if (built.build_dir / name).is_file():
                self._files[f"kernels/{built.key}/{name}"] = self._hash(built.build_dir / name)
        with tempfile.NamedTemporaryFile(dir=scratch, prefix="given-", suffix=".json", delete=False) as file:
            path = pathlib.Path(file.name)
        kernel.write_given(built, path)
        self._files["kernels/given.json"] = self._hash(path)

    def _hash(self, path: pathlib.Path) -> str:
        sha256 = sha256_of(path)
        self.paths[sha256] = path
        return sha256


def shared_facts(engine: EngineBase) -> Facts:
    """Those of this machine."""
    files = cast(dict[str, str], engine.environment().get("files_sha256") or {})
    return {"kernel": engine.kernel_key(), "code": engine.code_sha256(), "radios": engine.radio_sources(),
            "packages": cast(dict[str, str], environment.this_machine()["packages"]),
            "files": {name: value for name, value in files.items() if name not in _NOT_SHARED}}


def differences(here: Facts, there: Facts) -> str:
    """What differs between a client's and a worker's facts, in words; '' if nothing."""
    found = []
    if here["code"] != there["code"] or here["radios"] != there["radios"]:
        found.append("the testbed's code is another: update its checkout")
    if here["kernel"] != there["kernel"]:
        found.append(f"its engine is {there['kernel']}, not {here['kernel']}")
    packages = [f"{name} {there['packages'].get(name, 'is missing')}, not {here['packages'].get(name, 'there')}"
                for name in _different(here["packages"], there["packages"])]
    # of files that belong to these packages nothing is said twice
    files = [] if packages else [f"{name} is another" for name in _different(here["files"], there["files"])]
    return "; ".join([*found, *packages, *files])


def _different(one: Mapping[str, str], other: Mapping[str, str]) -> Iterable[str]:
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))
