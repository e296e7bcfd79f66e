# SPDX-License-Identifier: GPL-2.0-only
"""Process 1 of a guest: networks, one after the other, and what the kernel has when each of them is there.

Arguments: a JSON file with the networks, and how they are set up: "messages", as always, or "programs": then everything
is left to ip, tc and bridge. Of a network that cannot be: why.
"""
import json
import os
import re
import socket
import subprocess
import sys
import time


def _shown(program, family, requests):
    """What a program says to requests, all in one go: each start takes time."""
    done = subprocess.run([program, *family, "-j", "-p", "-d", "-force", "-batch", "-"], text=True,
                          input="\n".join(requests) + "\n", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.stdout


def _lists(text):
    """The JSON lists that ip says one after the other, without what no line decides."""
    decoder, at = json.JSONDecoder(), 0
    found = []
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        entries, at = decoder.raw_decode(text, at)
        for entry in entries:
            if entry.get("ifname", "").startswith("w"):
                entry["address"] = "drawn by the kernel"
        # neighbours come in the order of a table whose places are drawn
        found.append(sorted(entries, key=str) if any("lladdr" in entry for entry in entries) else entries)
    return found


def _state():
    """All that ip and tc show of the current namespace."""
    devices = [device for _, device in socket.if_nameindex()]
    return {"ip": _lists(_shown("ip", [], ["link show", "addr show", "neigh show", "route show table all"])),
            "ip -6": _lists(_shown("ip", ["-6"], ["route show table all"])),
            # in lines: it has no JSON for some classes and filters
            "tc": _comparable(_shown("tc", [], [
                "qdisc show", *(f"{what} show dev {device}{where}" for device in devices for what, where in (
                    ("class", ""), ("filter", " root"), ("filter", " ingress")))])).splitlines()}


def _comparable(text):
    """Of netem: newer tc shows the seed, which is drawn, and sets delays to the nanosecond; messages and older tc count
    in 64 ns."""
    text = re.sub(r'seed("?:?) \d+', r"seed\1 0", text)
    return re.sub(r'"delay": ([\d.e-]+)', lambda found: f'"delay": {int(float(found[1]) * 1e9 / 64 + 1e-6)}', text)


def main(path, how):
    from topologies.links import records
    from topologies.linux import netlink_batch, network
    told, tell = [], netlink_batch.tell

    def telling(program, lines, orders):
        told.extend(lines)
        tell(program, lines, orders)
    netlink_batch.tell = telling
    if how == "programs":
        netlink_batch.orders = lambda program, lines: None
    with open(path) as file:
        descriptions = json.load(file)
    found = {}
    for name, description in descriptions.items():
        told.clear()
        try:
            settings = {node["name"]: {} for node in description["nodes"]}
            with network.Network(records.Network(description), settings) as built:
                time.sleep(2)               # carriers are noted when there is time
                found[name] = {"told": len(told), "outside": _state(), "nodes": {}}
                for node in built.node_names():
                    with built.in_namespace(node):
                        found[name]["nodes"][node] = _state()
        except RuntimeError as problem:
            found[name] = {"refused": str(problem)}
    return found


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(__file__))
    from guest_script import answer
    answer(main)
