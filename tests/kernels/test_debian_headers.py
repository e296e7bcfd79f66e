# SPDX-License-Identifier: GPL-2.0-only
"""Our modules build against the headers of Debian's own kernel, as on somebody's machine.

The packages are unpacked into a temporary folder, not installed.
"""
import pathlib
import re
import shutil
import subprocess

import pytest

PROJECT = pathlib.Path(__file__).parents[2]
MODULES = sorted(path.parent for path in (PROJECT / "kernel-modules").glob("tcp_*/Kbuild"))


def _depends(package):
    shown = subprocess.run(["apt-cache", "depends", package], capture_output=True, text=True, check=True).stdout
    return re.findall(r"Depends: (linux-\S+)", shown)


@pytest.fixture(scope="module")
def headers(tmp_path_factory):
    """What a user has in /usr/src, elsewhere: the folder that KDIR names."""
    folder = tmp_path_factory.mktemp("headers")
    (package,) = _depends("linux-headers-amd64")
    done = subprocess.run(
        ["apt-get", "-q", "download", package, *_depends(package)], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for deb in folder.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", deb, folder / "root"], check=True)
    found = folder / "root" / "usr" / "src" / package
    # symbolic links in these packages are relative, this one path is not
    makefile = found / "Makefile"
    makefile.write_text(makefile.read_text().replace("include /usr/src/", f"include {folder}/root/usr/src/"))
    compiler = re.search(r"gcc-\d+", (found / ".kernelvariables").read_text()).group()
    assert shutil.which(compiler), f"{package} wants {compiler}"
    return found


@pytest.mark.parametrize("module", MODULES, ids=lambda folder: folder.name)
def test_a_module_builds_without_warnings(headers, tmp_path, module):
    shutil.copytree(module, tmp_path / module.name)
    done = subprocess.run(
        ["make", "-C", headers, f"M={tmp_path / module.name}", "modules"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    # modules of a kernel that is not installed: there is no vmlinux to make type information from
    said = [line for line in done.stderr.splitlines() if "unavailability of vmlinux" not in line]
    assert not [line for line in said if "warning" in line.lower()], done.stderr
    (built,) = (tmp_path / module.name).glob("*.ko")
    shown = (
        subprocess.run(["modinfo", "-F", "vermagic", built], capture_output=True, text=True)
        if shutil.which("modinfo")
        else None
    )
    assert shown is None or headers.name.removeprefix("linux-headers-") in shown.stdout


def test_all_of_them_build_in_one_go(headers, tmp_path):
    """As `make KDIR=...` in kernel-modules/ does it."""
    assert MODULES
    shutil.copytree(PROJECT / "kernel-modules", tmp_path / "modules")
    done = subprocess.run(["make", f"KDIR={headers}"], cwd=tmp_path / "modules", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "modules").rglob("*.ko"))) == len(MODULES)
