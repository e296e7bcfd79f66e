# SPDX-License-Identifier: GPL-2.0-only
"""What job.json says of congestion controls: modules, their parameters, settings per node; from flow records."""
import types

import pytest

from testbed.core.errors import UsageError
from testbed.core.fields import FieldError
from testbed.guest.tuning import Hosts, node_sysctls, socket_buffer_bytes
from testbed.runs import job_ccas
from topologies.links.records import Network
from traffic.workload.records import Flow, Variant, Workload

HOSTS = Hosts({"ecn": 0, "sack": 1, "slow_start_after_idle": 1, "sysctls": {}})


def link(name, rate_bps=64_000, capacity_bytes=15_140):
    return {"name": name, "rate_bps": rate_bps, "delay_us": 5_000, "capacity_bytes": capacity_bytes,
            "bottleneck": True}


NETWORK = Network({
    "nodes": [{"name": n, "role": "host"} for n in ("n1", "n2", "n3", "n4")],
    "links": [link("down", 64_000), link("up", 8_000)],
    "paths": [{"base_rtt_us": 20_000, "hops": ["up"], "hops_back": ["down"]}]})


def flow(number, sender, receiver, variant, **more):
    return Flow({
            "flow": number, "component": "greedy", "kind": "greedy", "sender": sender, "receiver": receiver,
            "variant": variant, "cca": variant, "source": None, "start_us": 0, "stop_us": 20_000_000,
            "hops": ["down"], "hops_back": ["up"], "both_ways": False, **more})


def record(name, kernel_cca=None, under_test=True, parameters=None, sha256=None, **sysctls):
    return Variant({
            "name": name, "kernel_cca": kernel_cca or name, "under_test": under_test, "parameters": parameters or {},
            "module_sha256": sha256, "sysctls": {f"net.ipv4.{k}": v for k, v in sysctls.items()}})


FLOWS = [flow(1, "n1", "n2", "old"), flow(2, "n3", "n2", "new")]


def test_hosts_are_set_to_what_their_flows_use():
    settings = node_sysctls(NETWORK, HOSTS, [record("old"), record("new")], FLOWS)
    # n2 has both: its default leaves nothing behind, and their programs choose
    assert [settings[n]["net.ipv4.tcp_congestion_control"] for n in ("n1", "n2", "n3", "n4")] == ["old", "reno", "new",
                                                                                                  "old"]
    # what stands beside is nobody's default unless it is used there
    beside = node_sysctls(NETWORK, HOSTS, [record("old", under_test=False), record("new")], FLOWS)
    assert [beside[n]["net.ipv4.tcp_congestion_control"] for n in ("n1", "n2", "n3", "n4")] == ["old", "reno", "new",
                                                                                                "new"]


def test_flows_that_want_different_settings_cannot_share_a_host():
    variants = [record("old", tcp_sack=0), record("new")]
    with pytest.raises(FieldError,
                       match=r"old and new want different net\.ipv4\.tcp_sack, but have flows on the same host n2"):
        node_sysctls(NETWORK, HOSTS, variants, FLOWS)
    settings = node_sysctls(NETWORK, HOSTS, variants, [FLOWS[0], flow(2, "n3", "n4", "new")])
    assert [settings[f"n{i}"]["net.ipv4.tcp_sack"] for i in (1, 2, 3, 4)] == [0, 0, 1, 1]


def test_ports_of_tmix_are_left_alone_only_where_somebody_else_is():
    flows = [flow(1, "n1", "n2", "old", component="tmix", source=0),
             flow(2, "n3", "n4", "old", component="tmix", source=1),
             flow(3, "n2", "n1", "old")]
    settings = node_sysctls(NETWORK, HOSTS, [record("old")], flows)
    assert [settings[f"n{i}"]["net.ipv4.ip_local_port_range"] for i in (1, 2, 3,
                                                                        4)] == ["61024 65535"] + ["1024 65535"] * 3


def test_buffers_hold_several_times_what_a_path_does():
    assert socket_buffer_bytes(NETWORK) == 4 << 20
    wide = NETWORK.changed(links=[link("down", 10**9, 2_000_000), link("up", 10**9, 3_000_000)])
    assert socket_buffer_bytes(wide) == 4 * (2_500_000 + 3_000_000)
    row = wide.changed(paths=[{"base_rtt_us": 20_000, "hops": ["up", "down"], "hops_back": []}])
    assert socket_buffer_bytes(row) == 4 * (2_500_000 + 5_000_000)


@pytest.fixture
def parts(tmp_path):
    """Function: (variants, flows, components) -> job_parts, with an engine that has the module abc."""
    (tmp_path / "tcp_mine.ko").write_text("module")
    (tmp_path / "tcp_lib.ko").write_text("what it needs")
    parts = [types.SimpleNamespace(name=name, file=tmp_path / f"{name}.ko") for name in ("tcp_lib", "tcp_mine")]
    module = types.SimpleNamespace(loaded_for=lambda congestion_control: parts)
    engine = types.SimpleNamespace(find_module=lambda sha256: module if sha256 == "abc" else None)
    work = tmp_path / "work"
    work.mkdir()

    def of(variants, flows, components=({"name": "greedy"},)):
        return job_ccas.job_parts(engine, variants, NETWORK, HOSTS, Workload({
            "flows": [one.content() for one in flows], "components": list(components)}), work).content()
    return of


RATE = {"c": "{bottleneck_bps}"}


@pytest.mark.parametrize("flows, components, rate", [
    ([flow(1, "n1", "n2", "mine")], [{"name": "greedy"}], "64000"),
    ([flow(1, "n1", "n2", "mine", hops=["x", "down", "up"])], [{"name": "greedy"}], "8000"),
    ([flow(1, "n1", "n2", "mine", both_ways=True)], [{"name": "greedy", "target_links": ["down"]}], "64000"),
    ([flow(1, "n1", "n2", "mine", both_ways=True)], [{"name": "greedy"}], "8000"),
    ([flow(1, "n1", "n2", "mine"), flow(2, "n1", "n2", "other", hops=["up"])], [{"name": "greedy"}], "64000")])
def test_a_module_is_told_the_rate_of_its_flows_bottleneck(parts, tmp_path, flows, components, rate):
    variants = [record("mine", parameters=RATE, sha256="abc"), record("other")]
    given = parts(variants, flows, components)
    assert given["modules"] == [{"name": "tcp_lib", "file": "modules/tcp_lib.ko", "parameters": {}},
                                {"name": "tcp_mine", "file": "modules/tcp_mine.ko", "parameters": {"c": rate}}]
    assert (tmp_path / "work/modules/tcp_mine.ko").read_text() == "module"
    assert given["builtin_parameters"] == {} and given["variants"] == [one.content() for one in variants]
    shared = any(one.variant == "other" for one in flows)
    assert given["sysctls"]["n1"]["net.ipv4.tcp_congestion_control"] == ("reno" if shared else "mine")


def test_flows_with_different_bottlenecks_leave_no_rate_to_be_told(parts):
    words = "mine is told the rate of its bottleneck, but its flows have bottlenecks of 8 kbit/s and 64 kbit/s"
    with pytest.raises(UsageError, match=words):
        parts([record("mine", parameters=RATE)], [flow(1, "n1", "n2", "mine"),
                                                  flow(2, "n1", "n2", "mine", hops=["up"])])


def test_variants_that_share_a_module_share_its_parameters(parts):
    slow, fast = (record(name, "mine", parameters={"gain": gain}, sha256="abc") for name,
                  gain in (("slow", 1), ("fast", 2)))
    flows = [flow(1, "n1", "n2", "slow"), flow(2, "n3", "n4", "fast")]
    with pytest.raises(UsageError, match="slow and fast cannot be in one run: both are mine, .* two sets"):
        parts([slow, fast], flows)
    assert len(parts([slow, fast.changed(parameters={"gain": 1})], flows)["modules"]) == 2
    with pytest.raises(UsageError, match="plain and tuned cannot be in one run: both are cubic, .* two sets"):
        parts([record("plain", "cubic"), record("tuned", "cubic", parameters={"hystart": 0})], [])
    assert parts([record("tuned", "cubic", parameters={"hystart": 0})], [])["builtin_parameters"] == {
        "tcp_cubic": {"hystart": "0"}}


def test_two_modules_of_one_name_are_refused_in_one_run(parts, monkeypatch, tmp_path):
    """Such as helpers that two folders have; of two that are the same, one is loaded."""
    (tmp_path / "other").mkdir()
    other = tmp_path / "other/tcp_lib.ko"
    lib, mine = tmp_path / "tcp_lib.ko", tmp_path / "tcp_mine.ko"
    found = {"abc": {"tcp_lib": lib, "tcp_mine": mine}, "def": {"tcp_lib": other, "tcp_two": mine}}
    monkeypatch.setattr(job_ccas, "_find", lambda engine, sha256: types.SimpleNamespace(
        loaded_for=lambda congestion_control: [types.SimpleNamespace(name=name, file=file)
                                               for name, file in found[sha256].items()]))
    variants = [record("one", sha256="abc"), record("two", sha256="def")]
    flows = [flow(1, "n1", "n2", "one"), flow(2, "n3", "n4", "two")]
    other.write_text("what it needs")
    assert [module["name"] for module in parts(variants, flows)["modules"]] == ["tcp_lib", "tcp_mine", "tcp_two"]
    other.write_text("something else")
    with pytest.raises(UsageError, match="two: another congestion control of the run has a module tcp_lib, too"):
        parts(variants, flows)


def test_what_does_not_go_together_is_one_line(parts):
    with pytest.raises(UsageError, match="^cca: old and new want different"):
        parts([record("old", tcp_sack=0), record("new")], FLOWS)
    with pytest.raises(UsageError, match="the module with sources def is not in the cache"):
        parts([record("mine", sha256="def")], [])
