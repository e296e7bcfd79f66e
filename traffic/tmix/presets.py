# SPDX-License-Identifier: GPL-2.0-only
"""Presets of the synthesiser: kinds of traffic by name. A further one is an entry of `PRESETS`.

A preset says in which of `synth.SynthParameters` it differs from the defaults, and which marginals of the
connections come out. These figures are stated here as data; the unit tests hold the synthesiser to them, and
`testbed tmix plot` draws presets beside each other.
"""
from collections.abc import Mapping
from dataclasses import dataclass, field

DEFAULT = "web"


@dataclass(frozen=True)
class Preset:
    """title: what it is, and where it is from. The figures are of payload in both directions; shares from 0 to 1.

    top_percent_share: of all bytes, in the largest 1 % of the connections.
    above_1mb_share: of the acceptors' bytes, in connections of more than 1 MB.
    parameters: fields of SynthParameters that differ from its defaults.
    """
    title: str
    top_percent_share: float
    above_1mb_share: float
    median_bytes: float
    parameters: Mapping[str, float] = field(default_factory=dict)


PRESETS: dict[str, Preset] = {
    "web": Preset(
        "web pages of many small and medium-sized objects; bounded tails of 5 MB up, 20 MB down",
        top_percent_share=0.31, above_1mb_share=0.21, median_bytes=7190),
    # Fitted to three published figures of a sample of 340 vectors of the UNC traces: 83 % of the bytes in the
    # largest 1 % of the connections, 78 % of the responses' bytes in connections above 1 MB, a median of 1.3 kB.
    # What they leave open is as in `web`: 36 kB + 3.6 kB on the mean, waits, kinds, packet sizes.
    "unc-like": Preset(
        "campus traffic of the 2000s: most connections tiny, most bytes in one of a hundred; up to 1 GB",
        top_percent_share=0.83, above_1mb_share=0.78, median_bytes=1300,
        parameters={
            "exchanges_per_connection": 1.6,
            "request_median_bytes": 245.0, "upload_min_bytes": 20e3, "upload_max_bytes": 1e9,
            "response_median_bytes": 380.0, "response_sigma": 1.7,
            "download_alpha": 1.05, "download_min_bytes": 350e3, "download_max_bytes": 1e9}),
}
