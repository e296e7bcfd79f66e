# SPDX-License-Identifier: GPL-2.0-only
"""Topologies, one file each, found by listing this folder.

A topology file `my_net.py` holds one subclass of `EmulatedTopo` with its section (a dataclass of
testbed/core/fields.py); scenarios name it `my-net`. Nothing here knows what traffic will cross the network.

`resolve` makes of a scenario's section the network (topologies/links/records.py): what raw/network.json holds, what
traffic and analysis read, and what the guest builds with `topologies.linux.network`, without asking again.
Beside its own fields every section may have `ip: 6`; what has another version only says so (`IP_VERSIONS`). And it may
have `mtu`, that of all links which have none of their own.
"""
from __future__ import annotations

# Guests and programs import this package for a module in it: what takes long is imported when it is needed.
import importlib
import sys

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from collections.abc import Mapping

    from topologies.base import EmulatedTopo
    from topologies.links.link import Usual
    from topologies.links.records import Network

if sys.version_info < (3, 12) and "_distutils_hack" in sys.modules:
    # Mininet compares versions by distutils, in whose place setuptools would load all of itself: 0.1 s
    sys.modules["_distutils_hack"].remove_shim()


def names() -> list[str]:
    """Names of all topologies, as scenarios spell them."""
    import pathlib
    files = [file for folder in __path__ for file in pathlib.Path(folder).glob("[a-z]*.py")]
    return sorted({file.stem.replace("_", "-") for file in files})


def load(name: object) -> "type[EmulatedTopo]":
    """The `EmulatedTopo` subclass called `name`; FieldError if there is none."""
    from testbed.core import fields, guesses
    from topologies import base
    if not isinstance(name, str) or name not in names():
        raise fields.FieldError("kind", f"no topology {fields.show(name)}; {guesses.alternatives(name, names())}"
                                if name is not None else "is missing")
    module = importlib.import_module("topologies." + name.replace("-", "_"))
    for thing in vars(module).values():
        if isinstance(thing, type) and issubclass(thing, base.EmulatedTopo) and thing.__module__ == module.__name__:
            return thing
    raise base.TopologyError(f"{module.__file__}: no subclass of EmulatedTopo in it")


def _decode(section: object) -> "tuple[type[EmulatedTopo], object, int]":
    """The topology that a section names, the typed section, and the version of IP."""
    from testbed.core import fields, ip
    if not isinstance(section, dict):
        raise fields.FieldError("", f"a mapping expected, not {fields.show(section)}")
    topology = load(section.get("kind"))
    version = section.get("ip", topology.IP_VERSIONS[0])
    if not isinstance(version, int) or isinstance(version, bool) or version not in topology.IP_VERSIONS:
        only = f": {section['kind']} has no other" if topology.IP_VERSIONS != ip.VERSIONS else ""
        raise fields.FieldError("ip", f"{' or '.join(map(str, topology.IP_VERSIONS))} expected, not "
                                      f"{fields.show(version)}{only}")
    own = {key: value for key, value in section.items() if key not in ("kind", "ip", "mtu", "mtu_bytes")}
    with _usual(section).for_links():
        return topology, fields.decode(topology.Section, own), version


def _usual(section: Mapping[str, object]) -> "Usual":
    """What a section says of all its links."""
    from testbed.core import fields
    from topologies.links import link
    return fields.decode(link.Usual, {key: section[key] for key in ("mtu", "mtu_bytes") if key in section})


def complete(section: Mapping[str, object]) -> dict[str, object]:
    """A scenario's topology section with all defaults filled in; FieldError (with .field) if it makes no sense."""
    from testbed.core import fields
    topology, decoded, version = _decode(section)
    return {"kind": section["kind"], **({"ip": version} if version != topology.IP_VERSIONS[0] else {}),
            **fields.encode(decoded)}


def in_time(section: Mapping[str, object], end_us: int) -> None:
    """FieldError if a link of a section is to change after the end of the run only, or has a trace that cannot be."""
    from topologies.links import link, schedule
    schedule.in_time(section, end_us)
    with _usual(section).for_links():
        link.in_time(section, end_us)


def kernel_options(network: Network) -> list[str]:
    """Options of kernel/fragments/ that a kernel for this network (what `resolve` gave) has to have."""
    if network.cells:
        return ["wireless"]             # which has IPv6 in it
    return ["ipv6"] if network.ip_version == 6 else []


def resolve(section: Mapping[str, object], until_us: int | None = None) -> Network:
    """The network that a scenario's topology section describes, for runs that end at until_us; FieldError (with .field)
    if there is none."""
    from testbed.core import fields
    topology, decoded, version = _decode(section)
    network = topology(decoded, version, until_us).describe()
    if not network.links and {"mtu", "mtu_bytes"} & section.keys():
        raise fields.FieldError("mtu", "there are no links but radios, whose standard says it")
    return network
