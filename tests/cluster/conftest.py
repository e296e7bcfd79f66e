# SPDX-License-Identifier: GPL-2.0-only
"""A sweep of real runs on Dask workers that are killed: `make test-cluster`, some minutes.

No part of `make test`: collected only if this folder is named. How many runs: TESTBED_CLUSTER_RUNS=64
"""
import pathlib

HERE = pathlib.Path(__file__).parent


def pytest_ignore_collect(collection_path, config):
    named = any(HERE.name in pathlib.Path(argument.split("::")[0]).parts for argument in config.args)
    return None if named else True
