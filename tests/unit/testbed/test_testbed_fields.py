# SPDX-License-Identifier: GPL-2.0-only
"""The decoder of typed sections: what it takes, what it refuses, and with which words."""
import contextlib
import dataclasses
import importlib
import json
import pkgutil

import pytest
from hypothesis import given, settings, strategies as st

import testbed
import topologies
import traffic
from testbed.core import fields
from testbed.core.fields import FieldError

HUGE = 10**5000


@dataclasses.dataclass(frozen=True)
class Queue:
    limit: int | None = fields.count(default=None, most=2**32 - 1)
    limit_us: int | None = fields.time(default=None, least=1)
    kind: str = fields.word(choices=("pfifo", "red"), default="pfifo")


@dataclasses.dataclass(frozen=True)
class Section:
    flows: int = fields.count(default=1, least=1, most=100)
    rate_bps: int = fields.rate()
    delay_us: int = fields.time(default=0)
    packet_bytes: int = fields.size(default=1000, least=64, most=65507)
    loss_percent: float = fields.percent(default=0.0)
    scale: float = fields.number(default=1.0, above=0)
    preload: bool = fields.flag(default=True)
    tool: str = fields.word(choices=("iperf3", "sockets"), default="iperf3")
    name: str = fields.word(pattern="[a-z]+", example="n1", default="x")
    paths: tuple[str, ...] = fields.listing(fields.word(), default=(), distinct=True)
    delays_us: tuple[int, ...] = fields.listing(fields.time(), default=(), most=3)
    targets: tuple[str, ...] = fields.listing(fields.word(), default=("a",), least=1, single=True)
    queue: Queue = fields.section(Queue, default={})
    other: Queue | None = fields.section(Queue, default=None)
    hops: tuple[Queue, ...] = fields.listing(fields.section(Queue), default=())
    sysctls: dict[str, int | str] = fields.mapping(fields.either(fields.count(), fields.word()), keys=r"net\.[a-z.]+",
                                                   example="net.core.x", default={})


def decoded(**given):
    return fields.decode(Section, {"rate_bps": 5, **given})


def test_defaults():
    section = decoded()
    assert section == Section(rate_bps=5)
    assert (section.flows, section.scale, section.queue, section.other, section.sysctls) == (1, 1.0, Queue(), None, {})
    assert decoded(flows=None, queue=None, other=None, delay=None, sysctls=None) == section


def test_given_values():
    section = decoded(flows=100, loss_percent=60, scale=2, paths=["n1->n2"], delays_us=[1, 2], targets="b",
                      queue={"limit_us": 7}, hops=[{}, {"limit": 3}], sysctls={"net.a": 1, "net.b": "1 2"})
    assert (section.flows, section.loss_percent, section.scale) == (100, 60.0, 2.0)
    assert type(section.loss_percent) is float and type(section.scale) is float
    assert (section.paths, section.delays_us, section.targets) == (("n1->n2",), (1, 2), ("b",))
    assert section.queue == Queue(limit_us=7) and section.hops == (Queue(), Queue(limit=3))
    assert section.sysctls == {"net.a": 1, "net.b": "1 2"}


@pytest.mark.parametrize("given, field, message", [
    ({"rate_bps": None}, "rate", "is missing"),
    ({"speed": 1}, "speed", "unknown field; fields are: flows, rate, delay, packet, loss,"),
    ({"speed_bps": 1}, "speed", "unknown field"),
    ({3: 1}, "3", "unknown field"),
    ({"x" * 999: 1}, None, "unknown field"),
    ({"delay": 3}, "delay", "a value with a unit such as '20 ms' expected"),
    ({"delay_bps": 3}, "delay", "a value with a unit such as '20 ms' expected"),
    ({"loss": 3}, "loss", "a value with a unit such as '60 %' expected"),
    ({"packet": 3}, "packet", "a value with a unit such as '1500 B' expected"),
    ({"flows_us": 3}, "flows", "a value without a unit expected"),
    ({"delays": [0, "5 ms"]}, "delays", "a value with a unit such as '20 ms' expected"),
    ({"delays_us": 5}, "delays", "a list expected, not 5"),
    ({"delays_us": [1] * 4}, "delays", "a list of at most 3 expected, not of 4"),
    ({"targets": []}, "targets", "a list of at least 1 expected, not of 0"),
    ({"paths": ["a", "a"]}, "paths", "listed twice"),
    ({"paths": [3]}, "paths", "a word expected, not 3"),
    ({"paths": ["a", None]}, "paths", "a word expected, not None"),
    ({"flows": True}, "flows", "a whole number expected, not True"),
    ({"flows": 1.0}, "flows", "a whole number expected, not 1.0"),
    ({"flows": "7"}, "flows", "a whole number expected, not '7'"),
    ({"flows": 0}, "flows", "must be at least 1, not 0"),
    ({"flows": 101}, "flows", "must be at most 100, not 101"),
    ({"flows": 2**63}, "flows", "must be at most 100"),
    ({"flows": -HUGE}, "flows", "must be at least 1"),
    ({"rate_bps": 0}, "rate", "must be at least 1 bit/s, not 0 bit/s"),
    ({"rate_bps": 2**63}, "rate", "must be at most 9223372036854775807 bit/s"),
    ({"rate_bps": HUGE}, "rate", "must be at most 9223372036854775807 bit/s"),
    ({"delay_us": -1000}, "delay", "must be at least 0 us, not -1 ms"),
    ({"delay_us": 2.5}, "delay", "a value with a unit such as '20 ms' expected"),
    ({"packet_bytes": 66000}, "packet", "must be at most 65507 B, not 66 kB"),
    ({"loss_percent": 100.5}, "loss", "must be at most 100 %, not 100.5 %"),
    ({"scale": 0}, "scale", "must be above 0, not 0"),
    ({"scale": float("nan")}, "scale", "a finite number of at most 64 bits expected, not nan"),
    ({"scale": float("inf")}, "scale", "a finite number"),
    ({"scale": HUGE}, "scale", "a finite number of at most 64 bits expected, not a very large int"),
    ({"loss_percent": float("-inf")}, "loss", "a finite number"),
    ({"scale": True}, "scale", "a number expected, not True"),
    ({"preload": 1}, "preload", "yes or no expected, not 1"),
    ({"tool": "nc"}, "tool", "one of iperf3, sockets expected, not 'nc'"),
    ({"tool": False}, "tool", "one of iperf3, sockets expected, not False"),
    ({"name": "N1"}, "name", "a value such as 'n1' expected, not 'N1'"),
    ({"name": ""}, "name", "expected, not ''"),
    ({"paths": ["a\nb"]}, "paths", "printable text on one line"),
    ({"paths": ["a" * 5000]}, "paths", "at most 4096 characters"),
    ({"queue": "pfifo"}, "queue", "a mapping expected, not 'pfifo'"),
    ({"queue": {"limit": -1}}, "queue.limit", "must be at least 0, not -1"),
    ({"queue": {"limit_bytes": 1}}, "queue.limit", "a value with a unit such as '20 ms' expected"),
    ({"queue": {"depth": 1}}, "queue.depth", "unknown field; fields are: limit, kind"),
    ({"hops": [{}, {"kind": "cake"}]}, "hops.2.kind", "one of pfifo, red expected"),
    ({"hops": [None, 3]}, "hops.2", "a mapping expected, not 3"),
    ({"hops": {}}, "hops", "a list expected, not {}"),
    ({"sysctls": 3}, "sysctls", "a mapping expected, not 3"),
    ({"sysctls": {"kernel.x": 1}}, "sysctls.kernel.x", "names such as 'net.core.x' expected"),
    ({"sysctls": {1: 1}}, "sysctls", "names such as 'net.core.x' expected, not 1"),
    ({"sysctls": {"net.a": []}}, "sysctls.net.a", "a whole number or a word expected, not []"),
    ({"sysctls": {"net.a": None}}, "sysctls.net.a", "a whole number or a word expected, not None"),
    ({"sysctls": {"net." + "a" * n: 1 for n in range(1, 1002)}}, "sysctls", "at most 1000 names"),
])
def test_refused(given, field, message):
    got, text = refused(given)
    assert field in (got, None) and message in text


def refused(given):
    with pytest.raises(FieldError) as problem:
        fields.decode(Section, {"rate_bps": 5} | given)
    assert "\n" not in str(problem.value) and len(str(problem.value)) < 300
    return problem.value.field, str(problem.value)


@pytest.mark.parametrize("given", [3, "words", [], True, {1}, float("nan")])
def test_what_is_no_mapping(given):
    with pytest.raises(FieldError, match="a mapping expected") as problem:
        fields.decode(Section, given)
    assert problem.value.field == ""


def test_an_error_seen_from_outside():
    problem = FieldError("limit", "is wrong")
    assert (problem.inside("queue").field, str(problem.inside("queue"))) == ("queue.limit", "is wrong")
    assert FieldError("", "x").inside("queue").field == "queue" and isinstance(problem, ValueError)
    assert FieldError("", "x").inside("b").inside("a").field == "a.b"


def test_checks_of_a_whole_section_are_told_like_those_of_a_field():
    @dataclasses.dataclass(frozen=True)
    class Inner:
        low: int = fields.count()
        high: int = fields.count()

        def __post_init__(self) -> None:
            if self.low > self.high:
                raise FieldError("low", "must not be above high")

    @dataclasses.dataclass(frozen=True)
    class Outer:
        inner: Inner = fields.section(Inner)
    assert fields.decode(Outer, {"inner": {"low": 1, "high": 2}}).inner == Inner(low=1, high=2)
    with pytest.raises(FieldError, match="must not be above") as problem:
        fields.decode(Outer, {"inner": {"low": 3, "high": 2}})
    assert problem.value.field == "inner.low"
    with pytest.raises(FieldError, match="is missing"):
        fields.decode(Outer, {})


def test_sections_told_apart_by_a_word():
    @dataclasses.dataclass(frozen=True)
    class Fifo:
        kind: str = fields.word()
        limit: int = fields.count(default=5)

    @dataclasses.dataclass(frozen=True)
    class Red:
        kind: str = fields.word()
        limit_bytes: int = fields.size()

    @dataclasses.dataclass(frozen=True)
    class Link:
        queue: Fifo | Red = fields.tagged({"fifo": Fifo, "red": Red}, default={}, usual="fifo")
        other: Fifo | None = fields.tagged({"fifo": Fifo}, default=None)
    assert fields.decode(Link, {}).queue == Fifo(kind="fifo") and fields.decode(Link, {}).other is None
    assert fields.decode(Link, {"queue": {"kind": "red", "limit_bytes": 7}}).queue == Red(kind="red", limit_bytes=7)
    assert fields.encode(fields.decode(Link, {})) == {"queue": {"kind": "fifo", "limit": 5}}
    for section, field, message in [
            ({"queue": {"kind": "cake"}}, "queue.kind", "one of fifo, red expected, not 'cake'"),
            ({"queue": {"kind": ["red"]}}, "queue.kind", "one of fifo, red expected"),
            ({"queue": {"kind": "red"}}, "queue.limit", "is missing"),
            ({"queue": {"kind": "red", "limit": 7}}, "queue.limit", "a value with a unit such as '1500 B' expected"),
            ({"queue": "red"}, "queue", "a mapping expected"), ({"other": {"limit": 3}}, "other.kind", "is missing")]:
        with pytest.raises(FieldError, match=message) as problem:
            fields.decode(Link, section)
        assert problem.value.field == field


def test_encoding_gives_plain_json_with_defaults():
    section = decoded(delays_us=[1], hops=[{"limit": 3}], sysctls={"net.a": 1})
    encoded = fields.encode(section)
    assert json.loads(json.dumps(encoded)) == encoded
    assert encoded["delays_us"] == [1] and encoded["hops"] == [{"limit": 3, "kind": "pfifo"}] and "other" not in encoded
    assert fields.decode(Section, encoded) == section


def test_defaults_are_not_shared():
    one, other = decoded(), decoded()
    one.sysctls["net.a"] = 1
    assert other.sysctls == {}


def test_names():
    assert [fields.plain(name) for name in ("rate_bps", "delay_us", "limit_bytes", "loss_percent", "busy",
                                            "a_b_us")] == [
        "rate", "delay", "limit", "loss", "busy", "a_b"]
    assert (fields.unit_of("rate_bps"), fields.unit_of("rate")) == ("bps", "")


QUEUES = st.fixed_dictionaries({"kind": st.sampled_from(["pfifo", "red"])}, optional={
    "limit": st.integers(0, 2**32 - 1), "limit_us": st.integers(1, 2**63 - 1)})
SECTIONS = st.fixed_dictionaries({
    "flows": st.integers(1, 100), "rate_bps": st.integers(1, 2**63 - 1), "delay_us": st.integers(0, 2**63 - 1),
    "packet_bytes": st.integers(64, 65507), "loss_percent": st.floats(0, 100),
    "scale": st.floats(0, 1e300, exclude_min=True), "preload": st.booleans(),
    "tool": st.sampled_from(["iperf3", "sockets"]), "name": st.sampled_from(["a", "bc"]),
    "paths": st.lists(st.sampled_from(["n1->n2", "n2", "é"]), unique=True),
    "delays_us": st.lists(st.integers(0, 9), max_size=3),
    "targets": st.lists(st.sampled_from(["a", "b"]), min_size=1), "queue": QUEUES, "hops": st.lists(QUEUES, max_size=3),
    "sysctls": st.dictionaries(st.sampled_from(["net.a", "net.b"]),
                               st.integers(0, 9) | st.sampled_from(["on", "1 2"]))},
    optional={"other": QUEUES})


@settings(deadline=None, max_examples=500, database=None)
@given(SECTIONS)
def test_encode_undoes_decode(section):
    assert fields.encode(fields.decode(Section, section)) == section


def small_nests(values):
    return st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=5) | st.integers(), values, max_size=3)


VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
                      | st.integers(5000, 6000).map(lambda digits: 10**digits),
                      small_nests, max_leaves=6)
NAMES = st.sampled_from([field.name for field in dataclasses.fields(Section)] + ["rate", "delay", "queue_us", "x", ""])


@settings(deadline=None, max_examples=2000, database=None)
@given(SECTIONS, st.dictionaries(NAMES, VALUES | SECTIONS, max_size=2))
def test_spoilt_sections_are_decoded_or_refused_with_one_short_line(section, spoilt):
    try:
        again = fields.decode(Section, {**section, **spoilt})
    except FieldError as problem:
        assert "\n" not in str(problem) and len(str(problem)) < 500
    else:
        assert fields.decode(Section, fields.encode(again)) == again


EXAMPLES = {"bps": "10 Mbit/s", "us": "20 ms", "bytes": "2000 B", "percent": "6 %", "mm": "4 m"}


def test_every_field_with_a_unit_in_its_name_reads_it():
    """`mean_acceptor: 18 kB` is the field mean_acceptor_bytes: what reads it has to know bytes."""
    sections = {}
    for root in (topologies, traffic, testbed):
        for found in pkgutil.walk_packages(root.__path__, f"{root.__name__}."):
            if found.name.startswith(("topologies", "traffic", "testbed.scenario", "testbed.probes")):
                with contextlib.suppress(ImportError):
                    sections.update({thing: None for thing in vars(importlib.import_module(found.name)).values()
                                     if isinstance(thing, type) and dataclasses.is_dataclass(thing)})
    read = 0
    every = (field for section in sections for field in dataclasses.fields(section) if "decoder" in field.metadata)
    for field in every:
        unit = fields.unit_of(field.name)
        if not unit:
            continue
        read += 1
        outcomes = []
        for value in (EXAMPLES[unit], [EXAMPLES[unit]]):
            try:
                field.metadata["decoder"](value)
                outcomes.append("")
            except FieldError as problem:
                outcomes.append(str(problem))
        # what is out of bounds was read
        assert any(not outcome or "must be" in outcome for outcome in outcomes), (field.name, outcomes)
    assert read > 50
