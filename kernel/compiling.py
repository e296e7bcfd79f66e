# SPDX-License-Identifier: GPL-2.0-only
"""Compiling somebody's kernel module: within bounds of time, memory and output, and changing nothing else.

A source is a program: `#include "/dev/zero"` never ends, and a Kbuild file runs any command. The compiler
may write into the folder of the copy only, and read the system's folders and the kernel's, where the host
has Landlock.
"""
from __future__ import annotations

import pathlib
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from kernel import api_changes, guest
from kernel.make import make_environment

_LAUNCH = pathlib.Path(__file__).with_name("launch.py")
#: for each of the processes: seconds of CPU time, bytes of memory, bytes of a file
_LIMITS = {"CPU": 30, "AS": 3 << 30, "FSIZE": 256 << 20, "CORE": 0}
#: for all together, in seconds of wall time
_LONGEST_S = 300
_MOST_LINES = 200
#: For guests. Lines of source, for crashes (_split takes them out of what is loaded). No floating point: arch/um
#: forbids SSE, but not the x87 unit, as x86-64 does. (And private headers of TCP are found, such as tcp_dctcp.h.)
_GUEST_FLAGS = ("-g", "-mno-80387")
#: of modules for machines, and for guests
RECIPES = ("", " ".join(_GUEST_FLAGS))


class Target(Protocol):
    """A kernel that modules are built for: what it is known by, how to build for it."""
    @property
    def key(self) -> str: ...

    @property
    def release(self) -> str: ...

    @property
    def takes_modules(self) -> bool: ...

    def make_command(self) -> list[str]: ...

    def make_reads(self) -> list[pathlib.Path]: ...


class CompileError(Exception):
    """The compiler's words, to be put behind the name of the source."""


class Made(NamedTuple):
    """The .ko files of a folder, in no order, and the compiler's warnings."""
    files: list[pathlib.Path]
    warnings: str


def make_modules(kernel: Target, folder: pathlib.Path, readable: Callable[[str], str]) -> Made:
    """Build the sources in `folder`; what the compiler says is as `readable` shows it."""
    (folder / ".tmp").mkdir(exist_ok=True)
    failed, text = _make(kernel, folder, _flags(kernel))
    words = _words(readable(text))
    if failed:
        advice = "".join(f"\n({line})" for line in api_changes.advice(text))
        raise CompileError(f" does not build:{_bound_hit(text)}\n{words}{advice}")
    built = sorted(folder.rglob("*.ko"))
    if not built:
        raise CompileError(" builds no module: is there an obj-m line?")
    same = {file.name for file in built if [other.name for other in built].count(file.name) > 1}
    if same:
        raise CompileError(f" builds two modules of one name: {', '.join(sorted(same))}")
    files = [file if file.parent == folder else file.rename(folder / file.name) for file in built]
    if _is_guest(kernel):
        for file in files:
            _split(file)
    return Made(files, words)


def debug_file(module: pathlib.Path) -> pathlib.Path:
    """Where a built module's lines of source are, if it has any."""
    return module.with_suffix(".debug")


def check_private_state(kernel: Target, folder: pathlib.Path, readable: Callable[[str], str]) -> None:
    """CompileError if a congestion control's state is larger than what a socket has room for.

    inet_csk_ca() gives a pointer without a type, and what is written beyond the room are TCP's own fields: the kernel
    crashes much later, somewhere else. gcc finds it where it knows how large the object behind a pointer is. So in
    `folder`, a copy that nobody runs, another function takes its place, which says so.
    """
    found = False
    for path in folder.rglob("*.[ch]"):
        source = path.read_bytes()
        changed = _PRIVATE.sub(b"testbed_private_state(ICSK_CA_PRIV_SIZE, ", source)
        if changed != source:
            found = True
            path.write_bytes(changed)
    if not found or not _is_guest(kernel):
        return
    (folder / ".tmp").mkdir(exist_ok=True)
    guard = folder / ".tmp" / "private_state.h"
    guard.write_text("struct sock;\nvoid *testbed_private_state(unsigned long size, const struct sock *sk)\n"
                     "\t__attribute__((alloc_size(1), returns_nonnull));\n", encoding="utf-8")
    # whether it links does not matter: there is no such function
    _, text = _make(kernel, folder, [*_flags(kernel), "-include", str(guard), "-Warray-bounds=1",
                                     "-Wstringop-overflow=2"])
    if beyond := _beyond(kernel, text):
        raise CompileError(f" keeps too much in each socket:\n{readable(beyond)}")


#: a call of it, not its name in something longer
_PRIVATE = re.compile(rb"\binet_csk_ca\s*\(")
_ROOM = re.compile(r"\bicsk_ca_priv\[(\d+) / sizeof\(u64\)\]")


def _beyond(kernel: Target, text: str) -> str | None:
    """What of a compiler's warnings is about state beyond a socket's room, in words."""
    header = kernel.make_reads()[0] / "include/net/inet_connection_sock.h"
    room = _ROOM.search(header.read_text(encoding="utf-8", errors="replace")) \
        or re.search(r"object of size (\d+) allocated by 'testbed_private_state'", text)
    for line in text.splitlines() if room else ():
        found = re.match(r"(?P<place>.+?:\d+:\d+): (?:warning|error): (?P<words>.*) "
                         r"\[-W[^\]]*(?:array-bounds|overflow)", line)
        if not found or not room or not re.search(rf"unsigned char\[{room[1]}\]|\[0, {room[1]}\]|of size {room[1]}\b",
                                                  found["words"]):
            continue
        larger = re.search(r"subscript '([^']+?)(?:\[\d+\])?' is partly outside", found["words"])
        return (f"{found['place']}: {f'{larger[1]} is larger' if larger else 'more is used'} than the {room[1]} bytes "
                "of a congestion control's state in a socket (ICSK_CA_PRIV_SIZE); what is beyond are TCP's own fields: "
                "keep less there, or a pointer to memory that init allocates and release frees")
    return None


def _is_guest(kernel: Target) -> bool:
    """Whether it is a kernel of ours, and not one of a machine, whose own flags are best."""
    return "ARCH=um" in kernel.make_command()


def recipe(kernel: Target) -> str:
    """What decides how sources become a module, besides them and the kernel: another recipe makes another file."""
    return RECIPES[_is_guest(kernel)]


def _flags(kernel: Target) -> list[str]:
    """What modules are compiled with beyond the kernel's own flags."""
    command = kernel.make_command()
    return [*_GUEST_FLAGS, "-iquote", f"{command[command.index('-C') + 1]}/net/ipv4"] if _is_guest(kernel) else []


def _split(module: pathlib.Path) -> None:
    """Move what only debuggers read into a file beside the module: a guest reads all that it loads."""
    for words in (["--only-keep-debug", module, debug_file(module)], ["--strip-debug", module]):
        done = subprocess.run(["objcopy", *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False)
        if done.returncode:
            raise CompileError(f": {done.stderr.strip()}")


def _make(kernel: Target, folder: pathlib.Path, flags: Sequence[str]) -> tuple[bool, str]:
    """(whether it failed, what was said) of the kernel's make for the modules in `folder`, which has a .tmp."""
    launcher = [sys.executable, "-I", "-S", str(_LAUNCH), "--write", str(folder)]
    for path in (*guest.SYSTEM, *kernel.make_reads()):
        launcher += ["--read", str(path)]
    for name, most in _LIMITS.items():
        launcher += ["--limit", f"{name}={most}"]
    command = [*launcher, "--", "/usr/bin/env", *kernel.make_command(), f"M={folder}",
               *([f"KCFLAGS={' '.join(flags)}"] if flags else []), "modules"]
    log_path = folder / ".tmp" / "errors"
    with open(log_path, "wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log, stdin=subprocess.DEVNULL, cwd=folder,
                                   env={**make_environment(), "TMPDIR": str(folder / ".tmp")}, start_new_session=True)
        try:
            process.wait(timeout=_LONGEST_S)
        except subprocess.TimeoutExpired:
            raise CompileError(f": compiling takes more than {_LONGEST_S} s") from None
        finally:
            guest.kill_session(process)
    with open(log_path, encoding="utf-8", errors="replace") as log_file:
        return bool(process.returncode), log_file.read(1 << 20)


def _bound_hit(text: str) -> str:
    """Says it if the compiler was stopped by one of the limits."""
    if re.search(r"out of memory|cannot allocate|virtual memory exhausted", text, re.I):
        return f" the compiler needs more than {_LIMITS['AS'] >> 30} GB of memory"
    if re.search(r"CPU time limit exceeded|signal terminated program|Killed|Error 137|Error 152", text):
        return f" the compiler was stopped after {_LIMITS['CPU']} s of CPU time"
    if "File size limit exceeded" in text or "File too large" in text:
        return f" the compiler writes files of more than {_LIMITS['FSIZE'] >> 20} MB"
    return ""


def _words(text: str) -> str:
    """What the compiler said, without make's own words."""
    noise = r"make(\[\d+\])?: (Entering|Leaving|\*\*\*)|WARNING: Module.symvers|\s*Symbol info of vmlinux|Skipping BTF"
    lines = [line for line in text.splitlines() if not re.match(noise, line)]
    if any("modpost" in line and "undefined!" in line for line in lines):
        lines.append("(a kernel exports to modules only what is marked EXPORT_SYMBOL)")
    if len(lines) > _MOST_LINES:
        lines[_MOST_LINES:] = [f"({len(lines) - _MOST_LINES} more lines)"]
    return "\n".join(line[:2000] for line in lines).strip()
