# SPDX-License-Identifier: GPL-2.0-only
"""Process 1 of a guest: a network (argument: its JSON file), and what the kernel says of its devices."""
import json
import os
import sys


def main(path):
    from testbed.guest import devices
    from topologies.links import records
    from topologies.linux import network
    with open(path) as file:
        description = records.Network(json.load(file))
    with network.Network(description, {node.name: {} for node in description.nodes}) as built:
        return devices.read(built).devices


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(__file__))
    from guest_script import answer
    answer(main)
