# SPDX-License-Identifier: GPL-2.0-only
"""Programs that start from an image do what they do when their modules are found one by one."""
import marshal
import os
import pathlib
import subprocess
import sys

import pytest

from testbed.guest.programs import _python
from testbed.runs import code_bundle

_PROGRAM = '''
import json
import sys
from traffic import helper
if __name__ == "__main__":
    print(json.dumps([sys.argv[1:], helper.WHERE, __file__, __package__, __spec__.name, __name__]))
'''


@pytest.fixture
def code(tmp_path):
    """A bundle of a program and a module that it imports, with its image."""
    folder = tmp_path / "code"
    (folder / "traffic").mkdir(parents=True)
    (folder / "testbed/guest").mkdir(parents=True)
    start = pathlib.Path(code_bundle.PROJECT_DIR, "testbed/guest/start.py")
    (folder / "testbed/guest/start.py").write_bytes(start.read_bytes())
    (folder / "traffic/__init__.py").write_text("")
    (folder / "traffic/helper.py").write_text("WHERE = __file__\n")
    (folder / "traffic/program.py").write_text(_PROGRAM)
    code_bundle._make_images(folder)
    return folder


def start(code, *arguments):
    """What a program says."""
    done = subprocess.run([*_python("traffic.program", str(code)), *arguments], capture_output=True, text=True,
                          env={"PYTHONPATH": str(code), "PYTHONHASHSEED": "0"}, cwd="/", check=False)
    assert not done.returncode, done.stderr
    return done.stdout.strip()


def test_an_image_has_what_the_program_imports_and_nothing_of_its_maker(code):
    version, modules = marshal.loads((code / "images/traffic.program").read_bytes())
    assert version == sys.version
    assert {"traffic", "traffic.helper", "traffic.program", "json", "json.decoder", "re"} <= set(modules)
    assert not {"subprocess", "pathlib", "sysconfig", "os", "encodings"} & set(modules)
    assert modules["traffic.helper"][:2] == ("traffic/helper.py", None)
    assert modules["traffic"][:2] == ("traffic/__init__.py", "traffic")
    assert modules["json"][0].startswith("/usr/")
    assert not (code / "images/traffic.helper").exists()


def test_it_is_started_from_its_image_and_as_usual_without(code):
    said = '[["a", "b c"], "{0}/traffic/helper.py", "{0}/traffic/program.py", "traffic", "traffic.program", "__main__"]'
    assert "start.py" in " ".join(_python("traffic.program", str(code)))
    assert start(code, "a", "b c") == said.format(code)
    os.unlink(code / "images/traffic.program")
    assert "-m" in _python("traffic.program", str(code))
    assert start(code, "a", "b c") == said.format(code)


def test_process_1_of_a_guest_has_an_image_without_what_debian_may_change():
    pytest.importorskip("mininet")
    version, modules = marshal.loads((code_bundle.ensure() / code_bundle.IMAGES / code_bundle.PROCESS_1).read_bytes())
    assert version == sys.version
    assert {"testbed.guest.main", "topologies.linux.network", "testbed.probes.tcp_info", "subprocess",
            "json"} <= set(modules)
    assert not any(name.partition(".")[0] in ("mininet", "pexpect", "ptyprocess") for name in modules)


def test_an_image_of_another_python_is_not_used(code):
    _, modules = marshal.loads((code / "images/traffic.program").read_bytes())
    (code / "images/traffic.program").write_bytes(marshal.dumps(("4.0", modules)))
    assert f"{code}/traffic/helper.py" in start(code)


def test_what_is_not_in_an_image_is_found_as_usual(code):
    (code / "traffic/program.py").write_text(_PROGRAM.replace("import json\n", "import json\nimport later\n"))
    (code / "later.py").write_text("")
    (code / "images/traffic.program").unlink()
    (code / "images").rmdir()
    code_bundle._make_images(code)
    version, modules = marshal.loads((code / "images/traffic.program").read_bytes())
    del modules["later"], modules["json"]
    (code / "images/traffic.program").write_bytes(marshal.dumps((version, modules)))
    assert start(code).endswith('"__main__"]')


def test_modules_of_a_package_in_the_image_are_found_beside_it_wherever_that_is(code, tmp_path):
    """One that is imported later and is not in the image; what a program names in ALSO is."""
    program = _PROGRAM.replace("    print(", "    from traffic.sub import lazy, named\n"
                               "    print(lazy.HERE, named.HERE, ")
    (code / "traffic/sub").mkdir()
    for name in ("__init__", "lazy", "named"):
        (code / f"traffic/sub/{name}.py").write_text("HERE = __name__\n")
    (code / "traffic/program.py").write_text("import traffic.sub\nALSO = ('traffic.sub.named',)\n" + program)
    (code / "images/traffic.program").unlink()
    (code / "images").rmdir()
    code_bundle._make_images(code)
    _, modules = marshal.loads((code / "images/traffic.program").read_bytes())
    assert "traffic.sub.named" in modules and "traffic.sub" in modules and "traffic.sub.lazy" not in modules
    elsewhere = code.rename(tmp_path / "elsewhere")
    assert start(elsewhere).startswith("traffic.sub.lazy traffic.sub.named ")


def test_it_is_the_same_each_time(code, tmp_path):
    first = (code / "images/traffic.program").read_bytes()
    (code / "images/traffic.program").unlink()
    (code / "images").rmdir()
    code_bundle._make_images(code)
    assert (code / "images/traffic.program").read_bytes() == first
