# SPDX-License-Identifier: GPL-2.0-only
"""tcp_info of the sockets of chosen hosts, more often than that of all hosts (-> tcp_info_often.csv.gz).

    tcp_info: {interval: 5 s}
    tcp_info_often: {hosts: [n1, n6], interval: 20 ms}

For two long flows among thousands of connections: a dump takes as long as there are sockets on the host, and a
table of all of them each 20 ms fills a disk.
"""
import dataclasses
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from testbed.core import fields
from testbed.probes import tcp_info
from topologies.links.records import Network as Description

if TYPE_CHECKING:
    from testbed.probes._context import Context
    from topologies.linux.network import Network


@dataclasses.dataclass(frozen=True)
class Options:
    """hosts: whose sockets; interval: time between two dumps."""
    hosts: tuple[str, ...] = fields.listing(fields.word(pattern="[A-Za-z0-9_-]+", example="n1"), least=1,
                                            single=True, distinct=True)
    interval_us: int = fields.time(default=100_000, least=100)


def validate(options: Options, network: Description) -> None:
    """FieldError if the network has no such host."""
    known = tcp_info.hosts_of(network)
    for name in options.hosts:
        if name not in known:
            raise fields.FieldError("hosts", f"no host {name}; there are: {', '.join(known)}")


def beside(options: Options, others: Mapping[str, object]) -> None:
    """FieldError if tcp_info is not there, or is sampled more often itself: these samples take the place of its own."""
    of_all = others.get("tcp_info")
    every_us = of_all.interval_us if isinstance(of_all, tcp_info.Options) else 0
    if options.interval_us > every_us:
        raise fields.FieldError("interval", f"at most that of tcp_info expected, {every_us / 1e6:g} s, not "
                                f"{options.interval_us / 1e6:g} s" if every_us else "only with tcp_info beside it")


class Sampler(tcp_info.Dumps):
    """Of the chosen hosts."""
    FILE = "tcp_info_often.bin"

    def __init__(self, options: Options, network: "Network", description: Description, work_dir: str) -> None:
        super().__init__(options.interval_us, options.hosts, network, description, work_dir)


def collect(work_dir: pathlib.Path, raw_dir: pathlib.Path, context: "Context[Options]") -> None:
    write = tcp_info.write_tables
    write(work_dir / Sampler.FILE, raw_dir, ["tcp_info_often"], context.options.hosts, context.network)
