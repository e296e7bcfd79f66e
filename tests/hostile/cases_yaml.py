# SPDX-License-Identifier: GPL-2.0-only
"""Scenario files that are no good YAML, or too much of it."""
from __future__ import annotations

import pathlib

from tests.hostile.case import SMALL, Case, changed, run_yaml

_HEAD = SMALL.splitlines()[0] + "\n"


def _bomb() -> bytes:
    """Nine levels of ten aliases each: a thousand million nodes."""
    lines = ["name: small", "a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    return "\n".join(lines).encode()


def _bomb_of_mappings() -> bytes:
    lines = ["name: small", "traffic: &b0 {x: 1}"]
    lines += [f"b{n}: &b{n} {{p: *b{n - 1}, q: *b{n - 1}, r: *b{n - 1}, s: *b{n - 1}}}" for n in range(1, 14)]
    return "\n".join(lines).encode()


def _merge_bomb() -> bytes:
    lines = ["name: small", "m0: &m0 {k: 1}"]
    lines += [f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 9)}], k{n}: 1}}" for n in range(1, 9)]
    return "\n".join(lines).encode()


def _as_a_folder(work: pathlib.Path) -> None:
    (work / "small.yaml").mkdir()


def _loop(work: pathlib.Path) -> None:
    (work / "small.yaml").symlink_to("small.yaml")


_NESTED_FLOW = "[" * 3000 + "]" * 3000
_NESTED_BLOCK = "".join(f"{' ' * n}k:\n" for n in range(600))
CASES = [
    run_yaml("empty", "", r"small\.yaml:1: a mapping of sections expected"),
    run_yaml("only-a-comment", "# nothing\n", r"small\.yaml:1: a mapping of sections expected"),
    run_yaml("a-list", "- a\n- b\n", r"small\.yaml:1: a mapping of sections expected"),
    run_yaml("a-word", "small\n", r"small\.yaml:1: a mapping of sections expected"),
    run_yaml("a-number", "42\n", r"small\.yaml:1: a mapping of sections expected"),
    run_yaml("null", "null\n", r"small\.yaml:1: a mapping of sections expected"),
    run_yaml("blanks-only", " \n\n  \n", r"small\.yaml:1: a mapping of sections expected"),
    run_yaml("two-documents", SMALL + "---\n" + SMALL, r"small\.yaml:\d+: .*document"),
    run_yaml("second-empty-document", SMALL + "---\n", r"small\.yaml:\d+: .*document"),
    run_yaml("alias-bomb", _bomb, r"small\.yaml.*(too many|more than|aliases)"),
    run_yaml("alias-bomb-of-mappings", _bomb_of_mappings, r"small\.yaml.*(too many|more than|aliases)"),
    run_yaml("merge-bomb", _merge_bomb, r"small\.yaml.*(too many|more than|aliases|merge|unknown section)"),
    run_yaml("alias-to-itself", changed("left_delays: [0 ms, 5 ms]", "left_delays: &a [*a]"), r"small\.yaml:6: "),
    run_yaml("mapping-in-itself", changed("  edge: {rate: 100 Mbit/s}", "  edge: &e {rate: *e}"), r"small\.yaml:5: "),
    run_yaml("undefined-alias", changed("limit: 50", "limit: *nobody"), r"small\.yaml:4: .*undefined alias"),
    run_yaml("nested-lists", _HEAD + f"topology: {_NESTED_FLOW}\n", r"small\.yaml:2: .*nested"),
    run_yaml("nested-mappings", _HEAD + _NESTED_BLOCK, r"small\.yaml:\d+: .*nested"),
    run_yaml("nested-mappings-in-a-line", _HEAD + "topology: " + "{a: " * 3000 + "}" * 3000 + "\n",
             r"small\.yaml:2: .*nested"),
    run_yaml("unclosed-lists", _HEAD + "topology: " + "[" * 100_000, r"small\.yaml"),
    run_yaml("unclosed-list", changed("[0 ms, 5 ms]", "[0 ms, 5 ms"), r"small\.yaml:7: .*expected ',' or '\]'"),
    run_yaml("unclosed-quote", changed("kind: dumbbell", 'kind: "dumbbell'), r"small\.yaml:\d+: "),
    run_yaml("tab-indented", changed("  edge:", "\tedge:"), r"small\.yaml:5: .*cannot start any token"),
    run_yaml("bad-indentation", changed("  edge:", "   edge:"), r"small\.yaml:5: "),
    run_yaml("python-object", changed("limit: 50", "limit: !!python/object/apply:os.system ['touch pwned']"),
             r"small\.yaml:4: .*tag"),
    run_yaml("python-module", changed("limit: 50", "limit: !!python/module:os ''"), r"small\.yaml:4: .*tag"),
    run_yaml("unknown-tag", changed("limit: 50", "limit: !size 50"), r"small\.yaml:4: .*tag"),
    run_yaml("binary", changed("limit: 50", "limit: !!binary AAAA"), r"small\.yaml:4: "),
    run_yaml("set", changed("left_delays: [0 ms, 5 ms]", "left_delays: !!set {0 ms, 5 ms}"), r"small\.yaml:6: "),
    run_yaml("wrong-yaml-version", "%YAML 9.9\n---\n" + SMALL, r"small\.yaml:\d+: .*version"),
    run_yaml("unknown-directive-and-garbage", "%&/()\n" + SMALL, r"small\.yaml:1: "),
    run_yaml("duplicate-section", SMALL + "timing: {warmup: 9 s, test: 9 s}\n",
             r"small\.yaml:13: .*timing.*second time"),
    run_yaml("duplicate-field", changed("warmup: 1 s", "warmup: 1 s, warmup: 2 s"),
             r"small\.yaml:9: .*warmup.*second time"),
    run_yaml("duplicate-option", changed("85: {topology.edge.rate: 1 Gbit/s}", "074: {topology.edge.rate: 1 Gbit/s}"),
             r"small\.yaml:12: .*60.*second time"),
    run_yaml("duplicate-as-text", changed("85: {topology.edge.rate: 1 Gbit/s}", '"60": {topology.edge.rate: 1 Gbit/s}'),
             r"small\.yaml:12: .*60.*second time"),
    run_yaml("duplicate-hexadecimal", changed("85: {topology.edge.rate: 1 Gbit/s}",
                                              "0x3c: {topology.edge.rate: 1 Gbit/s}"),
             r"small\.yaml:12: .*(60|0x3c).*second time"),
    run_yaml("date-that-is-none", changed("limit: 50", "limit: 2026-99-99"), r"small\.yaml:?4?: "),
    run_yaml("date", changed("limit: 50", "limit: 2026-01-31"), r"small\.yaml:4: .*limit"),
    run_yaml("time-of-day", changed("warmup: 1 s", "warmup: 2026-01-31 12:00:00"), r"small\.yaml:9: .*warmup"),
    run_yaml("key-that-is-a-list", SMALL + "? [a, b]\n: 1\n", r"small\.yaml:\d+: "),
    run_yaml("key-that-is-a-mapping", SMALL + "? {a: b}\n: 1\n", r"small\.yaml:\d+: "),
    run_yaml("key-that-is-null", SMALL + "~: 1\n", r"small\.yaml:\d+: "),
    run_yaml("key-that-is-a-number", SMALL + "1: 1\n", r"small\.yaml:\d+: .*unknown section"),
    run_yaml("key-that-is-true", SMALL + "yes: 1\n", r"small\.yaml:\d+: .*unknown section"),
    run_yaml("empty-key", SMALL + "'': 1\n", r"small\.yaml:13: a name expected"),
    run_yaml("key-with-newline", SMALL + '"a\\nb": 1\n', r"small\.yaml:13: a name expected"),
    run_yaml("endless-key", SMALL + "k" * 5000 + ": 1\n", r"small\.yaml:\d+: "),
    run_yaml("merge-key-of-a-word", changed("{rate: 100 Mbit/s}", "{<<: word}"), r"small\.yaml:5: "),
    run_yaml("not-utf8", SMALL.encode() + b"title: \xff\xfe\n", r"small\.yaml.*UTF-8"),
    run_yaml("latin-1", SMALL.encode() + "title: Überlast\n".encode("latin-1"), r"small\.yaml.*UTF-8"),
    run_yaml("utf-16", SMALL.encode("utf-16"), r"small\.yaml.*(UTF-8|special characters|not allowed)"),
    run_yaml("utf-32", SMALL.encode("utf-32"), r"small\.yaml.*(UTF-8|special characters|not allowed)"),
    run_yaml("null-bytes", SMALL.encode() + b"title: a\0b\n", r"small\.yaml.*(special characters|not allowed)"),
    run_yaml("control-characters", SMALL + "title: a\x07b\n", r"small\.yaml.*(special characters|not allowed)"),
    run_yaml("all-zero", bytes(4096), r"small\.yaml"),
    run_yaml("random-bytes", bytes(range(256)) * 20, r"small\.yaml"),
    run_yaml("an-elf-program", lambda: pathlib.Path("/bin/true").read_bytes(), r"small\.yaml"),
    run_yaml("large", lambda: SMALL.encode() + b"# " + b"x" * (2 << 20), r"small\.yaml.*(large|1 MB|bytes)"),
    run_yaml("many-nodes", lambda: SMALL.encode() + b"description: [" + b"1," * 20_000 + b"1]\n",
             r"small\.yaml.*(too many|more than)"),
    run_yaml("many-sections", lambda: SMALL.encode() + b"".join(b"k%d: 1\n" % n for n in range(3000)),
             r"small\.yaml:\d+: .*unknown section"),
    Case("yaml-folder", ["run", "small.yaml"], 2, r"small\.yaml: no such scenario file|small\.yaml.*folder",
         prepare=_as_a_folder),
    Case("yaml-dangling-link", ["run", "small.yaml"], 2, r"small\.yaml",
         prepare=lambda work: (work / "small.yaml").symlink_to("nowhere")),
    Case("yaml-link-to-itself", ["run", "small.yaml"], (1, 2), r"small\.yaml", prepare=_loop),
    Case("yaml-device", ["run", "/dev/zero"], 2, r"/dev/zero"),
    Case("yaml-device-by-link", ["run", "zero.yaml"], 2, r"zero\.yaml",
         prepare=lambda work: (work / "zero.yaml").symlink_to("/dev/zero")),
    Case("yaml-memory-of-a-process", ["run", "mem.yaml"], (1, 2), r"mem\.yaml",
         prepare=lambda work: (work / "mem.yaml").symlink_to("/proc/self/mem")),
    Case("yaml-name-too-long", ["run", "x" * 300 + ".yaml"], (1, 2), r"x\.yaml|too long"),
    Case("yaml-name-with-a-newline", ["run", "a\nb.yaml"], 2, "no such scenario file"),
    Case("yaml-name-that-is-no-text", ["run", "\udcff.yaml", "--no-report"], 2, r"limit",
         files={"\udcff.yaml": changed("limit: 50", "limit: x")}),
    Case("yaml-suffix-only", ["run", ".yaml"], 2, "no s"),
]
