# SPDX-License-Identifier: GPL-2.0-only
"""What a guest kernel is configured with: uml.config, and the options that somebody asked for by name.

One option, patching.STOCK, adds nothing to the configuration.

    uml.config                 all kernels
    fragments/NAME.config      kernels with the option NAME
    fragments/A+B.config       kernels with both options A and B
    any other file *.config    kernels with that file as an option, by its path: what a kernel can take of it
"""
from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Iterable

from kernel import patching
from kernel.source import KernelError

_HERE = pathlib.Path(__file__).parent
CONFIG = _HERE / "uml.config"
#: congestion controls that TCP_CONGESTION calls otherwise
_CALLED = {"HSTCP": "highspeed"}
FRAGMENTS = _HERE / "fragments"
#: options that need others: what `debug` looks at, the patches for speed leave out
_BRINGS = {"debug": (patching.STOCK,)}
#: options that are called something else in some kernels, or cannot be chosen without a patch
_MAY_DIFFER = {"CONFIG_HZ=1000", "CONFIG_DEFAULT_RENO=y", "CONFIG_PROC_SYSCTL=y", "CONFIG_SYSCTL=y"}


def option_names() -> list[str]:
    """Names of all options that a kernel can be built with."""
    return sorted([patching.STOCK, *(path.stem for path in FRAGMENTS.glob("*.config") if "+" not in path.stem)])


def congestion_controls() -> list[str]:
    """Names of the congestion controls that all kernels are configured with."""
    found = re.findall(r"^CONFIG_TCP_CONG_(\w+)=y$", CONFIG.read_text(), re.M)
    return sorted(["reno", *(_CALLED.get(name, name.lower()) for name in found if name != "ADVANCED")])


def ordered(options: Iterable[str]) -> tuple[str, ...]:
    """Options in order, each once, and what they need besides; KernelError if there is no such option."""
    asked = set(options)
    found = tuple(sorted(asked.union(*(_BRINGS.get(name, ()) for name in asked))))
    for name in found:
        if name not in option_names() and not (_is_file(name) and pathlib.Path(name).is_file()):
            raise KernelError(f"no kernel option {name!r}; there are: {', '.join(option_names())}")
    return found


def fragments(options: Iterable[str]) -> list[str]:
    """The texts that these options add to uml.config, in order."""
    return [*_by_name(options), *(_without_modules(name) for name in ordered(options) if _is_file(name))]


def _by_name(options: Iterable[str]) -> list[str]:
    wanted = set(ordered(options))
    return [path.read_text() for path in sorted(FRAGMENTS.glob("*.config")) if wanted >= set(path.stem.split("+"))]


def _is_file(option: str) -> bool:
    return option.endswith(".config") and "/" in option


def _without_modules(path: str) -> str:
    """What a file of settings says; what it wants as a module is built in."""
    text = pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
    return "".join(f"{re.sub('=m$', '=y', line.strip())}\n" for line in text.splitlines())


def text(options: Iterable[str] = ()) -> str:
    """All that a kernel with these options is configured with."""
    return "".join([CONFIG.read_text(), *fragments(options)])


def check(config: pathlib.Path, options: Iterable[str], report: Callable[[str], None]) -> None:
    """KernelError if the kernel with this .config did not take what it was told; what it does not know is reported,
    if nobody asked for it by name, and so is what it did not take of a file."""
    lines = config.read_text()
    have = set(lines.splitlines())
    known = set(re.findall(r"^(?:# )?(CONFIG_\w+)(?:=| is not set)", lines, re.M))
    missing = [line for line in dict.fromkeys(_settings(text(options)))
               if line not in have and line not in _MAY_DIFFER]
    by_name = set(_settings("".join(_by_name(options))))
    in_general = {*_settings(text()), *by_name}
    refused = [line for line in missing if line in by_name
               or line in in_general and line.partition("=")[0] in known and line not in _overruled(options)]
    if refused:
        raise KernelError(f"this kernel refuses {', '.join(refused)}")
    if missing:
        # older or newer than uml.config
        report(f"this kernel has no {', '.join(line.partition('=')[0] for line in missing)}: built without")


def lacking(config: str, options: Iterable[str]) -> list[str]:
    """Which of these options a kernel with the configuration `config` does not have, be it in a module."""
    have = set(re.findall(r"^(CONFIG_\w+)=[ym]$", config, re.M))
    return [name for name in ordered(options)
            if not have >= {line.partition("=")[0] for line in _settings("".join(fragments([name])))}]


def _overruled(options: Iterable[str]) -> set[str]:
    """Settings that a file has otherwise."""
    final = {line.partition("=")[0]: line for line in _settings(text(options))}
    return {line for line in _settings(text(options)) if final[line.partition("=")[0]] != line}


def _settings(config: str) -> list[str]:
    return [line for line in config.splitlines() if line.startswith("CONFIG_")]
