# SPDX-License-Identifier: GPL-2.0-only
"""A plan: everything that one run is made from, and therefore what it is known by.

Two plans with the same content have the same id, whatever their scenario is called and from
wherever it was read; anything that may change a byte of the raw data changes the id.
"""
from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import pathlib

from testbed.core.errors import UsageError
from testbed.core.files import write_json
from testbed.core.record import plain
from testbed.core.run_files import Labels
from testbed.core.timing import Timing
from testbed.scenario.scenario import Resolved
from traffic.workload.records import Variant

SCHEMA = 2
#: the engine that needs nothing of the machine
DEFAULT_ENGINE = "uml"
#: hexadecimal digits of an id: a hundred million runs share one with a chance of 1 in 3000
_ID_DIGITS = 16
#: what of a variant decides its bytes; titles, sources and paths do not
_DECISIVE = ("name", "kernel_cca", "sysctls", "parameters", "module_sha256", "under_test")
#: the same, left out where there is none: older plans do not have it
_DECISIVE_IF_ANY = ("socket_options",)


@dataclasses.dataclass(frozen=True)
class Plan:
    """What one run is made from.

    labels: what people call it, no part of the identity; kernel_key: which kernel (or simulator) binary; guest_code:
    hash of the code that runs inside; inputs: {path: SHA-256} of the user's files that traffic is made from.
    """
    scenario: Resolved
    labels: Labels
    subject: str
    variants: tuple[Variant, ...]
    seed: int
    engine: str
    kernel_key: str
    guest_code: str
    inputs: dict[str, str]

    @functools.cached_property
    def id(self) -> str:
        """Hash of everything but the labels."""
        decisive = self.record(with_id=False)
        del decisive["labels"]
        decisive["variants"] = [{**{key: vars(variant).get(key) for key in _DECISIVE},
                                 **{key: vars(variant)[key] for key in _DECISIVE_IF_ANY if vars(variant).get(key)}}
                                for variant in self.variants]
        return digest(decisive)[:_ID_DIGITS]

    @property
    def timing(self) -> Timing:
        """When measuring begins and ends."""
        return self.scenario.timing

    @property
    def point(self) -> dict[str, str]:
        """The values of a sweep's axes, as text; empty without a sweep."""
        return dict(self.labels.point or {})

    def record(self, with_id: bool = True) -> dict[str, object]:
        """The contents of plan.json."""
        fields = json.loads(json.dumps({field.name: getattr(self, field.name) for field in dataclasses.fields(self)},
                                       default=plain))
        return {"schema": SCHEMA, **({"id": self.id} if with_id else {}), **fields}

    def write(self, run_dir: pathlib.Path) -> None:
        write_json(run_dir / "plan.json", self.record())


def digest(value: object) -> str:
    """SHA-256 of a JSON-able value, however its keys are ordered."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":"), default=plain).encode()).hexdigest()


def read(run_dir: pathlib.Path) -> Plan:
    """The plan of a run folder. UsageError if it cannot be read or is of another version of the testbed."""
    path = run_dir / "plan.json"
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(fields, dict) or fields.pop("schema", None) != SCHEMA:
            raise UsageError(f"{path}: not a plan of this version of the testbed (schema {SCHEMA} expected)")
        was = fields.pop("id")
        scenario, labels = Resolved(fields.pop("scenario"), str(path)), Labels(fields.pop("labels"), str(path))
        plan = Plan(scenario, labels, variants=tuple(Variant(one) for one in fields.pop("variants")), **fields)
        if plan.id != was:
            raise UsageError(f"{path}: its content does not give its id {was}: it was changed")
    except OSError as problem:
        raise UsageError(f"{path}: {problem.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as problem:
        raise UsageError(f"{path}: damaged: {type(problem).__name__}: {problem}") from None
    return plan
