# SPDX-License-Identifier: GPL-2.0-only
"""CCPerf's metrics of single flows and of the network that analysis/metrics/flows.py does not have, of few flows."""

from __future__ import annotations

import math

import numpy as np

from analysis.flows import fairness, flow_curves, flow_means
from analysis.flows.flow_curves import Curves
from analysis.metrics import Metric, Shown
from analysis.read import tcp
from analysis.read.runs import Run
from topologies.links import varying

UNITS = {
    "cov_throughput_l4": "1", "mean_network_power_l4": "Mbit/s/s", "mean_utility_pf_l4": "1",
    "mean_utility_mpdf_l4": "s/Mbit", "mean_utilization_bw_l4": "1", "mean_in_flight_l4": "segments",
    "cov_in_flight_l4": "1", "mean_one_way_delay_l7": "ms", "mean_sending_rate_l7": "Mbit/s", "mean_throughput_l7":
    "Mbit/s", "total_rtos_l4": "1", "mean_utilization_bdp_l4": "1", "mean_recovery_time_l4": "ms",
    "mean_idt_ewma_l4": "ms", "flow_completion_time_l4": "s", "mean_agg_network_power_l4": "Mbit/s/s",
    "mean_agg_utility_pf_l4": "1", "mean_agg_utility_mpdf_l4": "s/Mbit", "mean_agg_utilization_bw_l4": "1",
    "mean_agg_in_flight_l4": "segments", "mean_agg_sending_rate_l7": "Mbit/s", "mean_agg_throughput_l7": "Mbit/s",
    "mean_agg_utilization_bdp_l4": "1", "mean_jains_fairness_throughput_l4": "1",
    "mean_entropy_fairness_throughput_l4": "bit", "mean_product_fairness_throughput_l4": "1"}
MARGINS = {"mean_jains_fairness_throughput_l4": fairness.JAIN_MARGIN,
           "mean_entropy_fairness_throughput_l4": fairness.ENTROPY_MARGIN_BIT}
MOST = {"mean_jains_fairness_throughput_l4": 1.0}
SHOWN = [Shown("flow_layers", "mean_throughput_l7", "throughput, layer 7", 20, best=1),
         Shown("flow_layers", "mean_sending_rate_l7", "sending rate, layer 7", 40, best=1),
         Shown("flow_layers", "cov_throughput_l4", "variation of throughput", 50, best=-1),
         Shown("flow_layers", "flow_completion_time_l4", "completion time", 60, best=-1),
         Shown("flow_layers", "mean_in_flight_l4", "in flight", 80),
         Shown("flow_layers", "cov_in_flight_l4", "variation of in flight", 90, best=-1),
         Shown("flow_layers", "mean_one_way_delay_l7", "one-way delay, layer 7", 120, best=-1),
         Shown("flow_layers", "mean_network_power_l4", "network power", 130, best=1),
         Shown("flow_layers", "mean_utility_pf_l4", "utility pf", 140, best=1),
         Shown("flow_layers", "mean_utility_mpdf_l4", "utility mpdf", 150, best=1),
         Shown("flow_layers", "mean_utilization_bw_l4", "utilisation of rate", 160, best=1),
         Shown("flow_layers", "mean_utilization_bdp_l4", "utilisation of BDP", 170),
         Shown("flow_layers", "mean_recovery_time_l4", "recovery time", 180, best=-1),
         Shown("flow_layers", "mean_idt_ewma_l4", "inter-delivery time, EWMA", 190, best=-1),
         Shown("flow_layers", "total_rtos_l4", "retransmission timeouts", 210, best=-1),
         Shown("network_layers", "mean_agg_utilization_bw_l4", "utilisation, all flows", 20, best=1),
         Shown("network_layers", "mean_agg_in_flight_l4", "in flight, all flows", 30),
         Shown("network_layers", "mean_agg_utilization_bdp_l4", "utilisation of BDP, all flows", 40),
         Shown("network_layers", "mean_agg_network_power_l4", "network power, sum", 50, best=1),
         Shown("network_layers", "mean_agg_utility_pf_l4", "utility pf, sum", 60, best=1),
         Shown("network_layers", "mean_agg_utility_mpdf_l4", "utility mpdf, sum", 70, best=1),
         Shown("network_layers", "mean_jains_fairness_throughput_l4", "Jain's fairness index", 80, best=1),
         Shown("network_layers", "mean_entropy_fairness_throughput_l4", "entropy of the shares", 90, best=1),
         Shown("network_layers", "mean_product_fairness_throughput_l4", "product of the throughputs", 100, best=1)]


def compute(run: Run) -> list[Metric]:
    """Of each flow as long as it is there; then of all flows together, and how they share."""
    curves = flow_curves.of_run(run)
    if not curves:
        return []
    delivered = tcp.delivered_us(run)
    found: list[Metric] = []
    for one in curves:
        scope = f"flow_{one.flow.flow}"
        values = [*_rates(run, one), *_buffers(run, one), *_states(one)]
        at_us = delivered.get(one.flow.flow)
        if at_us is not None:
            values.append(("flow_completion_time_l4", "s", (at_us - one.flow.start_us) / 1e6))
        found += [Metric(name, scope, unit, value) for name, unit, value in values if math.isfinite(value)]
    sums: dict[tuple[str, str], list[float]] = {}
    shares = {f"flow_{one.flow.flow}": (one.end_us - one.start_us) / 1e6 / run.interval.seconds for one in curves}
    for metric in found:
        if metric.metric.startswith(("mean_in_flight", "mean_sending", "mean_throughput", "mean_utilization")):
            # over the whole interval, or flows that follow each other would add up to more than the link has
            sums.setdefault((metric.metric, metric.unit), []).append(metric.value * shares[metric.scope])
        elif metric.metric.startswith(("mean_utility", "mean_network")):
            sums.setdefault((metric.metric, metric.unit), []).append(metric.value)
    found += [Metric(name.replace("mean_", "mean_agg_", 1), "all", unit, sum(values))
              for (name, unit), values in sums.items() if len(values) == len(curves)]
    return found + (_shares(run, curves) if len(curves) > 1 else [])


def slowest_bps(run: Run, one: Curves, from_us: float, to_us: float) -> float | None:
    """The mean rate of the slowest bottleneck on a flow's way; None if it crosses none, or one that carries nothing."""
    links = [run.bottlenecks[name] for name in one.flow.hops if name in run.bottlenecks]
    return min((varying.mean_rate_bps(link, from_us, to_us) for link in links), default=None) or None


def bdp_segments(run: Run, one: Curves) -> float | None:
    """Bandwidth-delay product of a flow's slowest bottleneck and its base RTT."""
    rate_bps, rtt_us = slowest_bps(run, one, one.start_us, one.end_us), one.flow.base_rtt_us
    return rate_bps * rtt_us / 8e6 / packet_bytes(run, one) if rate_bps and rtt_us else None


def packet_bytes(run: Run, one: Curves) -> int:
    """A full packet of a flow at layer 3, in which its bandwidth-delay product is counted."""
    return run.network.packet_bytes(one.flow.hops)


def _rates(run: Run, one: Curves) -> list[tuple[str, str, float]]:
    """What the throughput in bins says."""
    edges, seconds = one.edges, (one.end_us - one.start_us) / 1e6
    rates = one.rates_mbps(edges)
    mean = flow_means.growth(one.start_us, one.end_us, one.t_us, one.acked) * 8e-6 / seconds
    found = [("cov_throughput_l4", "1", flow_means.variation(rates)),
             ("mean_network_power_l4", "Mbit/s/s", flow_means.power(rates, one.srtt_ms(edges[1:]))),
             ("mean_utility_pf_l4", "1", flow_means.utility_pf(rates)),
             ("mean_utility_mpdf_l4", "s/Mbit", flow_means.utility_mpdf(rates))]
    rate_bps = slowest_bps(run, one, one.start_us, one.end_us)
    return [*found, ("mean_utilization_bw_l4", "1", mean * 1e6 / rate_bps)] if rate_bps else found


def _buffers(run: Run, one: Curves) -> list[tuple[str, str, float]]:
    """What is under way, and what the applications wrote and read."""
    flight = one.in_flight()
    if one.buffers is None or flight is None:
        return []
    lay, seconds = one.buffers, (one.end_us - one.start_us) / 1e6
    mean = flow_means.time_mean(one.start_us, one.end_us, *flight)
    found = [("mean_in_flight_l4", "segments", mean),
             ("cov_in_flight_l4", "1", flow_means.variation(np.nan_to_num(flow_means.held(one.edges[1:], *flight)))),
             ("mean_one_way_delay_l7", "ms", flow_means.transit_ms(lay.t_us, lay.written, lay.read_us, lay.read))]
    for name, times_us, counter in (("mean_sending_rate_l7", lay.t_us, lay.written),
                                    ("mean_throughput_l7", lay.read_us, lay.read)):
        # nothing is written or read before the start
        times_us, counter = np.append(one.flow.start_us, times_us), np.append(0, counter)
        grown = flow_means.growth(one.start_us, one.end_us, times_us, np.maximum.accumulate(counter))
        found.append((name, "Mbit/s", grown * 8e-6 / seconds))
    if np.isfinite(lay.timeouts).all():
        found.append(("total_rtos_l4", "1", flow_means.growth(one.start_us, one.end_us, lay.t_us, lay.timeouts)
                      if lay.t_us[0] < one.start_us else float(lay.timeouts.max())))
    bdp = bdp_segments(run, one)
    return [*found, ("mean_utilization_bdp_l4", "1", mean / bdp)] if bdp else found


def _states(one: Curves) -> list[tuple[str, str, float]]:
    inside = one.t_us >= one.start_us
    return [("mean_recovery_time_l4", "ms", flow_means.recovery_ms(one.t_us[inside], one.ca_state[inside])),
            ("mean_idt_ewma_l4", "ms", flow_means.inter_delivery_ms(one.t_us[inside], one.segments[inside]))]


def _shares(run: Run, curves: list[Curves]) -> list[Metric]:
    edges = flow_means.edges(*run.interval)
    jain, entropy, product = flow_means.shares(np.stack([one.rates_mbps(edges) for one in curves], axis=1))
    scope = f"bin_{flow_means.BIN_US / 1e3:g}_ms"
    return [Metric(name, scope, unit, value) for name, unit, value in (
        ("mean_jains_fairness_throughput_l4", "1", jain), ("mean_entropy_fairness_throughput_l4", "bit", entropy),
        ("mean_product_fairness_throughput_l4", "1", product)) if math.isfinite(value)]
