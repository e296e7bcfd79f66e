# SPDX-License-Identifier: GPL-2.0-only
"""Edits of a run's raw files, as a forger or a probe with a fault would make them."""
import json
import shutil

import numpy as np
import pandas as pd

#: of link right_to_left, which the data of both flows cross
LINK = "right_to_left"


class Raw:
    """The raw files of a copy of a run; what was changed is written back by `save`."""

    def __init__(self, run_dir, copy):
        shutil.copytree(run_dir, copy)
        self.folder = copy
        self._values = {}

    def table(self, name):
        if name not in self._values:
            self._values[name] = pd.read_csv(self.folder / f"raw/{name}.csv.gz")
        return self._values[name]

    def put(self, name, value):
        self._values[name] = value

    def json(self, name):
        if name not in self._values:
            self._values[name] = json.loads((self.folder / f"raw/{name}").read_text())
        return self._values[name]

    def save(self):
        for name, value in self._values.items():
            if isinstance(value, pd.DataFrame):
                value.to_csv(self.folder / f"raw/{name}.csv.gz", index=False)
            else:
                (self.folder / f"raw/{name}").write_text(json.dumps(value))

    def scale(self, name, columns, factor, rows=slice(None)):
        table = self.table(name)
        for column in columns:
            table[column] = table[column].astype(float)
            table.loc[rows, column] *= factor
            if column in ("cwnd", "bytes_acked", "bytes_sent", "bytes_received", "backlog_packets", "backlog_bytes"):
                table[column] = table[column].round()

    def of_node(self, node):
        return self.table("tcp_info")["node"] == node


def cwnd_doubled(raw):
    raw.scale("tcp_info", ["cwnd"], 2)


def srtt_shorter(raw):
    raw.scale("tcp_info", ["srtt_us"], 0.7)


def srtt_longer(raw):
    raw.scale("tcp_info", ["srtt_us"], 1.3)


def retransmissions_zeroed(raw):
    raw.table("tcp_info")[["retrans", "total_retrans", "bytes_retrans"]] = 0


def retransmissions_zeroed_consistently(raw):
    """What was sent shrinks with it, and the stacks say the same."""
    table = raw.table("tcp_info")
    table["bytes_sent"] -= table["bytes_retrans"]
    retransmissions_zeroed(raw)
    for node in raw.json("snmp.json")["nodes"].values():
        node.pop("TcpRetransSegs", None)


def acknowledged_swapped(raw):
    table = raw.table("tcp_info")
    one, other = (table.index[table["node"] == node] for node in ("n2", "n3"))
    table.loc[one, "bytes_acked"], table.loc[other, "bytes_acked"] = (
        table.loc[other, "bytes_acked"].to_numpy(), table.loc[one, "bytes_acked"].to_numpy())


def bytes_of_a_flow(raw):
    raw.scale("tcp_info", ["bytes_acked"], 1.05, raw.of_node("n2"))


def all_bytes_of_a_flow(raw):
    """At both ends, and in segments, as far as there are rows of it."""
    raw.scale("tcp_info", ["bytes_acked", "bytes_sent", "bytes_retrans", "delivered"], 1.05, raw.of_node("n2"))
    raw.scale("tcp_info", ["bytes_received"], 1.05, raw.of_node("n1") & (raw.table("tcp_info")["sport"] == 6000))


def drops_moved_into_the_warm_up(raw):
    table = raw.table("queue")
    rows = (table["link"] == LINK) & (table["t_us"] >= 1_000_000)
    table.loc[rows, "drops"] = table.loc[rows, "drops"].max()


def queues_smaller(raw):
    raw.scale("queue", ["backlog_packets", "backlog_bytes"], 0.7)
    raw.scale("sojourn", ["mean_us", "min_us", "max_us"], 0.7)
    raw.scale("sojourn_hist", ["low_us", "high_us"], 0.7)


def histogram_collapsed(raw):
    table = raw.table("sojourn_hist")
    mine = table[table["link"] == LINK]
    mean = ((mine["low_us"] + mine["high_us"]) / 2 * mine["packets"]).sum() / mine["packets"].sum()
    one = pd.DataFrame({"link": [LINK], "low_us": mean - 40, "high_us": mean + 40, "packets": mine["packets"].sum()})
    raw.put("sojourn_hist", pd.concat([table[table["link"] != LINK], one]))


def pacing_threshold_and_state_rewritten(raw):
    table = raw.table("tcp_info")
    table["pacing_rate_bps"], table["ssthresh"], table["ca_state"] = 10_000_000, 20, 0


def states_rewritten(raw):
    rows = raw.of_node("n3")
    raw.table("tcp_info").loc[rows, "ca_state"] = np.resize([3, 0], int(rows.sum()))


def queue_later(raw):
    """By 10 ms, within the same instants."""
    table = raw.table("queue")
    columns = ["sent_bytes", "sent_packets", "drops", "backlog_bytes", "backlog_packets"]
    mine = table["link"] == LINK
    table.loc[mine, columns] = table.loc[mine, columns].shift(1, fill_value=0)
    last = table.index[mine][-1]
    end = raw.json("counters.json")["at_end"][LINK]
    table.loc[last, ["sent_bytes", "sent_packets", "drops"]] = [end["sent_bytes"], end["sent_packets"],
                                                                end["dropped_packets"]]


def sojourn_later(raw):
    raw.table("sojourn")["t_us"] += 10_000


def samples_later(raw):
    raw.table("tcp_info")["t_us"] += 10_000


def seconds_for_milliseconds(raw):
    raw.scale("tcp_info", ["srtt_us", "rttvar_us", "min_rtt_us"], 0.001)


def kibibits(raw):
    raw.scale("tcp_info", ["pacing_rate_bps", "delivery_rate_bps"], 1000 / 1024)


def rows_twice(raw):
    table = raw.table("tcp_info")
    raw.put("tcp_info", pd.concat([table, table[100:130]]).sort_values("t_us", kind="stable"))


def rows_left_out(raw):
    table = raw.table("sojourn")
    raw.put("sojourn", table.drop(table.index[table["link"] == LINK][100:103]))


def labels_swapped(raw):
    """Flow 1's socket is called flow 2's."""
    table = raw.table("tcp_info")
    names = {"n2": "n3", "n3": "n2"}
    table["node"] = table["node"].replace(names)
    addresses = {"10.0.3.1": "10.0.4.1", "10.0.4.1": "10.0.3.1"}
    table[["src", "dst"]] = table[["src", "dst"]].replace(addresses)
    ports = {6000: 6001, 6001: 6000}
    table[["sport", "dport"]] = table[["sport", "dport"]].replace(ports)
    table["cca"] = table["cca"].replace({"bbr": "cubic", "cubic": "bbr"})


def directions_swapped(raw):
    for name in ("queue", "sojourn", "sojourn_hist"):
        table = raw.table(name)
        table["link"] = table["link"].replace({LINK: "left_to_right", "left_to_right": LINK})


def delivered_twice(raw):
    raw.table("tcp_info")["delivered"] *= 2


def shortest_round_trip(raw):
    """Of one flow it grows by a half."""
    raw.scale("tcp_info", ["min_rtt_us"], 3.5, raw.of_node("n2"))


def base_round_trip(raw):
    for flow in raw.json("workload.json")["flows"]:
        flow["base_rtt_us"] += 5000


def in_flight(raw):
    raw.table("tcp_info")["unacked"] -= (raw.table("tcp_info")["unacked"] > 1).astype(int)


def never_limited_by_the_window(raw):
    raw.table("tcp_info")["app_limited"] = 1


def drops_hidden_everywhere(raw):
    """In samples and counters alike, and in those of what came to the router."""
    raw.table("queue")["drops"] = 0
    counters = raw.json("counters.json")
    for reading in ("at_end", "drained"):
        hidden = counters[reading][LINK]["dropped_packets"]
        counters[reading][LINK]["dropped_packets"] = 0
        for counter in ("sent_packets", "device_tx_packets", "device_rx_packets", "wire_delivered_packets"):
            counters[reading]["n2_to_r2"][counter] -= hidden


def another_size_of_packets(raw):
    raw.scale("queue", ["sent_bytes", "backlog_bytes"], 1.1)


def retransmissions_earlier(raw):
    """What a flow sent again it had sent again from the beginning."""
    table = raw.table("tcp_info")
    mine = raw.of_node("n3")
    for column in ("total_retrans", "bytes_retrans"):
        table["bytes_sent"] += (mine * (table.loc[mine, column].max() - table[column])
                                if column == "bytes_retrans" else 0)
        table.loc[mine, column] = table.loc[mine, column].max()


#: {edit: a check that finds it}
FOUND_BY = {
    cwnd_doubled: "cwnd", srtt_shorter: "round_trips", srtt_longer: "cwnd", retransmissions_zeroed: "acknowledged",
    retransmissions_zeroed_consistently: "retransmissions", acknowledged_swapped: "acknowledged",
    bytes_of_a_flow: "acknowledged", all_bytes_of_a_flow: "acknowledged", drops_moved_into_the_warm_up: "forwarded",
    queues_smaller: "round_trips", histogram_collapsed: "instruments", pacing_threshold_and_state_rewritten: "cwnd",
    states_rewritten: "retransmissions", queue_later: "instruments", sojourn_later: "instruments",
    samples_later: "sampling", seconds_for_milliseconds: "round_trips", kibibits: "cwnd", rows_twice: "sampling",
    rows_left_out: "instruments", labels_swapped: "acknowledged", directions_swapped: "instruments",
    delivered_twice: "acknowledged", shortest_round_trip: "round_trips", base_round_trip: "round_trips",
    in_flight: "acknowledged", never_limited_by_the_window: "windows", drops_hidden_everywhere: "forwarded",
    another_size_of_packets: "queues", retransmissions_earlier: "retransmissions",
}


def delays_later(raw):
    """Packets of the UDP flow took 15 ms more."""
    account, = (one for one in raw.json("guest.json")["traffic"].values() if one.get("flows"))
    for name in account["flows"][0]:
        if name.startswith("delay_"):
            account["flows"][0][name] += 15_000


def completions_earlier(raw):
    """Connections that finished took a tenth less."""
    table = raw.table("connections")
    table["end_us"] -= ((table["end_us"] - table["start_us"]) * 0.1).round()


def completions_earlier_with_their_units(raw):
    """Data units, too, as if all times were in another unit."""
    starts = raw.table("connections").set_index(["source", "conn"])["start_us"]
    table = raw.table("adus")
    start_us = starts.reindex(pd.MultiIndex.from_frame(table[["source", "conn"]])).to_numpy()
    for column in ("sent_us", "delivered_us"):
        table[column] = (start_us + (table[column] - start_us) * 1000 / 1024).round()
    completions = raw.table("connections")
    for column in ("connected_us", "end_us"):
        completions[column] = (completions["start_us"] + (completions[column] - completions["start_us"])
                               * 1000 / 1024).round()


#: the same of a run of connections of Tmix and a UDP flow
FOUND_IN_MIXED = {delays_later: "one_way", completions_earlier: "times", completions_earlier_with_their_units: "times"}
