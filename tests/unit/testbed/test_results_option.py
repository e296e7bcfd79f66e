# SPDX-License-Identifier: GPL-2.0-only
"""--results FOLDER: every command that runs experiments or looks at results takes it."""
import os

import pytest

from testbed import cli
from testbed.cli._parser import RESULTS_VARIABLE
from tests.unit.analysis import fixture


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    """The option sets the variable; afterwards it is as before."""
    monkeypatch.setenv(RESULTS_VARIABLE, "elsewhere")


@pytest.mark.parametrize("words", [["runs", "list"], ["report", "demo"], ["suite", "list", "studies"]])
@pytest.mark.parametrize("last", [True, False])
def test_it_is_read_there(tmp_path, capsys, words, last):
    fixture.write_experiment(tmp_path / "other/demo", ccas=["reno"], seeds=[1], shapes={})
    option = ["--results", str(tmp_path / "other")]
    assert cli.main([*words, *option] if last else [*words[:-1], *option, words[-1]] if words[0] != "runs"
                    else [*words, *option]) == 0
    assert os.environ[RESULTS_VARIABLE] == str(tmp_path / "other")


def test_a_relative_folder_is_that_of_the_current_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cli.main(["runs", "list", "--results=here"])
    assert os.environ[RESULTS_VARIABLE] == str(tmp_path / "here")


def test_a_file_is_none(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as ended:
        cli.main(["runs", "list", "--results", str(tmp_path / "file")])
    assert ended.value.code == 2 and "not a folder" in capsys.readouterr().err
    assert os.environ[RESULTS_VARIABLE] == "elsewhere"


@pytest.mark.parametrize("name", cli.command_names())
def test_commands_take_it_that_use_results(name, capsys):
    found = cli._literals(name)
    uses = found.get("GROUP") in cli._GROUPS_WITH_RESULTS and not found.get("NO_RESULTS")
    verbs = getattr(cli._load(name), "VERBS", None) or [None]
    for verb in verbs:
        with pytest.raises(SystemExit):
            cli.main([name, *([verb] if verb else []), "--help"])
        assert ("--results FOLDER" in capsys.readouterr().out) == uses
