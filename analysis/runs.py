# SPDX-License-Identifier: GPL-2.0-only
"""Run and experiment folders (docs/run-folder.md), read lazily.

Times are integer microseconds of experiment time throughout.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

RUN_NAME = re.compile(r"(?P<cca>.+)-seed(?P<seed>\d+)")

# i: integer in every row, n: number or empty, s: text with few distinct values
COLUMNS: dict[str, dict[str, str]] = {
    "queue": dict(t_us="i", link="s", sent_bytes="i", sent_packets="i", drops="i",
                  backlog_bytes="i", backlog_packets="i"),
    "sojourn": dict(t_us="i", link="s", packets="i", mean_us="n", min_us="n", max_us="n"),
    "sojourn_hist": dict(link="s", low_us="n", high_us="n", packets="i"),
    "tcp_info": dict(t_us="i", node="s", src="s", sport="i", dst="s", dport="i",
                     cca="s", ca_state="n", cwnd="n", srtt_us="n", mss="n", unacked="n",
                     lost="n", retrans="n", total_retrans="n",
                     bytes_acked="n", bytes_received="n", bytes_sent="n", bytes_retrans="n",
                     busy_us="n", rwnd_limited_us="n", sndbuf_limited_us="n"),
    "tcp_probe": dict(t_us="i", src="s", dst="s", data_len="i", snd_nxt="i", snd_una="i",
                      snd_cwnd="i", ssthresh="i", snd_wnd="i", srtt_us="i"),
    "retransmissions": dict(t_us="i", src="s", dst="s"),
    "connections": dict(source="i", conn="i", initiator="s", acceptor="s",
                        iport="n", aport="n", prefill="s",
                        scheduled_us="n", start_us="n", connected_us="n", end_us="n",
                        init_bytes_delivered="n", acc_bytes_delivered="n", status="s"),
    "adus": dict(source="i", side="s", bytes="i", sent_us="n", delivered_us="n"),
}
_DTYPES = {"i": "int64", "n": "float64", "s": "category"}


class AnalysisError(Exception):
    """A file of a run folder is missing or wrong; the message names it."""


class Interval(NamedTuple):
    """Half-open interval [start_us, end_us) of experiment time."""

    start_us: int
    end_us: int

    @property
    def seconds(self) -> float:
        return (self.end_us - self.start_us) / 1e6


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in `path`; AnalysisError if missing or not one."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise AnalysisError(f"{path}: file is missing") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise AnalysisError(f"{path}: not readable as JSON: {error}") from error
    if not isinstance(value, dict):
        raise AnalysisError(f"{path}: a JSON object is expected, not {type(value).__name__}")
    return value


def read_frame(path: Path, columns: dict[str, str]) -> pd.DataFrame:
    """The given columns of a gzipped CSV; AnalysisError if missing or corrupt."""
    dtypes = {name: _DTYPES[kind] for name, kind in columns.items()}
    try:
        return pd.read_csv(path, usecols=list(columns), dtype=dtypes, compression="gzip")
    except FileNotFoundError:
        raise AnalysisError(f"{path}: file is missing") from None
    except EOFError as error:
        raise AnalysisError(f"{path}: gzip stream ends too early (half-written?)") from error
    except pd.errors.EmptyDataError as error:
        raise AnalysisError(f"{path}: no header line") from error
    except (OSError, zlib.error, UnicodeDecodeError, ValueError) as error:
        raise AnalysisError(f"{path}: {error}") from error


class Run:
    """One run folder.  Files are read when first asked for, then kept."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        match = RUN_NAME.fullmatch(self.path.name)
        if match is None:
            raise AnalysisError(f"{self.path}: a run folder is named <cca>-seed<number>")
        self.cca: str = match["cca"]
        self.seed = int(match["seed"])
        self._frames: dict[str, pd.DataFrame | None] = {}

    @property
    def name(self) -> str:
        return self.path.name

    @cached_property
    def status(self) -> dict[str, Any]:
        """run.json; a run without counts as interrupted, with an unreadable one as failed."""
        path = self.path / "run.json"
        if not path.exists():
            return {"status": "interrupted", "error": "run.json is missing: the run did not end"}
        try:
            return read_json(path)
        except AnalysisError as error:
            return {"status": "failed", "error": str(error)}

    @property
    def finished(self) -> bool:
        return self.status.get("status") == "finished"

    @cached_property
    def verdict(self) -> dict[str, Any]:
        """verdict.json; the verdict is "unknown" when it cannot be read, and says why."""
        try:
            return read_json(self.path / "verdict.json")
        except AnalysisError as error:
            return {"verdict": "unknown", "checks": [], "reasons": [
                {"check": "verdict", "level": "unknown", "message": str(error)}]}

    @cached_property
    def scenario(self) -> dict[str, Any]:
        return read_json(self.path / "scenario.json")

    @cached_property
    def environment(self) -> dict[str, Any]:
        return read_json(self.path / "environment.json")

    @cached_property
    def network(self) -> dict[str, Any]:
        return read_json(self.path / "raw" / "network.json")

    @cached_property
    def workload(self) -> dict[str, Any]:
        return read_json(self.path / "raw" / "workload.json")

    @cached_property
    def interval(self) -> Interval:
        """The measurement interval: after prefill and warm-up, to the end."""
        path = self.path / "raw" / "workload.json"
        try:
            start = int(self.workload["prefill_us"]) + int(self.workload["warmup_us"])
            end = int(self.workload["duration_us"])
        except (KeyError, TypeError, ValueError) as error:
            raise AnalysisError(
                f"{path}: prefill_us, warmup_us and duration_us must be numbers: {error!r}"
            ) from error
        if end <= start:
            raise AnalysisError(
                f"{path}: nothing to measure, the run ends at {end} us "
                f"and warm-up at {start} us")
        return Interval(start, end)

    @cached_property
    def bottlenecks(self) -> dict[str, dict[str, Any]]:
        """Bottleneck links by name, the target of the load first."""
        path = self.path / "raw" / "network.json"
        try:
            links = {link["name"]: link for link in self.network["links"]
                     if link.get("bottleneck")}
            for link in links.values():
                if not link["rate_bps"] > 0:
                    raise AnalysisError(f"{path}: link {link['name']} has no positive rate_bps")
        except (KeyError, TypeError) as error:
            raise AnalysisError(f"{path}: links lack {error}") from error
        target = self.workload.get("target_link")
        # Without a target the heavier direction of the suite leads.
        first = target or "right_to_left"
        return dict(sorted(links.items(), key=lambda item: item[0] != first))

    def frame(self, name: str) -> pd.DataFrame | None:
        """raw/<name>.csv.gz with the columns of COLUMNS, None when the run has none."""
        if name not in self._frames:
            path = self.path / "raw" / f"{name}.csv.gz"
            self._frames[name] = read_frame(path, COLUMNS[name]) if path.exists() else None
        return self._frames[name]

    def directions(self) -> dict[int, tuple[str, str]]:
        """source -> (direction of the initiator's data, of the acceptor's data).

        left_to_right / right_to_left where the initiator's node has a side,
        initiator_to_acceptor / acceptor_to_initiator elsewhere.
        """
        connections = self.frame("connections")
        if connections is None:
            return {}
        sides = {node["name"]: node.get("side") for node in self.network.get("nodes", [])}
        across = {"left": ("left_to_right", "right_to_left"),
                  "right": ("right_to_left", "left_to_right")}
        pairs = connections[["source", "initiator"]].drop_duplicates("source")
        return {int(source): across.get(sides.get(initiator),
                                        ("initiator_to_acceptor", "acceptor_to_initiator"))
                for source, initiator in zip(pairs["source"], pairs["initiator"])}


class Experiment:
    """An experiment folder: the same scenario for some CCAs and seeds."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.description = read_json(self.path / "experiment.json")
        names = self.description.get("runs")
        if not isinstance(names, list) or not names:
            raise AnalysisError(f"{self.path / 'experiment.json'}: 'runs' lists no run folders")
        self.runs = [Run(self.path / name) for name in names]

    @property
    def scenario(self) -> str:
        return str(self.description.get("scenario", self.path.name))

    @property
    def parameters(self) -> dict[str, Any]:
        return self.description.get("parameters") or {}

    @cached_property
    def ccas(self) -> list[str]:
        """CCAs in the order asked for; it decides colours and the reference."""
        asked = [cca for cca in self.description.get("ccas", [])
                 if any(run.cca == cca for run in self.runs)]
        return list(dict.fromkeys(asked + [run.cca for run in self.runs]))

    @cached_property
    def usable_runs(self) -> list[Run]:
        """Runs that may enter means and figures: finished and not invalid."""
        return [run for run in self.runs
                if run.finished and run.verdict.get("verdict") != "invalid"]

    def discard(self, names: Collection[str]) -> None:
        """Take runs that turned out to be unreadable out of the usable ones."""
        self.usable_runs = [run for run in self.usable_runs if run.name not in names]

    def usable(self, cca: str) -> list[Run]:
        return [run for run in self.usable_runs if run.cca == cca]
