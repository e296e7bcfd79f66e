# SPDX-License-Identifier: GPL-2.0-only
"""Synthetic run folders whose metrics are known in advance (docs/run-folder.md).

With noise=0 the links send at constant rates, every packet waits the same
time, and transfers take a fixed latency plus their size over a fixed rate.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

PACKET_BYTES = 1500
LINKS = ("right_to_left", "left_to_right")


@dataclass
class Shape:
    """What a run looks like; the defaults give round numbers."""

    prefill_s: float = 1
    warmup_s: float = 1
    test_s: float = 10
    interval_us: int = 10_000
    packets: tuple[int, int] = (50, 10)  # per sampling interval and link: 60, 12 Mbit/s
    drop_every: int = 10                 # samples per dropped packet, right_to_left
    sojourn_us: tuple[int, int] = (20_000, 1_000)
    backlog_packets: tuple[int, int] = (100, 4)
    connections_per_s: int = 20
    adus_per_connection: int = 2
    latency_us: int = 50_000
    rate_bytes_per_us: float = 1.0
    tcp_info_rows: int = 2_000
    noise: float = 0.0

    @property
    def duration_s(self) -> float:
        return self.prefill_s + self.warmup_s + self.test_s


def write_run(path: Path, seed: int = 1, shape: Shape | None = None, *,
              verdict: str = "valid", tmix: bool = True, sojourn: bool = True) -> Path:
    """A finished run in `path`; without tmix it has tcp_info of its flows alone."""
    shape = shape or Shape()
    raw = path / "raw"
    raw.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    cca = path.name.rsplit("-seed", 1)[0]
    _write_descriptions(path, cca, seed, shape, verdict, tmix)
    _write_links(raw, shape, rng, sojourn)
    if tmix:
        connections = _connections(shape, rng)
        save(raw / "connections.csv.gz", connections)
        save(raw / "adus.csv.gz", _adus(shape, connections))
    save(raw / "tcp_info.csv.gz", _tcp_info(shape, cca, rng))
    return path


def write_failed_run(path: Path, error: str) -> Path:
    """A run that left nothing but its error."""
    path.mkdir(parents=True)
    write_json(path / "run.json", {"status": "failed", "error": error,
                                   "virtual_s": 3.0, "wall_s": 1.5})
    return path


def write_experiment(path: Path, ccas=("reno", "cubic"), seeds=(1, 2, 3), *, shapes=None,
                     failed: dict[str, str] | None = None,
                     verdicts: dict[str, str] | None = None,
                     parameters: dict | None = None, **options) -> Path:
    """An experiment with one run per CCA and seed; `shapes` gives a CCA its own shape."""
    names = [f"{cca}-seed{seed}" for cca in ccas for seed in seeds]
    for name in names:
        cca, seed = name.rsplit("-seed", 1)
        folder = path / "runs" / name
        if name in (failed or {}):
            write_failed_run(folder, failed[name])
        else:
            write_run(folder, int(seed), (shapes or {}).get(cca),
                      verdict=(verdicts or {}).get(name, "valid"), **options)
    write_json(path / "experiment.json", {
        "scenario": "access-link", "title": "Access link at 60 % load",
        "description": "Nine sources of Tmix traffic.", "source": "made up for tests",
        "parameters": parameters or {"load_percent": 60, "bottleneck_rate_bps": 100_000_000},
        "ccas": list(ccas), "seeds": list(seeds),
        "runs": [f"runs/{name}" for name in names],
        "command": ["run", "access-link", "--cca", ",".join(ccas), "--seeds", str(len(seeds))],
    })
    return path


def write_json(path: Path, value) -> None:
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")


def save(path: Path, frame: pd.DataFrame) -> None:
    frame.to_csv(path, index=False, compression={"method": "gzip", "compresslevel": 1})


def _write_descriptions(path, cca, seed, shape, verdict, tmix):
    duration = shape.duration_s
    reasons = {"valid": []}.get(verdict, [
        {"check": "offered_load", "level": verdict,
         "message": "offered load is 57.1 % of the link, the target is 60 %"}])
    write_json(path / "scenario.json", {
        "name": "access-link", "description": "three <hosts> a side & Tmix",
        "bottleneck": {"rate_bps": 100_000_000, "delay_us": 2000, "buffer_packets": 850},
        "edges_delay_us": {"left": [0, 12_000, 25_000], "right": [2000, 37_000, 75_000]}})
    write_json(path / "environment.json", {
        "kernel": {"release": "6.12.30", "config_sha256": "5f0c" * 16},
        "versions": {"mininet": "2.3.0", "iproute2": "6.1.0", "python": "3.11.2"},
        "seed": seed, "code_version": "v1.0"})
    write_json(path / "run.json", {"status": "finished", "error": None, "virtual_s": duration,
                                   "wall_s": duration / 3, "raw_sha256": "ab" * 32})
    write_json(path / "verdict.json", {"verdict": verdict, "reasons": reasons, "checks": [
        {"check": "base_rtt", "level": "ok", "message": "all 9 paths within 0.1 %"},
        {"check": "conservation", "level": "ok", "message": "every packet accounted for"},
        *reasons]})
    write_json(path / "raw" / "network.json", {
        "nodes": [{"name": f"n{i}", "side": "left" if i < 4 else "right", "role": "host",
                   "addresses": [f"10.0.{i}.2"]} for i in range(1, 7)],
        "links": [{"name": name, "from": "r2", "to": "r1", "rate_bps": 100_000_000,
                   "delay_us": 2000, "loss_percent": 0, "queue": "pfifo",
                   "limit_packets": 850, "bottleneck": True} for name in LINKS[::-1]],
        "paths": [{"source": i, "initiator": f"n{i // 3 + 1}", "acceptor": f"n{i % 3 + 4}",
                   "base_rtt_us": 8000} for i in range(9)]})
    window = {"prefill_us": int(shape.prefill_s * 1e6), "warmup_us": int(shape.warmup_s * 1e6),
              "test_us": int(shape.test_s * 1e6), "duration_us": int(duration * 1e6)}
    load = {"target_link": "right_to_left", "target_load": 0.6, "scale": 1.03,
            "offered_bps": {"right_to_left": 64_000_000, "left_to_right": 12_000_000},
            "thirds_bps": {"right_to_left": [60e6, 62e6, 64e6],
                           "left_to_right": [12e6, 12e6, 12e6]},
            "connections": int(shape.connections_per_s * duration), "bin_us": 5_000_000}
    write_json(path / "raw" / "workload.json", {**window, **(load if tmix else {})})


def _write_links(raw, shape, rng, sojourn):
    steps = int(shape.duration_s * 1e6 / shape.interval_us)
    t_us = np.arange(steps + 1) * shape.interval_us
    queue, sojourns, histograms = [], [], []
    for index, link in enumerate(LINKS):
        # A slow random walk that throughput and delay share, as in a real queue.
        wave = np.exp(shape.noise * np.convolve(rng.standard_normal(steps + 200),
                                                np.ones(200) / 14, "valid")[:steps])
        packets = np.clip((shape.packets[index] * wave).round(), 1, 83).astype(int)
        delay = shape.sojourn_us[index] * wave ** 2
        backlog = (shape.backlog_packets[index] * wave ** 2).round().astype(int)
        drop = (np.arange(steps) % shape.drop_every == 0) * (index == 0)
        drop = drop * (rng.poisson(wave ** 3) if shape.noise else 1)
        sent = np.concatenate([[0], np.cumsum(packets)])
        backlog = np.concatenate([[shape.backlog_packets[index]], backlog])
        queue.append(pd.DataFrame({
            "t_us": t_us, "link": link, "sent_bytes": sent * PACKET_BYTES, "sent_packets": sent,
            "drops": np.concatenate([[0], np.cumsum(drop)]),
            "backlog_bytes": backlog * PACKET_BYTES, "backlog_packets": backlog}))
        sojourns.append(pd.DataFrame({
            "t_us": t_us[:-1], "link": link, "packets": packets, "mean_us": delay.round(1),
            "min_us": (delay * 0.9).round(1), "max_us": (delay * 1.1).round(1)}))
        edges = np.unique(np.round(np.geomspace(100, 200_000, 200), -1))
        counts, _ = np.histogram(delay, edges, weights=packets)
        histograms.append(pd.DataFrame({"link": link, "low_us": edges[:-1].astype(int),
                                        "high_us": edges[1:].astype(int),
                                        "packets": counts.astype(int)}))
    save(raw / "queue.csv.gz", pd.concat(queue).sort_values("t_us", kind="stable"))
    if sojourn:
        save(raw / "sojourn.csv.gz", pd.concat(sojourns).sort_values("t_us", kind="stable"))
        save(raw / "sojourn_hist.csv.gz", pd.concat(histograms))


def _connections(shape, rng):
    """Connections at a constant pace: requests of 500 bytes, responses of 10^2.5 .. 10^6."""
    count = int(shape.connections_per_s * shape.duration_s)
    number = np.arange(count)
    start = number * int(1e6 / shape.connections_per_s)
    exponent = 2.6 + (number % 7) * 0.5
    request = np.full(count, 500)
    response = np.round(10 ** exponent).astype(int)
    took = shape.latency_us + (request + response) / shape.rate_bytes_per_us
    if shape.noise:
        took = took * rng.lognormal(0, shape.noise * 2, count)
    end = start + took.round().astype(int)
    alive = end >= shape.duration_s * 1e6
    status = np.where(alive, "unfinished", "finished").astype(object)
    status[number % 100 == 99] = "failed: ECONNRESET"
    source = number % 9
    return pd.DataFrame({
        "source": source, "conn": number // 9, "initiator": [f"n{s // 3 + 1}" for s in source],
        "acceptor": [f"n{s % 3 + 4}" for s in source], "iport": 20_000 + number % 40_000,
        "aport": 10_000 + source, "prefill": (start < shape.prefill_s * 1e6).astype(int),
        "scheduled_us": start, "start_us": start, "connected_us": start + 8000,
        "end_us": pd.array(np.where(alive, -1, end), dtype="Int64"),
        "init_bytes_asked": request, "init_bytes_delivered": request,
        "acc_bytes_asked": response, "acc_bytes_delivered": response,
        "adus_asked": 2, "adus_delivered": 2, "status": status,
    }).replace({"end_us": {-1: pd.NA}})


def _adus(shape, connections):
    """A request and a response per connection; more ADUs repeat the response's share."""
    parts = []
    for index in range(shape.adus_per_connection):
        side = "i" if index == 0 else "a"
        size = (connections["init_bytes_asked"] if index == 0 else
                connections["acc_bytes_asked"] // (shape.adus_per_connection - 1))
        sent = connections["connected_us"] + index * 25_000
        took = 20_000 + (size / shape.rate_bytes_per_us).round().astype(int)
        delivered = (sent + took).astype("Int64")
        delivered[delivered >= shape.duration_s * 1e6] = pd.NA
        parts.append(pd.DataFrame({
            "source": connections["source"], "conn": connections["conn"], "side": side,
            "index": index, "bytes": size, "sent_us": sent, "delivered_us": delivered}))
    return pd.concat(parts)


def _tcp_info(shape, cca, rng):
    """Ten sockets of n4 that send 1 Mbit/s each, 2 % of it again, and ten sinks of n1."""
    rows = []
    steps = max(2, shape.tcp_info_rows // 20)
    t_us = (np.arange(1, steps + 1) * shape.duration_s * 1e6 / steps).astype(int)
    for port in range(10):
        sent = t_us // 8
        common = dict(t_us=t_us, state="ESTAB", cca=cca, ca_state=0, ssthresh=100, rto_us=204_000,
                      rttvar_us=1000, min_rtt_us=8000, mss=1448, unacked=10, lost=0, retrans=0,
                      total_retrans=0, delivered=0, delivery_rate_bps=0, pacing_rate_bps=0)
        rows.append(pd.DataFrame({
            **common, "node": "n4", "src": "10.0.4.2", "sport": 10_000 + port, "dst": "10.0.1.2",
            "dport": 20_000, "cwnd": 40, "srtt_us": 30_000, "bytes_acked": sent,
            "bytes_received": 0, "bytes_sent": sent, "bytes_retrans": sent // 50,
            "busy_us": t_us, "rwnd_limited_us": t_us // 100, "sndbuf_limited_us": 0}))
        rows.append(pd.DataFrame({
            **common, "node": "n1", "src": "10.0.1.2", "sport": 20_000, "dst": "10.0.4.2",
            "dport": 10_000 + port, "cwnd": 10, "srtt_us": 30_000, "bytes_acked": 0,
            "bytes_received": sent, "bytes_sent": 0, "bytes_retrans": 0,
            "busy_us": 0, "rwnd_limited_us": 0, "sndbuf_limited_us": 0}))
    return pd.concat(rows).sort_values("t_us", kind="stable")
