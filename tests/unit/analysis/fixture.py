# SPDX-License-Identifier: GPL-2.0-only
"""Synthetic run folders whose metrics are known in advance (docs/reference/run-folder.md).

With noise=0 the links send at constant rates, every packet waits the same
time, and transfers take a fixed latency plus their size over a fixed rate.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.compare import run_lists
from analysis.read import tables
from testbed import checks
from testbed.core import derived
from testbed.core.files import hash_raw

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


def write_run(path: Path, seed: int = 1, shape: Shape | None = None, *, subject: str | None = None,
              verdict: str = "valid", tmix: bool = True, sojourn: bool = True, flows: list[dict] | None = None,
              point: dict[str, str] | None = None, engine: str = "uml") -> Path:
    """A finished run in `path`; without tmix it has ten long flows, or `flows` (see `flow`)."""
    shape = shape or Shape()
    raw = path / "raw"
    raw.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    subject = subject or path.name.rsplit("-seed", 1)[0]
    if flows is None:
        flows = _sources(subject,
                         shape) if tmix else [flow(port - 9_999, port, subject) for port in range(10_000, 10_010)]
    _write_descriptions(path, subject, seed, shape, tmix, flows, point or {}, engine)
    _write_links(raw, shape, rng, sojourn)
    if tmix:
        connections = _connections(shape, rng)
        save(raw / "connections.csv.gz", connections)
        save(raw / "adus.csv.gz", _adus(shape, connections))
    save(raw / "tcp_info.csv.gz", _tcp_info(shape, subject, tmix))
    seal(path, verdict=verdict)
    return path


def seal(path: Path, **changes) -> None:
    """Write (or bring up to date) run.json, and a verdict that is true of it."""
    known = json.loads((path / "run.json").read_text()) if (path / "run.json").exists() else {}
    verdict = changes.pop("verdict", None) or json.loads((path / "verdict.json").read_text())["verdict"]
    hashes, total = hash_raw(path)
    write_json(path / "run.json", {
        "schema": 2, "id": path.name, "status": "finished", "error": None, "virtual_s": 12.0, "wall_s": 4.0,
        **known, **changes, "raw_files_sha256": hashes, "raw_sha256": total})
    reasons = [] if verdict == "valid" else [{
        "check": "offered_load", "level": verdict, "message": "offered load is 57.1 % of the link, the target is 60 %"}]
    content = {"verdict": verdict, "reasons": reasons, "errors": [], "checks": [
        {"check": "base_rtt", "level": "ok", "message": "all 9 paths within 0.1 %"},
        {"check": "conservation", "level": "ok", "message": "every packet accounted for"}, *reasons]}
    derived.keep(path, "verdict.json", json.dumps(content), checks._code(), total)


def write_failed_run(path: Path, error: str, seed: int = 1, subject: str = "cubic", point: dict | None = None) -> Path:
    """A run that left little but its error."""
    path.mkdir(parents=True)
    _write_plan(path, subject, seed, Shape(), point or {}, "uml")
    write_json(path / "run.json", {"schema": 2, "id": path.name, "status": "failed", "error": error,
                                   "virtual_s": 3.0, "wall_s": 1.5})
    return path


def run_id(*parts) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def write_experiment(path: Path, ccas=("reno", "cubic"), seeds=(1, 2, 3), *, shapes=None,
                     failed: dict[str, str] | None = None,
                     verdicts: dict[str, str] | None = None,
                     parameters: dict | None = None, points: list[dict[str, str]] | None = None, **options) -> Path:
    """An experiment with one run per subject, seed and point; `shapes` gives a subject (or (subject, value of the
    first axis)) its own shape."""
    runs = []
    for point in points or [{}]:
        for subject in ccas:
            for seed in seeds:
                at = "".join(f"-{key.rsplit('.', 1)[-1]}{value}".replace(" ", "_").replace("/", "_")
                             for key, value in point.items())
                name = f"{subject}{at}-seed{seed}"
                identity = run_id(path.name, subject, point, seed)
                runs.append({"id": identity, "name": name, "subject": subject, "seed": seed, "point": point})
                folder = path.parent / "runs" / identity
                if name in (failed or {}):
                    write_failed_run(folder, failed[name], seed, subject, point)
                else:
                    first = next(iter(point.values()), None)
                    shape = (shapes or {}).get((subject, first)) or (shapes or {}).get(subject)
                    write_run(folder, seed, shape, subject=subject, point=point,
                              verdict=(verdicts or {}).get(name, "valid"), **options)
                (path / "runs").mkdir(parents=True, exist_ok=True)
                (path / "runs" / name).symlink_to(f"../../runs/{identity}")
    keys = list(dict.fromkeys(key for point in points or [] for key in point))
    write_json(path / "experiment.json", {
        "schema": 2, "name": path.name, "scenario": "access-link", "title": "Access link at 60 % load",
        "description": "Nine sources of Tmix traffic.", "source": "made up for tests", "engine": "uml",
        "kernel_spec": None,
        "parameters": {"load_percent": 60, "bottleneck_rate_bps": 100_000_000} if parameters is None else parameters,
        "axes": {key: list(dict.fromkeys(point[key] for point in points)) for key in keys},
        "subjects": list(ccas), "seeds": list(seeds), "runs": runs, "superseded": [],
        "command": ["run", "access-link", "--cca", ",".join(ccas), "--seeds", str(len(seeds))],
    })
    return path


def flow(number: int, sport: int | None, variant: str, **changes) -> dict:
    """The record of fixture socket `sport` (n4 sends to n1)."""
    return {"flow": number, "component": "greedy", "kind": "greedy", "transport": "tcp", "sender": "n4",
            "receiver": "n1",
            "src": "10.0.4.2", "sport": sport, "dst": "10.0.1.2", "dport": 20_000, "variant": variant, "cca": variant,
            "start_us": 0, "stop_us": 12_000_000, "bytes": None, "rate_bps": None, "connections": 1, "source": None,
            "both_ways": False, "base_rtt_us": 8000, "hops": ["right_to_left"], "hops_back": [], **changes}


def _sources(variant: str, shape: Shape) -> list[dict]:
    """The records of nine Tmix sources."""
    return [flow(source + 1, None, variant, component="tmix", kind="tmix", sender=f"n{source // 3 + 1}",
                 receiver=f"n{source % 3 + 4}", src=f"10.0.{source // 3 + 1}.2", dst=f"10.0.{source % 3 + 4}.2",
                 dport=10_000 + source, source=source, both_ways=True, hops=["left_to_right"],
                 connections=int(shape.connections_per_s * shape.duration_s / 9)) for source in range(9)]


def write_json(path: Path, value) -> None:
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")


def save(path: Path, frame: pd.DataFrame) -> None:
    frame.to_csv(path, index=False, compression={"method": "gzip", "compresslevel": 1})


def _write_plan(path, subject, seed, shape, point, engine):
    timing = {"prefill_us": int(shape.prefill_s * 1e6), "warmup_us": int(shape.warmup_s * 1e6),
              "test_us": int(shape.test_s * 1e6), "duration_us": int(shape.duration_s * 1e6)}
    write_json(path / "plan.json", {
        "schema": 2, "id": path.name, "subject": subject, "seed": seed, "engine": engine, "kernel_key": "6.12-5f0c",
        "guest_code": "ab" * 32, "inputs": {},
        "variants": [{"name": name, "kernel_cca": name, "title": "", "source": "", "module": None,
                      "module_sha256": None,
                      "sysctls": {}, "parameters": {}, "under_test": True} for name in subject.split("+")],
        "scenario": {"timing": timing, "hosts": {"ecn": 0, "sack": 1}, "traffic": [{"name": "tmix", "kind": "tmix"}],
                     "topology": {"note": "three <hosts> a side & Tmix", "edges_delay_us": {"left": [0, 12_000]}}},
        "labels": {"name": "access-link", "title": "Access link", "point": point}})


def _write_descriptions(path, subject, seed, shape, tmix, flows, point, engine):
    _write_plan(path, subject, seed, shape, point, engine)
    write_json(path / "environment.json", {
        "engine": engine, "clock": "virtual", "capabilities": {"kernel": True, "modules": True},
        "kernel_release": "6.12.30", "packages": {"mininet": "2.3.0", "iproute2": "6.1.0"}, "code_version": "v1.0"})
    write_json(path / "raw" / "network.json", {
        "nodes": [{"name": f"n{i}", "side": "left" if i < 4 else "right", "role": "host",
                   "addresses": [f"10.0.{i}.2"]} for i in range(1, 7)],
        "links": [{"name": name, "direction": name, "from": "r1" if name[0] == "l" else "r2",
                   "to": "r2" if name[0] == "l" else "r1", "device": "eth0", "rate_bps": 100_000_000,
                   "delay_us": 2000, "loss_percent": 0, "queue": "pfifo", "limit_packets": 850, "limit_bytes": None,
                   "capacity_packets": 850, "capacity_bytes": 850 * 1514, "capacity_us": 102_952, "bottleneck": True}
                  for name in LINKS[::-1]],
        "paths": [{"source": i, "initiator": f"n{i // 3 + 1}", "acceptor": f"n{i % 3 + 4}", "base_rtt_us": 8000,
                   "hops": ["left_to_right"], "hops_back": ["right_to_left"]} for i in range(9)]})
    load = {"target_links": ["right_to_left"], "target_load": 0.6, "scale": 1.03,
            "offered_bps": {"right_to_left": 64_000_000, "left_to_right": 12_000_000},
            "thirds_bps": {"right_to_left": [60e6, 62e6, 64e6],
                           "left_to_right": [12e6, 12e6, 12e6]},
            "connections": int(shape.connections_per_s * shape.duration_s), "bin_us": 5_000_000}
    kind = "tmix" if tmix else "greedy"
    write_json(path / "raw" / "workload.json", {
        "components": [{"name": kind, "kind": kind, **(load if tmix else {})}], "flows": flows, "ccas": {}})
    write_json(path / "raw" / "guest.json", {"traffic": {}, "probes": {}, "sampler_lateness_us": {}})


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
    """A request and a response per connection; more ADUs repeat the response's share. The last arrives at the end."""
    parts = []
    for index in range(shape.adus_per_connection):
        side = "i" if index == 0 else "a"
        size = (connections["init_bytes_asked"] if index == 0 else
                connections["acc_bytes_asked"] // (shape.adus_per_connection - 1))
        sent = connections["connected_us"] + index * 22_500
        took = 20_000 + (size / shape.rate_bytes_per_us).round().astype(int)
        parts.append(pd.DataFrame({
            "source": connections["source"], "conn": connections["conn"], "side": side,
            "index": index, "bytes": size, "sent_us": sent, "delivered_us": sent + took}))
    last = parts[-1]
    last["delivered_us"] = connections["end_us"].astype("Int64").fillna(last["delivered_us"]).clip(
        lower=last["sent_us"] + 1)
    for part in parts:
        part["delivered_us"] = part["delivered_us"].astype("Int64")
        part.loc[part["delivered_us"] >= shape.duration_s * 1e6, "delivered_us"] = pd.NA
    return pd.concat(parts)


def _tcp_info(shape, cca, tmix):
    """Ten sockets of n4 that send 1 Mbit/s each, 2 % of it again, and ten sinks of n1."""
    rows = []
    steps = max(2, shape.tcp_info_rows // 20)
    t_us = (np.arange(1, steps + 1) * shape.duration_s * 1e6 / steps).astype(int)
    for number in range(10):
        near, far = (10_000, 20_000 + number) if tmix else (10_000 + number, 20_000)
        sent = t_us // 8
        common = dict(t_us=t_us, state="ESTAB", cca=cca, ca_state=0, ssthresh=100, rto_us=204_000,
                      rttvar_us=1000, min_rtt_us=8000, mss=1448, unacked=10, lost=0, retrans=0,
                      total_retrans=0, delivered=0, delivery_rate_bps=0, pacing_rate_bps=0, app_limited=0)
        rows.append(pd.DataFrame({
            **common, "node": "n4", "src": "10.0.4.2", "sport": near, "dst": "10.0.1.2",
            "dport": far, "cwnd": 40, "srtt_us": 30_000, "bytes_acked": sent,
            "bytes_received": 0, "bytes_sent": sent, "bytes_retrans": sent // 50,
            "busy_us": t_us, "rwnd_limited_us": t_us // 100, "sndbuf_limited_us": 0}))
        rows.append(pd.DataFrame({
            **common, "node": "n1", "src": "10.0.1.2", "sport": far, "dst": "10.0.4.2",
            "dport": near, "cwnd": 10, "srtt_us": 30_000, "bytes_acked": 0,
            "bytes_received": sent, "bytes_sent": 0, "bytes_retrans": 0,
            "busy_us": 0, "rwnd_limited_us": 0, "sndbuf_limited_us": 0}))
    return pd.concat(rows).sort_values("t_us", kind="stable")


def sow(monkeypatch, seeds: int = 14, share: float = 1e-3) -> None:
    """Give each row of the experiments that a test reads as many seeds, which spread by about `share` of the mean.

    The runs of `write_experiment` without noise are one run, of which nothing may be said.
    """
    made = tables.Results.__init__

    def sown(self, experiment):
        made(self, experiment)
        for place, (key, sample) in enumerate(self._samples.items()):
            noise = 1 + share * np.random.default_rng(place).uniform(-1, 1, seeds)
            traffic = next(iter(sample)).traffic
            mean = sum(sample.values()) / len(sample)
            self._samples[key] = {run_lists.PairingKey(seed + 1, traffic): mean * noise[seed] for seed in range(seeds)}
    monkeypatch.setattr(tables.Results, "__init__", sown)
