# SPDX-License-Identifier: GPL-2.0-only
"""What raw/workload.json says: components and flows (docs/reference/run-folder.md).

`traffic.prepare` makes it (traffic/workload/components.py); the guest, checks and analysis read it.
"""
from collections.abc import Mapping, Sequence

from testbed.core.record import Record


class Flow(Record):
    """A flow, or the connections of a source; of those `sender` is the initiator."""
    flow: int
    component: str
    kind: str
    #: tcp or udp
    transport: str = "tcp"
    sender: str
    receiver: str
    src: str
    dst: str
    sport: int | None = None
    dport: int
    #: the congestion control as asked for, and as the kernel calls it
    variant: str | None = None
    cca: str | None = None
    #: whether its program can choose it before it connects
    chooses_cca: bool = True
    start_us: int
    stop_us: int
    #: None: until it stops
    bytes: int | None = None
    #: None: as much as there is room for
    rate_bps: int | None = None
    connections: int = 1
    #: of flows that stand for many connections: which source of the component, from 0
    source: int | None = None
    both_ways: bool = False
    base_rtt_us: int
    #: names of link directions from sender to receiver, and back
    hops: Sequence[str]
    hops_back: Sequence[str]


class Component(Record):
    """What is said of every component; kinds add what they offer."""
    name: str
    kind: str
    start_us: int = 0
    stop_us: int
    variants: Sequence[str] = ()


class Workload(Record):
    """All of it. ccas: {congestion control as asked for: as the kernel calls it}"""
    components: Sequence[Component]
    flows: Sequence[Flow]
    ccas: Mapping[str, str]

    def __init__(self, content: Mapping[str, object], file: str = "") -> None:
        super().__init__(content, file)
        known = {name: self.of(kind, name) for name, kind in (("components", Component), ("flows", Flow))
                 if self.has(name)}
        self.__dict__ = {**self.__dict__, **known}
