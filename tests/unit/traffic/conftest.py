# SPDX-License-Identifier: GPL-2.0-only
import json

import pytest

import topologies
import traffic
from tests.unit.traffic.traffic_setup import DUMBBELL, TIMING
from topologies.links.records import Network


@pytest.fixture
def network():
    """Hosts n1, n2 left, n3, n4 right; four paths."""
    return Network(topologies.resolve(DUMBBELL))


@pytest.fixture
def context(tmp_path, network):
    """A run of 10 s."""
    return traffic.Context(tmp_path / "work", "/run/guest", network, 3, TIMING)


@pytest.fixture
def jobs(context):
    """jobs(workload) -> [(node, module, job)] of the programs, in their order."""
    def of(workload):
        found = []
        for program in workload["programs"]:
            path, = program["arguments"]
            assert path.startswith("/run/guest/")
            found.append((program["node"], program["module"],
                          json.loads((context.work_dir / path.rpartition("/")[2]).read_text())))
        return found
    return of
