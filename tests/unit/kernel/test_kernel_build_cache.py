# SPDX-License-Identifier: GPL-2.0-only
"""Building: configuration, cache, what a build is known by. Toy trees and fake compilers, no kernel."""
import functools
import json
import os
import tarfile

import pytest

from kernel import build, configuration, make, patching, source
from kernel.source import KernelError
from tests.unit.kernel.toy_patch import NEW_FILE, ORIGINAL, PATCH, PATCHED, add_patch


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A kernel/ folder of the test's own: its configuration and patches."""
    folder = tmp_path / "kernel"
    add_patch(folder / "patches", "0001-needed.patch")
    (folder / "uml.config").write_text("CONFIG_NET=y\n")
    monkeypatch.setattr(patching, "FOLDER", folder / "patches")
    monkeypatch.setattr(configuration, "CONFIG", folder / "uml.config")
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "linux"
    (folder / "net").mkdir(parents=True)
    (folder / "Kbuild").write_text("")
    (folder / "Makefile").write_text("VERSION = 6\nPATCHLEVEL = 99\n")
    (folder / "net" / "tcp.c").write_text(ORIGINAL)
    return folder


@pytest.fixture
def tarball(tree, tmp_path):
    with tarfile.open(tmp_path / "linux.tar", "w") as archive:
        archive.add(tree, "linux-6.99")
    return tmp_path / "linux.tar"


def program(folder):
    (folder / "linux").write_text("#!/bin/sh\n")
    (folder / "linux").chmod(0o755)


def compiler(folder, monkeypatch, version):
    folder.mkdir(exist_ok=True)
    (folder / "gcc").write_text(f"#!/bin/sh\necho {version}\n")
    (folder / "gcc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_a_build_is_known_by_source_configuration_patches_and_compiler(here, tmp_path, monkeypatch):
    compiler(tmp_path / "gcc12", monkeypatch, "12.2.0")
    key = functools.partial(build.build_dir, str(tmp_path))
    keys = [key("tree-1")]
    assert key("tree-1") == keys[0] and keys[0].parent == tmp_path / "cache" / "kernels"
    keys.append(key("tree-2"))
    (here / "uml.config").write_text("CONFIG_NET=y\nCONFIG_INET=y\n")
    keys.append(key("tree-1"))
    (here / "patches" / "0001-needed.patch").write_text(PATCH + "\n")
    keys.append(key("tree-1"))
    add_patch(here / "patches", "speed/0001-fast.patch")
    keys.append(key("tree-1"))
    compiler(tmp_path / "gcc14", monkeypatch, "14.1.0")
    keys.append(key("tree-1"))
    assert key("tree-1", 1000) == keys[-1]
    keys += [key("tree-1", 250), key("tree-1", 100)]
    assert len(set(keys)) == len(keys)
    assert all(k.name.startswith(("tree-1-", "tree-2-")) for k in keys)


def test_without_a_compiler_a_build_is_whichever_is_there(here, tmp_path, monkeypatch):
    """The one of the newest compiler, of the same configuration: others are others."""
    path, keys = os.environ["PATH"], {}
    for version, number in (("9.3.0", 90300), ("14.1.0", 140100), ("12.2.0", 120200)):
        compiler(tmp_path / f"gcc{number}", monkeypatch, version)
        for hz in (1000, 250):
            keys[number, hz] = build.build_dir(str(tmp_path), "tree-1", hz)
        keys[number, "other"] = build.build_dir(str(tmp_path), "tree-10")
    assert len(set(keys.values())) == 9

    def built(number, what):
        keys[number, what].mkdir(parents=True)
        (keys[number, what] / ".config").write_text(f"CONFIG_CC_IS_GCC=y\nCONFIG_GCC_VERSION={number}\nCONFIG_NET=y\n")
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    built(140100, "other")
    assert build.build_dir(str(tmp_path), "tree-1") not in keys.values()
    built(90300, 1000)
    built(120200, 1000)
    built(140100, 250)
    assert build.build_dir(str(tmp_path), "tree-1") == keys[120200, 1000]
    assert build.build_dir(str(tmp_path), "tree-1", 250) == keys[140100, 250]
    (here / "uml.config").write_text("CONFIG_NET=y\nCONFIG_INET=y\n")
    assert build.build_dir(str(tmp_path), "tree-1") not in keys.values()
    # with a compiler, only its own
    (here / "uml.config").write_text("CONFIG_NET=y\n")
    monkeypatch.setenv("PATH", f"{tmp_path}/gcc140100:{path}")
    assert build.build_dir(str(tmp_path), "tree-1") == keys[140100, 1000]


@pytest.mark.parametrize(
    "config, refused, left_out",
    [
        ("CONFIG_NET=y\nCONFIG_INET=y\nCONFIG_HZ=1000\n", None, None),
        ("CONFIG_NET=y\n# CONFIG_INET is not set\n", "CONFIG_INET=y", None),
        ("CONFIG_NET=m\nCONFIG_INET=y\n", "CONFIG_NET=y", None),
        ("CONFIG_NET=y\n", None, "CONFIG_INET"),  # this kernel has no such symbol at all
        ("CONFIG_NET=y\nCONFIG_INET_DIAG=y\n", None, "CONFIG_INET"),
        ("CONFIG_NET=y\nCONFIG_INET=y\nCONFIG_HZ=100\n", None, None),
    ],
)
def test_options_that_the_kernel_refuses_or_does_not_know(here, tmp_path, config, refused, left_out):
    (here / "uml.config").write_text("# a comment\nCONFIG_NET=y\nCONFIG_INET=y\nCONFIG_HZ=1000\n")
    (tmp_path / ".config").write_text(config)
    said = []
    if refused:
        with pytest.raises(KernelError, match=f"this kernel refuses {refused}$"):
            configuration.check(tmp_path / ".config", [], said.append)
    else:
        configuration.check(tmp_path / ".config", [], said.append)
    assert said == ([f"this kernel has no {left_out}: built without"] if left_out else [])


def test_a_finished_build_is_found_and_not_made_again(here, tree, tmp_path, monkeypatch):
    monkeypatch.setattr(make, "_build", lambda *_: pytest.fail("built again"))
    assert build.find(str(tree)) is None and build.find("/nonexistent") is None
    folder = build.build_dir(str(tree), source.identify(str(tree))[1])
    folder.mkdir(parents=True)
    assert build.find(str(tree)) is None, "a build that was interrupted"
    whole = json.dumps(
        {
            "release": "6.99",
            "congestion_controls": ["bbr", "reno"],
            "config_sha256": "ab",
            "source_dir": "/src",
            "features": ["seccomp"],
        }
    )
    (folder / "testbed.json").write_text(whole)
    assert build.find(str(tree)) is None, "a build whose program has gone"
    program(folder)
    for damaged in ("", whole[:-20], "[]", "null", "{}", whole.replace('"6.99"', "6.99"), "\0"):
        (folder / "testbed.json").write_text(damaged)
        assert build.find(str(tree)) is None, damaged
    (folder / "testbed.json").write_text(whole)
    (folder / "Makefile").write_text("all:\n")
    found = build.find(str(tree))
    assert found == build.ensure(str(tree))
    assert (found.program, found.release, found.key) == (folder / "linux", "6.99", folder.name)
    assert found.congestion_controls == ("bbr", "reno") and found.features == {"seccomp"}


def test_patches_for_other_versions_do_not_make_anybody_build_again(here, tmp_path, monkeypatch):
    compiler(tmp_path / "gcc12", monkeypatch, "12.2.0")
    before = {version: build.build_dir(version, f"debian-{version}") for version in ("6.1", "6.12", "7.2")}
    add_patch(here / "patches", "speed/0001-fast.patch", versions="-6.2")
    after = {version: build.build_dir(version, f"debian-{version}") for version in before}
    assert {version for version in before if before[version] != after[version]} == {"6.1"}


def test_another_number_of_ticks_stands_before_the_trees_own(here, tmp_path):
    """The first default of an option counts, and mainmenu has to come first."""
    (tmp_path / "Kconfig").write_text('# a comment\nmainmenu "Linux/$(ARCH)"\nsource "scripts/Kconfig.include"\n')
    assert make._kconfig(tmp_path, tmp_path, 250).read_text() == (
        '# a comment\nmainmenu "Linux/$(ARCH)"\n\nconfig HZ\n\tint\n\tdefault 250\n'
        'source "scripts/Kconfig.include"\n')


def test_kernels_with_other_ticks_are_other_kernels(here, tree):
    identity = source.identify(str(tree))[1]
    facts = {"release": "6.99", "congestion_controls": ["reno"], "config_sha256": "ab", "source_dir": "/src",
             "features": []}
    for hz, more in ((1000, {}), (250, {"hz": 250})):
        folder = build.build_dir(str(tree), identity, hz)
        folder.mkdir(parents=True)
        program(folder)
        (folder / "testbed.json").write_text(json.dumps({**facts, **more}))
    assert (build.find(str(tree)).hz, build.find(str(tree), 250).hz, build.find(str(tree), 300)) == (1000, 250, None)


@pytest.mark.parametrize("words, config, features", [
    ("seccomp=<on/auto/off>\n    Configure whether", "", ["seccomp"]), ("mem=<Amount>\n", "", []),
    ("mem=<Amount>\n", "CONFIG_NET_SCH_DUALPI2=y\n", ["dualpi2"]),
    ("mem=<Amount>\n", "# CONFIG_NET_SCH_DUALPI2 is not set\n", [])])
def test_what_a_kernel_can_do_is_read_from_its_options_and_its_configuration(tmp_path, words, config, features):
    (tmp_path / "linux").write_text(f"#!/bin/sh\nprintf '{words}'\nexit 1\n")
    (tmp_path / "linux").chmod(0o755)
    (tmp_path / ".config").write_text(config)
    assert make._features(tmp_path) == features


def test_a_source_is_patched_once_and_built_in_a_folder_of_its_own(here, tree, tarball, tmp_path, monkeypatch):
    built = []

    def describe(source_dir, build_dir, hz, options):
        (build_dir / "testbed.json").write_text(
            json.dumps(
                {
                    "release": "6.99",
                    "congestion_controls": ["reno"],
                    "config_sha256": "ab",
                    "source_dir": str(source_dir),
                    "features": [],
                }
            )
        )
        program(build_dir)

    monkeypatch.setattr(
        make,
        "_build",
        lambda source_dir, build_dir, *_: built.append((source_dir, build_dir)),
    )
    monkeypatch.setattr(make, "_describe", describe)
    monkeypatch.setattr(source, "missing_tools", lambda: [])
    made = build.ensure(str(tarball), lambda text: None)
    ((source_dir, build_dir),) = built
    assert (source_dir / "net" / "tcp.c").read_text() == PATCHED and (tree / "net" / "tcp.c").read_text() == ORIGINAL
    assert (
        made.source_dir == source_dir
        and source_dir.parent == tmp_path / "cache" / "sources"
        and build_dir == made.build_dir
    )
    build.ensure(str(tarball))
    (here / "uml.config").write_text("CONFIG_NET=y\nCONFIG_INET=y\n")
    monkeypatch.setattr(source, "fetch", lambda *_: pytest.fail("fetched again"))
    build.ensure(str(tarball), lambda text: None)
    assert len(built) == 2 and built[1][0] == source_dir and built[1][1] != build_dir


def test_a_stock_kernel_is_built_from_a_source_of_its_own(here, tarball, monkeypatch):
    built = []
    add_patch(here / "patches", "speed/0001-fast.patch", NEW_FILE)
    monkeypatch.setattr(make, "build_once", lambda source_dir, *_: built.append(source_dir))
    monkeypatch.setattr(source, "missing_tools", lambda: [])
    for options in ((), ("stock",)):
        with pytest.raises(KernelError, match="what was built has gone"):
            build.ensure(str(tarball), lambda text: None, options=options)
    fast, stock = built
    assert (fast / "net" / "fast.c").exists() and not (stock / "net" / "fast.c").exists()
    assert (stock / "net" / "tcp.c").read_text() == PATCHED


def test_a_refused_patch_leaves_no_source_behind(here, tree, tmp_path, monkeypatch):
    (tree / "net" / "tcp.c").write_text("something else\n")
    with tarfile.open(tmp_path / "linux.tar", "w") as archive:
        archive.add(tree, "linux-6.99")
    monkeypatch.setattr(source, "missing_tools", lambda: [])
    for _ in range(2):
        with pytest.raises(KernelError, match="does not apply"):
            build.ensure(str(tmp_path / "linux.tar"), lambda text: None)
    assert list((tmp_path / "cache" / "sources").iterdir()) == []


def test_a_cache_whose_path_make_cannot_take(here, tree, tmp_path, monkeypatch):
    monkeypatch.setattr(source, "missing_tools", lambda: [])
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path / "my cache"))
    with pytest.raises(
        KernelError, match="my cache: kernels are not built in folders with spaces.* set TESTBED_CACHE"
    ):
        build.ensure(str(tree), lambda text: None)


def test_missing_tools_are_named_before_anything_is_done(here, tree, tmp_path, monkeypatch):
    monkeypatch.setattr(source, "missing_tools", lambda: [("flex", "flex"), ("xz", "xz-utils")])
    with pytest.raises(KernelError, match="first: apt-get install flex xz-utils"):
        build.ensure(str(tree), lambda text: None)
    assert not (tmp_path / "cache").exists()
