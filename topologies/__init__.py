# SPDX-License-Identifier: GPL-2.0-only
"""Mininet topologies, one file each, found by listing this folder.

A topology file `my_net.py` holds one subclass of `EmulatedTopo`; scenarios name it
`my-net`. Nothing here knows what traffic will cross the network.
"""
import importlib
import pathlib

from topologies.base import EmulatedTopo, TopologyError
from topologies.parameters import ParameterError, require_mapping

_SUPPORT = {"__init__", "base", "link", "losses", "network", "namespace", "parameters"}


def names():
    """Names of all topologies, as scenarios spell them."""
    folder = pathlib.Path(__file__).parent
    return sorted(f.stem.replace("_", "-") for f in folder.glob("*.py")
                  if f.stem not in _SUPPORT)


def load(name):
    """The `EmulatedTopo` subclass called `name`; ParameterError if there is none."""
    if name not in names():
        raise ParameterError("kind", f"no topology {name!r}; there are: {', '.join(names())}")
    module = importlib.import_module("topologies." + name.replace("-", "_"))
    for thing in vars(module).values():
        if (isinstance(thing, type) and issubclass(thing, EmulatedTopo)
                and thing.__module__ == module.__name__):
            return thing
    raise TopologyError(f"{module.__file__}: no subclass of EmulatedTopo in it")


def from_section(section):
    """Build the topology that a scenario's topology section describes.

    Raises ParameterError, whose `field` is the field's dotted name in the section.
    """
    parameters = dict(require_mapping(section, ""))
    return load(parameters.pop("kind", None)).from_section(parameters)
