# SPDX-License-Identifier: GPL-2.0-only
"""Vector files that are called as the suite's, on its access link, in virtual time."""
from tests.kernel.small_runs import small_scenario

#: base round-trip times of the Common TCP Evaluation Suite's access link, ms: 2 x (left edge + 2 + right edge)
SUITE_MS = {"r4s1": 8, "r4s2": 32, "r4s3": 58, "r5s1": 78, "r5s2": 102, "r5s3": 128, "r6s1": 154, "r6s2": 178,
            "r6s3": 204}


def test_every_file_has_the_round_trip_time_of_the_suite(run_scenario, tmp_path):
    # a connection a second from each file, whose responses say which file it is from
    response_bytes = {}
    for number, name in enumerate(SUITE_MS):
        response_bytes[1001 + number] = name
        (tmp_path / f"{name}.cvec").write_text("".join(
            f"SEQ {start + 50_000 * number} 1 1 {start}\n> 100\nt 5\n< {1001 + number}\nt 5\n"
            for start in range(0, 6_000_000, 1_000_000)))      # the last one after the end
    run = run_scenario(small_scenario(traffic={
        "kind": "tmix", "target": "right_to_left", "load": "1 %", "scale": 1, "traces": str(tmp_path)}))
    assert run.json("raw/workload.json")["components"][0]["traces"] == {
        f"n{name[3]}->n{name[1]}": f"{name}.cvec" for name in sorted(SUITE_MS, key=lambda name: name[::-1])}
    connections = run.table("connections")
    connections["file"] = connections["acc_bytes_asked"].map(response_bytes)
    connections["rtt_us"] = connections["connected_us"] - connections["start_us"]
    assert (connections.groupby("file").size() == 5).all() and set(connections["status"]) == {"finished"}
    for name, rtts_us in connections.groupby("file")["rtt_us"]:
        # SYN and SYN-ACK, 74 bytes each, take 2 x 5.92 us in the centre and 4 x 0.59 us at the edges, 14.2 us in
        # all; instants are noted in whole microseconds
        assert set(rtts_us - 1000 * SUITE_MS[name]) <= {14, 15}, name
