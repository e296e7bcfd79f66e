# SPDX-License-Identifier: GPL-2.0-only
"""Bytes asked for = bytes delivered, for every connection that finished."""
from testbed.fidelity import Finding

_FAILED_SHARE = 0.01


def check(evidence):
    connections = evidence.table("connections", low_memory=False)
    if connections is None:
        if "offered_bps" in evidence.json("workload.json"):
            yield Finding("suspect", "no record of the connections: what they delivered is not known")
        return
    finished = connections[connections["status"] == "finished"]
    wrong = finished[(finished["init_bytes_asked"] != finished["init_bytes_delivered"])
                     | (finished["acc_bytes_asked"] != finished["acc_bytes_delivered"])
                     | (finished["adus_asked"] != finished["adus_delivered"])]
    if len(wrong):
        first = wrong.iloc[0]
        yield Finding("invalid", f"{len(wrong)} finished connections did not get the bytes they asked for, such as "
                                 f"connection {first['conn']} of source {first['source']}")
    elif finished.empty:
        yield Finding("suspect", f"none of {len(connections)} connections finished")
    else:
        yield Finding("ok", f"bytes asked = delivered on all {len(finished)} finished connections "
                            f"of {len(connections)} started")
    failed = connections["status"].astype(str).str.startswith("failed").sum()
    if failed:
        share = failed / len(connections)
        kinds = connections.loc[connections["status"].str.startswith("failed"), "status"].value_counts()
        yield Finding("suspect" if share > _FAILED_SHARE else "ok",
                      f"{failed} connections failed ({share:.2%}): "
                      + ", ".join(f"{count} {status.removeprefix('failed: ')}" for status, count in kinds.items()))
