# SPDX-License-Identifier: GPL-2.0-only
"""Socket options of a variant are in force on the sockets of its flows, whatever of the testbed opens them."""
import pytest

from testbed.packet_scripts import runner
from tests.kernel.small_runs import HANDSHAKE, small_scenario

#: of payload: a million bytes per second, to the byte but for the burst that is under way
LIMIT = "SO_MAX_PACING_RATE: 8 Mbit/s"
BYTES_PER_S = 1_000_000
#: what is sent at once at this rate: two segments
BURST_BYTES = 2 * 1448


@pytest.fixture
def variant(tmp_path):
    """variant(options) -> what --cca takes: CUBIC with these socket options."""
    def write(options):
        (tmp_path / "limited.yaml").write_text(f"kernel_cca: cubic\nsocket_options: {{{options}}}\n")
        return str(tmp_path / "limited.yaml")
    return write


def sent_bytes_per_s(run):
    """Of flow 1, acknowledged in the four seconds of the test."""
    samples = run.table("tcp_info")
    acked = samples[samples["node"] == "n4"].set_index("t_us")["bytes_acked"]
    return (acked[5_000_000] - acked[1_000_000]) / 4


@pytest.mark.parametrize("flows", [1, 10], ids=["a thread each", "one ring"])
def test_a_greedy_flow_is_paced(run_scenario, variant, flows):
    run = run_scenario(small_scenario(**{"traffic.tool": "sockets", "traffic.flows": flows}), cca=variant(LIMIT))
    verdict = run.json("verdict.json")
    assert verdict["verdict"] == "valid", verdict["reasons"]
    samples = run.table("tcp_info")
    senders = samples[(samples["node"] == "n4") & (samples["t_us"] >= 1_000_000)]
    assert set(senders["pacing_rate_bps"]) == {8 * BYTES_PER_S}
    if flows == 1:
        assert abs(sent_bytes_per_s(run) - BYTES_PER_S) <= BURST_BYTES / 4


ANSWERS = {
    "traffic": {"kind": "request-response", "paths": ["n1->n4"], "request": "50 kB", "response": "100 kB",
                "think": "10 ms"},
    "topology.left_delays": ["0 ms"] * 3, "topology.right_delays": ["0 ms"] * 3}


def took_ms(run, side):
    """The times between the first byte of a unit of one side and its last byte at the other, from the third on."""
    units = run.table("adus")
    mine = units[(units["side"] == side) & units["delivered_us"].notna()].sort_values("index")
    return ((mine["delivered_us"] - mine["sent_us"]) / 1000)[2:]


def test_replayed_connections_are_paced_both_ways(run_scenario, variant):
    """The client sets the options itself, the server's connections have them from the socket that listens."""
    limited, free = (run_scenario(small_scenario(**ANSWERS), cca=cca) for cca in (variant(LIMIT), "cubic"))
    for side, size_bytes in (("i", 50_000), ("a", 100_000)):
        paced_ms, free_ms = took_ms(limited, side), took_ms(free, side)
        assert len(paced_ms) > 20 and len(free_ms) > 20
        # the first burst leaves at once, and the last byte has the path before it
        assert abs(paced_ms - 1000 * size_bytes / BYTES_PER_S).max() < 1000 * BURST_BYTES / BYTES_PER_S
        assert free_ms.max() < paced_ms.min() / 5


def test_connections_of_tmix_have_them_at_both_ends(run_scenario, variant):
    tmix = small_scenario(traffic={"kind": "tmix", "target": "right_to_left", "load": "20 %"})
    limited, free = (run_scenario(tmix, cca=cca).table("tcp_info") for cca in (variant(LIMIT), "cubic"))
    for side in (["n1", "n2", "n3"], ["n4", "n5", "n6"]):
        paced, unpaced = (table[table["node"].isin(side)]["pacing_rate_bps"].dropna() for table in (limited, free))
        assert len(paced) > 20 and paced.max() == 8 * BYTES_PER_S < unpaced.max()


SCRIPT = f"""{HANDSHAKE}\
   +0 getsockopt(4, SOL_SOCKET, SO_MAX_PACING_RATE, [1000000], [4]) = 0
   +0 getsockopt(4, SOL_TCP, TCP_NOTSENT_LOWAT, [16000], [4]) = 0
"""


def test_sockets_of_packet_scripts_have_them(variant, tmp_path):
    (tmp_path / "options.pkt").write_text(SCRIPT)
    source = runner.read(str(tmp_path / "options.pkt"), {}, ())
    carried_out = runner.runner({}, print)
    limited, = carried_out.run([source], variant(f"{LIMIT}, TCP_NOTSENT_LOWAT: 16 kB"))
    assert limited.ok, limited.problem
    free, = carried_out.run([source], "cubic")
    assert free.problem[0].endswith("options.pkt:9: getsockopt: value -1, expected 1000000")


def test_what_the_kernel_refuses_ends_the_run(run_scenario, variant):
    cca = variant("IPPROTO_TCP 200: 1")
    with pytest.raises(AssertionError, match=r"socket option IPPROTO_TCP 200 = 1 of flow 1: Protocol not available"):
        run_scenario(small_scenario(**{"traffic.tool": "sockets"}), cca=cca)
    with pytest.raises(AssertionError, match=r"socket option IPPROTO_TCP 200 = 1 of source 0: Protocol not available"):
        run_scenario(small_scenario(**ANSWERS), cca=cca)
