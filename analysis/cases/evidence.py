# SPDX-License-Identifier: GPL-2.0-only
"""What a run of a case shows: the model of the congestion control, if it tells it, its gains, and its socket."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from testbed.core import ip
from testbed.core.errors import AnalysisError

#: the trace event that a congestion control may emit (docs/reference/bbr-ietf.md)
EVENT = "bbr_model"
_RECEIVER_PORT = 6000
#: payload of a full segment with time stamps, and its frame
SEGMENT_BYTES = 1448
FRAME_BYTES = SEGMENT_BYTES + 52 + ip.ETHERNET_BYTES
_TEXT = {"state", "why", "undo_state"}
_STATES = ("Startup", "Drain", "ProbeBW_DOWN", "ProbeBW_CRUISE", "ProbeBW_REFILL", "ProbeBW_UP", "ProbeRTT")
_NUMBERS = ("sport", "dport", "round", "full_bw_now", "full_bw_reached", "full_bw_count", "idle_restart", "app_limited",
            "ca_state", "max_bw", "bw_shortterm", "bw", "rate", "min_rtt_us", "inflight_longterm", "inflight_shortterm",
            "extra_acked", "probe_rtt_cwnd", "pacing_gain", "cwnd_gain", "pacing_rate", "cwnd", "inflight", "bdp",
            "max_inflight", "up_rounds", "lost", "delivered")
#: gains of the states of version 1, in 1/256: of pacing, of the window (net/ipv4/tcp_bbr.c). It also seems to cruise
#: when it uses a rate of its long-term sampling
_STATES_OF_GAINS = {(739, 739): "Startup", (88, 739): "Drain", (320, 512): "ProbeBW_UP", (192, 512): "ProbeBW_DOWN",
                    (256, 512): "ProbeBW_CRUISE", (256, 256): "ProbeRTT"}
_PROBE_BW = ("ProbeBW_DOWN", "ProbeBW_CRUISE", "ProbeBW_REFILL", "ProbeBW_UP")


@dataclasses.dataclass(frozen=True)
class Point:
    """A path: the rate of its bottleneck and its round-trip time."""

    rate_bps: int
    rtt_us: int

    @property
    def bdp(self) -> float:
        """In full frames."""
        return self.rate_bps * self.rtt_us / 8e6 / FRAME_BYTES

    @property
    def payload(self) -> float:
        """Bytes of payload per second that the bottleneck carries."""
        return self.rate_bps / 8 * SEGMENT_BYTES / FRAME_BYTES

    @property
    def rtt_s(self) -> float:
        return self.rtt_us / 1e6

    def __str__(self) -> str:
        return f"{_short(self.rate_bps / 1e6)} Mbit/s, {_short(self.rtt_us / 1e3)} ms"


def _short(value: float) -> str:
    return f"{value:.4g}"


class Spell(NamedTuple):
    """A time in one state. why: it began; end_us, left_why and after: None at the end of the run."""

    state: str
    why: str
    begin_us: int
    end_us: int | None
    after: str | None
    left_why: str | None
    rows: pd.DataFrame

    @property
    def ended_us(self) -> int:
        """When it ended; the last event of one that goes on."""
        return int(self.rows["t_us"].iloc[-1]) if self.end_us is None else self.end_us

    @property
    def rounds(self) -> int:
        """Round trips that began in it."""
        return int((self.rows["why"] == "round").sum())


@dataclasses.dataclass(frozen=True)
class Seen:
    """model: a row for each event, None if the congestion control has no such event; wire: samples of the sender;
    gains: the state of version 1 at the same instants, None if the gains are not those of version 1."""

    model: pd.DataFrame | None
    wire: pd.DataFrame
    run: Path
    verdict: str
    gains: pd.DataFrame | None = None

    @property
    def told(self) -> pd.DataFrame:
        assert self.model is not None
        return self.model

    @property
    def last_us(self) -> float:
        """The last sample of the socket."""
        return float(self.wire["t_us"].max())

    def spells(self, *states: str) -> list[Spell]:
        """Times in one of these states; without any, all."""
        return [one for one in self._all() if not states or one.state in states]

    def undisturbed(self, state: str) -> list[Spell]:
        """Times in a state that ProbeRTT did not cut short."""
        return [one for one in self.spells(state) if one.left_why != "min_rtt_expired"]

    def _all(self) -> Iterator[Spell]:
        model = self.gains if self.model is None else self.model
        assert model is not None
        number = (model["state"] != model["state"].shift()).cumsum()
        groups = [rows for _, rows in model.groupby(number)]
        for rows, following in zip(groups, [*groups[1:], None]):
            first = rows.iloc[0]
            later = None if following is None else following.iloc[0]
            yield Spell(str(first["state"]), str(first["why"]), int(first["t_us"]),
                        None if later is None else int(later["t_us"]), None if later is None else str(later["state"]),
                        None if later is None else str(later["why"]), rows)

    def startup(self) -> Spell:
        """The time in Startup that ends in Drain, of several where ProbeRTT came between; else the first."""
        spells = self.spells("Startup")
        if not spells:
            raise AnalysisError(f"{self.run}: the flow was never in Startup")
        return next((one for one in spells if one.after == "Drain"), spells[0])

    def entry(self, state: str, after_us: int = 0) -> int | None:
        """When a state begins for the first time after an instant."""
        return next((one.begin_us for one in self.spells(state) if one.begin_us > after_us), None)

    def probe_bw(self, after_us: int = 0) -> pd.DataFrame:
        """Rows in ProbeBW."""
        model = self.told
        return model[model["state"].isin(_PROBE_BW) & (model["t_us"] > after_us)]

    def between(self, begin_us: float, end_us: float) -> pd.DataFrame:
        """Samples of the socket."""
        return self.wire[(self.wire["t_us"] >= begin_us) & (self.wire["t_us"] < end_us)]

    def in_flight(self, t_us: float) -> int:
        """Packets, by the first sample of the socket that is not before this instant; the last one if there is none."""
        later = self.wire[self.wire["t_us"] >= t_us]
        row = (later if len(later) else self.wire.tail(1)).iloc[0]
        return int(row["unacked"] - row["lost"] + row["retrans"])

    def round_trips(self, begin_us: float, end_us: float) -> float:
        """How many the smoothed round-trip time has room for between two instants."""
        rows = self.between(begin_us, end_us)
        return float((rows["t_us"].diff() / rows["srtt_us"]).sum())

    def goodput(self, begin_us: float, end_us: float) -> float:
        """Bytes per second that were acknowledged."""
        rows = self.between(begin_us, end_us)
        if len(rows) < 2:
            return 0.0
        took_us = rows["t_us"].iloc[-1] - rows["t_us"].iloc[0]
        acked = float(rows["bytes_acked"].iloc[-1] - rows["bytes_acked"].iloc[0])
        return acked / float(took_us) * 1e6 if took_us else 0.0

    def lost_share(self, begin_us: float, end_us: float) -> float:
        """Bytes that were sent again, of those that were sent."""
        rows = self.between(begin_us, end_us)
        if len(rows) < 2:
            return 0.0
        sent = rows["bytes_sent"].iloc[-1] - rows["bytes_sent"].iloc[0]
        again = rows["bytes_retrans"].iloc[-1] - rows["bytes_retrans"].iloc[0]
        return float(again) / float(sent) if sent else 0.0


def see(run: Path, verdict: str) -> Seen:
    """What a run folder has."""
    wire = pd.read_csv(run / "raw/tcp_info.csv.gz")
    wire = wire[(wire["dport"] == _RECEIVER_PORT) & (wire["state"] == "ESTAB")].reset_index(drop=True)
    return Seen(_model(run / "raw/trace.csv.gz"), wire, run, verdict, _gains(run / "raw/bbr_info.csv.gz"))


def _gains(path: Path) -> pd.DataFrame | None:
    """None if there are none, or others than those of version 1."""
    if not path.is_file():
        return None
    table = pd.read_csv(path)
    # before its first ACK it has none
    table = table[(table["dport"] == _RECEIVER_PORT) & (table["pacing_gain"] > 0)].reset_index(drop=True)
    pairs = zip((table["pacing_gain"] * 256).round(), (table["cwnd_gain"] * 256).round())
    states = [_STATES_OF_GAINS.get((int(pacing), int(window))) for pacing, window in pairs]
    if not states or None in states:
        return None
    # it enters ProbeRTT for one reason only
    why = ["min_rtt_expired" if state == "ProbeRTT" else "" for state in states]
    return table[["t_us", "pacing_gain", "cwnd_gain", "bw_bps", "model_min_rtt_us"]].assign(state=states, why=why)


def _model(path: Path) -> pd.DataFrame | None:
    """None if there are no such events."""
    if not path.is_file():
        return None
    table = pd.read_csv(path, dtype={"event": str, "text": str})
    rows = [{"t_us": t_us, **dict(word.split("=", 1) for word in text.split() if "=" in word)}
            for t_us, event, text in table.itertuples(index=False) if event == EVENT]
    if not rows:
        return None
    model = pd.DataFrame(rows)
    missing = sorted({*_NUMBERS, *_TEXT} - {*model.columns})
    if missing:
        raise AnalysisError(f"{path}: event {EVENT} without {', '.join(missing)} (docs/reference/bbr-ietf.md)")
    unknown = sorted({*model["state"].dropna()} - {*_STATES})
    if unknown or model["state"].isna().any():
        raise AnalysisError(f"{path}: event {EVENT}: state: one of {', '.join(_STATES)} expected, not "
                            f"{(unknown or ['nothing'])[0][:40]!r}")
    for column in _NUMBERS:
        model[column] = pd.to_numeric(model[column], errors="coerce")
        if model[column].isna().any():
            raise AnalysisError(f"{path}: event {EVENT}: {column}: a number expected in each")
    model = model[["t_us", *_NUMBERS, *sorted(_TEXT)]]
    return model[model["dport"] == _RECEIVER_PORT].reset_index(drop=True)
