# SPDX-License-Identifier: GPL-2.0-only
"""The dumbbell of the Common TCP Evaluation Suite (draft-irtf-iccrg-tcpeval-01, section 3).

        n1 --.              .-- n4
        n2 --- r1 ====== r2 --- n5          central link: r1 == r2
        n3 --'              '-- n6

Every left host is paired with every right host: three nodes a side give nine paths.
Left hosts initiate connections, right hosts accept them, so that the heavier
direction is `right_to_left`.
"""
from topologies.base import EmulatedTopo
from topologies.link import LinkDirection
from topologies.parameters import ParameterError, plain, require_fields, require_mapping


class Dumbbell(EmulatedTopo):
    """Any number of hosts a side, each with its own one-way edge delay."""

    @classmethod
    def from_section(cls, section):
        """Fields: central (a link, or one link per direction), edge (a link without delay),
        left_delays, right_delays (lists of one-way delays)."""
        require_fields(section, {"central": dict, "edge": dict, "left_delays_us": list, "right_delays_us": list},
                       required=("central", "edge", "left_delays_us", "right_delays_us"))
        directions = {}
        for name in ("left_to_right", "right_to_left"):
            link = section["central"].get(name, section["central"])
            try:
                directions[name] = LinkDirection.from_section(require_mapping(link, ""), name=name, bottleneck=True)
            except ParameterError as problem:
                raise problem.inside(f"central.{name}" if name in section["central"] else "central") from None
        for name in ("delay_us", "loss_percent", "lose_segments", "lose_copies"):
            if name in section["edge"]:
                raise ParameterError(f"edge.{plain(name)}", "edge links lose nothing; their delays are left_delays and right_delays")
        try:
            edge = LinkDirection.from_section(section["edge"])
        except ParameterError as problem:
            raise problem.inside("edge") from None
        for side in ("left_delays_us", "right_delays_us"):
            if not section[side]:
                raise ParameterError(side, "at least one host a side is needed")
            for delay_us in section[side]:
                if not isinstance(delay_us, int) or delay_us < 0:
                    raise ParameterError(side, "times >= 0 such as '20 ms' expected")
        return cls(central=directions, edge_rate_bps=edge.rate_bps, edge_queue=edge.queue,
                   left_delays_us=section["left_delays_us"], right_delays_us=section["right_delays_us"])

    def build(self, central, edge_rate_bps, edge_queue, left_delays_us, right_delays_us):
        """
        central: {"left_to_right": LinkDirection, "right_to_left": LinkDirection}
        edge_rate_bps: rate of all edge links; edge_queue: `Queue` of every edge port
        left_delays_us, right_delays_us: one-way delay of each host's edge link
        """
        r1, r2 = self.router("r1", "left"), self.router("r2", "right")
        self.link(r1, r2, central["left_to_right"], central["right_to_left"])
        left, right = [], []
        for side, router, delays_us, hosts in (("left", r1, left_delays_us, left),
                                               ("right", r2, right_delays_us, right)):
            for delay_us in delays_us:
                host = self.host(f"n{len(left) + len(right) + 1}", side)
                edge = LinkDirection(edge_rate_bps, delay_us, queue=edge_queue)
                self.link(host, router, edge, edge)
                hosts.append(host)
        for initiator in left:
            for acceptor in right:
                self.path(initiator, acceptor)
