# SPDX-License-Identifier: GPL-2.0-only
"""The example of docs/howto/phases.md: what its flow sends in each phase."""
import pytest

from tests.kernel import documented


@pytest.fixture(scope="module")
def samples(run_scenario):
    run = run_scenario(documented.scenario("howto/phases.md"))
    assert run.json("verdict.json")["verdict"] == "valid", run.json("verdict.json")["reasons"]
    return run.table("tcp_info").query("node == 'n2' and state == 'ESTAB'").set_index("t_us")["bytes_acked"]


def sent(samples, begin_s, end_s):
    """Bytes acknowledged between two times."""
    return samples.loc[:round(end_s * 1e6)].iloc[-1] - samples.loc[:round(begin_s * 1e6)].iloc[-1]


def test_it_fills_the_link_while_it_may(samples):
    # 10 Mbit/s of frames: 1448 of 1514 bytes are payload
    assert sent(samples, 1, 2) == pytest.approx(10e6 / 8 * 1448 / 1514, rel=0.01)
    # it begins with a small window after its rest
    assert sent(samples, 4.5, 5) > 0.8 * 0.5 * 10e6 / 8 * 1448 / 1514


def test_it_has_the_rate_of_its_application(samples):
    # what the queue held when the phase began is acknowledged first: 70 packets take 85 ms
    assert sent(samples, 2.3, 3) == pytest.approx(0.7 * 2e6 / 8, abs=2 * 1448)


def test_it_rests(samples):
    assert sent(samples, 3.1, 4) == 0
