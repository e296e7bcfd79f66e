# SPDX-License-Identifier: GPL-2.0-only
"""`--ns3 PATH`: which ns-3 is found where, and one clear line where there is none."""
import os

import pytest

from testbed import cli, engines
from testbed.core.errors import UsageError
from testbed.engines.ns3 import build, installation

MODULES = ("core", "network", "internet", "traffic-control")


def tree(folder, headers="include/ns3", libraries="lib", name="libns3.43-{}-default.so", version=None, defines=None):
    """Something that looks like an ns-3, as far as it is looked at."""
    (folder / headers).mkdir(parents=True)
    (folder / headers / "core-module.h").write_text("// core\n")
    (folder / libraries).mkdir(parents=True, exist_ok=True)
    for module in MODULES:
        (folder / libraries / name.format(module)).write_bytes(module.encode())
    if version:
        (folder / "VERSION").write_text(version)
    if defines:
        (folder / headers / "version-defines.h").write_text(
            "#define NS3_VERSION_MAJOR {}\n#define NS3_VERSION_MINOR {}\n".format(*defines))
    return folder


@pytest.mark.parametrize("how, version", [
    ({}, (3, 43)),
    ({"headers": "build/include/ns3", "libraries": "build/lib", "name": "libns3.41-{}-debug.so"}, (3, 41)),
    ({"libraries": "lib64", "name": "libns3-dev-{}-optimized.so", "version": "3.45\n"}, (3, 45)),
    ({"libraries": "lib/x86_64-linux-gnu", "name": "libns3-{}.so", "defines": (3, 37)}, (3, 37))])
def test_trees_and_installations(tmp_path, how, version):
    found = installation.find(str(tree(tmp_path / "ns 3,43", **how)))
    assert found.version == version and len(found.libraries) == 4
    assert {file.parent for file in found.libraries} == {tmp_path / "ns 3,43" / how.get("libraries", "lib")}
    assert f"-std=gnu++{20 if version >= (3, 41) else 17}" in found.options
    assert found.options[-1] == str(found.libraries[0].parent)


def test_what_is_in_it_decides_which_it_is(tmp_path):
    """Headers and libraries, and not where it lies."""
    first, same, other = (installation.find(str(tree(tmp_path / name))) for name in ("a", "b", "c"))
    header = other.headers / "core-module.h"
    header.write_text("// another core\n")
    assert first.sha256 == same.sha256 != other.sha256
    assert build.key(first) == build.key(same) != build.key(other)
    assert build.key(first).startswith("ns3-3.43-") and build.key(first).endswith(first.sha256[:12])


def test_symbolic_links_are_followed(tmp_path):
    real = tree(tmp_path / "real")
    (tmp_path / "linked").mkdir()
    for name in ("include", "lib"):
        (tmp_path / "linked" / name).symlink_to(real / name)
    assert installation.find(str(tmp_path / "linked")).sha256 == installation.find(str(real)).sha256


def test_the_systems_own_is_the_same_with_and_without_its_prefix():
    assert build.key(installation.find("/usr")) == build.key(installation.of(None))
    assert engines.load("ns3", {"ns3": "/usr"}).environment()["ns3_path"] == "/usr"
    assert "ns3_path" not in engines.load("ns3").environment()


def without(folder, name):
    next(folder.glob(name)).unlink()
    return folder


@pytest.mark.parametrize("make, message", [
    (lambda folder: folder / "nowhere", "No such file or directory"),
    (lambda folder: os.devnull, "no folder"),
    (lambda folder: folder, r"no headers of ns-3 \(include/ns3/core-module.h\)"),
    (lambda folder: without(tree(folder / "x"), "lib/*network*"), "no libraries of ns-3 .internet, traffic-control, "),
    (lambda folder: tree(folder / "x", name="libns3-{}.txt"), "no libraries of ns-3"),
    (lambda folder: tree(folder / "x", name="libns3-{}.so"), "its version is not told"),
    (lambda folder: f"{folder}/a:b", "a path without : ; "), (lambda folder: "", "a path without"),
    (lambda folder: "a\nb", r"'a\\nb': a path without"), (lambda folder: "$ORIGIN/..", "a path without"),
    (lambda folder: "x" * 5000, "File name too long"), (lambda folder: "a\0b", "a path without")])
def test_what_is_none_gives_one_line(tmp_path, make, message):
    with pytest.raises(UsageError, match=message) as problem:
        installation.find(str(make(tmp_path)))
    assert str(problem.value).startswith("--ns3 ") and "\n" not in str(problem.value) and len(str(problem.value)) < 500


def test_links_in_a_circle_and_pipes(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(UsageError, match="^--ns3 "):
        installation.find(str(tmp_path / "loop"))
    folder = tree(tmp_path / "x")
    (folder / "include" / "ns3" / "core-module.h").unlink()
    os.mkfifo(folder / "include" / "ns3" / "core-module.h")
    with pytest.raises(UsageError, match="no headers"):
        installation.find(str(folder))
    folder = tree(tmp_path / "y")
    os.mkfifo(folder / "include" / "ns3" / "other.h")
    assert len(installation.find(str(folder)).sha256) == 64


@pytest.mark.parametrize("arguments, words", [
    (("--engine", "ns3", "--ns3", "/nowhere"), "--ns3 /nowhere: No such file or directory"),
    (("--ns3", "/usr"), "engine uml has no option --ns3")])
def test_on_the_command_line(capsys, arguments, words):
    assert cli.main(["run", "long-flows", "--quick", *arguments]) == UsageError.exit_code
    assert words in capsys.readouterr().err
