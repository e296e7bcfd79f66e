# SPDX-License-Identifier: GPL-2.0-only
"""The counters of radios: what a module says, what is sampled of it, the tables made of samples."""
import pandas as pd
import pytest

from testbed.core import fields
from testbed.probes import air
from tests.unit.testbed.probe_contexts import context
from topologies.links.records import Network
from topologies.wireless import air_accounts

NAMES = "frames attempts retries acknowledged given_up no_access received garbled chance delivered duplicates lost " \
        "airtime_ns queued"
CELL = {"name": "air", "standard": "802.11g", "queue_packets": None,
        "stations": [{"node": "n1", "device": "n1-wlan0"}, {"node": "n2", "device": "n2-wlan0"}]}
NETWORK = Network({"cells": [CELL]})


def said(first, second, busy):
    """A module's file; counters of a station are its number, twice that, ..."""
    rows = [" ".join(map(str, [station, *(value * place for place in range(1, 14)), 7]))
            for station, value in enumerate((first, second))]
    return "\n".join([f"station {NAMES}", *rows, f"busy_ns {busy}", ""])


def test_counters_are_found_by_their_names():
    stations, busy_ns = air.parse(said(1000, 5, 12_000))
    assert busy_ns == 12_000 and stations[1] == [5 * place for place in range(1, 14)] + [7]
    turned = "\n".join(" ".join(line.split()[::-1]) for line in said(1000, 5, 12_000).splitlines()[:-1])
    assert air.parse(f"{turned}\nbusy_ns 1\n")[0] == stations


def test_samples_begin_at_zero_and_what_waits_is_as_it_is(tmp_path, monkeypatch):
    file = tmp_path / "air_wlan"
    file.write_text(said(1000, 5, 12_000))
    monkeypatch.setattr(air_accounts, "FOLDER", str(tmp_path))
    sampler = air.Sampler(air.Options(), None, NETWORK, str(tmp_path))
    sampler.open()
    sampler.sample(0)
    file.write_text(said(4000, 5, 62_000))
    sampler.sample(100_000)
    assert sampler.close() == {} and sampler.interval_us == 100_000
    air.collect(tmp_path, tmp_path, context(air, NETWORK))
    table = pd.read_csv(tmp_path / "air.csv.gz")
    assert table[["t_us", "cell", "node", "frames", "lost", "airtime_us", "queued"]].to_dict("split")["data"] == [
        [0, "air", "n1", 0, 0, 0, 7], [0, "air", "n2", 0, 0, 0, 7],
        [100_000, "air", "n1", 3000, 36_000, 39, 7], [100_000, "air", "n2", 0, 0, 0, 7]]
    assert pd.read_csv(tmp_path / "air_busy.csv.gz").to_dict("split")["data"] == [[0, "air", 0], [100_000, "air", 50]]


def test_a_wired_network_has_no_such_probe():
    air.validate(air.Options(), NETWORK)
    with pytest.raises(fields.FieldError, match="no radios"):
        air.validate(air.Options(), Network({"links": []}))
