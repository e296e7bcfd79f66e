# SPDX-License-Identifier: GPL-2.0-only
"""The air: its modules loaded, its counters read. Only imported where a network has cells."""
import os
import socket
import time

from testbed.guest.congestion_controls import load_module
from testbed.guest.job import Job
from testbed.probes._netlink import Qdisc
from topologies import standards
from topologies.linux.network import Network
from topologies.wireless import air_accounts

#: ({node: accounts}, ns in which anybody was on the air)
Reading = tuple[dict[str, dict[str, int]], int]

# include/uapi/linux/nl80211.h: commands and attributes; of a station, of its kinds of traffic, of a queue
_GET_INTERFACE, _GET_STATION, _IFINDEX, _STATION, _TXQ = 5, 17, 3, 21, 265
_KINDS, _TXQ_OF_KIND, _DROPS, _OVERLIMIT = 31, 6, 4, 6
_STEP_S, _LONGEST_S = 0.1, 120.0


def load(job: Job, work_dir: str) -> None:
    """Make the radios of the cells of a job's network; ValueError if the kernel refuses."""
    for cell in job.network.cells:
        standard, stations = standards.of(cell), cell.stations
        settings: dict[str, int | str] = {
            "stations": len(stations), "x_mm": ",".join(str(one.x_mm) for one in stations),
            "y_mm": ",".join(str(one.y_mm) for one in stations), "range_mm": cell.range_mm,
            "sense_mm": cell.sense_mm, "seed": job.seed, "loss": round(cell.loss_percent / 100 * 2**32),
            **standard.module_settings()}
        load_module(os.path.join(work_dir, job.air_modules[standard.MODULE]), settings)


def read(network: Network) -> Reading:
    """({node: accounts of its radio and of its device} now, ns in which anybody was on the air)

    dropped_packets: by the queue of the device, where there is one; else by mac80211's queues behind it, which is
    what has become neither a frame nor waits to become one. mac80211 itself counts what CoDel drops (codel_dropped) and
    how often its queues were too long (overlimits), when it drops up to 32 packets at once.
    """
    found, busy_ns = {}, 0
    for cell in network.description.cells:
        standard = standards.of(cell)
        with open(air_accounts.path(cell), encoding="ascii") as f:
            rows, cell_ns = air_accounts.parse(f.read())
        busy_ns += cell_ns
        for station, row in zip(cell.stations, rows):
            device = standard.queue_device(station)
            with network.in_namespace(station.node):
                of_device = _device(device)
                if standard.QUEUE_AT_DEVICE:
                    qdisc = Qdisc(socket.if_nametoindex(device))
                    _, _, of_device["dropped_packets"], _, waiting = qdisc.read()
                    qdisc.close()
                    row["queued"] += waiting
                else:
                    of_device["dropped_packets"] = of_device["device_tx_packets"] - row["frames"] - row["queued"]
                    of_device["codel_dropped"], of_device["overlimits"] = _drops_of_mac80211(device)
            found[station.node] = {**row, **of_device}
    return found, busy_ns


def settled(network: Network) -> Reading:
    """`read`, once nothing has been on the air, nor waited for it, for longer than packets are on wires.

    RuntimeError if that does not come.
    """
    quiet = int((1 + max(path.base_rtt_us for path in network.description.paths) / 1e6) / _STEP_S)
    idle, before = 0, None
    for _ in range(int(_LONGEST_S / _STEP_S)):
        found = read(network)
        frames = [row["frames"] for row in found[0].values()]
        idle = 0 if frames != before or any(_waits(row) for row in found[0].values()) else idle + 1
        if idle > quiet:
            return found
        before = frames
        time.sleep(_STEP_S)
    raise RuntimeError(f"frames still wait for the air after {_LONGEST_S:g} s")


def _waits(row: dict[str, int]) -> bool:
    """Whether a station has something to send, or sends."""
    return bool(row["queued"]) or row["frames"] > row["acknowledged"] + row["given_up"] + row["no_access"]


def _drops_of_mac80211(device: str) -> tuple[int, int]:
    """(packets that CoDel has dropped, how often a queue was too long) of an interface of the current namespace."""
    from topologies.linux.genetlink import Family, u32
    from topologies.linux.rtnetlink import attributes
    of_device = {_IFINDEX: u32(socket.if_nametoindex(device))}
    with Family("nl80211") as family:
        # frames to those of whom nothing is known have a queue of the interface's own, others one per station
        queues = [found[_TXQ] for found in family.ask(_GET_INTERFACE, of_device) if _TXQ in found]
        for station in family.ask(_GET_STATION, of_device, dump=True):
            kinds = attributes(attributes(station[_STATION])[_KINDS])
            queues += [found[_TXQ_OF_KIND] for found in map(attributes, kinds.values()) if _TXQ_OF_KIND in found]
    by_codel, too_long = (sum(int.from_bytes(counts.get(key, b""), "little") for counts in map(attributes, queues))
                          for key in (_DROPS, _OVERLIMIT))
    return by_codel, too_long


def differences(before: Reading, at_end: Reading, drained: Reading) -> dict[str, object]:
    """The keys of raw/counters.json: what was counted since `before`; what is queued stays as it is."""
    return {"air_at_end": _difference(at_end, before), "air_drained": _difference(drained, before),
            "air_busy_ns": {"at_end": at_end[1] - before[1], "drained": drained[1] - before[1]}}


def _difference(after: Reading, before: Reading) -> dict[str, dict[str, int]]:
    return {node: {key: value - before[0][node][key] if key not in ("station", "queued") else value
                   for key, value in row.items()} for node, row in after[0].items()}


def _device(name: str) -> dict[str, int]:
    with open("/proc/thread-self/net/dev", encoding="ascii") as f:
        for line in f:
            device, _, rest = line.partition(":")
            if device.strip() == name:
                values = rest.split()
                return {"device_rx_packets": int(values[1]), "device_rx_dropped": int(values[3]),
                        "device_tx_packets": int(values[9]), "device_tx_dropped": int(values[11])}
    raise RuntimeError(f"{name}: no such device")
