# SPDX-License-Identifier: GPL-2.0-only
"""The sections of a scenario file that are not decoded by one dataclass alone; errors name file, line and field."""
import dataclasses
import functools
import re
import types
from collections.abc import Callable, Sequence
from typing import TypeVar, cast

import kernel
import traffic
from testbed import probes as known_probes
from testbed.core import fields, guesses
from testbed.core.fields import FieldError
from testbed.core.timing import Timing
from testbed.core.yaml_file import YamlFile, element_names
from topologies.links.records import Network

NAME_PATTERN = r"[a-z0-9][a-z0-9_-]*"
LONGEST_NAME = 60


#: a section as plan.json has it, with units in the keys
Section = dict[str, object]
_Made = TypeVar("_Made")


@dataclasses.dataclass(frozen=True)
class KernelSection:
    """options: how the kernel differs from the usual one, by the names of kernel.option_names()."""
    options: tuple[str, ...] = fields.listing(fields.word(choices=tuple(kernel.option_names())), default=(),
                                              distinct=True, single=True)


def cca_places(source: YamlFile, components: list[Section]) -> dict[str, str]:
    """Of each congestion control that components and their flows name, the first place."""
    found: dict[str, str] = {}
    for number, component in enumerate(components, start=1):
        around = f"traffic.{number}" if isinstance(source.tree["traffic"], list) else "traffic"
        for name in traffic.component_ccas([component]):
            field = f"{around}.cca"
            if name not in cast(Sequence[str], component.get("cca") or ()):
                flows = component.get("flows")
                field = next((f"{around}.flows.{place}.cca" for place, flow in enumerate(
                    flows if isinstance(flows, list) else (), start=1)
                    if isinstance(flow, dict) and flow.get("cca") == name), around)
            found.setdefault(name, source.place(field))
    return found


def asked_options(source: YamlFile, given: object) -> tuple[str, ...]:
    """Kernel options that the scenario asks for by name."""
    asked = section(source, "kernel", lambda: fields.decode(KernelSection, given))
    return asked.options


def section(source: YamlFile, name: str, make: Callable[[], _Made]) -> _Made:
    """What `make` makes of a section; its FieldErrors become the file's."""
    try:
        return make()
    except FieldError as problem:
        raise source.error(problem.inside(name).field, str(problem)) from None


def text(source: YamlFile, tree: Section, key: str) -> str:
    """A section of words, on one line."""
    value = tree.get(key)
    text = " ".join(("" if value is None else str(value)).split())
    if isinstance(value, (dict, list)) or not text.isprintable():
        raise source.error(key, "printable text expected")
    return text


def shape(source: YamlFile, key: str) -> None:
    """That a section has the shape into which choices and settings can be put."""
    value = source.tree[key]
    if key == "traffic" and value == []:
        raise source.error(key, "at least one component expected")
    if not isinstance(value, dict) and not (key == "traffic" and isinstance(value, list)):
        raise source.error(key, f"a mapping{' or a list of mappings' * (key == 'traffic')} expected")


def components(source: YamlFile, given: object, duration_us: int) -> list[Section]:
    """The traffic's components, each with a name, a start and a stop."""
    shape(source, "traffic")
    listed = given if isinstance(given, list) else [given]
    found: list[Section] = []
    for number, component in enumerate(listed, start=1):
        field = f"traffic.{number}" if isinstance(given, list) else "traffic"
        if not isinstance(component, dict):
            raise source.error(field, "a mapping expected")
        if component.get("kind") is None:
            raise source.error(f"{field}.kind", f"is missing; kinds of traffic are: {', '.join(traffic.names())}")
        if component["kind"] not in traffic.names():
            raise source.error(f"{field}.kind", f"no traffic {fields.show(component['kind'])}; there are: "
                                                f"{', '.join(traffic.names())}")
        name = component.get("name", element_names(listed)[number - 1])
        if not isinstance(name, str) or not re.fullmatch(NAME_PATTERN, name) or len(name) > LONGEST_NAME:
            raise source.error(f"{field}.name", f"at most {LONGEST_NAME} lower-case letters, digits, _ and - expected")
        if name in [other["name"] for other in found]:
            raise source.error(f"{field}.name", f"a second component {name!r}; each has a name of its own")
        rest = section(source, f"traffic.{name}" if isinstance(given, list) else "traffic",
                       functools.partial(traffic.as_given, component))
        found.append({"name": name, "kind": rest.pop("kind"), "start_us": 0, "stop_us": duration_us,
                      **{key: value for key, value in rest.items() if key != "name"}})
    return found


def sensible(source: YamlFile, components: list[Section], network: Network, timing: Timing) -> None:
    """That the components make sense for this network and timing."""
    # an error of a single component does not name it, which a list does
    single = isinstance(source.tree["traffic"], list) and len(components) == 1
    section(source, f"traffic.{components[0]['name']}" if single else "traffic",
            lambda: traffic.validate(components, network, timing))


def probes(source: YamlFile, given: object, network: Network) -> dict[str, Section]:
    """{probe: its options}, with all defaults. A probe may have a `validate(options, network)`, and a
    `beside(options, all probes)`."""
    if given is not None and not isinstance(given, dict):
        raise source.error("probes", "a mapping expected")
    found = {}
    for name, options in (given or {}).items():
        if name not in known_probes.names():
            raise source.error(f"probes.{name}", f"no such probe; {guesses.alternatives(name, known_probes.names())}")
        probe = known_probes.load(name)

        def read(probe: types.ModuleType = probe, options: object = options) -> Section:
            decoded = fields.decode(probe.Options, options)
            if hasattr(probe, "validate"):
                probe.validate(decoded, network)
            return dict(fields.encode(decoded))
        found[name] = section(source, f"probes.{name}", read)
    decoded = {name: fields.decode(known_probes.load(name).Options, options) for name, options in found.items()}
    for name, options in decoded.items():
        if beside := getattr(known_probes.load(name), "beside", None):
            section(source, f"probes.{name}", functools.partial(beside, options, decoded))
    return found
