# SPDX-License-Identifier: GPL-2.0-only
"""Connections of a Tmix component one after the other, each alone on the idle network.

`testbed run --slowdown` makes runs of it: what a connection takes here is what its completion time under load is
compared with.

    kind: tmix-alone
    of: {target: right_to_left, load: 60 %}     a Tmix component ...
    called: tmix                                ... its name, start and stop
    prefill: 36.72 s                            ... and the timing of the run that it is part of
    warmup: 84 s
    test: 479 s
    most: 2000                                  connections, drawn from those that start in its test

Connections keep their sizes, waits and paths. Each starts when the one before should long be over; whether it was is
for those to see who use the times (analysis/flows/slowdown.py).
"""
import dataclasses
import random

from testbed.core import fields
from testbed.core.fields import FieldError
from testbed.core.replayed import Replayed
from testbed.core.timing import Timing
from topologies.links import varying
from topologies.links.records import Network
from traffic.replay import component as replay
from traffic.replay.component import Plans, collect, plan_name
from traffic.tmix import scenario as tmix
from traffic.workload.components import NAME_PATTERN, Component, Context, Flow, Prepared, component_seed

__all__ = ["FIRST_PORT", "Section", "collect", "flows", "foreign_sockets", "inputs", "prepare", "validate"]

#: simulators can send it, too (testbed/engines/_simulators/workload.py)
SIMULATED = True
FIRST_PORT = tmix.FIRST_PORT


@dataclasses.dataclass(frozen=True)
class Section:
    """The fields of this component."""
    of: tmix.Section = fields.section(tmix.Section)
    called: str = fields.word(default="tmix", pattern=NAME_PATTERN, example="background")
    begins_us: int = fields.time(default=0)
    stops_us: int | None = fields.time(default=None, least=1)
    prefill_us: int = fields.time(default=0)
    warmup_us: int = fields.time(default=0)
    test_us: int = fields.time(least=1)
    most: int = fields.count(default=2000, least=1, most=1_000_000)

    @property
    def timing(self) -> Timing:
        """Of the run whose connections these are."""
        return Timing(prefill_us=self.prefill_us, warmup_us=self.warmup_us, test_us=self.test_us)

    def component(self, like: Component, seed: int) -> Component:
        """The Tmix component whose connections these are, in a run with this seed."""
        end_us = self.timing.duration_us
        return dataclasses.replace(
            like, name=self.called, kind="tmix", seed=component_seed(seed, self.called, "tmix"),
            start_us=self.begins_us, stop_us=end_us if self.stops_us is None else min(self.stops_us, end_us))


def inputs(section: Section) -> dict[str, str]:
    """{path: sha256} of the vector files."""
    return tmix.inputs(section.of)


def foreign_sockets(_section: Section) -> str:
    """Programs of ours open all sockets."""
    return ""


def validate(section: Section, component: Component, network: Network, _timing: Timing) -> None:
    of = section.component(component, 0)
    if of.start_us >= of.stop_us:
        raise FieldError("begins", f"{of.start_us / 1e6:g} s is not before the stop at {of.stop_us / 1e6:g} s")
    try:
        tmix.validate(section.of, of, network, section.timing)
    except FieldError as problem:
        raise problem.inside("of") from None


def flows(section: Section, component: Component, context: Context) -> list[Flow]:
    return tmix.flows(section.of, component, context)


def prepare(section: Section, component: Component, flows: list[Flow], context: Context) -> Prepared:
    """As Tmix does, with plans of the connections that were drawn."""
    from traffic.tmix.selected import Selected, drawn, rewritten
    of = section.component(component, context.seed)
    shares = tmix.shares(section.of, component)
    plans = tmix.plans(section.of, of, dataclasses.replace(context, timing=section.timing))
    measured_us = max(section.prefill_us + section.warmup_us, of.start_us), of.stop_us
    found = [Selected.read(plans.folder / plan_name(*divmod(place, shares), shares), flow.base_rtt_us, _slowest_bps(
        flow, context.network), measured_us, context.network.segment_bytes()) for place, flow in enumerate(flows)]
    chosen = drawn(found, section.most, random.Random(f"{of.seed}/alone"), component.start_us, component.stop_us)
    out = context.work_dir / f"alone-{component.name}"
    out.mkdir(parents=True, exist_ok=True)
    counts: list[list[int]] = [[0] * shares for _ in range(len(flows) // shares)]
    for place, (one, starts_us) in enumerate(zip(found, chosen)):
        source, share = divmod(place, shares)
        rewritten(one, starts_us, out / plan_name(source, share, shares))
        counts[source][share] = len(starts_us)
    total = sum(len(starts_us) for starts_us in chosen)
    if not total:
        raise FieldError("test", "no connection begins in it")
    described = {"target_links": plans.described["target_links"], "connections": total}
    return replay.prepare(component, flows, context, Plans(out, counts, described), Replayed(section.of.mix, alone={
        "of": sum(len(one.candidates) for one in found), "drawn": total}))


def _slowest_bps(flow: Flow, network: Network) -> int:
    """Rate of the slowest link on the way there or back."""
    crossed = {*flow.hops, *flow.hops_back}
    return min(round(varying.nominal_bps(link)) for link in network.links if link.name in crossed)
