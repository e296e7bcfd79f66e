# SPDX-License-Identifier: GPL-2.0-only
"""Data files of flent (https://flent.org), format version 4: gzipped JSON, opened by `flent FILE` and `flent-gui`.

They say that they are of flent's test tcp_ndown, since flent takes its plots from there; docs/howto/exports.md says
what each series is.  There is no wall clock in virtual time: the epoch is when traffic begins.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.read import curves, series, tcp
from analysis.read.runs import AnalysisError, Array, Run

WHAT = "flent's data file (.flent.gz): throughput, delay, windows and queues over time"
VERSION = 4
#: raw samples of a socket or queue that are kept at most
_MOST_SAMPLES = 20_000
_EPOCH = "1970-01-01T00:00:00.000000Z"

#: a sample: {"t": s, name: value}
Sample = dict[str, float]
#: {name of a curve: {fact: value}}
Facts = dict[str, dict[str, str | int]]


def export(run: Run, folder: Path, stem: str) -> list[Path]:
    """STEM.flent.gz"""
    edges = curves.edges_us(run)
    downloads, raw, what = _flows(run, edges)
    if not downloads:
        downloads, what = _links(run, edges)
    if not downloads:
        raise AnalysisError(f"{run.path}: neither samples of single TCP flows nor of a bottleneck: nothing for flent")
    names = list(downloads)
    table = np.array([downloads[name] for name in names])
    known = ~np.isnan(table)
    total = np.where(known.any(axis=0), np.nansum(table, axis=0), np.nan)
    results = {name: _listed(values) for name, values in downloads.items()}
    results["TCP download sum"] = _listed(total)
    results["TCP download avg"] = _listed(total / np.maximum(known.sum(axis=0), 1))
    delay = _round_trip_ms(run, edges)
    if delay is not None:
        results["Ping (ms) ICMP"] = _listed(delay)
    queues = _queues(run)
    for link in queues:
        results[f"qdisc_stats_{link}"] = [None] * (len(edges) - 1)
    document = {"version": VERSION, "x_values": _listed(edges[1:] / 1e6), "results": results,
                "raw_values": {**raw, **{f"qdisc_stats_{link}": samples for link, samples in queues.items()}},
                "metadata": _metadata(run, stem, edges, results, what, list(queues))}
    path = folder / f"{stem}.flent.gz"
    # without a time and a name in it: the same bytes each time
    with open(path, "wb") as file, gzip.GzipFile("", "wb", mtime=0, fileobj=file) as packed:
        packed.write(json.dumps(document, allow_nan=False, sort_keys=True).encode())
    return [path]


def _flows(run: Run, edges: Array) -> tuple[dict[str, Array], dict[str, list[Sample]], Facts]:
    """Of each single TCP flow: throughput in bins, samples of its socket, and what it is."""
    listed = {flow.flow: flow for flow in tcp.listed_flows(run)}
    rates: dict[str, Array] = {}
    raw: dict[str, list[Sample]] = {}
    what: Facts = {}
    for number, rows in curves.of_each_flow(run, "pacing_rate_bps", "delivery_rate_bps").items():
        flow, name = listed[number], f"TCP download::{number}"
        rates[name] = curves.acked_mbps(rows, flow.start_us or 0, edges)
        raw[name] = _samples(rows, {f"tcp_{one}": curves.sampled(rows, curves.OF_FLOWS[one])
                                    for one in ("cwnd", "rtt", "pacing_rate", "delivery_rate")})
        what[name] = {"UNITS": "Mbits/s", "CONG_CONTROL": tcp.variant_of(flow), "SENDER": flow.sender,
                      "RECEIVER": flow.receiver, "LAYER": 4}
    return rates, raw, what


def _links(run: Run, edges: Array) -> tuple[dict[str, Array], Facts]:
    """Of runs without single flows: the loaded bottlenecks."""
    rates: dict[str, Array] = {}
    what: Facts = {}
    for link in run.targets or list(run.bottlenecks):
        samples = series.queue_samples(run, link)
        if samples is not None:
            name = f"TCP download::{len(rates) + 1}"
            rates[name] = series.throughput_mbps(samples, edges)
            what[name] = {"UNITS": "Mbits/s", "LINK": link, "LAYER": 2}
    return rates, what


def _round_trip_ms(run: Run, edges: Array) -> Array | None:
    """Base round-trip time of the first path over the main bottleneck, and the queueing delay of all on its way."""
    main = next(iter(run.targets or run.bottlenecks), None)
    path = next((path for path in run.network.paths if main in path.hops
                 or main in path.hops_back), None)
    if path is None:
        return None
    total = np.full(len(edges) - 1, path.base_rtt_us / 1e3)
    for link in [*path.hops, *path.hops_back]:
        if link in run.bottlenecks:
            delay = series.queueing_delay_ms(run, link, edges)
            if delay is None:
                return None
            total += np.nan_to_num(delay)       # a bin without packets has no delay
    return total


def _queues(run: Run) -> dict[str, list[Sample]]:
    found = {}
    for link in run.bottlenecks:
        rows = series.queue_samples(run, link)
        if rows is not None:
            found[link] = _samples(rows, {
                "backlog_bytes": rows["backlog_bytes"], "backlog_pkts": rows["backlog_packets"],
                "dropped": rows["drops"].diff(), "delay": pd.Series(series.backlog_ms(run, link, rows), rows.index)})
    return found


def _samples(rows: pd.DataFrame, columns: dict[str, pd.Series]) -> list[Sample]:
    """One mapping for each sample, or, of very many, for every so manyth; what is not known is left out."""
    # drops are growth between samples: those of the ones that are left out count with the next
    every = -(-len(rows) // _MOST_SAMPLES)
    kept = {name: (column.groupby(np.arange(len(column)) // every).sum() if name == "dropped" else
                   column.iloc[::every]).to_numpy(dtype=float) for name, column in columns.items()}
    times = rows["t_us"].to_numpy()[::every] / 1e6
    return [{"t": float(t_s), **{name: round(float(values[place]), 6) for name, values in kept.items()
                                 if np.isfinite(values[place])}} for place, t_s in enumerate(times)]


def _listed(values: Array) -> list[float | None]:
    return [round(float(value), 6) if np.isfinite(value) else None for value in values]


def _metadata(run: Run, stem: str, edges: Array, results: Collection[str], what: Facts, links: list[str]) \
        -> dict[str, object]:
    streams = sum(name.startswith("TCP download::") for name in results)
    return {
        "NAME": "tcp_ndown", "TITLE": stem, "TIME": _EPOCH, "T0": _EPOCH, "DATA_FILENAME": f"{stem}.flent.gz",
        "HOST": "testbed", "HOSTS": ["testbed"], "LOCAL_HOST": "testbed", "LENGTH": int(edges[-1] / 1e6),
        "TOTAL_LENGTH": int(edges[-1] / 1e6), "STEP_SIZE": (edges[1] - edges[0]) / 1e6, "IP_VERSION": 4,
        "FLENT_VERSION": None, "NOTE": f"{run.labels.title}; {run.subject}, seed {run.seed}",
        "KERNEL_RELEASE": run.kernel, "MODULE_VERSIONS": {"run": run.path.resolve().name},
        "TEST_PARAMETERS": {"download_streams": str(streams), "qdisc_stats_hosts": ",".join(links),
                            "qdisc_stats_interfaces": ",".join(links)},
        "SERIES_META": {name: what.get(name, {"UNITS": "ms" if name.startswith("Ping") else "Mbits/s"})
                        for name in results},
        "BATCH_NAME": None, "BATCH_TIME": None, "BATCH_TITLE": None, "BATCH_UUID": None,
        "HTTP_GETTER_URLLIST": None, "HTTP_GETTER_DNS": None, "HTTP_GETTER_WORKERS": None}
