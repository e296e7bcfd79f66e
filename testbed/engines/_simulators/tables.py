# SPDX-License-Identifier: GPL-2.0-only
"""What a simulator left -> raw tables: CSV files with its own columns, records of Tmix, packets' sojourn times."""
from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from testbed.core import raw_tables
from testbed.core.errors import RunFailed
from testbed.core.raw_files import write_table
from testbed.engines._simulators.workload import Orders, Source
from traffic.replay.records import MAGIC
from traffic.workload.records import Workload

if TYPE_CHECKING:
    import pandas as pd

_ROWS = 1 << 20


def from_csv(work_dir: pathlib.Path, raw_dir: pathlib.Path, names: Iterable[str]) -> None:
    """work_dir/<name>.csv -> raw/<name>.csv.gz, for those that are there; columns that are not known stay empty."""
    for name in names:
        if (work_dir / f"{name}.csv").exists():
            write_table(_parts(work_dir / f"{name}.csv", name), raw_dir, name)


def _parts(path: pathlib.Path, name: str) -> Iterator[pd.DataFrame]:
    import pandas as pd
    columns = raw_tables.TABLES[name].columns
    for part in pd.read_csv(path, chunksize=_ROWS, low_memory=False):
        unknown = set(part.columns) - set(columns)
        if unknown:
            raise RunFailed(f"{path.name}: columns {', '.join(sorted(unknown))} are not in testbed/core/raw_tables.py")
        yield part.reindex(columns=list(columns))


def write_records(source: Source, folder: pathlib.Path) -> None:
    """<plan>.<role>.columns, as a simulator wrote them -> the records that traffic.replay.collect reads."""
    for role, header in source.headers().items():
        path = source.records(folder, role)
        columns = path.with_suffix(".columns")
        part = path.with_suffix(".part")
        with open(part, "wb") as file:
            file.write(MAGIC + json.dumps(header, sort_keys=True).encode() + b"\n" + columns.read_bytes())
        os.replace(part, path)
        columns.unlink()


def datagram_counts(work_dir: pathlib.Path, workload: Workload, counts: Iterable[Mapping[str, object]]) -> None:
    """What the programs of constant bit rates would have left, from {flow, sent_packets, ...} of each flow."""
    by_flow = {str(one["flow"]): {key: value for key, value in one.items() if key != "flow"} for one in counts}
    for program in workload.programs:
        if program.module == "traffic.datagrams.program":
            job = Orders.of_program(program)
            mine = {str(order.flow) for order in (*job.send, *job.receive)}
            pathlib.Path(job.output).write_text(json.dumps({flow: by_flow[flow] for flow in sorted(mine)}))
