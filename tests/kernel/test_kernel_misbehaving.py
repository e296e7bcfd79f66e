# SPDX-License-Identifier: GPL-2.0-only
"""Receivers that misbehave, on the wire: the example of docs/howto/greedy.md, run as it stands there."""
import pytest
import yaml

from analysis.packets import captures
from testbed import PROJECT_DIR

END_US = 4_000_000


@pytest.fixture(scope="module")
def run(run_scenario):
    made = run_scenario(yaml.safe_load((PROJECT_DIR / "docs/examples/misbehaving.yaml").read_text(encoding="utf-8")))
    verdict = made.json("verdict.json")
    assert verdict["verdict"] == "valid", verdict["reasons"]
    return made


def exchange(run, component):
    """(segments with data that reached the receiver: when, begin, end; its acknowledgements: when, of what, the end of
    what had come), as positions in the stream."""
    flow, = (one for one in run.json("raw/workload.json")["flows"] if one["component"] == component)
    first, top, data, answers = None, 0, [], []
    for one in captures.segments(run.folder / f"raw/capture-{flow['receiver']}-eth0.pcap.gz"):
        if one.t_us >= END_US:
            break                               # the program has gone, and the kernel resets the connection
        if one.syn:
            first = one.seq + 1 if one.src.startswith(f"{flow['src']}:") else first
        elif one.src.startswith(f"{flow['src']}:"):
            begin = (one.seq - first) % 2**32
            if one.payload_bytes:
                data.append((one.t_us, begin, begin + one.payload_bytes))
                top = max(top, begin + one.payload_bytes)
        else:
            answers.append((one.t_us, (one.ack - first) % 2**32, top))
    return data, answers


def test_each_segment_in_order_is_acknowledged_in_four_parts(run):
    data, answers = exchange(run, "divides")
    acknowledged = [position for _, position, _ in answers]
    assert acknowledged == sorted(acknowledged) and len(data) > 200
    for number in range(1, 30):                # before anything is lost
        t_us, begin, end = data[number]
        assert end - begin == 1448
        # one behind the other at 1 Gbit/s
        assert [position for at_us, position, _ in answers if 0 <= at_us - t_us < 10] == [
            begin + 362, begin + 724, begin + 1086, begin + 1448]
    # at the end, all that came
    assert max(acknowledged) == max(end for _, _, end in data)


def test_an_optimistic_receiver_acknowledges_what_has_not_come(run):
    data, answers = exchange(run, "early")
    assert len(data) > 1000
    ahead = [position - top for _, position, top in answers if top]
    assert set(ahead) == {0, 10 * 1448}
    # what was lost is never sent again: each byte comes once, and some never
    ends = [end for _, _, end in data]
    assert ends == sorted(ends)
    missing = sum(begin - before for before, (_, begin, _) in zip([0, *ends], data))
    flow, = (one for one in run.json("raw/workload.json")["flows"] if one["component"] == "early")
    account, = (one for one in run.json("raw/guest.json")["accounts"] if one["node"] == flow["receiver"])
    received = account["received_bytes"][str(flow["flow"])]
    assert missing > 0 and received == sum(end - begin for _, begin, end in data)


def test_the_payload_of_all_is_compared(run):
    compared, = (one for one in run.json("verdict.json")["checks"] if one["check"] == "payload")
    assert compared["level"] == "ok"
