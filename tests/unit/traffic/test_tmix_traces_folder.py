# SPDX-License-Identifier: GPL-2.0-only
"""`--set traffic.traces=~/folder`: the shell does not expand ~ after an = sign."""
import types

import pytest

from traffic import ParameterError
from traffic.tmix import scenario


def test_tilde_in_the_traces_folder_is_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "one.cvec").write_text("")
    context = types.SimpleNamespace(network={"links": [{"name": "down", "rate_bps": 10**8}], "paths": [{}, {}]})
    with pytest.raises(ParameterError, match="has 1 vector files; this network takes 2 sources"):
        scenario.prepare({"target": "down", "load_percent": 60, "traces": "~/traces"}, context)
