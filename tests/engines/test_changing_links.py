# SPDX-License-Identifier: GPL-2.0-only
"""Links that change, and traces, in the simulators: the example of docs/howto/simulators.md, as in the kernel."""
import copy
import pathlib
import re
import shutil
import subprocess

import pandas as pd
import pytest
import yaml

from testbed import checks
from testbed.core.raw_files import write_table
from testbed.core.run_files import Scenario
from topologies.links import varying
from topologies.links.records import Network
from traffic.workload.records import Variant

_DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
FRAME_BYTES = 1514


def example(page, name):
    """The scenario that a page has under this name."""
    block = re.search(rf"`examples/{name}\.yaml`.*?```yaml\n(.*?)```", (_DOCS / page).read_text(encoding="utf-8"),
                      re.DOTALL)
    return yaml.safe_load(block.group(1).replace("docs/examples", str(_DOCS / "examples")))


def narrow(traffic, **link):
    """10 Mbit/s, 20 ms, 50 packets, four seconds; link: more of the link."""
    return {"name": "small", "traffic": traffic, "topology": {
        "kind": "dumbbell", "central": {"rate": "10 Mbit/s", "delay": "10 ms", "queue": {"limit": 50}, **link},
        "edge": {"rate": "100 Mbit/s"}, "left_delays": ["0 ms"], "right_delays": ["0 ms"]},
        "timing": {"warmup": "0 s", "test": "4 s"},
        "probes": {"queue": {"interval": "10 ms"}, "tcp_info": {"interval": "100 ms"}}}


def schedule_of(tree):
    return tree["topology"]["central"]["right_to_left"]["schedule"]


@pytest.fixture(scope="module")
def changed(run_in):
    """{engine: its run}; ns-2 without outages and losses."""
    tree = example("howto/simulators.md", "changing")
    found = {name: run_in(name, tree) for name in ("uml", "ns3")}
    less = copy.deepcopy(tree)
    schedule_of(less)[:] = [{key: value for key, value in entry.items() if key != "loss"}
                            for entry in schedule_of(less) if "outage" not in entry]
    return {**found, "ns2": run_in("ns2", less)}


@pytest.mark.parametrize("engine", ("uml", "ns3", "ns2"))
def test_every_change_is_made_at_its_time(changed, engine):
    """The record has each change of the schedule, and the link carried what its rate then was."""
    run = changed[engine]
    verdict = run.json("verdict.json")
    assert verdict["verdict"] == "valid", verdict["reasons"]
    said = [check["message"] for check in verdict["checks"] if check["check"] == "schedule"]
    assert "changes, at most 0 us late" in said[0] and "carried what its schedule says" in said[1]
    link = next(link for link in Network(run.json("raw/network.json")).links if varying.changes(link))
    rows = run.table("link_changes")
    due = list(varying.states(link))[1:]
    assert rows["due_us"].tolist() == [at_us for at_us, _ in due]
    assert rows["limit"].tolist() == [state.limit for _, state in due]
    assert rows["delay_us"].tolist() == [state.delay_us for _, state in due]


def test_the_simulated_link_has_sent_what_the_kernels_had(changed):
    """At every change within two frames; during the outage nothing."""
    kernel, simulated = (changed[name].table("link_changes") for name in ("uml", "ns3"))
    same = ["due_us", "link", "rate_bps", "delay_us", "loss_percent", "limit", "up"]
    assert simulated[same].equals(kernel[same])
    assert (simulated["sent_bytes"] - kernel["sent_bytes"]).abs().max() <= 2 * FRAME_BYTES
    down = simulated.index[simulated["up"] == 0]
    assert len(down) == 1 and simulated["sent_packets"][down[0] + 1] == simulated["sent_packets"][down[0]]
    assert changed["ns3"].json("raw/counters.json")["drained"]["right_to_left"]["wire_dropped_packets"] > 0


def test_nobody_overtakes_when_the_delay_becomes_less(changed):
    """The schedule makes it 18 ms less while packets follow each other every millisecond."""
    udp, = changed["ns3"].json("raw/guest.json")["traffic"]["cbr"]["flows"]
    assert udp["received_packets"] > 1000 and udp["reordered_packets"] == 0


def test_a_shorter_delay_makes_no_sender_send_again(run_in):
    """Segments that overtook others would be taken for lost ones."""
    run = run_in("ns3", narrow({"kind": "greedy", "tool": "sockets", "paths": ["n2->n1"]},
                               queue={"limit": 9000}, schedule=[{"at": "1 s", "delay": "1 ms"}]))
    samples = run.table("tcp_info").query("node == 'n2' and state == 'ESTAB' and t_us <= 2000000")
    assert samples["bytes_acked"].max() > 2e6 and samples["total_retrans"].max() == 0


LOWERED = """
foreach part {orders changes} { source %s/$part.tcl }
set ns [new Simulator]
set zero 0.0
set node_of [dict create a [$ns node] b [$ns node]]
set ends [list [dict get $node_of a] [dict get $node_of b]]
$ns simplex-link {*}$ends 10Mb 20ms DropTail
set wire [[$ns link {*}$ends] link]
set link_of [dict create a_b [dict create wire $wire delay $wire]]
if {%d} { delay_apart {link a_b {from a to b}} }
set file [open %s/trace w]
$ns trace-queue {*}$ends $file
set udp [new Agent/UDP]
set null [new Agent/Null]
$ns attach-agent [lindex $ends 0] $udp
$ns attach-agent [lindex $ends 1] $null
$ns connect $udp $null
for {set i 0} {$i < 100} {incr i} { at_s [expr {0.0005 * $i}] [list $udp send [expr {$i %% 2 ? 54 : 500}]] }
at_s 0.02 {[dict get $link_of a_b delay] set delay_ 0.002}
at_s 0.2 {close $file; exit 0}
$ns run
"""


@pytest.mark.parametrize("apart", [True, False])
def test_nobody_overtakes_in_ns2(tmp_path, apart):
    """A packet every 0.5 ms, and 18 ms less of delay; with ns-2's own delay packets overtake."""
    (tmp_path / "lowered.tcl").write_text(LOWERED % (_DOCS.parent / "simulation" / "ns2", apart, tmp_path))
    subprocess.run(["ns", tmp_path / "lowered.tcl"], check=True, timeout=60)
    arrived = [line.split() for line in (tmp_path / "trace").read_text().splitlines() if line.startswith("r")]
    order, at_s = [int(words[-1]) for words in arrived], [float(words[1]) for words in arrived]
    assert len(order) == 100 and (order == sorted(order)) == apart
    # those on the wire keep their time, and the last has the new delay: it did not wait for the others
    assert at_s[0] == pytest.approx(0.0204, abs=1e-5) and at_s[-1] == pytest.approx(99 * 0.0005 + 0.002, abs=1e-4)


@pytest.mark.parametrize("engine, column, value, message", [
    ("ns3", "t_us", 2_000_900, "invalid"), ("ns2", "t_us", 2_000_900, "invalid"), ("ns3", "rate_bps", 1, "invalid")])
def test_a_record_that_is_wrong_is_noticed(changed, tmp_path, engine, column, value, message):
    finished = changed[engine]
    shutil.copytree(finished.folder, tmp_path / "run")
    rows = finished.table("link_changes")
    rows.loc[0, column] = value
    write_table(rows, tmp_path / "run" / "raw", "link_changes")
    plan, environment = (finished.json(name) for name in ("plan.json", "environment.json"))
    verdict = checks.judge(checks.Evidence(
        tmp_path / "run", Scenario(plan["scenario"]), environment["clock"], list(map(Variant, plan["variants"])),
        environment["capabilities"]))
    assert verdict["verdict"] == message and "schedule" in {one["check"] for one in verdict["reasons"]}


def test_a_trace_lets_packets_go_at_its_instants(run_in):
    """Every opportunity of docs/examples/bursts.trace at its time, used where a packet waits (the check `schedule`)."""
    run = run_in("ns3", example("howto/links.md", "replayed"))
    verdict = run.json("verdict.json")
    assert verdict["verdict"] == "valid", verdict["reasons"]
    rows = run.table("opportunities")
    assert (rows["t_us"] == rows["due_us"]).all() and (rows["t_us"] % 1000 == 0).all()
    used = rows["sent_packets"].diff().fillna(rows["sent_packets"])
    assert (used <= rows["packets"]).all() and used.sum() > 1000
    # a frame leaves a queue only at an instant of the trace
    samples = run.table("queue").query("link == 'right_to_left'").set_index("t_us")["sent_packets"]
    at = pd.Series(rows["sent_packets"].values, index=rows["t_us"])
    between = samples[(samples.index % 1000 == 0) & samples.index.isin(at.index)]
    assert len(between) > 50 and (at[between.index] - between).between(0, rows["packets"].max()).all()


# -- TCP flows that rest -------------------------------------------------------------------------------

@pytest.mark.parametrize("engine, cca", [("ns3", "reno"), ("ns2", "reno"), ("ns2", "cubic")])
def test_a_tcp_flow_rests(run_in, engine, cca):
    """It fills the link for a second, sends what it has written ahead (128 kB), and is silent until the next burst."""
    traffic = {"kind": "on-off", "transport": "tcp", "on": "1 s", "off": "1 s", "paths": ["n2->n1"]}
    run = run_in(engine, narrow(traffic), cca=cca)
    verdict = run.json("verdict.json")
    assert verdict["verdict"] == "valid", verdict["reasons"]
    sent = run.table("queue").query("link == 'right_to_left'").set_index("t_us")["sent_bytes"]
    for begin_us in (0, 2_000_000):
        assert sent[begin_us + 1_000_000] - sent[begin_us] > 0.8 * 10e6 / 8
        # 128 kB and what was in the queue take less than 250 ms
        assert 0 < sent[begin_us + 1_250_000] - sent[begin_us + 1_000_000] < 250_000
        assert sent[begin_us + 1_990_000] == sent[begin_us + 1_250_000]


@pytest.mark.parametrize("engine, cca", [("ns3", "cubic"), ("ns2", "cubic"), ("ns2", "reno")])
def test_a_greedy_flow_stops(run_in, engine, cca):
    traffic = {"kind": "greedy", "tool": "sockets", "paths": ["n2->n1"], "stop": "2 s"}
    run = run_in(engine, narrow(traffic), cca=cca)
    sent = run.table("queue").query("link == 'right_to_left'").set_index("t_us")["sent_bytes"]
    assert sent[2_000_000] > 0.8 * 2 * 10e6 / 8 and sent[4_000_000] == sent[2_500_000]
