# SPDX-License-Identifier: GPL-2.0-only
"""One fault each in our module of the IETF's BBR: the draft's test case that is about it fails."""
import csv
import pathlib
import shutil

import pytest

from testbed import PROJECT_DIR, cli

MODULE = PROJECT_DIR / "kernel-modules" / "tcp_bbr_ietf"

#: {fault: (test case that is about it, what stands in the source, what the mutant has)}
FAULTS = {
    "rates-are-low": (1, "bbr_rate(rs->delivered, bbr_mss(sk), rs->interval_us);",
                      "bbr_rate(rs->delivered, bbr_mss(sk), rs->interval_us) * 9 / 10;"),
    "startup-ignores-loss": (2, "m->loss_acks_in_round >= BBR_STARTUP_LOSSES", "m->loss_acks_in_round > 255"),
    "drain-gain-0.9": (3, "{  50, 200 }", "{  90, 200 }"),
    "drain-without-end": (4, "#define BBR_DRAIN_ROUNDS	3", "#define BBR_DRAIN_ROUNDS	3000"),
    "plateau-of-nine-rounds": (5, "#define BBR_FULL_BW_ROUNDS	3", "#define BBR_FULL_BW_ROUNDS	9"),
    "up-goes-on-after-loss": (6, '''		bbr_start_probe_bw_down(sk, m, "high_loss");
''', ""),
    "limited-rounds-count": (7, "!m->round_start || rs->is_app_limited || !rs", "!m->round_start || !rs"),
    "down-gain-1": (8, "{  90, 200 }", "{ 100, 200 }"),
    "down-waits-for-ever": (9, "if (bbr_is_time_to_probe_bw(sk, m))\n			return;", ""),
    "probe-rtt-with-all": (10, "{ 100,  50 }", "{ 100, 100 }"),
    "idle-is-forgotten": (11, "m->idle_restart = true;", "m->idle_restart = false;"),
    "startup-window-of-one-bdp": (12, "{ 277, 200 }", "{ 277, 100 }"),
    "no-room-for-aggregation": (13, "inflight + m->extra_acked);", "inflight);"),
    "floor-of-two-packets": (14, "#define BBR_MIN_PIPE_CWND	4U", "#define BBR_MIN_PIPE_CWND	2U"),
    "slope-stays": (15, "m->bw_probe_up_rounds = min(m->bw_probe_up_rounds + 1, 30U);", ""),
    "max-bw-for-ever": (16, "		m->max_bw = max(m->max_bw_filter[0], m->max_bw_filter[1]);",
                        "		m->max_bw = max(m->max_bw, rs->delivery_rate);"),
    "no-short-term-bounds": (17, "if (bbr_is_probing_bw(m) || !m->is_loss_in_round)",
                             "if (bbr_is_probing_bw(m) || m->is_loss_in_round)"),
    "recovery-lowers-longterm-for-good": (18, "max(m->inflight_longterm, m->undo_inflight_longterm)",
                                          "min(m->inflight_longterm, 8U)"),
    "window-is-not-restored": (19, "bbr_set_window(sk, m, max(tcp_snd_cwnd(tcp_sk(sk)), m->prior_cwnd));",
                               "bbr_set_window(sk, m, tcp_snd_cwnd(tcp_sk(sk)));"),
    "probe-rtt-ends-startup": (20, "	if (m->full_bw_reached) {\n		bbr_start_probe_bw_down(sk, m, \"rtt_probed\");",
                               "	if (m->round_count) {\n		bbr_start_probe_bw_down(sk, m, \"rtt_probed\");"),
    "longterm-ignores-loss": (21, "if (!rs->is_app_limited)\n		m->inflight_longterm",
                              "if (!rs->tx_in_flight)\n		m->inflight_longterm"),
    "limited-samples-count": (22, "m->max_bw = max(m->max_bw_filter[0], m->max_bw_filter[1]);\n	}",
                              "m->max_bw = max(m->max_bw_filter[0], m->max_bw_filter[1]);\n	}\n"
                              "	if (rs->delivery_rate && rs->is_app_limited)\n		m->max_bw = rs->delivery_rate;"),
}


@pytest.fixture(scope="module", autouse=True)
def _results(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TESTBED_RESULTS", str(tmp_path_factory.mktemp("results")))
        yield


def _verdicts(capsys, case, cca):
    """Verdicts of a case on the paths of the short version."""
    assert cli.main(["suite", "run", "bbr-ietf", "--quick", "--only", str(case), "--cca", str(cca)]) == 0
    page = pathlib.Path(capsys.readouterr().out.split("suite: ")[1].splitlines()[0])
    with open(page.parent / "cases.csv", encoding="utf-8", newline="") as file:
        return {(row["rate_bps"], row["rtt_us"]): row["verdict"] for row in csv.DictReader(file)}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_fails_its_case(fault, tmp_path, capsys):
    case, right, wrong = FAULTS[fault]
    folder = tmp_path / "tcp_bbr_mutant"
    shutil.copytree(MODULE, folder, ignore=shutil.ignore_patterns("*.o", "*.ko", "*.mod*", ".*", "Module.symvers"))
    changed = 0
    for path in folder.glob("*.[ch]"):
        text = path.read_text(encoding="utf-8")
        changed += text.count(right)
        path.write_text(text.replace(right, wrong), encoding="utf-8")
    assert changed == 1, f"{right!r} is {changed} times in the source"
    assert "failed" in _verdicts(capsys, case, folder).values()


@pytest.mark.parametrize("case", range(1, 23))
def test_without_a_fault_it_passes(case, capsys):
    assert set(_verdicts(capsys, case, "bbr-ietf").values()) == {"passed"}
