# SPDX-License-Identifier: GPL-2.0-only
"""Building kernel-modules/ against any kernel, and loading what came out in a guest.

    build(folder, KDIR=..., O=..., ARCH="um")     all modules, in a copy in `folder`; warnings are errors
    installed_headers()                           Debian's headers in /usr/src
    style(source_dir)                             what checkpatch has to say
    load_and_unload(kernel, modules, folder)      what each of them registers

As process 1 of a guest (module_builds.py FILE.ko...) this file is the inner half of load_and_unload.
"""
import ctypes
import json
import os
import pathlib
import shutil
import subprocess
import sys

MODULES = pathlib.Path(__file__).parents[2] / "kernel-modules"
NAMES = {"tcp_bbr_ietf": "bbr_ietf", "tcp_libra": "libra", "tcp_tahoe": "tahoe",
         "tcp_reno_classic": "reno_classic", "tcp_dctcp_l4s": "dctcp_l4s",
         "tcp_cubic_variant": "cubic_variant", "tcp_highspeed_floor": "highspeed_floor",
         "tcp_reno_instant": "reno_instant", "tcp_dctcp_instant": "dctcp_instant"}
_BUILD_PRODUCTS = ("*.o", "*.ko", "*.mod", "*.mod.c", "*.cmd", "Module.symvers", "modules.order")


class BuildFailed(Exception):
    """The compiler's words."""


def build(folder, **variables):
    """{module: its .ko} of all modules. Raises BuildFailed for an error or a warning, those of W=1 included."""
    folder = pathlib.Path(folder) / "kernel-modules"
    shutil.copytree(MODULES, folder, ignore=shutil.ignore_patterns(*_BUILD_PRODUCTS))
    options = {"W": "1", "KCFLAGS": "-Werror", **variables}
    done = subprocess.run(["make", *(f"{name}={value}" for name, value in options.items())], cwd=folder,
                          capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    # modules of a kernel that is not installed: there is no vmlinux to make type information from
    words = [line for line in done.stderr.splitlines() if "unavailability of vmlinux" not in line]
    if done.returncode or any("warning" in line.lower() for line in words):
        raise BuildFailed("\n".join(words))
    return {path.stem: path for path in folder.glob("*/*.ko")}


def installed_headers():
    """Folders that KDIR can be: headers of Debian kernels that are installed on this machine."""
    folders = pathlib.Path("/usr/src").glob("linux-headers-*")
    return sorted(path for path in folders if (path / "Module.symvers").exists())


def style(source_dir):
    """checkpatch's complaints about all sources, with the checkpatch of that kernel."""
    sources = sorted(path for path in MODULES.rglob("*.[ch]") if not path.name.endswith(".mod.c"))
    checkpatch = f"{source_dir}/scripts/checkpatch.pl"
    done = subprocess.run(["perl", checkpatch, "--no-tree", "--strict", "--terse", "-f", *sources],
                          capture_output=True, text=True)
    if done.returncode not in (0, 1) or done.stderr:
        raise BuildFailed(done.stdout + done.stderr)
    return [line for line in done.stdout.splitlines() if not line.startswith("total: 0 errors, 0 warnings, 0 checks")]


def load_and_unload(kernel, modules, scratch):
    """{module: [what it registers, what of that is left after it is unloaded]} of .ko files, and the kernel's log."""
    done = subprocess.run(
        ["setarch", "-R", str(kernel.program), "mem=64M", "root=none", "rootfstype=hostfs", "rootflags=/", "ro",
         "time-travel=inf-cpu", "loglevel=8", "con=null", "con0=null,fd:2", f"uml_dir={scratch}", "umid=load",
         "init=/usr/bin/python3", "--", "-I", "-S", __file__, *map(str, modules)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    log = done.stdout + done.stderr
    answer = [line for line in log.splitlines() if line.startswith('{"')]
    if not answer:
        raise BuildFailed(log)
    return json.loads(answer[0]), log


def _guest(files):
    libc = ctypes.CDLL(None, use_errno=True)
    init_module, delete_module = {"x86_64": (175, 176), "aarch64": (105, 106)}[os.uname().machine]

    def call(result, what):
        if result:
            raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")

    def available():
        return set(pathlib.Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split())
    try:
        call(libc.mount(b"proc", b"/proc", b"proc", 0, None), "mount")
        before, registered = available(), {}
        for path in map(pathlib.Path, files):
            there, image = available(), path.read_bytes()
            call(libc.syscall(init_module, image, ctypes.c_ulong(len(image)), b""), path.name)
            registered[path.stem] = [sorted(available() - there)]
        for name in registered:
            call(libc.syscall(delete_module, name.encode(), 0), name)
            registered[name].append(sorted(available() & set(registered[name][0])))
        assert available() == before
        os.write(2, f"\n{json.dumps(registered)}\n".encode())
    except Exception as problem:              # process 1 must not end: the kernel would panic
        os.write(2, f"\n{type(problem).__name__}: {problem}\n".encode())
    finally:
        libc.reboot(0x4321FEDC)


if __name__ == "__main__":
    _guest([argument for argument in sys.argv[1:] if argument.endswith(".ko")])
