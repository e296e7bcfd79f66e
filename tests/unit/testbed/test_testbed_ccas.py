# SPDX-License-Identifier: GPL-2.0-only
"""What stands behind the names given to --cca."""
import json
import os

import pytest

from kernel import KernelError
from testbed import PROJECT_DIR
from testbed.core.errors import RunFailed, ScenarioError, UsageError
from testbed.runs import campaign
from testbed.scenario import ccas, scenario
from tests.unit.testbed.module_engine import ModuleEngine, module


class Engine(ModuleEngine):
    """Builds any module at once."""

    def __init__(self, registers=("mine",), warnings="", renamed=None):
        self.module = module("tcp_mine", "abc", registers, warnings, renamed)
        self.built = []

    def build_module(self, source, report):
        self.built.append(source)
        if "bad" in source:
            raise KernelError(f"{source} does not build:\ntcp_bad.c:4:1: error: no")
        return self.module

    def find_module(self, sha256):
        return self.module if sha256 == "abc" else None


@pytest.mark.parametrize("name", ccas.names())
def test_every_variant_of_the_project_loads(name):
    variant = ccas.load(ccas.CCA_DIR / f"{name}.yaml")
    assert variant.name == name and variant.title and variant.source and variant.kernel_cca
    json.dumps(variant.record().content())


def test_variants_that_the_studies_need_are_there():
    assert {"tahoe", "reno-classic", "newreno", "sack", "libra", "reno", "cubic", "bbr", "vegas",
            "bic"} <= set(ccas.names())
    newreno, sack = ccas.find("newreno"), ccas.find("sack")
    assert newreno.kernel_cca == sack.kernel_cca == "reno"
    assert (newreno.sysctls["net.ipv4.tcp_sack"], sack.sysctls["net.ipv4.tcp_sack"]) == (0, 1)


@pytest.mark.parametrize("text, names", [
    ("reno", ["reno"]), ("reno,cubic", ["reno", "cubic"]), (" bbr , reno,", ["bbr", "reno"]), ("reno,reno", ["reno"]),
    ("my_cc-2", ["my_cc-2"]), ("libra+bic,reno", ["libra+bic", "reno"])])
def test_lists_of_names(text, names):
    assert [s.name for s in ccas.parse(text)] == names


@pytest.mark.parametrize("text, message", [
    (",", "at least one"), ("Reno", "not a name"), ("a b", "not a name"), ("../etc", "no such file"),
    ("reno;cubic", "not a name"),
    ("x" * 16, "not a name"), ("reno+", "not a name"), ("", "at least one"), (" , ,", "at least one"),
    ("-reno", "not a name"), ("./tcp_none.c", "no such file"), ("tcp_mine.ko", "the sources expected"),
    ("none.yaml", "no such file")])
def test_refused_names(text, message):
    with pytest.raises(UsageError, match=message):
        ccas.parse(text)


def test_a_module_is_named_by_what_it_registers(tmp_path):
    source = tmp_path / "tcp_thing.c"
    source.write_text("")
    subject, = ccas.parse(str(source))
    assert (subject.name, subject.variants[0].kernel_cca) == ("thing", None)
    ready = ccas.make_ready(subject, Engine(), print)
    assert (ready.name, ready.variants[0].kernel_cca, ready.variants[0].module_sha256) == ("mine", "mine", "abc")
    with pytest.raises(RunFailed, match=f"registers a, B: .* --cca a={source},b={source};"):
        ccas.make_ready(subject, Engine(("a", "B")), print)
    assert ccas.make_ready(subject, Engine(("a", "thing")), print).name == "thing"


def test_a_label_that_is_a_name_chooses_what_a_folder_registers(tmp_path):
    (tmp_path / "Makefile").write_text("")
    one, two = (ccas.make_ready(subject, Engine(("one", "Two")), print)
                for subject in ccas.parse(f"one={tmp_path},two={tmp_path}"))
    assert (one.name, one.variants[0].kernel_cca, two.name, two.variants[0].kernel_cca) == ("one", "one", "two", "Two")


def test_a_name_with_capitals_is_written_without_them_in_names_of_runs(tmp_path):
    source = tmp_path / "tcp_x.c"
    source.write_text("")
    ready = ccas.make_ready(ccas.parse(str(source))[0], Engine(("MyCC",)), print)
    assert (ready.name, ready.variants[0].kernel_cca) == ("mycc", "MyCC")
    with pytest.raises(UsageError, match=f"it registers Reno, and reno is another .* such as new={source}"):
        ccas.make_ready(ccas.parse(str(source))[0], Engine(("Reno",)), print)
    assert ccas.make_ready(ccas.parse(f"new={source}")[0], Engine(("Reno",)), print).variants[0].kernel_cca == "Reno"


def test_a_variant_file_may_say_a_name_that_was_taken(tmp_path):
    (tmp_path / "tcp_cubic.c").write_text("")
    (tmp_path / "edited.yaml").write_text("kernel_cca: cubic\nmodule: tcp_cubic.c\n")
    engine = Engine(("cubic_2",), renamed={"cubic_2": "cubic"})
    variant, = ccas.make_ready(ccas.parse(f"{tmp_path}/edited.yaml")[0], engine, print).variants
    assert (variant.name, variant.kernel_cca) == ("edited", "cubic_2")


def test_a_folder_may_have_a_plus_or_stand_beside_another(tmp_path):
    folder = tmp_path / "c++"
    folder.mkdir()
    (folder / "tcp_mine.c").write_text("")
    assert ccas.make_ready(ccas.parse(f"{folder}/tcp_mine.c")[0], Engine(), print).name == "mine"
    engine = Engine()
    ready = ccas.make_ready(ccas.parse(f"{tmp_path}/c++")[0], engine, print)
    assert ready.name == "mine" and engine.built == [str(folder)]


def test_warnings_of_the_compiler_are_shown_and_errors_fail(tmp_path):
    (tmp_path / "tcp_bad.c").write_text("")
    (tmp_path / "tcp_ok.c").write_text("")
    said = []
    ccas.make_ready(ccas.parse(f"{tmp_path}/tcp_ok.c")[0], Engine(warnings="tcp_ok.c:1: warning: hm"), said.append)
    assert said == ["compiler warnings: tcp_ok.c:1: warning: hm"]
    with pytest.raises(RunFailed, match=r"tcp_bad\.c:4:1: error"):
        ccas.make_ready(ccas.parse(f"{tmp_path}/tcp_bad.c")[0], Engine(), print)


def test_what_the_kernel_does_not_have():
    with pytest.raises(UsageError, match="no congestion control 'vegas' in this kernel; there are: .*cubic"):
        ccas.make_ready(ccas.parse("vegas")[0], Engine(), print)


def test_a_variant_file_of_ones_own(tmp_path):
    (tmp_path / "tcp_mine.c").write_text("")
    (tmp_path / "fast-mine.yaml").write_text(
        "module: tcp_mine.c\nkernel_cca: mine\nparameters: {gain: 3, fast: true, rate: '{bottleneck_kbps}'}\n"
        "sysctls: {net.ipv4.tcp_sack: 0}\n")
    engine = Engine()
    ready = ccas.make_ready(ccas.parse(f"{tmp_path}/fast-mine.yaml")[0], engine, print)
    assert ready.name == "fast-mine" and engine.built == [str(tmp_path / "tcp_mine.c")]
    assert ccas.fill_in(ready.variants[0].parameters, lambda: 64_000) == {"gain": "3", "fast": "1", "rate": "64"}
    json.dumps([one.content() for one in ready.record()])


def test_socket_options_are_what_setsockopt_gets(tmp_path):
    (tmp_path / "limited.yaml").write_text(
        "kernel_cca: bbr\nsocket_options: {SO_MAX_PACING_RATE: 20 Mbit/s, TCP_NODELAY: yes, TCP_USER_TIMEOUT: 2 s, "
        "TCP_NOTSENT_LOWAT: 128 kB, IPPROTO_TCP 200: -3}\n")
    options = ccas.load(tmp_path / "limited.yaml").record().socket_options
    assert [(one.name, one.level, one.number, one.value) for one in options] == [
        ("SO_MAX_PACING_RATE", 1, 47, 2_500_000), ("TCP_NODELAY", 6, 1, 1), ("TCP_USER_TIMEOUT", 6, 18, 2000),
        ("TCP_NOTSENT_LOWAT", 6, 25, 128_000), ("IPPROTO_TCP 200", 6, 200, -3)]


@pytest.mark.parametrize("text, line, message", [
    ("title: x\n", 1, "'kernel_cca' is missing"), ("kernel_cca: 7\n", 1, "a name such as"),
    ("kernel_cca: a;b\n", 1, "a name such as"),
    ("kernel_cca: reno\ncolour: red\n", 2, "colour: unknown section"),
    ("kernel_cca: reno\nmodule: nowhere.c\n", 2, "does not exist"),
    ("kernel_cca: reno\nmodule: [1]\n", 2, "the path of a"), ("kernel_cca: reno\nsysctls: 3\n", 2, "a mapping"),
    ("kernel_cca: reno\nsysctls:\n  kernel.panic: 3\n", 3, "only net.ipv4"),
    ("kernel_cca: reno\nsysctls:\n  net.ipv4.tcp_sack: [1]\n", 3, "a number or words"),
    ("kernel_cca: reno\nparameters:\n  a b: 3\n", 3, "not a name"),
    ("kernel_cca: reno\nparameters:\n  gain: '1 init=/bin/sh'\n", 3, "a number, a word"),
    ("kernel_cca: reno\nlater_kernels: {from: 6.17, title: x}\n", 2, "in quotes"),
    ("kernel_cca: reno\nlater_kernels: {from: '6.17'}\n", 2, "in quotes"),
    ("kernel_cca: reno\nparameters:\n  gain: 1.5\n", 3, "a number, a word"), ("- 1\n", 1, "a mapping"),
    ("a: [\n", 2, "expected the node content"),
    ("kernel_cca: reno\nsocket_options: [1]\n", 2, "a mapping"),
    ("kernel_cca: reno\nsocket_options:\n  SO_MAX_PACING: 8 Mbit/s\n", 3, "did you mean SO_MAX_PACING_RATE?"),
    ("kernel_cca: reno\nsocket_options:\n  SO_MAX_PACING_RATE: 20\n", 3, "a value with a unit such as '100 Mbit/s'"),
    ("kernel_cca: reno\nsocket_options:\n  SO_MAX_PACING_RATE: 1 bit/s\n", 3, "at least 8 bit/s"),
    ("kernel_cca: reno\nsocket_options:\n  SO_MAX_PACING_RATE: 40 Gbit/s\n", 3, "must be at most"),
    ("kernel_cca: reno\nsocket_options:\n  TCP_NODELAY: 1\n", 3, "yes or no"),
    ("kernel_cca: reno\nsocket_options:\n  IPPROTO_TCP 200: fast\n", 3, "a whole number"),
    ("kernel_cca: reno\nsocket_options:\n  IPPROTO_TCP 200: 4294967296\n", 3, "must be at most"),
    ("kernel_cca: reno\nsocket_options:\n  IPPROTO_UDP 1: 1\n", 3, "SOL_SOCKET or IPPROTO_TCP expected"),
    ("kernel_cca: reno\nsocket_options:\n  IPPROTO_TCP 13: 1\n", 3, "this is TCP_CONGESTION, which a variant cannot"),
    ("kernel_cca: reno\nsocket_options:\n  IPPROTO_TCP 1: 1\n", 3, "this is TCP_NODELAY: use that name"),
    ("kernel_cca: reno\nsocket_options:\n  IPPROTO_TCP 9999999999: 1\n", 3, "at most 31 bits"),
    ("kernel_cca: reno\nsocket_options:\n  IPPROTO_TCP 200: 1\n  IPPROTO_TCP 0200: 1\n", 4, "is the same option"),
    ("kernel_cca: reno\nsocket_options: {" + ", ".join(f"IPPROTO_TCP {n}: 1" for n in range(200, 209)) + "}\n", 2,
     "at most 8 options"),
])
def test_variant_files_that_make_no_sense(tmp_path, text, line, message):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ScenarioError) as problem:
        ccas.load(path)
    assert str(problem.value).startswith(f"{path}:{line}: ") and message in str(problem.value)


def test_what_a_variant_is_may_depend_on_the_kernel():
    sack = ccas.find("sack")
    assert sack.on_kernel("6.12.117-testbed").title.startswith("SACK: ") and sack.on_kernel("6.1.0").title == sack.title
    for release in ("6.17.0-testbed", "7.3.4", "6.100-rc1"):
        assert sack.on_kernel(release).title.startswith("SACK+RACK")


def test_a_variant_file_is_named_as_the_variant(tmp_path):
    (tmp_path / "My File.yaml").write_text("kernel_cca: reno\n")
    with pytest.raises(ScenarioError, match="the file's name is the variant's"):
        ccas.load(tmp_path / "My File.yaml")


def test_modules_of_the_project_are_found_from_its_folder():
    assert ccas.find("libra").module == str(PROJECT_DIR / "kernel-modules/tcp_libra")


# -- several in one run --------------------------------------------------------------------

def test_one_module_cannot_have_two_sets_of_parameters(tmp_path):
    for gain in (1, 2):
        (tmp_path / f"mine-{gain}.yaml").write_text(f"kernel_cca: cubic\nparameters: {{gain: {gain}}}\n")
    with pytest.raises(UsageError, match="two sets of parameters"):
        ccas.make_ready(ccas.parse(f"{tmp_path}/mine-1.yaml+{tmp_path}/mine-2.yaml")[0], Engine(), print)


def test_variants_of_one_subject_have_names_of_their_own(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.yaml").write_text("kernel_cca: reno\n")
    with pytest.raises(UsageError, match="two variants are called mine"):
        ccas.make_ready(ccas.parse(f"{tmp_path}/a/mine.yaml+{tmp_path}/b/mine.yaml")[0], Engine(), print)


@pytest.mark.parametrize("name", ["../../../zz", "-mine", "a b", "\x1b[2Jmine", "x" * 16, ""])
def test_a_module_that_registers_no_proper_name_is_refused(tmp_path, name):
    (tmp_path / "tcp_mine.c").write_text("")
    with pytest.raises(RunFailed, match="a name of at most 15 letters, digits") as problem:
        ccas.make_ready(ccas.parse(f"{tmp_path}/tcp_mine.c")[0], Engine((name,)), print)
    assert str(problem.value).isprintable()


def test_files_of_any_name_are_modules_with_a_proper_name(tmp_path):
    for file, name in (("tcp_$(x) y.c", "--x--y"), ("tcp_Mine.c", "mine"), ("__x.c", "x"), ("tcp_-.c", "module")):
        (tmp_path / file).write_text("")
        variant = ccas.find(f"{tmp_path}/{file}")
        assert variant.name == name.lstrip("-") and variant.module == f"{tmp_path}/{file}"


def test_what_is_there_and_no_file(tmp_path):
    pipe = tmp_path / "tcp_pipe.c"
    os.mkfifo(pipe)
    for path in ("/dev/null", str(pipe)):
        with pytest.raises(UsageError, match=f"--cca {path}: neither a regular file nor a folder"):
            ccas.parse(path)


# -- what a scenario says of hosts ---------------------------------------------------------

HOSTS = {"ecn": 0, "sack": 1, "slow_start_after_idle": True, "sysctls": {}}


@pytest.mark.parametrize("name, hosts, given, field", [
    ("dctcp", {}, {"ecn": 0}, "ecn"), ("newreno", {}, {"sack": 1}, "sack"), ("dctcp", {"ecn": 2}, {"ecn": 2}, "ecn"),
    ("dctcp", {"sysctls": {"net.ipv4.tcp_ecn": "2"}}, {}, "sysctls.net.ipv4.tcp_ecn"),
    ("dctcp", {}, {}, None), ("dctcp", {"ecn": 1}, {"ecn": 1}, None), ("cubic", {}, {"ecn": 0}, None),
    ("sack", {}, {"sack": 1}, None), ("dctcp", {"sysctls": {"net.ipv4.tcp_ecn": " 1 "}}, {"sysctls": {}}, None)])
def test_what_a_scenario_says_of_hosts_is_not_overridden_without_a_word(name, hosts, given, field):
    wrong = ccas.contradiction(ccas.find(name), {**HOSTS, **hosts}, given)
    assert (wrong and wrong[0]) == field
    assert wrong is None or f"contradicts {name}, of which net.ipv4.tcp_" in wrong[1]


def test_a_contradiction_is_told_with_file_line_and_field(tmp_path):
    (tmp_path / "small.yaml").write_text((PROJECT_DIR / "scenarios/everything.yaml").read_text().replace(
        "hosts: {ecn: 1}", "hosts: {ecn: 0}"))
    loaded = scenario.load(str(tmp_path / "small.yaml"), {}, False, [])
    with pytest.raises(ScenarioError, match=r"small\.yaml:\d+: hosts\.ecn: 0 contradicts dctcp"):
        campaign._check_hosts(loaded, [ccas.find("cubic"), ccas.find("dctcp")])
    campaign._check_hosts(loaded, [ccas.find("cubic")])


def test_a_module_that_needs_marks(tmp_path):
    source = tmp_path / "tcp_mine.c"
    source.write_text("")
    engine = Engine()
    engine.module.file = tmp_path / "tcp_mine.ko"
    assert not ccas.make_ready(ccas.parse(str(source))[0], engine, print).variants[0].needs_ecn
    source.write_text(".flags = TCP_CONG_NEEDS_ECN,")
    assert ccas.make_ready(ccas.parse(str(source))[0], engine, print).variants[0].needs_ecn
