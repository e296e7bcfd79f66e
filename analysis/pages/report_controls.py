# SPDX-License-Identifier: GPL-2.0-only
"""What each congestion control of an experiment was: kernel name, settings, parameters, module."""

from __future__ import annotations

from typing import NamedTuple

from analysis.read.experiment import Experiment
from analysis.read.runs import AnalysisError, Run
from testbed.core.guest_files import Checks
from traffic.workload.records import Variant


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
    for subject in experiment.subjects:
        for run in (run for run in experiment.runs if run.subject == subject):
            try:
                for variant in run.variants:
                    found.setdefault(variant.name, _control(variant, _parameters(run)))
            except AnalysisError:
                continue
            break
    return list(found.values())


def _parameters(run: Run) -> dict[str, dict[str, str]]:
    """{module: {parameter: value}} as the guest read them back; empty if the run did not get there."""
    try:
        checks = run.record(Checks, "checks.json")
    except AnalysisError:
        return {}
    controls = checks.congestion_controls if checks else None
    return {module: {name: str(value) for name, value in values.items()}
            for module, values in (controls.parameters if controls else {}).items()}


def _control(variant: Variant, observed: dict[str, dict[str, str]]) -> Control:
    if variant.quic:
        return Control(variant.name, variant.title, "", "", "a QUIC program")
    settings = [f"{name}={value}" for name, value in variant.sysctls.items()]
    # a module's parameters as they were in the run, those that nobody set included
    own = {name: str(value) for name, value in variant.parameters.items()}
    values = next((v for name, v in observed.items() if name.endswith(variant.kernel_cca)), own)
    settings += [f"{name}={value}" for name, value in values.items()]
    settings += [f"{option.name}={option.value}" for option in variant.socket_options]
    what = ". ".join(text for text in (variant.title, variant.source) if text)
    digest = variant.module_sha256
    return Control(variant.name, what, variant.kernel_cca, " ".join(settings),
                   f"out of tree, sources {digest[:12]}" if digest else "of the kernel")
