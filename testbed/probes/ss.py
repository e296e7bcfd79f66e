# SPDX-License-Identifier: GPL-2.0-only
"""What `ss -tinH` says of every host's TCP sockets, at an interval (-> ss.txt.gz).

For state that only the text has, such as what a congestion control's get_info() exports. Starting
a program is dear in the guest, so this is on request: `--probe ss`. The numbers of struct tcp_info
are in tcp_info.csv.gz.
"""
import dataclasses
import pathlib
import shutil
import subprocess
from typing import TYPE_CHECKING

from testbed.core import fields
from topologies.links.records import Network as Description

if TYPE_CHECKING:
    from testbed.probes._context import Context
    from topologies.linux.network import Network


#: meanwhile packets of the same instant move on: such a probe is sampled before the others
STARTS_PROCESSES = True
_COMMAND = ("ss", "-tinH")                  # TCP, internal information, numbers, no header line


@dataclasses.dataclass(frozen=True)
class Options:
    """interval: time between two calls."""
    interval_us: int = fields.time(default=1_000_000, least=100)


class Sampler:
    """Runs ss in the namespace of every host."""

    def __init__(self, options: Options, network: "Network", description: Description, work_dir: str) -> None:
        self.interval_us = options.interval_us
        self._network = network
        self._hosts = [n.name for n in description.nodes if n.role == "host"]
        self._file = open(f"{work_dir}/ss.txt", "wb")

    def open(self) -> None:
        pass

    def sample(self, t_us: int) -> None:
        for host in self._hosts:
            with self._network.in_namespace(host):
                done = subprocess.run(_COMMAND, stdin=subprocess.DEVNULL, capture_output=True)
            if done.returncode:
                words = done.stderr.decode("utf-8", "replace").strip()
                raise OSError(f"probe ss: {' '.join(_COMMAND)} on {host} ended with status {done.returncode}: {words}")
            self._file.write(b"# t_us=%d node=%s\n" % (t_us, host.encode()) + done.stdout)

    def close(self) -> dict[str, object]:
        self._file.close()
        return {}


def collect(work_dir: pathlib.Path, raw_dir: pathlib.Path, context: "Context[Options]") -> None:
    from testbed.core.raw_files import packed
    with open(work_dir / "ss.txt", "rb") as text, packed(raw_dir / "ss.txt.gz") as file:
        shutil.copyfileobj(text, file)
