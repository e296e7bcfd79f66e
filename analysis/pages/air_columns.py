# SPDX-License-Identifier: GPL-2.0-only
"""Tables of networks with radios, and of runs whose packets were followed from host to host."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.read.tables import Results

#: title: (metric, heading)
JOURNEYS = ("From host to host", (
    ("flows_connected", "flows connected"), ("flows_connected_share", "of all flows"),
    ("arrived_rate_l3", "throughput, layer 3"), ("delivery_ratio", "delivered"), ("drop_ratio", "dropped"),
    ("end_to_end_delay_mean", "end-to-end delay"), ("jains_index_whole", "Jain's index")))
STATIONS = ("Radios", (
    ("airtime", "on the air"), ("attempts_per_frame", "attempts per frame"), ("retry_share", "repeated"),
    ("garbled_share", "garbled"),
    ("frame_loss", "frames lost"), ("frames_given_up", "given up"), ("frames_without_access", "without access"),
    ("air_queue_mean", "waiting, mean"), ("air_queue_max", "waiting, most"),
    ("queue_drops_above_air", "dropped above them")))


def columns(results: Results) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """(title, [(metric, scope, heading)]) of the tables there may be: of the network, of all radios, of each."""
    if results.scopes("arrived_rate_l3"):
        yield JOURNEYS[0], [(metric, "all", heading) for metric, heading in JOURNEYS[1]]
    title, metrics = STATIONS
    for scope in sorted(results.scopes("airtime"), key=lambda name: name != "all"):
        whose = "all stations" if scope == "all" else scope
        busy = [("air_busy", cell, f"{cell} busy") for cell in results.scopes("air_busy")] if scope == "all" else []
        yield f"{title}, {whose}", [*busy, *((metric, scope, heading) for metric, heading in metrics)]
