# SPDX-License-Identifier: GPL-2.0-only
"""What the JSON files of a run and an experiment have to look like.

Only what analysis reads is described; other keys may be there. A file that looks otherwise was
damaged or edited: the message names file and field, and nothing behind this has to doubt a value.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from testbed.core.errors import TestbedError

MOST = 2**53  # larger whole numbers are not exact in the tables


class AnalysisError(TestbedError):
    """A file of a run folder is missing or wrong; the message names it."""


class Number(NamedTuple):
    least: float = -MOST
    most: float = MOST
    whole: bool = False

    def __str__(self) -> str:
        what = "a whole number" if self.whole else "a number"
        if self.least == self.most:
            return f"{self.least:g}"
        return f"{what} from {self.least:g}" + (f" to {self.most:g}" if self.most < MOST else "")


class Text(NamedTuple):
    def __str__(self) -> str:
        return "text"


class Flag(NamedTuple):
    def __str__(self) -> str:
        return "true or false"


class Maybe(NamedTuple):
    """What may also be null."""

    shape: Shape

    def __str__(self) -> str:
        return f"{self.shape} or null"


class Each(NamedTuple):
    """A list of what has one shape."""

    shape: Shape
    least: int = 0
    most: int = 10**6

    def __str__(self) -> str:
        return f"a list of {self.least} or more"


class Values(NamedTuple):
    """An object with any keys."""

    shape: Shape

    def __str__(self) -> str:
        return "an object"


class Object(NamedTuple):
    """An object with these keys; those whose name ends in ? may be absent."""

    keys: Mapping[str, Shape]

    def __str__(self) -> str:
        return "an object"


class Anything(NamedTuple):
    pass


Shape = Number | Text | Flag | Maybe | Each | Values | Object | Anything

TEXT, FLAG, ANYTHING = Text(), Flag(), Anything()
COUNT, TIME_US = Number(0, whole=True), Number(0, whole=True)
RATE = Number(1, 1e15)
AMOUNT = Number(0, 1e18)
SHA256 = TEXT

_TIMING = Object({"prefill_us": TIME_US, "warmup_us": TIME_US, "duration_us": TIME_US})
_SOCKET_OPTION = Object({"name": TEXT, "level": COUNT, "number": COUNT,
                         "value": Number(-2**31, 2**32 - 1, whole=True)})
_VARIANT = Object({"name": TEXT, "kernel_cca": TEXT, "title?": Maybe(TEXT), "source?": Maybe(TEXT),
                   "sysctls?": Values(ANYTHING), "parameters?": Values(ANYTHING),
                   "socket_options?": Each(_SOCKET_OPTION), "module_sha256?": Maybe(TEXT),
                   "quic?": TEXT, "under_test?": FLAG})
_PROBE = Object({"interval_us?": Maybe(COUNT), "edge_interval_us?": Maybe(COUNT), "hosts?": Each(TEXT)})
_LABELS = Object({"name?": TEXT, "title?": TEXT, "source?": TEXT, "description?": TEXT, "parameters?": Values(ANYTHING),
                  "point?": Maybe(Values(TEXT))})
PLAN = Object({"schema": Number(2, 2), "id": TEXT, "subject": TEXT, "seed": COUNT, "engine": TEXT,
               "scenario": Object({"timing": _TIMING, "probes?": Values(Maybe(_PROBE)),
                                   "traffic?": Each(Values(ANYTHING))}),
               "labels": _LABELS, "variants": Each(_VARIANT), "kernel_key?": TEXT, "guest_code?": TEXT,
               "inputs?": Values(TEXT)})
RUN = Object({"schema": Number(2, 2), "id": TEXT, "status": TEXT, "error": Maybe(TEXT),
              "virtual_s?": Maybe(AMOUNT), "wall_s?": Maybe(AMOUNT), "largest_process_bytes?": Maybe(AMOUNT),
              "raw_sha256?": Maybe(SHA256),
              "raw_files_sha256?": Maybe(Values(SHA256))})
ENVIRONMENT = Object({"engine": TEXT, "clock": TEXT, "kernel_release?": Maybe(TEXT), "kernel_source?": Maybe(TEXT),
                      "kernel_options?": Each(TEXT), "code_version?": Maybe(TEXT), "simulator?": Maybe(TEXT)})
NETWORK = Object({
    "nodes": Each(Object({"name": TEXT, "role?": TEXT, "side?": Maybe(TEXT), "addresses?": Each(TEXT)})),
    "links": Each(Object({"name": TEXT, "from": TEXT, "to": TEXT, "rate_bps": RATE, "delay_us?": TIME_US,
                          "direction?": TEXT, "bottleneck?": FLAG, "queue?": TEXT, "queue_traits?": Each(TEXT),
                          "loss_percent?": Number(0, 100),
                          "limit_packets?": Maybe(COUNT), "limit_bytes?": Maybe(COUNT),
                          "capacity_packets?": Maybe(AMOUNT), "capacity_bytes?": Maybe(AMOUNT),
                          "capacity_us?": Maybe(AMOUNT), "lose_segments?": Each(COUNT)})),
    "paths": Each(Object({"initiator": TEXT, "acceptor": TEXT, "base_rtt_us": AMOUNT, "hops?": Each(TEXT),
                          "hops_back?": Each(TEXT)}))})
FLOW = Object({"flow": COUNT, "component": TEXT, "transport": TEXT, "sender": TEXT, "receiver": TEXT, "src": TEXT,
               "dst": TEXT, "sport": Maybe(COUNT), "dport": Maybe(COUNT), "variant": Maybe(TEXT), "cca": Maybe(TEXT),
               "start_us": Maybe(TIME_US), "stop_us": Maybe(TIME_US), "bytes?": Maybe(AMOUNT),
               "rate_bps?": Maybe(AMOUNT), "connections": COUNT, "source?": Maybe(COUNT),
               "base_rtt_us?": Maybe(AMOUNT), "hops?": Each(TEXT), "kind?": TEXT, "both_ways?": FLAG})
WORKLOAD = Object({
    "components": Each(Object({"name": TEXT, "kind": TEXT, "target_links?": Each(TEXT),
                               "offered_bps?": Maybe(Values(AMOUNT)),
                               "thirds_bps?": Maybe(Values(Each(AMOUNT, 3, 3)))})),
    "flows": Each(FLOW)})
EXPERIMENT = Object({
    "schema": Number(2, 2), "runs": Each(Object({"id": TEXT, "name": TEXT, "subject": TEXT, "seed": COUNT,
                                                 "point": Values(TEXT)}), 1),
    "idle?": Each(Object({"id": TEXT, "name": TEXT, "subject": TEXT, "seed": COUNT, "point": Values(TEXT)})),
    "dropped?": Each(Object({"name": TEXT, "why?": TEXT})),
    "scenario?": TEXT, "engine?": Maybe(TEXT), "title?": TEXT, "source?": TEXT, "description?": TEXT,
    "parameters?": Values(ANYTHING),
    "subjects?": Each(TEXT), "kernels?": Each(TEXT), "axes?": Values(Each(TEXT)), "command?": Each(TEXT),
    "earlier_commands?": Each(Each(TEXT)),
    "expect?": Each(Object({"metric": TEXT, "scope": TEXT, "comparison": TEXT, "limit": Number(-1e300, 1e300),
                            "unit": TEXT, "ccas": Each(TEXT), "window?": Maybe(Object({
                                "from_us": Maybe(COUNT), "to_us": Maybe(COUNT), "after": TEXT}))}))})


def read_json(path: Path, shape: Shape = Object({})) -> dict[str, object]:
    """The JSON object in `path`; AnalysisError if it is missing or has another shape."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise AnalysisError(f"{path}: file is missing") from None
    except OSError as error:
        raise AnalysisError(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise AnalysisError(f"{path}: not readable as JSON: {error}") from None
    if not isinstance(value, dict):
        raise AnalysisError(f"{path}: a JSON object is expected, not {_short(value)}")
    wrong = mismatch(value, shape)
    if wrong:
        raise AnalysisError(f"{path}: {wrong}")
    return value


def mismatch(value: object, shape: Shape, field: str = "") -> str | None:
    """What is wrong with a value, None if nothing is."""
    if isinstance(shape, Maybe):
        return None if value is None else mismatch(value, shape.shape, field)
    if not _is(value, shape):
        return f"{field or 'the file'}: {shape} expected, not {_short(value)}"
    found: str | None
    if isinstance(shape, Object) and isinstance(value, dict):
        for key, inner in shape.keys.items():
            name, optional = key.removesuffix("?"), key.endswith("?")
            place = f"{field}.{name}" if field else name
            if name not in value and not optional:
                return f"{place} is missing"
            if name in value and (found := mismatch(value[name], inner, place)):
                return found
    elif isinstance(shape, (Values, Each)):
        items: Iterable[tuple[object, object]] = value.items() if isinstance(value, dict) else \
            enumerate(value) if isinstance(value, list) else ()
        for at, item in items:
            place = str(at) if str(at).isprintable() and len(str(at)) <= 40 else _short(at)
            if found := mismatch(item, shape.shape, f"{field}.{place}" if field else place):
                return found
    return None


def _is(value: object, shape: Shape) -> bool:
    """Whether a value itself, not what is in it, is of a shape."""
    if isinstance(shape, Number):
        return (isinstance(value, int) or isinstance(value, float) and math.isfinite(value) and not shape.whole) \
            and not isinstance(value, bool) and shape.least <= value <= shape.most
    if isinstance(shape, Each):
        return isinstance(value, list) and shape.least <= len(value) <= shape.most
    kinds = {Text: str, Flag: bool, Object: dict, Values: dict, Anything: object}
    return isinstance(value, kinds[type(shape)])


def _short(value: object) -> str:
    """A value in a message: on one line, not long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):    # a number of too many digits, a list of too many depths
        text = f"a huge {type(value).__name__}"
    return text if len(text) <= 40 else f"{text[:37]}..."
