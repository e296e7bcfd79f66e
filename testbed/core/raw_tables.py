# SPDX-License-Identifier: GPL-2.0-only
"""The raw tables of a run: what is in raw/, column by column.

Probes, traffic and engines write these tables, checks and metrics read them; both sides take
the columns from here. A table is a gzipped CSV file with a header line and exactly these columns
in this order. An engine leaves out the tables that it cannot write, and leaves a number or text
that it does not know empty. Times (`t_us` and others) are microseconds of experiment time, which
is 0 when traffic begins. Counters are cumulative. Layer 2 bytes are without FCS.
"""
import dataclasses

#: raised whenever a column or its meaning changes
VERSION = 2

#: kinds of columns: a whole number in every row; a number, or empty; text, or empty
INTEGER, NUMBER, TEXT = "integer", "number", "text"


@dataclasses.dataclass(frozen=True)
class Table:
    """A table: {column: kind} in the order of the file."""
    columns: dict[str, str]

    def names(self) -> list[str]:
        """The columns in the order of the file."""
        return list(self.columns)


def _columns(integers: str = "", numbers: str = "", texts: str = "", order: str = "") -> dict[str, str]:
    """{column: kind} in the given order (default: integers, numbers, texts)."""
    kinds = {name: kind for kind, names in ((INTEGER, integers), (NUMBER, numbers), (TEXT, texts))
             for name in names.split()}
    found = {name: kinds[name] for name in order.split() or kinds}
    if len(found) != len(kinds):
        raise ValueError(f"no place in the order for {', '.join(kinds.keys() - found.keys())}")
    return found


_QUEUE = _columns("t_us sent_bytes sent_packets drops backlog_bytes backlog_packets", texts="link",
                  order="t_us link sent_bytes sent_packets drops backlog_bytes backlog_packets")

_TCP_INFO = _columns(
    "t_us sport dport",
    "ca_state cwnd ssthresh srtt_us rttvar_us min_rtt_us rto_us mss unacked lost retrans total_retrans "
    "bytes_acked bytes_received bytes_sent bytes_retrans delivered delivery_rate_bps app_limited "
    "pacing_rate_bps busy_us rwnd_limited_us sndbuf_limited_us", "node src dst state cca",
    order="t_us node src sport dst dport state cca ca_state cwnd ssthresh srtt_us rttvar_us min_rtt_us "
          "rto_us mss unacked lost retrans total_retrans bytes_acked bytes_received bytes_sent "
          "bytes_retrans delivered delivery_rate_bps app_limited pacing_rate_bps busy_us rwnd_limited_us "
          "sndbuf_limited_us")

#: raw/<name>.csv.gz; docs/reference/run-folder.md says what a row is
TABLES = {
    "queue": Table(_QUEUE),
    "edge_queue": Table(_QUEUE),
    "backlog": Table(_columns(
        "t_us packet_us byte_us most_packets most_bytes", texts="link",
        order="t_us link packet_us byte_us most_packets most_bytes")),
    "sojourn": Table(_columns(
        "t_us packets", "mean_us min_us max_us dropped_us", "link",
        order="t_us link packets mean_us min_us max_us dropped_us")),
    "sojourn_hist": Table(_columns("packets", "low_us high_us", "link", order="link low_us high_us packets")),
    "sojourn_codepoints": Table(_columns(
        "packets", "low_us high_us", "link codepoint", order="link codepoint low_us high_us packets")),
    "link_changes": Table(_columns(
        "t_us due_us rate_bps delay_us limit up sent_bytes sent_packets arrived_packets lost_packets", "loss_percent",
        "link",
        order="t_us due_us link rate_bps delay_us loss_percent limit up sent_bytes sent_packets arrived_packets "
              "lost_packets")),
    "ce_marks": Table(_columns(
        "t_us flow backward packets bytes", texts="link", order="t_us link flow backward packets bytes")),
    "journeys": Table(_columns(
        "t_us flow backward sent_packets sent_bytes arrived_packets arrived_bytes", "mean_us min_us max_us")),
    "air": Table(_columns(
        "t_us frames attempts retries acknowledged given_up no_access received garbled chance delivered duplicates "
        "lost queued", "airtime_us", "cell node",
        order="t_us cell node frames attempts retries acknowledged given_up no_access received garbled chance "
              "delivered duplicates lost airtime_us queued")),
    "air_busy": Table(_columns("t_us", "busy_us", "cell", order="t_us cell busy_us")),
    "opportunities": Table(_columns(
        "t_us due_us packets sent_bytes sent_packets backlog_packets", texts="link",
        order="t_us due_us link packets sent_bytes sent_packets backlog_packets")),
    "tcp_info": Table(_TCP_INFO),
    "tcp_info_often": Table(_TCP_INFO),
    "socket_buffers": Table(_columns(
        "t_us sport dport", "in_flight bytes_written bytes_read timeouts", "node src dst",
        order="t_us node src sport dst dport in_flight bytes_written bytes_read timeouts")),
    "bbr_info": Table(_columns(
        "t_us sport dport bw_bps model_min_rtt_us", "pacing_gain cwnd_gain", "node src dst",
        order="t_us node src sport dst dport bw_bps model_min_rtt_us pacing_gain cwnd_gain")),
    "quic_info": Table(_columns(
        "t_us flow sent_packets received_packets lost_packets",
        "cwnd_bytes in_flight_bytes ssthresh_bytes pacing_rate_bps srtt_us latest_rtt_us min_rtt_us", "state",
        order="t_us flow cwnd_bytes in_flight_bytes ssthresh_bytes pacing_rate_bps srtt_us latest_rtt_us min_rtt_us "
              "sent_packets received_packets lost_packets state")),
    "tcp_probe": Table(_columns(
        "t_us mark data_len snd_nxt snd_una snd_cwnd ssthresh snd_wnd srtt_us rcv_wnd", "sock_cookie", "src dst",
        order="t_us src dst mark data_len snd_nxt snd_una snd_cwnd ssthresh snd_wnd srtt_us rcv_wnd sock_cookie")),
    "retransmissions": Table(_columns("t_us", texts="src dst")),
    "trace": Table(_columns("t_us", texts="event text")),
    "cpu": Table(_columns(
        "t_us cpu user_us system_us irq_us softirq_us steal_us idle_us packets_dropped time_squeezes", "run_delay_us")),
    "connections": Table(_columns(
        "source conn",
        "iport aport prefill scheduled_us start_us connected_us end_us init_bytes_asked init_bytes_delivered "
        "acc_bytes_asked acc_bytes_delivered adus_asked adus_delivered", "initiator acceptor status",
        order="source conn initiator acceptor iport aport prefill scheduled_us start_us connected_us end_us "
              "init_bytes_asked init_bytes_delivered acc_bytes_asked acc_bytes_delivered adus_asked adus_delivered "
              "status")),
    "adus": Table(_columns(
        "source conn index bytes", "sent_us delivered_us", "side",
        order="source conn side index bytes sent_us delivered_us")),
}
