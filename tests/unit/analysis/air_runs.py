# SPDX-License-Identifier: GPL-2.0-only
"""Run folders of a network with radios and without a wire, whose metrics are known in advance."""
import json

import numpy as np
import pandas as pd

from tests.unit.analysis import fixture

STATIONS = ("n4", "n1")         # n4 sends to n1, as in fixture.flow
SHAPE = fixture.Shape(test_s=4, tcp_info_rows=2400)
RATES = dict(frames=100, attempts=125, retries=25, acknowledged=95, given_up=5, no_access=0, received=85, garbled=10,
             chance=5, delivered=83, duplicates=2, lost=4)


def _each(t_us, rates):
    return {name: (np.asarray(t_us) * rate // 1_000_000).astype(int) for name, rate in rates.items()}


def write(path, flows=None, **options):
    """One cell, two stations: RATES a second, 30 % of the time on the air each, 5 and 3 frames waiting; 200 segments a
    second, of which three in four arrive after 8 ms."""
    fixture.write_run(path, shape=SHAPE, tmix=False,
                      flows=flows or [fixture.flow(1, 10_000, "reno", hops=[], hops_back=[])], **options)
    to_air(path)
    return path


def to_air(path):
    """Make a run of the fixture one of radios."""
    raw = path / "raw"
    network = json.loads((raw / "network.json").read_text())
    network |= {"links": [], "cells": [{"name": "air", "standard": "802.11g", "rate_bps": 6_000_000, "stations": [
        {"node": node, "device": f"{node}-wlan0"} for node in STATIONS]}]}
    network["paths"] = [{**one, "hops": [], "hops_back": []} for one in network["paths"]]
    fixture.write_json(raw / "network.json", network)
    queue = pd.read_csv(raw / "queue.csv.gz").head(0)
    for name in ("queue", "sojourn", "sojourn_hist"):
        (raw / f"{name}.csv.gz").unlink(missing_ok=True)
    fixture.save(raw / "queue.csv.gz", queue)
    t_us = np.arange(0, 6_000_001, 100_000)
    fixture.save(raw / "air.csv.gz", pd.concat([pd.DataFrame({
        "t_us": t_us, "cell": "air", "node": node, **_each(t_us, RATES), "airtime_us": 0.3 * t_us, "queued": waiting})
        for node, waiting in zip(STATIONS, (5, 3))]))
    fixture.save(raw / "air_busy.csv.gz", pd.DataFrame({"t_us": t_us, "busy_us": 0.5 * t_us, "cell": "air"}))
    sent = t_us[:-1]
    fixture.save(raw / "journeys.csv.gz", pd.DataFrame({
        "t_us": sent, "flow": 1, "backward": 0, "sent_packets": 20, "sent_bytes": 20_800, "arrived_packets": 15,
        "arrived_bytes": 15_600, "mean_us": 8000.0, "min_us": 1000.0, "max_us": 9000.0}))
    fixture.write_json(raw / "counters.json", {
        "at_end": {}, "drained": {}, "air_drained": {node: {"dropped_packets": 7} for node in STATIONS}})
    fixture.seal(path)
