# SPDX-License-Identifier: GPL-2.0-only
"""The fidelity verdict: can this run be trusted?

Every file here is one check, found by listing: `check(evidence)` yields `Finding`s. The
verdict is the worst of them. A check that cannot see its evidence says so as `suspect`;
none may pass for want of data.
"""
import dataclasses
import importlib
import json
import pathlib

LEVELS = ("ok", "suspect", "invalid")
VERDICTS = {"ok": "valid", "suspect": "suspect", "invalid": "invalid"}


@dataclasses.dataclass(frozen=True)
class Finding:
    """What one check found; `level` is ok, suspect or invalid."""
    level: str
    message: str


@dataclasses.dataclass
class Evidence:
    """A run's files, as far as the checks need them; variants: records of testbed/ccas.py."""
    run_dir: pathlib.Path
    scenario: dict
    clock: str
    variants: list

    def json(self, name):
        """A JSON file of the run's raw folder."""
        return json.loads((self.run_dir / "raw" / name).read_text())

    def table(self, name, **options):
        """A CSV file of the run's raw folder as a pandas table, or None if the run has none."""
        import pandas as pd
        path = self.run_dir / "raw" / f"{name}.csv.gz"
        return pd.read_csv(path, **options) if path.exists() else None


def names():
    """Names of all checks."""
    return sorted(f.stem for f in pathlib.Path(__file__).parent.glob("[a-z]*.py"))


def judge(evidence):
    """All checks on a run -> the contents of verdict.json."""
    checks = []
    for name in names():
        for finding in importlib.import_module(f"testbed.fidelity.{name}").check(evidence):
            checks.append({"check": name, "level": finding.level, "message": finding.message})
    worst = max((LEVELS.index(c["level"]) for c in checks), default=1)
    return {"verdict": VERDICTS[LEVELS[worst]],
            "reasons": [c for c in checks if c["level"] != "ok"], "checks": checks}
