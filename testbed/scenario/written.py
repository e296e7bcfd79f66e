# SPDX-License-Identifier: GPL-2.0-only
"""Scenarios as files: a loaded one, with its choices made and its settings put in, as YAML."""
from collections.abc import Sequence

import yaml

from testbed.scenario.scenario import Scenario

_KEPT = ("topology", "traffic", "timing", "hosts", "kernel", "probes")
_COLUMNS = 120


def text(one: Scenario, name: str, title: str, ccas: Sequence[str], expect: Sequence[str]) -> str:
    """A scenario file that decides the same runs as `one`, under another name and without what may be chosen.

    ccas: what it tests by default, () for nothing that it says.
    """
    tree = one.file.tree if one.file else {}
    found: dict[str, object] = {"name": name, "title": title}
    found.update({key: tree[key] for key in _KEPT if tree.get(key) is not None})
    if ccas:
        found["defaults"] = {"ccas": list(ccas)}
    found["expect"] = list(expect)
    lines = str(yaml.safe_dump(found, sort_keys=False, default_flow_style=None, width=_COLUMNS, allow_unicode=True))
    return f"# SPDX-License-Identifier: GPL-2.0-only\n{lines}"
