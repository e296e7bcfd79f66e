# SPDX-License-Identifier: GPL-2.0-only
"""What a run on the running kernel needs of it and of whoever asks: found by trying, in a namespace that goes again."""
from __future__ import annotations

import contextlib
import gzip
import os
import pathlib
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from typing import IO

from kernel import configuration
from testbed import engines
from testbed.engines.host import modules
from testbed.runs.engine import Problem
from topologies.linux.namespace import netns_of

#: capabilities(7): bit -> name
CAPABILITIES = {12: "CAP_NET_ADMIN", 13: "CAP_NET_RAW", 16: "CAP_SYS_MODULE", 21: "CAP_SYS_ADMIN"}
#: what is asked of `ip` and `tc`, one after the other: (configuration option of the kernel, words)
_DEVICES = (("CONFIG_VETH", "link add try0 type veth peer name try1"),
            ("CONFIG_IFB", "link add try2 type ifb"))
_QUEUES = (("CONFIG_NET_SCH_TBF", "qdisc add dev try0 root handle 1: tbf rate 10mbit burst 1600 limit 100000"),
           ("CONFIG_NET_SCH_HTB", "qdisc replace dev try0 root handle 3: htb default 1"),
           ("CONFIG_NET_SCH_NETEM", "qdisc replace dev try0 root handle 2: netem delay 1ms rate 10mbit"),
           ("CONFIG_NET_SCH_INGRESS", "qdisc add dev try0 handle ffff: ingress"),
           ("CONFIG_NET_CLS_MATCHALL, CONFIG_NET_ACT_MIRRED",
            "filter add dev try0 parent ffff: matchall action mirred egress redirect dev try1"))
_CONFIG = "/proc/config.gz"
_TRACING = pathlib.Path("/sys/kernel/tracing")
_EVENTS = ("qdisc/qdisc_enqueue", "tcp/tcp_probe")
_ELSEWHERE = f"or take --engine {engines.DEFAULT}, which needs none of it"


def rights() -> list[Problem]:
    """What this process may not do and a run does."""
    status = pathlib.Path("/proc/self/status").read_text(encoding="utf-8", errors="replace")
    held = int(re.findall(r"^CapEff:\s*([0-9a-f]+)$", status, re.M)[0], 16)
    missing = [name for bit, name in CAPABILITIES.items() if not held >> bit & 1]
    if not missing:
        return []
    return [Problem("engine host needs root, since it changes the running kernel's network; "
                    f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing",
                    f"start the same command with sudo, {_ELSEWHERE}")]


def kernel_lacks() -> list[Problem]:
    """What this kernel does not have, as one problem. Needs the rights; may make the kernel load modules."""
    with _namespace():
        lacks = [*_refused("ip", _DEVICES), *_refused("tc", _QUEUES)]
    if "tracefs" not in pathlib.Path("/proc/filesystems").read_text(encoding="ascii").split():
        lacks.append("CONFIG_ENABLE_DEFAULT_TRACERS")
    found = []
    if lacks:
        loads = "" if modules.possible() else " and loads no modules that could have it"
        found.append(Problem(f"this kernel has no {', '.join(lacks)}{loads}",
                             f"boot a distribution's usual kernel (Debian: linux-image-amd64), {_ELSEWHERE}"))
    if "CONFIG_ENABLE_DEFAULT_TRACERS" in lacks:
        pass
    elif not (_TRACING / "instances").is_dir():
        found.append(Problem(f"no tracefs at {_TRACING}", f"mount -t tracefs tracefs {_TRACING}, {_ELSEWHERE}"))
    else:
        events = [name for name in _EVENTS if not (_TRACING / "events" / name).is_dir()]
        if events:
            found.append(Problem(f"this kernel has no trace events {', '.join(events)}", "boot a kernel from 5.15 on "
                                 f"with CONFIG_TRACING, {_ELSEWHERE}"))
    return found


def lacking(kernel_options: Sequence[str]) -> list[str]:
    """Which of these options (kernel.option_names()) this kernel does not have, as far as it says what it has."""
    readers: tuple[tuple[str, Callable[..., IO[str]]], ...] = (
        (_CONFIG, gzip.open), (f"/boot/config-{os.uname().release}", open))
    for path, opened in readers:
        try:
            with opened(path, "rt", encoding="utf-8") as file:
                return configuration.lacking(file.read(), kernel_options)
        except OSError:
            continue
    return []                                       # the run finds out, when it needs something


@contextlib.contextmanager
def _namespace() -> Iterator[None]:
    """A network namespace for a moment: that of a process that ends with the block."""
    keeper = subprocess.Popen(["/usr/bin/unshare", "--net", "--", "/usr/bin/cat"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE)
    assert keeper.stdin and keeper.stdout
    try:
        keeper.stdin.write(b"there\n")
        keeper.stdin.flush()
        keeper.stdout.readline()                    # answers when it is in its namespace
        with netns_of(keeper.pid):
            yield
    finally:
        keeper.kill()
        keeper.wait()


def _refused(program: str, trials: tuple[tuple[str, str], ...]) -> list[str]:
    """The options of those trials that the kernel refuses."""
    done = subprocess.run([program, "-force", "-batch", "-"], input="\n".join(words for _, words in trials) + "\n",
                          capture_output=True, text=True, check=False)
    numbers = {int(number) for number in re.findall(r"^Command failed -:(\d+)$", done.stderr, re.M)}
    return [option for number, (option, _) in enumerate(trials, 1) if number in numbers]
