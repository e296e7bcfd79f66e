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
    """A table: {column: kind} in the order of the file. Every engine writes those that are required."""
    what: str
    columns: dict[str, str]
    required: bool = False

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

#: raw/<name>.csv.gz
TABLES = {
    "queue": Table(
        "the queues of the bottlenecks, sampled: what they have sent and dropped since t_us = 0, and what they hold",
        _QUEUE, required=True),
    "edge_queue": Table("the same of the links that are no bottlenecks, sampled less often", _QUEUE),
    "backlog": Table(
        "what the queues of the bottlenecks held between the samples of `queue`: integral of the backlog over time "
        "since t_us = 0, and the most that there was for any time since the row before",
        _columns("t_us packet_us byte_us most_packets most_bytes", texts="link",
                 order="t_us link packet_us byte_us most_packets most_bytes")),
    "sojourn": Table(
        "time that packets spent in a queue, of those that left it in the interval that begins at t_us; dropped_us: "
        "the sum of those that were dropped in it after they had entered the queue, where that is known",
        _columns("t_us packets", "mean_us min_us max_us dropped_us", "link",
                 order="t_us link packets mean_us min_us max_us dropped_us")),
    "sojourn_hist": Table(
        "distribution of that time over the packets that left after warm-up; an upper edge may be missing",
        _columns("packets", "low_us high_us", "link", order="link low_us high_us packets")),
    "sojourn_codepoints": Table(
        "the same of each queue that may mark, by the ECN codepoint with which packets entered it: not_ect, ect0, "
        "ect1, ce. Some queues mark before that: theirs are ce",
        _columns("packets", "low_us high_us", "link codepoint", order="link codepoint low_us high_us packets")),
    "link_changes": Table(
        "a row for each change that a link's schedule has: when it was due, when it had taken effect, what is so from "
        "then on, and what the link had done until then",
        _columns("t_us due_us rate_bps delay_us limit up sent_bytes sent_packets arrived_packets lost_packets",
                 "loss_percent", "link",
                 order="t_us due_us link rate_bps delay_us loss_percent limit up sent_bytes sent_packets "
                       "arrived_packets lost_packets")),
    "ce_marks": Table(
        "packets that left a queue with CE in the interval that begins at t_us, by flow (0: of none); backward is 1 of "
        "those on their way to the flow's sender. What left while the network ran empty is there, too",
        _columns("t_us flow backward packets bytes", texts="link", order="t_us link flow backward packets bytes")),
    "journeys": Table(
        "data segments of TCP flows that were sent in the interval that begins at t_us, those that arrived of them, "
        "and how long these took; bytes are those of IP packets; backward is 1 of what a flow's receiver sends",
        _columns("t_us flow backward sent_packets sent_bytes arrived_packets arrived_bytes", "mean_us min_us max_us")),
    "air": Table(
        "what each station's radio did since t_us = 0, sampled: frames taken from the stack, attempts to send them, "
        "how those to be acknowledged ended; attempts that reached it, that others garbled on their way, that chance "
        "lost, frames delivered to it, and again; its frames that never arrived; its time on the air; frames that wait "
        "above it now",
        _columns("t_us frames attempts retries acknowledged given_up no_access received garbled chance delivered "
                 "duplicates lost queued", "airtime_us", "cell node",
                 order="t_us cell node frames attempts retries acknowledged given_up no_access received garbled chance "
                       "delivered duplicates lost airtime_us queued")),
    "air_busy": Table("how long anybody in a cell was on the air since t_us = 0, sampled",
                      _columns("t_us", "busy_us", "cell", order="t_us cell busy_us")),
    "opportunities": Table(
        "a row for each instant at which a link's trace lets packets go: how many full frames, and what has left the "
        "queue and still waits when it is over",
        _columns("t_us due_us packets sent_bytes sent_packets backlog_packets", texts="link",
                 order="t_us due_us link packets sent_bytes sent_packets backlog_packets")),
    "tcp_info": Table(
        "state of every connected socket, sampled; its fields in struct tcp_info have the same or a similar name",
        _TCP_INFO),
    "tcp_info_often": Table("the same of the sockets of chosen hosts, sampled more often", _TCP_INFO),
    "socket_buffers": Table(
        "of the same sockets at the same instants: segments in flight, bytes that the application had written and "
        "read, and how often the retransmission timer had fired",
        _columns("t_us sport dport", "in_flight bytes_written bytes_read timeouts", "node src dst",
                 order="t_us node src sport dst dport in_flight bytes_written bytes_read timeouts")),
    "bbr_info": Table(
        "of the same sockets at the same instants, of those whose congestion control answers as BBR does "
        "(INET_DIAG_BBRINFO): its estimates of rate and shortest round trip, and the gains of its state",
        _columns("t_us sport dport bw_bps model_min_rtt_us", "pacing_gain cwnd_gain", "node src dst",
                 order="t_us node src sport dst dport bw_bps model_min_rtt_us pacing_gain cwnd_gain")),
    "quic_info": Table(
        "what senders of QUIC flows say in their qlog, at an interval: the state at t_us, empty if they never said it, "
        "and packets that they have sent, received and lost since they began",
        _columns("t_us flow sent_packets received_packets lost_packets", "cwnd_bytes in_flight_bytes ssthresh_bytes "
                 "pacing_rate_bps srtt_us latest_rtt_us min_rtt_us", "state",
                 order="t_us flow cwnd_bytes in_flight_bytes ssthresh_bytes pacing_rate_bps srtt_us latest_rtt_us "
                       "min_rtt_us sent_packets received_packets lost_packets state")),
    "tcp_probe": Table(
        "a row for each segment that an established connection receives, with the state before it is processed; "
        "src and dst are address:port",
        _columns("t_us mark data_len snd_nxt snd_una snd_cwnd ssthresh snd_wnd srtt_us rcv_wnd",
                 "sock_cookie", "src dst",
                 order="t_us src dst mark data_len snd_nxt snd_una snd_cwnd ssthresh snd_wnd srtt_us rcv_wnd "
                       "sock_cookie")),
    "retransmissions": Table("a row for each segment that src sends again; src and dst are address:port",
                             _columns("t_us", texts="src dst")),
    "trace": Table(
        "a row for each event of the kernel's trace points that was asked for; text is what the kernel says of it",
        _columns("t_us", texts="event text")),
    "cpu": Table(
        "what each CPU of the machine did since t_us = 0, sampled; run_delay_us: how long tasks waited for it; "
        "packets_dropped: it had no time for them; time_squeezes: it left packets for later",
        _columns("t_us cpu user_us system_us irq_us softirq_us steal_us idle_us packets_dropped time_squeezes",
                 "run_delay_us")),
    "connections": Table(
        "a row for each connection of a workload of many; status is finished, unfinished (alive at the end) or "
        "failed: NAME OF THE ERROR",
        _columns("source conn",
                 "iport aport prefill scheduled_us start_us connected_us end_us init_bytes_asked init_bytes_delivered "
                 "acc_bytes_asked acc_bytes_delivered adus_asked adus_delivered", "initiator acceptor status",
                 order="source conn initiator acceptor iport aport prefill scheduled_us start_us connected_us end_us "
                       "init_bytes_asked init_bytes_delivered acc_bytes_asked acc_bytes_delivered adus_asked "
                       "adus_delivered status")),
    "adus": Table(
        "a row for each application data unit: sent_us is when its application began to write it, delivered_us "
        "when the application of the other end had read its last byte; side is that of the sender, i or a",
        _columns("source conn index bytes", "sent_us delivered_us", "side",
                 order="source conn side index bytes sent_us delivered_us")),
}
