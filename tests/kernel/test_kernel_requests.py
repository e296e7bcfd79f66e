# SPDX-License-Identifier: GPL-2.0-only
"""Clients that ask and think, in virtual time: what each request took, and that they wait for answers and think."""
import pandas as pd
import pytest

from tests.kernel import documented


@pytest.fixture(scope="module")
def requests(run_scenario):
    return run_scenario(documented.scenario("howto/request-response.md"))


@pytest.fixture(scope="module")
def exchanges(requests):
    """A row for each request: source, conn, index, sent_us, answered_us."""
    units = requests.table("adus")
    asked, answers = (units[units["side"] == side].set_index(["source", "conn", "index"]) for side in "ia")
    return pd.DataFrame({"sent_us": asked["sent_us"], "answered_us": answers["delivered_us"],
                         "bytes": answers["bytes"]}).dropna().reset_index()


def test_it_is_valid_and_all_that_close_have_closed(requests):
    verdict = requests.json("verdict.json")
    assert verdict["verdict"] == "valid", verdict["reasons"]
    connections = requests.table("connections")
    assert connections.groupby("source")["status"].unique().map(list).to_dict() == {0: ["unfinished"], 1: ["finished"]}
    assert len(connections) == 7


def test_short_ones_think_as_long_as_they_should(exchanges):
    """20 requests each, 50 ms from the last byte of an answer to the next request, to the microsecond."""
    for _, mine in exchanges[exchanges["source"] == 1].groupby("conn"):
        mine = mine.sort_values("index")
        assert len(mine) == 20 and set(mine["bytes"]) == {3000}
        thought = mine["sent_us"].to_numpy()[1:] - mine["answered_us"].to_numpy()[:-1]
        assert abs(thought - 50_000).max() <= 2
        # two segments of the answer are two frames of the link behind one round trip
        assert (mine["answered_us"] - mine["sent_us"]).min() >= 20_000


def test_completion_times_are_metrics(requests, exchanges):
    metrics = pd.read_csv(requests.folder / "metrics.csv").set_index(["metric", "scope"])["value"]
    mine = exchanges[(exchanges["source"] == 1) & (exchanges["sent_us"] >= 1_000_000)]
    took_ms = (mine["answered_us"] - mine["sent_us"]) / 1000
    assert metrics["requests_completed", "short"] == len(mine) > 10
    assert metrics["request_completion_time_mean", "short"] == pytest.approx(took_ms.mean(), rel=1e-6)
    assert metrics["requests_completed", "request-response"] > 50
