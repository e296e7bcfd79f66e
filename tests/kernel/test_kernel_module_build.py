# SPDX-License-Identifier: GPL-2.0-only
"""kernel-modules/: builds without a warning, in kernel style, loads, unloads, and survives losses."""
import re
import subprocess

import pytest
import yaml

import kernel
from kernel import launch
from tests.kernel import module_builds
from tests.kernel.small_runs import small_scenario


@pytest.fixture(scope="module")
def built():
    return kernel.ensure()


@pytest.fixture(scope="module")
def modules(built, tmp_path_factory):
    """{module: .ko} for the default kernel."""
    return module_builds.build(
        tmp_path_factory.mktemp("modules"), KDIR=built.source_dir, O=built.build_dir, ARCH="um"
    )


def test_every_folder_is_built_without_a_warning(modules):
    folders = {path.parent.name for path in module_builds.MODULES.glob("tcp_*/Kbuild")}
    assert set(modules) == folders == set(module_builds.NAMES)


def test_a_warning_is_an_error(built, tmp_path, monkeypatch):
    """The test above is worth something."""
    sources = tmp_path / "sources"
    (sources / "tcp_odd").mkdir(parents=True)
    for name in ("Kbuild", "Makefile"):
        (sources / name).write_text((module_builds.MODULES / name).read_text())
    (sources / "tcp_odd" / "Kbuild").write_text("obj-m := tcp_odd.o\n")
    (sources / "tcp_odd" / "tcp_odd.c").write_text("static int unused;\n")
    monkeypatch.setattr(module_builds, "MODULES", sources)
    with pytest.raises(module_builds.BuildFailed, match=r"tcp_odd\.c:1:.*unused"):
        module_builds.build(tmp_path / "build", KDIR=built.source_dir, O=built.build_dir, ARCH="um")


def test_the_kernels_style_checker_has_no_complaints(built):
    assert module_builds.style(built.source_dir) == []


def test_they_load_and_unload(built, modules, tmp_path):
    registered, log = module_builds.load_and_unload(built, modules.values(), tmp_path)
    assert registered == {module: [[name], []] for module, name in module_builds.NAMES.items()}
    assert not re.search("WARNING|BUG:|Call Trace", log)


def test_clean_leaves_nothing(built, modules):
    folder = modules["tcp_libra"].parents[1]
    subprocess.run(
        ["make", f"KDIR={built.source_dir}", f"O={built.build_dir}", "ARCH=um", "clean"],
        cwd=folder,
        check=True,
        capture_output=True,
    )

    def names(of):
        return {path.relative_to(of) for path in of.rglob("*") if path.is_file()}

    assert names(folder) <= names(module_builds.MODULES)


def test_dkms_knows_every_module():
    """dkms.conf is a shell script that sets variables."""
    done = subprocess.run(
        [
            "bash",
            "-c",
            '. ./dkms.conf; echo "${BUILT_MODULE_NAME[@]}"; echo "${BUILT_MODULE_LOCATION[@]}"; '
            'echo "${#DEST_MODULE_LOCATION[@]}"',
        ],
        cwd=module_builds.MODULES,
        capture_output=True,
        text=True,
        check=True,
    )
    names, locations, destinations = (line.split() for line in done.stdout.splitlines())
    assert sorted(names) == sorted(locations) == sorted(module_builds.NAMES)
    assert destinations == [str(len(names))]


@pytest.mark.parametrize("sack", [0, 1])
@pytest.mark.parametrize("module", sorted(module_builds.NAMES))
def test_losses_at_random_break_no_invariant_of_the_kernel(run_scenario, tmp_path, module, sack):
    """tcp_verify_left_out() and others complain in the log if a module corrupts the counts of packets.

    ACKs are lost, too. With SACK, RACK's and the tail loss probe's timers begin recoveries on their own.
    """
    variant = tmp_path / f"lossy-{module_builds.NAMES[module].replace('_', '-')}.yaml"
    variant.write_text(
        yaml.safe_dump(
            {
                "kernel_cca": module_builds.NAMES[module],
                "module": str(module_builds.MODULES / module),
                "sysctls": {"net.ipv4.tcp_sack": sack},
            }
        )
    )
    amount, flows = 1_500_000, 6
    run = run_scenario(
        small_scenario(
            **{
                "topology.central": {
                    "rate": "20 Mbit/s",
                    "delay": "2 ms",
                    "loss": "3%",
                    "queue": {"kind": "pfifo", "limit": 40},
                },
                "traffic": {"kind": "greedy", "tool": "sockets", "flows": flows, "bytes": f"{amount} B"},
                "timing.test": "60 s",
                "probes.tcp_info": {"interval": "1 s"},
            }
        ),
        cca=str(variant),
    )
    log = (run.folder / "log.txt").read_text()
    assert "loading out-of-tree module" in log  # it is the kernel's log
    assert not re.search("WARNING|BUG:|Call Trace", log)
    samples = run.table("tcp_info")
    assert samples.groupby(["node", "sport", "dport"])["total_retrans"].max().sum() > 100
    received = [
        account["received_bytes"] for account in run.json("raw/guest.json")["accounts"] if account["received_bytes"]
    ]
    assert received == [{str(flow): amount for flow in range(1, flows + 1)}]


GOOD = (module_builds.MODULES.parent / "docs/examples/tcp_mine.c").read_text()


#: with so many words of 8 bytes of its own in each socket
STATE = GOOD.replace("static u32 mine_ssthresh", """struct state { u64 words[%d]; };

static void mine_begin(struct sock *sk)
{
	struct state *s = inet_csk_ca(sk);

	s->words[0] = 1;
}

static u32 mine_ssthresh""").replace("	.ssthresh", "	.init		= mine_begin,\n	.ssthresh")
STATE_LINE = 1 + STATE[:STATE.index("	s->words")].count("\n")
NEW = GOOD.replace("static u32 mine_ssthresh", """
static void mine_main(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
}

static u32 mine_ssthresh""").replace("	.ssthresh", "	.cong_control	= mine_main,\n	.ssthresh")


@pytest.fixture
def cache(built, tmp_path, monkeypatch):
    """A cache of the test's own: what is built is not kept."""
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "modules"


def test_a_file_name_full_of_commands(built, cache, tmp_path):
    (tmp_path / "source").mkdir()
    source = tmp_path / "source" / "tcp_$(shell touch made); `touch made` #'\".c"
    source.write_text(GOOD.replace("* 7 / 10", "* seven / 10"))
    with pytest.raises(kernel.ModuleError) as problem:
        kernel.build_module(built, source, lambda text: None)
    assert f"{source}:8:" in str(problem.value) and "'seven' undeclared" in str(problem.value)
    source.write_text(GOOD)
    module = kernel.build_module(built, source, lambda text: None)
    assert module.congestion_controls == ("mine",) and re.fullmatch("tcp_[a-z_]+", module.name)
    assert module == kernel.build_module(built, source, lambda text: pytest.fail("built again"))
    assert not list(tmp_path.rglob("made")) and [path.name for path in (tmp_path / "source").iterdir()] == [source.name]


@pytest.mark.parametrize("source, words", [
    ('#include "/dev/zero"\n', "the compiler needs more than 3 GB of memory"),
    ("char large[1 << 29] = {1};\n", "the compiler writes files of more than 256 MB"),
    (GOOD.replace('"mine"', '"../../x"'), r"registers a congestion control of the name '../../x': letters"),
    (GOOD.replace("* 7 / 10", "* 0.7"), "a kernel has no floating point"),
    (STATE % 14, f"{{path}}:{STATE_LINE}:10: struct state is larger than the 104 bytes of a congestion control"),
    (NEW.replace("u32 ack, int flag, ", ""), "since Linux 6.10: cong_control takes (struct sock *sk, u32 ack"),
], ids=["endless include", "huge object", "a name that is a path", "floating point", "large state", "an old signature"])
def test_sources_that_go_too_far(built, cache, tmp_path, source, words):
    (tmp_path / "tcp_far.c").write_text(source)
    with pytest.raises(kernel.ModuleError, match=re.escape(words.replace("{path}", str(tmp_path / "tcp_far.c")))):
        kernel.build_module(built, tmp_path / "tcp_far.c", lambda text: None)
    assert [path.name for path in cache.iterdir()] == [".lock"]


def test_compiling_reads_and_changes_nothing_else(built, cache, tmp_path):
    """Commands in a Kbuild file run with the user's rights, but confined (where this kernel has Landlock)."""
    folder = tmp_path / "my cca; x"
    folder.mkdir()
    secret, harm = tmp_path / "secret", tmp_path / "harm"
    secret.write_text("nobody's business\n")
    (folder / "tcp_mine.c").write_text(GOOD)
    commands = f"cat {secret} >&2; touch {harm} {built.source_dir}/harm"
    (folder / "Kbuild").write_text(f"obj-m := tcp_mine.o\n$(shell {commands})\n")
    module = kernel.build_module(built, folder, lambda text: None)
    assert module.congestion_controls == ("mine",)
    if launch.landlock_version():
        assert "nobody's business" not in module.warnings and "cannot touch" in module.warnings
        assert not harm.exists() and not (built.source_dir / "harm").exists()
    else:
        (built.source_dir / "harm").unlink()


def test_state_that_just_fits_and_a_new_signature_are_built(built, cache, tmp_path):
    for number, text in enumerate((STATE % 13, NEW)):
        (tmp_path / f"tcp_{number}.c").write_text(text)
        module = kernel.build_module(built, tmp_path / f"tcp_{number}.c", lambda text: None)
        assert (module.congestion_controls, module.warnings) == (("mine",), "")


def test_a_file_with_headers_beside_it_and_private_ones_of_the_kernel(built, cache, tmp_path):
    source = tmp_path / "tcp_mine.c"
    source.write_text(GOOD.replace("* 7 / 10", "* TENTHS / 10").replace(
        "#include <net/tcp.h>\n", '#include <net/tcp.h>\n#include "tcp_dctcp.h"\n#include "sub/mine.h"\n'))
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/mine.h").write_text("#define TENTHS 7\n")
    first = kernel.build_module(built, source, lambda text: None)
    assert first.congestion_controls == ("mine",)
    (tmp_path / "sub/mine.h").write_text("#define TENTHS 8\n")
    assert kernel.build_module(built, source, lambda text: None).sha256 != first.sha256


def test_names_that_the_kernel_has_are_changed_in_what_is_built(built, cache, tmp_path):
    """An edited copy of one of the kernel's own: a .c file, and a folder; as another module it may have capitals."""
    source = tmp_path / "tcp_cubic.c"
    source.write_text((built.source_dir / "net/ipv4/tcp_cubic.c").read_text())
    said = []
    module = kernel.build_module(built, source, said.append)
    assert (module.name, module.congestion_controls, dict(module.renamed)) == (
        "tcp_cubic_given", ("cubic_2",), {"cubic_2": "cubic"})
    assert said[1:] == ["tcp_cubic.c: the kernel has a congestion control cubic of its own: this one is called cubic_2"]
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "Kbuild").write_text("obj-m := tcp_reno.o tcp_cubic.o\n")
    (folder / "tcp_cubic.c").write_text(GOOD.replace('"mine"', '"Mine"'))
    (folder / "tcp_reno.c").write_text(GOOD.replace('"mine"', 'PREFIX "no"').replace(
        "static u32", '#define PREFIX "re"\nstatic u32', 1))
    module = kernel.build_module(built, folder, said.append)
    assert {part.name: part.congestion_controls for part in module.parts} == {
        "tcp_cubic_given": ("Mine",), "tcp_reno": ("reno_2",)}


def test_a_folder_with_a_module_that_another_needs(built, cache, tmp_path):
    (tmp_path / "Kbuild").write_text("obj-m := tcp_a.o tcp_z.o\n")
    (tmp_path / "tcp_z.c").write_text("""#include <linux/module.h>
int tenths(void);
int tenths(void)
{
	return 7;
}
EXPORT_SYMBOL_GPL(tenths);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("what another module needs");
""")
    (tmp_path / "tcp_a.c").write_text(GOOD.replace("static u32", "int tenths(void);\nstatic u32", 1).replace(
        "* 7 / 10", "* tenths() / 10"))
    module = kernel.build_module(built, tmp_path, lambda text: None)
    assert [(part.name, part.congestion_controls, part.needs) for part in module.parts] == [
        ("tcp_z", (), ()), ("tcp_a", ("mine",), ("tcp_z",))]
    assert kernel.find_module(built.key, module.sha256) == module
