# SPDX-License-Identifier: GPL-2.0-only
"""Many hosts with a flow each, whose ends one program has: each is in the namespace of its host."""
import functools
import json

import pytest

from tests.kernel.small_runs import small_scenario
from traffic import cbr
from traffic.greedy import scenario as greedy

PAIRS = 9
#: of a flow: the number of hosts on each side is that of flows
PATHS = [f"n{number}->n{number + PAIRS}" for number in range(1, PAIRS + 1)]


def many_hosts(**changes):
    delays = [f"{number} ms" for number in range(PAIRS)]
    return small_scenario(**{
        "topology.left_delays": delays, "topology.right_delays": delays, "timing.warmup": "2 s", "timing.test": "2 s",
        "traffic": {"kind": "greedy", "tool": "sockets", "paths": PATHS, "start_within": "500 ms", **changes}})


@pytest.fixture(scope="module")
def together(run_scenario):
    return run_scenario(many_hosts())


@pytest.fixture(scope="module")
def apart(run_scenario):
    """The same with a program for each host."""
    def prepare(*arguments, whole=greedy.prepare):
        prepared = whole(*arguments)
        for program in prepared.programs:
            assert program.threads == 1
            program.threads = 0
        return prepared
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(greedy, "prepare", prepare)
        return run_scenario(many_hosts())


def accounts(finished):
    return {one["node"]: one for one in finished.json("raw/guest.json")["accounts"]}


def test_each_end_is_in_the_namespace_of_its_host(together):
    verdict = together.json("verdict.json")
    assert verdict["verdict"] == "valid", verdict
    found, samples = accounts(together), together.table("tcp_info")
    for flow in together.json("raw/workload.json")["flows"]:
        number, sender, receiver = flow["flow"], flow["sender"], flow["receiver"]
        assert (sender, receiver) == (f"n{number}", f"n{number + PAIRS}")
        mine = samples[(samples["dst"] == flow["dst"]) & (samples["dport"] == flow["dport"])]
        assert set(mine["node"]) == {sender} and set(mine["src"]) == {flow["src"]}
        others = samples[(samples["src"] == flow["dst"]) & (samples["sport"] == flow["dport"])]
        assert set(others["node"]) == {receiver} and set(others["dst"]) == {flow["src"]}
        assert list(found[sender]["sent_bytes"]) == list(found[receiver]["received_bytes"]) == [str(number)]
        assert found[sender]["received_bytes"] == found[receiver]["sent_bytes"] == {}
        assert [(end["flow"], end["end"], end["wrong_pieces"]) for node in (sender, receiver)
                for end in found[node]["ends"]] == [(number, "sender", 0), (number, "receiver", 0)]
        # what was acknowledged when it was sampled last, and beside the SYN, has been read at the end
        acknowledged = mine["bytes_acked"].max()
        assert 1 << 19 < acknowledged - 1 <= found[receiver]["received_bytes"][str(number)]
    # every host has its own link, and all that crosses it is its flow's
    received = sum(sum(one["received_bytes"].values()) for one in found.values())
    assert len(found) == 2 * PAIRS and received > 0.9 * 3.5 * 100e6 / 8 * 1448 / 1514


def without_ports(finished):
    """Samples of sockets but for the ports that the kernel draws, which depend on how many programs there are."""
    return finished.table("tcp_info").drop(columns=["sport", "dport"])


def test_flows_are_what_they_are_with_a_program_for_each_host(together, apart):
    assert list(accounts(together).items()) == list(accounts(apart).items())
    counted = [finished.json("raw/counters.json")["at_end"] for finished in (together, apart)]
    assert counted[0] == counted[1]
    assert without_ports(together).equals(without_ports(apart))
    assert together.table("queue").equals(apart.table("queue"))


def test_datagrams_are_what_they_are_with_a_program_for_each_host(run_scenario, monkeypatch):
    """But for a step of the clock here and there."""
    traffic = [{"kind": "greedy", "tool": "sockets", "paths": PATHS[:2], "start_within": "500 ms"},
               {"kind": "cbr", "name": "udp", "rate": "2 Mbit/s", "paths": PATHS[2:6], "start_within": "500 ms"}]
    together = run_scenario(many_hosts() | {"traffic": traffic})

    def prepare(*arguments, whole):
        prepared = whole(*arguments)
        assert all(program.threads == 1 for program in prepared.programs)
        for program in prepared.programs:
            program.threads = 0
        return prepared
    for kind in (greedy, cbr):
        monkeypatch.setattr(kind, "prepare", functools.partial(prepare, whole=kind.prepare))
    apart = run_scenario(many_hosts() | {"traffic": traffic})
    counts = [finished.json("raw/guest.json")["traffic"]["udp"]["flows"] for finished in (together, apart)]
    for one, other in zip(*counts):
        assert one["received_packets"] > 300
        assert one == {**other, **{key: pytest.approx(other[key], abs=1) for key in other if key.startswith("delay")}}
    sent = [{node: account.get("sent_bytes") for node, account in accounts(finished).items()}
            for finished in (together, apart)]
    assert sent[0] == sent[1]


def test_a_flow_that_fails_is_named_with_its_host_and_fails_the_run(run_scenario, monkeypatch):
    def prepare(section, component, flows, context, whole=greedy.prepare):
        prepared = whole(section, component, flows, context)
        job = context.work_dir / "greedy-n3.json"
        orders = json.loads(job.read_text())
        orders["send"][0]["port"] += 900
        job.write_text(json.dumps(orders))
        return prepared
    monkeypatch.setattr(greedy, "prepare", prepare)
    with pytest.raises(AssertionError, match="traffic.greedy.flows on n1 and 17 other nodes ended with status 1: "
                                             "flow 3, sender on n3: ConnectionRefusedError: .*Connection refused$"):
        run_scenario(many_hosts())
