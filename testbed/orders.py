# SPDX-License-Identifier: GPL-2.0-only
"""What a run's job.json says of congestion controls: modules to load, parameters, settings per node."""
import shutil

import topologies
from testbed import ccas
from testbed.errors import UsageError
from testbed.guest.tuning import node_sysctls


def congestion_controls(spec, engine, workload, work_dir):
    """The part of a job that depends on what is tested; puts the modules into work_dir/modules.

    workload: contents of workload.json. UsageError if the flows cannot be as asked.
    """
    variants = spec.subject.record()
    network = topologies.resolve(spec.scenario.topology)
    flows = workload["description"].get("flows")
    if len(variants) > 1 and not isinstance(flows, list):
        raise UsageError(f"{spec.cca}: connections of {spec.scenario.traffic['kind']} traffic do not take turns; "
                         "several congestion controls in one run need greedy flows")
    try:
        sysctls = node_sysctls(network, spec.scenario.hosts, variants, flows)
    except ValueError as problem:
        raise UsageError(f"{spec.cca}: {problem}") from None
    link = _target_link(network, workload["description"].get("target_link"))
    modules, builtin = {}, {}
    for variant in variants:
        parameters = ccas.fill_in(variant["parameters"], link)
        if variant["module_sha256"]:
            modules[variant["kernel_cca"]] = _module(engine, variant["module_sha256"], parameters, work_dir)
        elif parameters:
            builtin[f"tcp_{variant['kernel_cca']}"] = parameters
    return {"variants": variants, "modules": list(modules.values()), "builtin_parameters": builtin, "sysctls": sysctls}


def _target_link(network, name):
    bottlenecks = [link for link in network["links"] if link["bottleneck"]]
    return next((link for link in bottlenecks if link["name"] == name), bottlenecks[0])


def _module(engine, sha256, parameters, work_dir):
    module = engine.find_module(sha256)
    if module is None:
        raise UsageError(f"the module with sources {sha256[:12]} is not in the cache: give its sources with --cca and run again")
    (work_dir / "modules").mkdir(exist_ok=True)
    shutil.copyfile(module.file, work_dir / "modules" / module.file.name)
    return {"name": module.name, "file": f"modules/{module.file.name}", "parameters": parameters}
