# SPDX-License-Identifier: GPL-2.0-only
"""`vagrant up && ./run_all.sh --smoke`, for real: `make test-vagrant`. Minutes, without KVM."""
import json
import pathlib

from tests.vagrant.conftest import phase


def _state(machine):
    """Everything that provisioning may change: packages, modules, sources, the marker."""
    return machine.inside("dpkg-query -W; find /usr/src/tcp-testbed-* /lib/modules/*/updates /etc/tcp-testbed-vm "
                          "/etc/modules* -printf '%p %T@ %s\\n' | sort")


def test_provisioning_again_changes_nothing(virtual_machine):
    before = _state(virtual_machine)
    with phase("vagrant provision, again"):
        again = virtual_machine.vagrant("provision")
    assert again.returncode == 0, again.stderr
    assert _state(virtual_machine) == before


def test_modules_are_there_by_dkms(virtual_machine):
    said = virtual_machine.inside("sudo dkms status; sudo modprobe tcp_libra; "
                                  "cat /proc/sys/net/ipv4/tcp_available_congestion_control; sudo rmmod tcp_libra")
    assert "tcp-testbed-ccas" in said and "installed" in said and " libra" in said


def test_the_smoke_list_from_outside(virtual_machine):
    with phase("./run_all.sh --smoke"):
        done = virtual_machine.testbed("./run_all.sh", "--smoke")
    assert done.returncode == 0, done.stderr
    results = pathlib.Path(virtual_machine.environment["TESTBED_RESULTS"])
    assert (results / "index.html").is_file()
    records = [json.loads(path.read_text()) for path in results.glob("runs/*/run.json")]
    assert len(records) == 4 and {record["status"] for record in records} == {"finished"}
    plans = [json.loads(path.read_text()) for path in results.glob("runs/*/plan.json")]
    assert sorted(plan["subject"] for plan in plans) == ["cubic", "libra", "libra", "reno"]
    assert {plan["engine"] for plan in plans} == {"vagrant"}
    for path in results.glob("runs/*/verdict.json"):
        verdict = json.loads(path.read_text())
        assert verdict["verdict"] in ("valid", "suspect"), verdict["reasons"]
    reports = sorted(path.parts[-3] for path in results.glob("*/report/index.html"))
    assert [name.split("-")[0] for name in reports] == ["access", "rtt"]
    assert virtual_machine.inside("sudo find /var/tmp/tcp-testbed -mindepth 1") == ""


def test_the_list_inside_uses_its_own_kernel(virtual_machine):
    said = virtual_machine.inside("cd /vagrant && ./run_all.sh --smoke --list")
    assert "--engine host" in said
