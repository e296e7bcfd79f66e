# SPDX-License-Identifier: GPL-2.0-only
"""Chosen losses, and what Tahoe, Reno, NewReno and SACK make of them: the scenario loss-recovery.

The window is 23 segments when the loss of segment 14 is noticed, so the threshold becomes 11, half of
it. Times are exact to what the kernel itself takes in virtual time, a few microseconds.
"""
import pytest
import yaml

from testbed.scenario.scenario import SCENARIO_DIR

MSS = 1448
NOT_SET = 2**31 - 1
OPEN, DISORDER, RECOVERY, LOSS = 0, 1, 3, 4
VARIANTS = ("tahoe", "reno-classic", "newreno", "sack")
#: one ACK of the kernel's at most
_MOMENT_US = 60


class Repair:
    """What the sender did: its tcp_probe rows (state before each segment), retransmissions, tcp_info."""

    def __init__(self, run):
        self.run = run
        acks = run.table("tcp_probe")
        self.acks = acks[acks["dst"].str.endswith(":6000")].reset_index(drop=True)
        again = run.table("retransmissions")
        assert set(again["dst"]) <= set(self.acks["dst"])
        self.again_us = again["t_us"].tolist()
        samples = run.table("tcp_info")
        samples = samples[samples["dport"] == 6000]
        self.states = _in_turn(samples["ca_state"])
        self.thresholds = _in_turn(samples["ssthresh"])

    def acked_at(self, t_us):
        """Segments acknowledged when everything that arrived by then was processed."""
        return self.acks["snd_una"][self.acks["t_us"].searchsorted(t_us, side="right")] / MSS

    def acked_when_sent_again(self):
        return [self.acked_at(t_us) for t_us in self.again_us]

    def waiting_for(self, segment):
        """ACKs that arrived while everything up to `segment` was acknowledged: all duplicates."""
        return self.acks[self.acks["snd_una"] == (segment - 1) * MSS]

    def windows(self):
        return _in_turn(self.acks["snd_cwnd"])


def _in_turn(values):
    """Values without those that are as the one before."""
    return values[values != values.shift()].tolist()


def loss_recovery(lose=(14, 28), copies=1, **traffic):
    """The scenario as it is, but for the losses."""
    tree = yaml.safe_load((SCENARIO_DIR / "loss-recovery.yaml").read_text())
    del tree["choices"]
    tree["topology"]["central"]["right_to_left"].update(lose_segments=list(lose), lose_copies=copies)
    tree["traffic"] = {name: value for name, value in {**tree["traffic"], **traffic}.items() if value is not None}
    return tree


@pytest.fixture(scope="module")
def repair(run_scenario):
    """repair(variant, lose, copies) -> Repair; every run is made once."""
    made = {}

    def get(variant, lose=(14, 28), copies=1):
        if (variant, lose, copies) not in made:
            made[variant, lose, copies] = Repair(run_scenario(loss_recovery(lose, copies), cca=variant))
        return made[variant, lose, copies]

    return get


# -- the losses -----------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_chosen_segments_are_lost_and_no_others(repair, variant):
    found = repair(variant)
    links = found.run.json("raw/counters.json")["drained"]
    for name, link in links.items():
        lost = 2 if name == "right_to_left" else 0
        assert (link["chosen_dropped_packets"], link["wire_dropped_packets"], link["dropped_packets"]) == (
            lost,
            lost,
            0,
        ), name
        assert link["device_rx_packets"] - link["wire_delivered_packets"] == lost
    # acknowledgements come to a halt before segments 14 and 28, and nowhere else for a round trip
    acked = found.acks.groupby("snd_una")["t_us"].agg(["min", "max"])
    halts = acked.index[acked["max"] - acked["min"] > 50_000] / MSS
    assert set(halts) == {13, 27} if variant != "tahoe" else {13}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_verdict_is_valid_and_counts_the_losses(repair, variant):
    verdict = repair(variant).run.json("verdict.json")
    assert verdict["verdict"] == "valid", verdict["reasons"]
    assert any("2 of 2 chosen losses took place" in check["message"] for check in verdict["checks"])


def test_the_first_copies_are_lost(repair):
    """Segment 14 and its fast retransmission: only the timer can repair that."""
    found = repair("newreno", (14,), 2)
    link = found.run.json("raw/counters.json")["drained"]["right_to_left"]
    assert link["chosen_dropped_packets"] == 2
    assert LOSS in found.states and found.acked_when_sent_again()[:2] == [13, 13]
    assert found.again_us[1] - found.again_us[0] > 200_000


def test_a_transfer_with_another_first_number_loses_nothing_and_the_verdict_tells(run_scenario):
    run = run_scenario(loss_recovery(sequence_start=None), cca="newreno")
    assert run.json("raw/counters.json")["drained"]["right_to_left"]["wire_dropped_packets"] == 0
    verdict = run.json("verdict.json")
    assert verdict["verdict"] == "suspect"
    assert ["0 of 2 chosen losses" in reason["message"] for reason in verdict["reasons"]] == [True]


# -- what is done about them ----------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_third_duplicate_has_the_segment_sent_again(repair, variant):
    found = repair(variant)
    third_us = found.waiting_for(14)["t_us"].iloc[2]
    assert 0 <= found.again_us[0] - third_us <= _MOMENT_US
    before, after = (
        found.acks[found.acks["t_us"] == third_us].index[0],
        found.acks[found.acks["t_us"] > third_us].index[0],
    )
    assert (found.acks["snd_cwnd"][before], found.acks["ssthresh"][before]) == (23, NOT_SET)
    assert found.acks["ssthresh"][after] == 11


def test_tahoe_starts_again_with_one_segment_and_doubles_up_to_the_threshold(repair):
    found = repair("tahoe", (14,))
    third = found.waiting_for(14).index[2]
    assert (found.acks["snd_cwnd"][third], found.acks["snd_cwnd"][third + 1]) == (23, 1)
    # no duplicate ACK that still comes changes that, or lets anything out
    waiting = found.waiting_for(14).iloc[3:]
    assert set(waiting["snd_cwnd"]) == {1} and waiting["snd_nxt"].nunique() == 1 and len(waiting) > 10
    assert found.states == [OPEN, DISORDER, LOSS, OPEN] and found.thresholds == [NOT_SET, 11]
    # the window when everything is acknowledged that had been sent at the last of these times
    acks, at, window = found.acks, third + 1, []
    while acks["snd_cwnd"][at] < 11:
        window.append(acks["snd_cwnd"][at])
        at = acks.index[acks["snd_una"] >= acks["snd_nxt"][at]][0]
    assert window + [acks["snd_cwnd"][at]] == [1, 2, 4, 8, 11]


def test_tahoe_goes_back_to_what_was_lost_second(repair):
    found = repair("tahoe")
    assert found.states == [OPEN, DISORDER, LOSS, OPEN] and found.thresholds == [NOT_SET, 11]
    # 28 was lost, 29 was not: Tahoe cannot know
    assert found.acked_when_sent_again() == [13, 27, 27]
    assert found.windows()[:19] == [*range(10, 24), 1, 2, 3, 4, 5]


def test_classic_reno_leaves_recovery_at_the_first_partial_ack_and_halves_again(repair):
    found = repair("reno-classic")
    assert found.states == [OPEN, DISORDER, RECOVERY, OPEN, DISORDER, RECOVERY, OPEN]
    assert found.thresholds == [NOT_SET, 11, 5]
    assert found.acked_when_sent_again() == [13, 27]
    # the second retransmission waits for three more duplicates, without the one that opened the window
    again = found.waiting_for(28)
    again = again[again["snd_wnd"] == again["snd_wnd"].shift(-1)]
    assert 0 <= found.again_us[1] - again["t_us"].iloc[2] <= _MOMENT_US
    samples = found.run.table("tcp_info")
    between = samples[
        (samples["dport"] == 6000) & samples["t_us"].between(found.again_us[1] - 15_000, found.again_us[1] - 1000)
    ]
    assert set(between["ca_state"]) <= {OPEN, DISORDER} and set(between["cwnd"]) == {11}


def test_newreno_sends_the_second_again_at_the_partial_ack_of_the_same_recovery(repair):
    found = repair("newreno")
    assert found.states == [OPEN, DISORDER, RECOVERY, OPEN] and found.thresholds == [NOT_SET, 11]
    assert found.acked_when_sent_again() == [13, 27]
    partial_us = found.waiting_for(14)["t_us"].iloc[-1]
    assert 0 <= found.again_us[1] - partial_us <= _MOMENT_US
    assert min(found.windows()[14:]) == 11


def test_sack_sends_both_again_before_anything_new_is_acknowledged(repair):
    found = repair("sack")
    assert found.states == [OPEN, DISORDER, RECOVERY, OPEN] and found.thresholds == [NOT_SET, 11]
    assert found.acked_when_sent_again() == [13, 13]
    assert min(found.windows()[14:]) == 11


def test_four_losses_cost_classic_reno_a_timeout_and_sack_no_more_than_two(repair):
    four = (14, 24, 26, 28)
    reno, newreno, sack = (repair(variant, four) for variant in ("reno-classic", "newreno", "sack"))
    assert reno.states == [OPEN, DISORDER, RECOVERY, OPEN, DISORDER, RECOVERY, OPEN, LOSS, OPEN]
    assert reno.thresholds == [NOT_SET, 11, 5, 2] and 1 in reno.windows()
    assert reno.again_us[2] - reno.again_us[1] > 400_000
    for found in (newreno, sack):
        assert found.states == [OPEN, DISORDER, RECOVERY, OPEN] and found.thresholds == [NOT_SET, 11]
        assert len(found.again_us) == 4
    # NewReno: one in a round trip
    assert newreno.acked_when_sent_again() == [13, 23, 25, 27]
    assert all(100_000 < later - earlier < 150_000 for earlier, later in zip(newreno.again_us, newreno.again_us[1:]))
    assert sack.acked_when_sent_again() == [13] * 4
    assert sack.again_us[3] - sack.again_us[0] < 125_000
