# SPDX-License-Identifier: GPL-2.0-only
"""Names that somebody mistyped: which one was meant, and that nothing is built before that is said."""
import pytest

import kernel
from testbed import cli
from testbed.cli import _runs
from testbed.core import guesses


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path):
    """No kernel is there, and none may be built."""
    def ensure(*_):
        raise AssertionError("a kernel is built")
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(kernel, "ensure", ensure)


@pytest.mark.parametrize("words, said", [
    ("run acess-link", "no scenario 'acess-link'; did you mean access-link?"),
    ("run codel-law", "no scenario 'codel-law', but a published result: testbed suite run published --only codel-law"),
    ("run access-link --cca cubik", "no congestion control 'cubik' in this kernel; did you mean cubic?"),
    ("run access-link --cca vegass --kernel 6.1,6.12", "no congestion control 'vegass'"),
    ("run access-link --cca highsped --engine uml,ns3", "did you mean highspeed?"),
    ("run access-link --probe tcp_prob", "did you mean tcp_probe"),
    ("run access-link --set topology.central.queue.kind=codell", "did you mean codel"),
    ("run access-link --set topology.central.queu.kind=codel", "did you mean queue?"),
    ("run access-link --sweep topology.central.queue.limt=85,170", "did you mean limit?"),
    ("run access-link --precision 5% --precision-metrics througput", "close to it are throughput"),
    ("run access-link --engine um", "did you mean uml?"),
    ("run two-hosts --cca reno --set traffic.cca=cubik", "did you mean cubic?"),
    ("shell access-link --cca cubik", "did you mean cubic?"),
    ("sensitivity access-link --cca reno,cubik", "did you mean cubic?"),
    ("sensitivity access-link --cca reno,cubic --only jiter", "did you mean jitter?"),
    ("sensitivity access-link --cca reno,cubic --metric througput", "throughput"),
    ("suite run iccrg --cca cubik", "did you mean cubic?"),
    ("suite run studys", "did you mean studies?")])
def test_a_typo_is_found_before_a_kernel_is_built(capsys, words, said):
    assert cli.main(words.split()) == 2
    assert said in capsys.readouterr().err


def test_the_guest_kernel_has_the_congestion_controls_that_it_is_configured_with():
    assert {"reno", "cubic", "bbr", "highspeed", "vegas"} <= {*kernel.congestion_controls()}
    assert kernel.is_debian(None) and kernel.is_debian("6.1") and not kernel.is_debian("/usr/src/linux")


def test_guesses():
    names = ["cubic", "reno", "bbr"]
    assert guesses.alternatives("cubik", names) == "did you mean cubic?"
    assert guesses.alternatives("xyzzy", names) == "there are: cubic, reno, bbr"
    assert guesses.question("xyzzy", names) == "" and guesses.close("renno", names) == ["reno"]


def test_one_seed():
    parser = cli.Parser()
    _runs.add_scenario_arguments(parser)
    assert _runs.seeds(parser.parse_args(["access-link", "--seed", "3"]).seeds) == [3]
    assert parser.parse_args(["access-link", "--load", "60%"]).load == "60"
