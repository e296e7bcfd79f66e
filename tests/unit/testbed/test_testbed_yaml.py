# SPDX-License-Identifier: GPL-2.0-only
"""YAML files of anybody: bounded in time and memory, every value plain, every error one line that says where."""
import os
import pathlib
import time

import pytest
import yaml
from hypothesis import HealthCheck, given, settings, strategies as st

from testbed.core import yaml_nodes
from testbed.core.errors import ScenarioError, UsageError
from testbed.core.yaml_file import YamlFile, element_names, parse_setting

SECTIONS = {"a", "b", "list", "hosts"}


@pytest.fixture
def read(tmp_path):
    """read(text or bytes) -> YamlFile of x.yaml."""
    def made(content):
        path = tmp_path / "x.yaml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return YamlFile(path, SECTIONS)
    return made


def refused(read, content):
    began = time.monotonic()
    with pytest.raises(ScenarioError) as problem:
        read(content)
    message = str(problem.value)
    assert "\n" not in message and len(message) < 400 and time.monotonic() - began < 5
    return message.partition("x.yaml:")[2]


BOMB = "a: &a0 [x, x, x, x, x, x, x, x, x, x]\nb:\n" + "".join(
    f"  k{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9))
MERGE_BOMB = "a: &a0 {x: 1}\nb:\n" + "".join(
    f"  k{n}: &a{n}\n    <<: [{', '.join([f'*a{n - 1}'] * 10)}]\n    y{n}: 1\n" for n in range(1, 9))


@pytest.mark.parametrize("content, message", [
    ("", "1: a mapping of sections expected"), ("- a", "1: a mapping of sections expected"), ("words", "1: a mapping"),
    ("null", "1: a mapping"), ("c: 1", "1: c: unknown section; sections are: a, b, hosts, list"),
    ("a: 1\nb: {x: 1, x: 2}", "2: b.x: is there a second time; the first is in line 2"),
    ("a: 1\nb:\n  1: x\n  01: y", "4: b.1: is there a second time; the first is in line 3"),
    ("b:\n  1: x\n  '1': y", "3: b.1: is there a second time"), ("b: {0x1: x, 1: y}", "1: b.1: is there a second time"),
    ("a: 1\na: 2", "2: a: is there a second time; the first is in line 1"),
    ("a: {? [x] : 1}", "1: a: a name expected in front of the colon"), ("a: {~: 1}", "1: a: a name expected"),
    ("a: {: 1}", "1: "), ('a: {"\\n": 1}', "1: a: a name expected"),
    ("a: {" + "x" * 300 + ": 1}", "1: a: a name expected"),
    ("a: {<<: 3}", "1: a: << expects a mapping"), ("a: {<<: [3]}", "1: a: << expects a mapping"),
    ("a: .nan", "1: a: a finite number expected, not '.nan'"), ("a: [-.inf]", "1: a.1: a finite number expected"),
    ("a: 9223372036854775808", "1: a: '9223372036854775808' is too large"),
    ("a: " + "9" * 5000, "1: a: '9999"), ("a: 2024-02-30", "1: a: '2024-02-30' is not a value (day is out of range"),
    ("a: 2024-02-03", "1: a: '2024-02-03' would be a date; put text in quotes"),
    ("a: 2024-02-03 04:05:06", "would be a datetime"), ("a: !!binary aGVsbG8=", "would be a bytes"),
    ("a: !!set {x, y}", "1: a: a plain mapping expected, not tag:yaml.org,2002:set"),
    ("a: !!omap [x: 1]", "1: a: a plain list expected"), ("a: !!bool x", "1: a: 'x' is not a value"),
    ("a: !!int x", "1: a: 'x' is not a value"), ("a: !!float ''", "1: a: '' is not a value"),
    ("a: !!timestamp x", "1: a: 'x' is not a value"),
    ("a: !!python/object/new:os.system [x]", "1: a: a plain list expected"),
    ("a: !!python/name:os.system", "1: a: could not determine a constructor"),
    ("a: =", "1: a: could not determine"), ("a: *x", "1: found undefined alias"),
    ("a: &x [1, *x]", "1: an alias inside of what it stands for"), ("a: &x {b: *x}", "1: an alias inside"),
    ("a: 1\n--- \nb: 2", "2: expected a single document in the stream, but found another document"),
    ("a: 1\n...\nb", "3: expected '<document start>'"),
    ("a: " + "[a: " * 12 + "x", "nested more than 20 deep"), ("[" * 30_000, "1: nested more than 20 deep"),
    ("{a: " * 30_000, "1: nested more than 20 deep"), ("- " * 30_000, "1: nested more than 20 deep"),
    ("a: [" + "x, " * 10_001 + "]", "1: more than 10000 values"),
    (BOMB, "more than 10000 values, with aliases written out"),
    (MERGE_BOMB, "more than 10000 values"), ("a: \0", "1: character #x0000 is not allowed"),
    (b"a: 1\nb: \xff", "2: not text in UTF-8"), (b"\xff\xfea\0", "1: not text in UTF-8"),
    ("a: 1\nb: \x07", "2: character #x0007 is not allowed"), ("a: 'x", "found unexpected end of stream"),
    ('a: "\\ud800"', ""), ('a: "\\U00110000"', ""), ("a: b: c", "1: mapping values are not allowed here"),
    ("%YAML 9.9\n---\na: 1", ""),
    ("a: |9999\n x", ""), ("\t", ""), ("a: @x", "found character"), ("a: !<> x", ""), ("a: {x", ""),
], ids=lambda value: repr(value)[:30])
def test_refused(read, content, message):
    try:
        read(content)
    except ScenarioError:
        assert message in refused(read, content)
    else:
        assert message == ""            # YAML allows it


def test_a_chain_of_aliases_is_as_deep_as_it_looks(read):
    deep = "a: &a0 [x]\n" + "b:\n" + "".join(f"  k{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 30))
    assert "nested more than 20 deep" in refused(read, deep)


def test_files_that_are_none(tmp_path, read):
    with pytest.raises(ScenarioError, match="x.yaml: larger than 1 MB"):
        read("a: " + "x" * 1_000_000)
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "zero.yaml").symlink_to("/dev/zero")
    for path in (tmp_path / "pipe.yaml", tmp_path / "zero.yaml"):
        with pytest.raises(ScenarioError, match="not a regular file"):
            YamlFile(path, SECTIONS)
    for path, message in ((tmp_path, "Is a directory|not a regular file"), (tmp_path / "none.yaml", "No such file")):
        with pytest.raises(ScenarioError, match=message):
            YamlFile(pathlib.Path(path), SECTIONS)


@pytest.mark.parametrize("text, tree", [
    ("a: {1: x, yes: y, 1.50: z}", {"a": {"1": "x", "yes": "y", "1.50": "z"}}),
    ("a: &x {k: 1, l: 2}\nb: {<<: *x, l: 3}", {"a": {"k": 1, "l": 2}, "b": {"k": 1, "l": 3}}),
    ("a: &x {k: 1}\nb: {<<: [*x, {k: 2, m: 3}]}", {"a": {"k": 1}, "b": {"k": 1, "m": 3}}),
    ("\ufeffa: [~, yes, 1, 0x10, 1.5, '1', text]", {"a": [None, True, 1, 16, 1.5, "1", "text"]}),
    ("a: &x [1]\nb: [*x, *x]", {"a": [1], "b": [[1], [1]]}), ("---\na: 1\n...\n", {"a": 1}),
])
def test_values(read, text, tree):
    assert read(text).tree == tree


def test_lines_and_elements(read):
    file = read("a: 1\nlist:\n- name: x\n  k: 1\n- kind: y\n  k: 2\n- kind: y\n  k: {z: 3}\n- 5\n")
    assert element_names(file.tree["list"]) == ["x", "y", "y-2", ""]
    assert [file.line(field) for field in ("a", "list.1.k", "list.2.k", "list.3.k.z", "list.3.k.none", "list.4",
                                           "none")] == [
        1, 4, 6, 8, 8, 9, 1]
    assert str(file.error("list.y-2.k", "wrong")).endswith("x.yaml:8: list.y-2.k: wrong")
    assert str(file.error("", "wrong")).endswith("x.yaml:1: wrong")


def test_put(read):
    file = read("a: {x: 1}\nlist: [{name: n, k: 1}, {kind: y}]\nhosts:\n")
    other = file.copy()
    assert other.put("list.y.k.l", {"m": 5}, "--set q") == "list.2.k.l"
    assert other.put("hosts.sysctls.net.ipv4.x", 3, "--set h") == "hosts.sysctls.net.ipv4.x"
    assert other.put("b", [1], "--set b") == "b"
    assert other.tree == {"a": {"x": 1}, "list": [{"name": "n", "k": 1}, {"kind": "y", "k": {"l": {"m": 5}}}],
                          "hosts": {"sysctls": {"net.ipv4.x": 3}}, "b": [1]}
    assert file.tree == {"a": {"x": 1}, "list": [{"name": "n", "k": 1}, {"kind": "y"}], "hosts": None}
    assert str(other.error("list.2.k.l.m", "wrong")) == "--set q: m: wrong"
    assert str(other.error("list.y.k", "wrong")).endswith("x.yaml:2 with --set q: list.y.k: wrong")
    for key, message in (("a.x.y", "a.x is not a section"), ("list.z.k", "list has no element 'z'; it has: n, y"),
                         ("c", "no such section"),
                         ("a..x", "a name expected between dots"), ("", "no such section"),
                         ("list.3", "no element '3'")):
        with pytest.raises(ScenarioError, match=message):
            other.put(key, 1, "--set k")


def test_units_belong_to_values(read):
    file = read("a: {t: 2 ms, deep: [{s: 5 B}]}\nhosts: {sysctls: {net.ipv4.tcp_rto_min_us: 5}}\n"
                "b:\n  deep: [{t_us: 3}]")
    file.check_keys("a")
    file.check_keys("hosts")
    file.check_keys("c")
    with pytest.raises(ScenarioError, match="x.yaml:4: b.deep.1.t_us: the unit belongs to the value: t: 20 ms"):
        file.check_keys("b")


# -- fuzzing --------------------------------------------------------------------------------

SCALARS = st.sampled_from(["1", "01", "x", "'q'", "2 ms", "yes", "~", ".nan", "2024-01-01", "2024-13-01", "*x", "&x 1",
                           "!!set", "!t v",
                           "<<", "=", "1e400", "0b12", "1:30", '"\\x00"', "9" * 30, "\u2028", "é"])


def lists(inner):
    return st.lists(inner, max_size=4).map(lambda items: f"[{', '.join(items)}]")


def mappings(inner):
    pairs = st.tuples(SCALARS, inner).map(": ".join)
    return st.lists(pairs, max_size=4).map(lambda items: "{" + ", ".join(items) + "}")


TREES = st.recursive(SCALARS, lambda inner: lists(inner) | mappings(inner) | inner.map("&x {}".format), max_leaves=12)
WRITABLE = st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="\ufeff\u2028\u2029\ufffe\uffff")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2**63 + 1, 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(WRITABLE, max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["k", "l", "m"]), inner, max_size=3),
    max_leaves=10)
FUZZ = settings(deadline=None, max_examples=1000, database=None, suppress_health_check=list(HealthCheck))


def plain(value):
    if isinstance(value, dict):
        return all(isinstance(key, str) and plain(inner) for key, inner in value.items())
    if isinstance(value, list):
        return all(map(plain, value))
    return value is None or isinstance(value, (str, bool)) or isinstance(value, (int, float)) and abs(value) < 2**64


@FUZZ
@given(st.lists(st.tuples(st.sampled_from(["a", "b", "list", "hosts", "c"]), TREES), max_size=3))
def test_any_tree_is_plain_or_refused(read, sections):
    text = "".join(f"{name}: {tree}\n" for name, tree in sections)
    try:
        file = read(text)
        assert plain(file.tree)
        for key in file.tree:
            file.check_keys(key)
    except ScenarioError as problem:
        assert "\n" not in str(problem) and "x.yaml:" in str(problem)


@FUZZ
@given(st.text(max_size=40) | st.text(alphabet="ab:{}[]&*!<>-?|%@#'\"\n ,~.=0123", max_size=60))
def test_any_text_is_plain_or_refused(text):
    try:
        assert plain(parse_setting("--set k", text))
    except UsageError as problem:
        assert "\n" not in str(problem) and str(problem).startswith("--set k: ")


@FUZZ
@given(VALUES)
def test_what_yaml_writes_is_read_again(value):
    assert parse_setting("--set k", yaml.safe_dump(value, allow_unicode=True)) == value


def test_the_limits_leave_room_for_real_scenarios():
    hundred_hosts = {"a": {"delays": ["10 ms"] * 100},
                     "b": [{"kind": "greedy", "paths": ["n1->n2"]} for _ in range(500)]}
    file = yaml_nodes.Nodes(yaml.safe_dump(hundred_hosts), lambda line, field, message: AssertionError(message))
    assert file.value(file.root, "") == hundred_hosts
