# SPDX-License-Identifier: GPL-2.0-only
"""What is given to --cca: names, paths, variant files."""
from __future__ import annotations

from tests.hostile.case import SMALL, Case, Content


def _cca(name: str, cca: str, says: str, files: dict[str, Content] | None = None,
         code: int | tuple[int, ...] = 2) -> Case:
    return Case(f"cca-{name}", ["run", "small.yaml", "--no-report", "--cca", cca], code, says,
                {"small.yaml": SMALL, **(files or {})})


def _variant(name: str, text: str, says: str) -> Case:
    return _cca(f"variant-{name}", "./mine.yaml", says, {"mine.yaml": text})


CASES = [
    _cca("unknown", "nonsense", "no congestion control 'nonsense' in this kernel; there are: "),
    _cca("only-commas", ",,,", "at least one congestion control"),
    _cca("blank-inside", "cu bic", "is not a name"),
    _cca("shell", "$(touch pwned)", "is not a name"),
    _cca("semicolon", "a;b", "is not a name"),
    _cca("upper-case", "CUBIC", "is not a name"),
    _cca("dots", "..", "is not a name"),
    _cca("long", "a" * 16, "is not a name"),
    _cca("very-long", "a" * 100_000, "is not a name|too long", code=(1, 2)),
    _cca("plus-only", "+", "is not a name|no congestion control"),
    _cca("plus-at-end", "cubic+", "is not a name|no congestion control"),
    _cca("not-text", "\udcff", "is not a name"),
    _cca("newline", "cubic\nreno", "is not a name"),
    _cca("zero-width", "cubic\u200b", "is not a name"),
    _cca("option", "--help", "expected one argument|usage|congestion"),
    _cca("label-empty", "=cubic", "a label has lower-case letters"),
    _cca("label-blank", "a b=cubic", "a label has lower-case letters"),
    _cca("label-umlaut", "\u00e4=cubic", "a label has lower-case letters"),
    _cca("label-of-nothing", "x=", "--cca x=: what is called x[?] x=cubic or x=./tcp_mine.c expected"),
    _cca("label-of-label", "x=y=cubic", "one label expected"),
    _cca("label-twice", "x=cubic,x=reno", "are both called x: give one of them a label, such as new=reno"),
    _cca("label-in-turns", "x=cubic+x=reno", "two variants are called x"),
    _cca("missing-file", "./tcp_nosuch.c", "no such file"),
    _cca("missing-folder", "./nosuch/", "no such file"),
    _cca("missing-variant", "./nosuch.yaml", "no such file"),
    _cca("unknown-home", "~nosuchuser/tcp_mine.c", "no such file|home"),
    _cca("binary-module", "./tcp_mine.ko", "the sources expected", {"tcp_mine.ko": b"\x7fELF"}),
    _cca("object", "./tcp_mine.o", "the sources expected", {"tcp_mine.o": b"\x7fELF"}),
    _cca("a-text-file", "./small.txt", "small.txt", {"small.txt": "hello"}, code=4),
    _cca("empty-folder", "./empty/", "empty", {"empty/readme": "nothing"}, code=4),
    _variant("empty", "", "mine.yaml:1: a mapping of sections expected"),
    _variant("list", "[1]\n", "mine.yaml:1: a mapping of sections expected"),
    _variant("nothing", "title: x\n", "mine.yaml.*kernel_cca.*missing"),
    _variant("unknown-section", "kernel_cca: reno\ncolour: red\n", "mine.yaml:2: .*unknown section"),
    _variant("duplicate", "kernel_cca: reno\nkernel_cca: cubic\n", "mine.yaml:2: .*second time"),
    _variant("name-path", "kernel_cca: ../../x\n", "mine.yaml:1: kernel_cca: "),
    _variant("name-long", f"kernel_cca: {'a' * 40}\n", "mine.yaml:1: kernel_cca: "),
    _variant("name-number", "kernel_cca: 5\n", "mine.yaml:1: kernel_cca: "),
    _variant("name-list", "kernel_cca: [reno]\n", "mine.yaml:1: kernel_cca: "),
    _variant("module-missing", "module: nosuch.c\n", "mine.yaml:1: module: .*does not exist"),
    _variant("module-number", "module: 5\n", "mine.yaml:1: module: "),
    _variant("module-unknown-home", "module: ~nosuchuser/x.c\n", "mine.yaml:1: module: "),
    _variant("sysctls-list", "kernel_cca: reno\nsysctls: [1]\n", "mine.yaml:2: sysctls: "),
    _variant("sysctl-outside", "kernel_cca: reno\nsysctls: {kernel.panic: 1}\n",
             r"mine.yaml:2: sysctls\.kernel\.panic: "),
    _variant("sysctl-path", "kernel_cca: reno\nsysctls: {net.ipv4.../x: 1}\n", r"mine.yaml:2: sysctls"),
    _variant("sysctl-up", "kernel_cca: reno\nsysctls: {net.ipv4.conf...x: 1}\n", r"mine.yaml:2: sysctls"),
    _variant("sysctl-list", "kernel_cca: reno\nsysctls: {net.ipv4.tcp_sack: [1]}\n", r"mine.yaml:2: sysctls\.net"),
    _variant("sysctl-newline", 'kernel_cca: reno\nsysctls: {net.ipv4.tcp_sack: "1\\n2"}\n',
             r"mine.yaml:2: sysctls\.net"),
    _variant("parameter-name", "kernel_cca: reno\nparameters: {'a b': 1}\n", r"mine.yaml:2: parameters\.a b: "),
    _variant("parameter-path", "kernel_cca: reno\nparameters: {'../x': 1}\n", r"mine.yaml:2: parameters"),
    _variant("parameter-value", "kernel_cca: reno\nparameters: {a: 'b c'}\n", r"mine.yaml:2: parameters\.a: "),
    _variant("parameter-shell", "kernel_cca: reno\nparameters: {a: $(id)}\n", r"mine.yaml:2: parameters\.a: "),
    _variant("parameter-unit", "kernel_cca: reno\nparameters: {a: '{bottleneck_parsecs}'}\n",
             r"mine.yaml:2: parameters\.a: "),
    _variant("parameters-word", "kernel_cca: reno\nparameters: many\n", r"mine.yaml:2: parameters: "),
    _variant("later-kernels", "kernel_cca: reno\nlater_kernels: {from: 6.17}\n", r"mine.yaml:2: later_kernels: "),
    Case("option-of-iperf3", [
        "run", "small.yaml", "--no-report", "--cca", "./mine.yaml", "--set", "traffic.tool=iperf3"], 2,
         "traffic.tool: iperf3 opens its sockets itself, and mine sets SO_MAX_PACING_RATE",
         {"small.yaml": SMALL, "mine.yaml": "kernel_cca: reno\nsocket_options: {SO_MAX_PACING_RATE: 8 Mbit/s}\n"}),
    Case("option-in-ns3", ["run", "small.yaml", "--no-report", "--cca", "./mine.yaml", "--engine", "ns3"],
         (3, 4), "engine ns3 cannot set SO_PRIORITY|ns3 is missing|needs",
         {"small.yaml": SMALL, "mine.yaml": "kernel_cca: reno\nsocket_options: {SO_PRIORITY: 3}\n"}),
    _variant("option-shell", "kernel_cca: reno\nsocket_options: {'IPPROTO_TCP 1; id': 1}\n", "no such option"),
    _variant("option-long", f"kernel_cca: reno\nsocket_options: {{{'A' * 100}: 1}}\n", "no such option"),
    _variant("option-value", "kernel_cca: reno\nsocket_options: {IPPROTO_TCP 200: [1]}\n", "a whole number expected"),
    _variant("option-huge", f"kernel_cca: reno\nsocket_options: {{IPPROTO_TCP {'9' * 40}: 1}}\n", "no such option"),
    _variant("bomb", "title: &a [x, x, x, x]\n" + "".join(
        f"k{n}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(12)), "mine.yaml"),
    _variant("nested", "title: " + "[" * 3000 + "]" * 3000 + "\n", "mine.yaml:1: .*nested"),
    _cca("variant-file-name", "./Mine.yaml", "the file's name is the variant's", {"Mine.yaml": "kernel_cca: reno\n"}),
    _cca("variant-file-name-blank", "./my cca.yaml", "the file's name is the variant's",
         {"my cca.yaml": "kernel_cca: reno\n"}),
    _cca("variant-file-name-hidden", "./.yaml", "a .c file or a folder", {".yaml": "kernel_cca: reno\n"}, code=4),
    _cca("variant-not-in-kernel", "./mine.yaml", "no congestion control 'nosuch'",
         {"mine.yaml": "kernel_cca: nosuch\n"}),
    _cca("variant-binary", "./mine.yaml", "mine.yaml", {"mine.yaml": bytes(range(256))}),
]
