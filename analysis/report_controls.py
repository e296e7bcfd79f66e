# SPDX-License-Identifier: GPL-2.0-only
"""What each congestion control of an experiment was: kernel name, settings, parameters, module."""

from __future__ import annotations

from typing import Any, NamedTuple

from analysis.runs import AnalysisError, Experiment, Run, read_json


class Control(NamedTuple):
    """One variant, in words."""

    name: str
    what: str
    kernel_cca: str
    settings: str
    module: str


def controls(experiment: Experiment) -> list[Control]:
    """One row per variant, in the order of the experiment; those without a readable run are left out."""
    found: dict[str, Control] = {}
    for cca in experiment.ccas:
        for run in (run for run in experiment.runs if run.cca == cca):
            try:
                variants = run.scenario.get("variants") or []
            except AnalysisError:
                continue
            for variant in variants:
                found.setdefault(variant["name"], _control(variant, _parameters(run)))
            break
    return list(found.values())


def _parameters(run: Run) -> dict[str, dict[str, str]]:
    """{module: {parameter: value}} as the guest read them back; empty if the run did not get there."""
    try:
        return read_json(run.path / "raw" / "checks.json").get("congestion_controls", {}).get("parameters", {})
    except AnalysisError:
        return {}


def _control(variant: dict[str, Any], observed: dict[str, dict[str, str]]) -> Control:
    settings = [f"{name}={value}" for name, value in variant["sysctls"].items()]
    # a module's parameters as they were in the run, those that nobody set included
    values = next((v for name, v in observed.items() if name.endswith(variant["kernel_cca"])), variant["parameters"])
    settings += [f"{name}={value}" for name, value in values.items()]
    what = ". ".join(text for text in (variant.get("title"), variant.get("source")) if text)
    digest = variant.get("module_sha256")
    return Control(variant["name"], what, variant["kernel_cca"], " ".join(settings),
                   f"out of tree, sources {digest[:12]}" if digest else "of the kernel")
