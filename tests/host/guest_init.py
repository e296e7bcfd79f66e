# SPDX-License-Identifier: GPL-2.0-only
"""Process 1 of a guest on the wall clock: a machine whose root runs commands, then switches off.

    guest_init.py SCRIPT.py SOURCE_DIR BUILD_DIR BUNDLES

SCRIPT.py is in this folder; its main(out_dir) may do what root may. out_dir is the one folder that outlives the guest;
the other two are those that this kernel was built from and in. BUNDLES is a folder with the code that runs inside; with
"-" the guest makes it.
"""
import ctypes
import importlib
import os
import signal
import sys
import traceback

_libc = ctypes.CDLL(None, use_errno=True)
_PROJECT, _OUT = "/run/checkout", "/run/out"


def _mount(source, target, kind, flags=0, data=None):
    os.makedirs(target, exist_ok=True)
    if _libc.mount(source.encode(), target.encode(), kind.encode(), flags, data.encode() if data else None):
        raise OSError(ctypes.get_errno(), f"mount {kind} on {target}: {os.strerror(ctypes.get_errno())}")


try:
    for kind, target in (("proc", "/proc"), ("sysfs", "/sys"), ("tracefs", "/sys/kernel/tracing"),
                         ("devtmpfs", "/dev"), ("devpts", "/dev/pts"), ("tmpfs", "/tmp"), ("tmpfs", "/run"),
                         ("tmpfs", "/var/tmp"), ("tmpfs", "/dev/shm")):
        _mount(kind, target, kind, data="size=3g" if kind == "tmpfs" else None)
    _mount("none", _PROJECT, "hostfs", 1, "/proc/self/fd/9")
    _mount("none", _OUT, "hostfs", 0, "/proc/self/cwd")
    os.environ.clear()
    os.environ.update(PATH="/usr/sbin:/usr/bin:/sbin:/bin", HOME="/tmp", LANG="C.UTF-8", PYTHONDONTWRITEBYTECODE="1",
                      TESTBED_CACHE="/tmp/cache", TESTBED_RESULTS="/tmp/results")
    os.chdir("/tmp")
    if sys.argv[4] != "-":
        os.makedirs("/tmp/cache")
        os.symlink(sys.argv[4], "/tmp/cache/bundles")
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    sys.path[:0] = [_PROJECT, "/usr/lib/python3/dist-packages"]
    script = os.fork()
    if script == 0:
        importlib.import_module(f"tests.host.{sys.argv[1].removesuffix('.py')}").main(_OUT)
        os._exit(0)
    while os.wait()[0] != script:           # orphans of killed processes are ours
        pass
except BaseException:                       # process 1 must not end: the kernel would panic
    traceback.print_exc()
    if os.getpid() != 1:
        os._exit(1)
finally:
    if os.getpid() == 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os.sync()
        _libc.reboot(0x4321FEDC)
