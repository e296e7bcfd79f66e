# SPDX-License-Identifier: GPL-2.0-only
"""The tools for vector files, and traces in scenarios."""
from __future__ import annotations

import os
import pathlib
import stat
from typing import Any

from tests.hostile.case import Case, Content
from tests.hostile.cases_vectors import _CONC, _SEQ

_TRACES = ["run", "access-link", "--quick", "--no-report", "--cca", "reno", "--set"]
_NINE: dict[str, Content] = {f"traces/{number}.cvec": _SEQ for number in range(9)}
#: called as the suite's, but for one
_EIGHT: dict[str, Content] = {f"traces/r{acceptor}s{initiator}": _SEQ for acceptor in (4, 5, 6)
                              for initiator in (1, 2, 3) if (acceptor, initiator) != (6, 3)}


def _tmix(name: str, words: list[str], says: str, code: int = 2, **more: object) -> Case:
    files = {"a.cvec": _SEQ, **more.pop("files", {})}  # type: ignore[dict-item]
    return Case(f"tmix-{name}", ["tmix", *words], code, says, files, **more)  # type: ignore[arg-type]


def _traces(name: str, setting: str, says: str, files: dict[str, Content] | None = None, code: int = 2) -> Case:
    return Case(f"traces-{name}", [*_TRACES, setting], code, says, files or {})


def _no_output(work: pathlib.Path) -> None:
    assert not (work / "out").exists()


def _fifo(work: pathlib.Path) -> None:
    os.mkfifo(work / "fifo")


def _link(target: str) -> dict[str, Any]:
    """`out` is a link to a device: were it replaced, at least the machine's own device would not be."""
    def prepare(work: pathlib.Path) -> None:
        (work / "out").symlink_to(target)

    def after(work: pathlib.Path) -> None:
        assert os.readlink(work / "out") == target
        assert not stat.S_ISREG(os.stat(target).st_mode)
    return {"prepare": prepare, "after": after}


def _old_is_there(work: pathlib.Path) -> None:
    assert (work / "out").read_text() == "old"


CASES = [
    _tmix("convert-to-full", ["convert", "a.cvec", "out"], "No space left on device", 1, **_link("/dev/full")),
    _tmix("convert-to-a-loop", ["convert", "a.cvec", "out"], "out: Too many levels of symbolic links", 1,
          prepare=lambda work: (work / "out").symlink_to("out")),
    _tmix("convert-to-null", ["convert", "a.cvec", "out"], "", 0, **_link("/dev/null")),
    Case("tmix-convert-to-stdout", '"$TESTBED" tmix convert a.cvec /proc/self/fd/1', 0, "S 1000 1 1 1",
         {"a.cvec": _SEQ}),
    _tmix("convert-to-a-folder", ["convert", "a.cvec", "."], ": a folder; the name of a file expected"),
    _tmix("convert-into-nothing", ["convert", "a.cvec", "no/such/out"], "no/such/out", 1),
    _tmix("convert-below-a-file", ["convert", "a.cvec", "a.cvec/out"], "a.cvec/out.*Not a directory", 1),
    _tmix("convert-to-itself", ["convert", "a.cvec", "a.cvec"], "", 0),
    _tmix("convert-long-name", ["convert", "a.cvec", "x" * 300], "too long", 1),
    _tmix("convert-missing", ["convert", "nosuch", "out"], "nosuch: no such file", after=_no_output),
    _tmix("convert-bad", ["convert", "bad", "out"], "bad:5: ", files={"bad": _SEQ.replace("> 500", "> x")},
          after=_no_output),
    _tmix("convert-late-bad", ["convert", "bad", "out"], r"bad:\d+: ", files={"bad": _SEQ * 500 + "SEQ x\n"},
          after=_no_output),
    _tmix("convert-bad-keeps-the-old", ["convert", "bad", "out"], "bad:5: ",
          files={"bad": _SEQ.replace("> 500", "> x"), "out": "old"},
          after=_old_is_there),
    _tmix("convert-format", ["convert", "a.cvec", "out", "--format", "xml"], "invalid choice: 'xml'", after=_no_output),
    Case("tmix-convert-to-a-pipe", 'mkfifo p; cat p > got & "$TESTBED" tmix convert a.cvec p && wait && cat got', 0,
         "S 1000 1 1 1",
         {"a.cvec": _SEQ}),
    Case("tmix-convert-to-a-closed-pipe", '"$TESTBED" tmix convert a.cvec /proc/self/fd/1 | true', 0, "",
         {"a.cvec": _SEQ * 20_000}),
    Case("tmix-info-into-head", '"$TESTBED" tmix info a.cvec | head -1', 0, "connections", {"a.cvec": _SEQ}),
    _tmix("info-fifo", ["info", "fifo"], "fifo: a pipe or device; a regular file expected", prepare=_fifo),
    _tmix("info-folder", ["info", "."], "a folder; a regular file expected"),
    _tmix("info-device", ["info", "/dev/zero"], "/dev/zero: a pipe or device"),
    _tmix("info-long-name", ["info", "x" * 300], "too long"),
    _tmix("info-not-text", ["info", "\udcff"], "no such file"),
    _tmix("info-nul-in-folder-name", ["info", "a\nb"], "no such file"),
    _tmix("no-action", [], "required: ACTION"),
    _tmix("unknown-action", ["explode"], "invalid choice: 'explode'"),
    *[_tmix(f"synth-duration-{value}", ["synth", "out", f"--duration={value}"], "--duration", after=_no_output)
      for value in ("0", "-1", "nan", "inf", "-inf", "1e300", "1e-300", "many", "9" * 400)],
    *[_tmix(f"synth-seed-{value}", ["synth", "out", "--duration", "1", f"--seed={value}"], "--seed", after=_no_output)
      for value in ("-1", "1.5", "many", str(2**64), str(2**63))],
    *[_tmix(f"shuffle-bin-{value}", ["shuffle", "a.cvec", "out", f"--bin={value}"], "--bin", after=_no_output)
      for value in ("0", "-5", "nan", "inf", "1e-9", "1e300")],
    _tmix("shuffle-seed", ["shuffle", "a.cvec", "out", "--bin", "1", "--seed=-1"], "--seed -1", after=_no_output),
    _tmix("shuffle-empty", ["shuffle", "empty", "out", "--bin", "1"], "", 0, files={"empty": ""}),
    *[_tmix(f"synth-set-{name}", ["synth", "out", "--duration", "1", "--set", setting], says, after=_no_output)
      for name, setting, says in (
          ("preset", "preset=heavy", "--set preset: one of web, unc-like expected, not 'heavy'"),
          ("preset-list", "preset=[web]", "--set preset: one of web"), ("no-value", "preset=", "key=value expected"),
          ("no-key", "=5", "key=value expected"), ("nan", "download_alpha=.nan", "a finite number"),
          ("one", "download_alpha=1", "anything but 1"), ("unknown", "x=1", "--set x: unknown field"),
          ("nest", "mean_acceptor={a: 1}", "--set mean_acceptor: "),
          ("yaml", "mean_acceptor=[", "--set mean_acceptor: "),
          ("unit", "mean_acceptor=18 ms", "--set mean_acceptor: a value with a unit"),
          ("rate", "connections_per_second=10000000", "about 10000000 connections; at most 5000000"))],
    _tmix("plot-nothing", ["plot", "-o", "out"], "required: SOURCE"),
    _tmix("plot-nowhere", ["plot", "a.cvec"], "required: -o"),
    _tmix("plot-unknown", ["plot", "heavy", "-o", "out"], "heavy: no such file or folder, and no preset",
          after=_no_output),
    _tmix("plot-bad", ["plot", "bad", "-o", "out"], "bad:5: ", files={"bad": _SEQ.replace("> 500", "> x")},
          after=_no_output),
    _tmix("plot-empty", ["plot", "empty", "-o", "out"], "empty: no connections", 1, files={"empty": ""},
          after=_no_output),
    _tmix("plot-fifo", ["plot", "fifo", "-o", "out"], "fifo: a pipe or device", prepare=_fifo, after=_no_output),
    _tmix("plot-folder-without-files", ["plot", "none", "-o", "out"], "none: no vector files",
          prepare=lambda work: (work / "none").mkdir(), after=_no_output),
    _tmix("plot-over-a-file", ["plot", "a.cvec", "-o", "a.cvec"], "is there already and is no page", 1),
    _tmix("plot-over-a-folder", ["plot", "a.cvec", "-o", "."], "is there already and is no page", 1),
    _tmix("plot-below-a-file", ["plot", "a.cvec", "-o", "a.cvec/out"], "a.cvec", 1),
    _tmix("plot-far-away", ["plot", "late", "-o", "out"], "too long to be drawn", 1,
          files={"late": _SEQ + _SEQ.replace("1000", str(2**43))}, after=_no_output),
    *[_tmix(f"plot-rate-{value}", ["plot", "a.cvec", "-o", "out", f"--rate={value}"], "--rate", after=_no_output)
      for value in ("0 bit/s", "-1 Mbit/s", "5", "nan", "1 kB", "1 Xbit/s", "9" * 99 + " bit/s")],
    _tmix("plot-names-like-markup", ["plot", "<b>&'", "-o", "out"], "out/index.html", 0, files={"<b>&'": _SEQ}),
    _tmix("plot-twice", ["plot", "a.cvec", "a.cvec", "-o", "out"], "the same source is named twice", after=_no_output),
    _tmix("synth-to-full", ["synth", "out", "--duration", "1"], "No space left on device", 1, **_link("/dev/full")),
    _traces("missing-folder", "traffic.traces=nosuch", r"traffic\.traces.*nosuch"),
    _traces("a-file", "traffic.traces=a.cvec", r"traffic\.traces|a\.cvec", {"a.cvec": _SEQ}),
    _traces("too-few", "traffic.traces=traces", r"traffic\.traces", {"traces/1.cvec": _SEQ}),
    _traces("empty-folder", "traffic.traces=.", r"traffic\.traces"),
    _traces("some-called-after-paths", "traffic.traces=traces", r"r4s1 is called after its path .*, last is not",
            {**_EIGHT, "traces/last": _SEQ}),
    _traces("two-for-a-path", "traffic.traces=traces", "r4s1 and r4s1.gz are called after the same path",
            {**_EIGHT, "traces/r4s1.gz": _SEQ}),
    _traces("no-such-path", "traffic.traces=traces", r"r7s3 is called after a path that .*its paths are n1->n4",
            {**_EIGHT, "traces/r7s3": _SEQ}),
    _traces("called-after-two-paths", "traffic.traces=traces", "r6s3r4s1 is called after 2 paths",
            {**_EIGHT, "traces/r6s3r4s1": _SEQ}),
    _traces("windows-unknown", "traffic.windows=large", r"traffic\.windows: one of off, vector expected"),
    _traces("windows-size", "traffic.windows=64 kB", r"traffic\.windows: "),
    _traces("overhead-unknown", "traffic.overhead=l3", r"traffic\.overhead: one of ip, l2, wire, suite expected"),
    _traces("overhead-number", "traffic.overhead=66", r"traffic\.overhead: one of ip, l2, wire, suite expected"),
    _traces("prefill-rule-unknown", "traffic.prefill_rule=none", r"traffic\.prefill_rule: one of uncongested, suite"),
    _traces("prefill-window-time", "traffic.prefill_window=19.445 s", r"traffic\.prefill_window: .*unit"),
    _traces("prefill-window-zero", "traffic.unc_prefill_window=0 s", r"traffic\.unc_prefill_window: must be at least"),
    _traces("prefill-window-negative", "traffic.unc_prefill_window=-1 s", r"traffic\.unc_prefill_window: "),
    _traces("prefill-window-nan", "traffic.unc_prefill_window=.nan", r"traffic\.unc_prefill_window: a finite number"),
    _traces("balance-unknown", "traffic.balance=perfect", r"traffic\.balance: one of off, thirds expected"),
    _traces("balance-on", "traffic.balance=on", r"traffic\.balance: one of off, thirds expected"),
    _traces("number", "traffic.traces=5", r"traffic\.traces"),
    _traces("list", "traffic.traces=[a, b]", r"traffic\.traces"),
    _traces("empty-file", "traffic.traces=traces",
            r"traffic\.traces: \S*4\.cvec: no connections", {**_NINE, "traces/4.cvec": ""}),
    _traces("bad-file", "traffic.traces=traces", r"traffic\.traces: \S*4\.cvec:5: ",
            {**_NINE, "traces/4.cvec": _CONC.replace("c> 500", "c> x")}),
    _traces("truncated-gzip", "traffic.traces=traces", r"traffic\.traces: \S*4\.cvec:\d+: .*gzip",
            {**_NINE, "traces/4.cvec": b"\x1f\x8b\x08\x00"}),
    _traces("nul-file", "traffic.traces=traces", r"traffic\.traces: \S*4\.cvec:1: ",
            {**_NINE, "traces/4.cvec": bytes(5000)}),
    _traces("binary-line", "traffic.traces=traces", r"4\.cvec:1: binary data before the first connection",
            {**_NINE, "traces/4.cvec": b"\x00\x1b[31mSEQ\xff abc\n"}),
    _traces("bad-end", "traffic.traces=traces", r"4\.cvec:\d+: 'hello' in a SEQ connection",
            {**_NINE, "traces/4.cvec": _SEQ * 2000 + "hello\n"}, 4),
    _traces("load-nan", "traffic.load=.nan", r"traffic\.load"),
    _traces("load-zero", "traffic.load=0%", r"traffic\.load"),
    _traces("load-negative", "traffic.load=-60%", r"traffic\.load"),
    _traces("load-huge", "traffic.load=1e30%", r"traffic\.load"),
    _traces("load-of-bytes", "traffic.load=60 MB", r"traffic\.load"),
    _traces("load-list", "traffic.load=[60%]", r"traffic\.load"),
    _traces("scale-inf", "traffic.scale=.inf", r"traffic\.scale"),
    _traces("scale-nan", "traffic.scale=.nan", r"traffic\.scale"),
    _traces("scale-zero", "traffic.scale=0", r"traffic\.scale"),
    _traces("scale-negative", "traffic.scale=-1", r"traffic\.scale"),
    _traces("scale-word", "traffic.scale=large", r"traffic\.scale"),
    _traces("synth-nan", "traffic.synth={connections_per_second: .nan}", r"traffic\.synth: connections_per_second"),
    _traces("synth-zero", "traffic.synth={connections_per_second: 0}", r"traffic\.synth: connections_per_second"),
    _traces("synth-negative", "traffic.synth={connections_per_second: -3}", r"traffic\.synth: connections_per_second"),
    _traces("synth-unknown", "traffic.synth={colour: red}", r"traffic\.synth: colour"),
    _traces("synth-word", "traffic.synth=much", r"traffic\.synth"),
    _traces("synth-size-zero", "traffic.synth={mean_acceptor: 0 B}", r"traffic\.synth: mean_acceptor"),
    _traces("synth-tails-impossible", "traffic.synth={mean_acceptor: 1 B}", r"traffic\.synth"),
    _traces("synth-preset", "traffic.synth.preset=heavy", r"traffic\.synth\.preset: one of web, unc-like expected"),
    _traces("synth-preset-number", "traffic.synth={preset: 5}", r"traffic\.synth: preset: one of web, unc-like"),
    _traces("synth-preset-spoilt", "traffic.synth={preset: unc-like, download_max: 300 kB}",
            r"traffic\.synth: download_min: must be below download_max"),
    _traces("reverse-zero", "traffic.reverse_load=0%", r"traffic\.reverse_load: must be above 0"),
    _traces("reverse-number", "traffic.reverse_load=15", r"traffic\.reverse_load: a value with a unit"),
    _traces("reverse-nan", "traffic.reverse_load=.nan", r"traffic\.reverse_load"),
    _traces("reverse-both", "traffic={kind: tmix, target: [left_to_right, right_to_left], load: 60 %, "
                            "reverse_load: 9 %}", r"reverse_load: both directions are targets"),
    _traces("reverse-too-small", "traffic.reverse_load=0.1%", r"a reverse load of 0\.1 % is out of reach: the least",
            code=4),
    _traces("weights-zero", "traffic.weights=[1, 1, 1, 1, 1, 1, 1, 1, 0]", r"traffic\.weights: must be above 0"),
    _traces("weights-few", "traffic.weights=[1, 2]", r"traffic\.weights: 2 weights for 9 sources"),
    _traces("weights-number", "traffic.weights=3", r"traffic\.weights: a list expected"),
    _traces("weights-path", "traffic.weights={n1->n1: 2}", r"traffic\.weights: no source sends on n1->n1"),
    _traces("weights-no-path", "traffic.weights={n1: 2}", r"traffic\.weights: n1: names such as 'n1->n4'"),
    _traces("weights-huge", "traffic.weights={n1->n4: 1.0e+300}", r"traffic\.weights: n1->n4: must be at most"),
    _traces("weights-of-traces", "traffic={kind: tmix, target: right_to_left, load: 60 %, traces: traces, "
                                 "weights: [1]}", r"weights: is for synthesised sources", _NINE),
    _traces("target-unknown", "traffic.target=upwards", r"traffic\.target"),
]
