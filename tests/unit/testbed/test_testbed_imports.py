# SPDX-License-Identifier: GPL-2.0-only
"""What sources import, and what is remembered of it."""
import ast
import json
import subprocess
import sys

import pytest

from testbed import PROJECT_DIR
from testbed.core import imports


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """The file of what is remembered."""
    monkeypatch.setattr(imports, "_folder", lambda: tmp_path / "cache")
    again()
    return tmp_path / "cache" / "imports.json"


def again():
    """As the next command finds it."""
    imports._memory_in.cache_clear()


@pytest.mark.parametrize("source, found", [
    ("import a, b.c as d", {"a", "b.c"}),
    ("from a.b import c, d", {"a.b", "a.b.c", "a.b.d"}),
    ("from . import c", {"x.y", "x.y.c"}),
    ("from .c import d", {"x.y.c", "x.y.c.d"}),
    ("from .. import c", {"x", "x.c"}),
    ("from __future__ import annotations", {"__future__", "__future__.annotations"}),
    ("def f():\n  if 1:\n    import a\n  else:\n    import b", {"a", "b"}),
    ("try:\n  import a\nexcept E:\n  import b\nelse:\n  import c\nfinally:\n  import d", {"a", "b", "c", "d"}),
    ("try:\n  import a\nexcept* E:\n  import b", {"a", "b"}),
    ("class C:\n  async def f(self):\n    async with x:\n      import a", {"a"}),
    ("async def f():\n  async for _ in x:\n    import b", {"b"}),
    ("match x:\n  case 1:\n    import a\n  case _:\n    import b", {"a", "b"}),
    ("while 1:\n  import a", {"a"}),
    ("'''import a'''\n# import b\n", set()),
    ("import a\nthis is no Python", set()),
    ("import a\0", set()),
])
def test_modules_of(source, found, cache):
    assert imports.modules_of(source.encode(), ["x", "y"]) == found
    imports.save()
    again()
    assert imports.modules_of(source.encode(), ["x", "y"]) == found
    assert cache.exists() == (not any(wrong in source for wrong in ("no Python", "\0")))   # another Python may know it


def test_of_all_our_own_files_it_is_what_their_trees_say():
    for path in [*PROJECT_DIR.glob("testbed/**/*.py"), *PROJECT_DIR.glob("traffic/**/*.py")]:
        package = path.relative_to(PROJECT_DIR).parts[:-1]
        wanted = set()
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                wanted |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                above = package[:len(package) - node.level + 1] if node.level else ()
                base = ".".join([*above, *filter(None, [node.module])])
                wanted |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
        assert imports.modules_of(path.read_bytes(), package) == wanted, path


def test_what_is_remembered_is_not_parsed_again(cache, monkeypatch):
    assert imports.modules_of(b"import a", []) == {"a"}
    imports.save()
    again()
    monkeypatch.setattr(imports.ast, "parse", lambda source: pytest.fail("parsed"))
    assert imports.modules_of(b"import a", []) == {"a"}
    before = cache.stat().st_mtime_ns
    imports.save()
    assert cache.stat().st_mtime_ns == before       # nothing new


@pytest.mark.parametrize("known", [
    "", "[]", "null", "[" * 100_000, '{"KEY": 1}', '{"KEY": [[0]]}', '{"KEY": [[0, 1, []]]}',
    '{"KEY": [["0", "b", []]]}', '{"KEY": [[-1, "b", []]]}',
    '{"KEY": [[99, "b", []]]}', '{"KEY": [[0, "../b", []]]}', '{"KEY": [[0, "b\\u0000", []]]}',
    '{"KEY": [[0, "%s", []]]}' % ("b" * 5000), '{"KEY": [[0, "b", [1]]]}'])
def test_a_damaged_memory_is_none(cache, known):
    cache.parent.mkdir()
    cache.write_text(known.replace("KEY", f"{imports.hashlib.sha256(b'import a').hexdigest()} {imports._PYTHON}"))
    again()
    assert imports.modules_of(b"import a", []) == {"a"}


def test_what_cannot_be_kept_costs_time_only(tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("no folder")
    again()
    assert imports.modules_of(b"import a", []) == {"a"}
    imports.save()

    def nobody():
        raise RuntimeError("no home")
    monkeypatch.setattr(imports, "_folder", nobody)
    again()
    assert imports.modules_of(b"import b", []) == {"b"}
    imports.save()
    again()


def test_of_too_many_sources_only_those_of_now_are_kept(cache, monkeypatch):
    monkeypatch.setattr(imports, "_MOST", 3)
    for name in "abc":
        imports.modules_of(f"import {name}".encode(), [])
    imports.save()
    again()
    imports.modules_of(b"import d", [])
    imports.save()
    assert len(json.loads(cache.read_text())) == 1


def test_files_of(tmp_path):
    for name in ("a/__init__.py", "a/b/__init__.py", "a/b/c.py", "a/c.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert list(imports.files_of("a.b.c", tmp_path)) == ["a/__init__.py", "a/b/__init__.py", "a/b/c.py"]
    assert list(imports.files_of("a.c", tmp_path)) == ["a/__init__.py", "a/c.py"]
    assert list(imports.files_of("other", tmp_path)) == list(imports.files_of("", tmp_path)) == []


def test_what_judges_and_measures_loads_no_scipy():
    """It takes 60 ms, and nothing that is measured of one run needs it."""
    code = "import sys; from testbed.runs import run; run.warm_up(); " \
           "print('pandas' in sys.modules, [name for name in sys.modules if name.startswith('scipy')])"
    found = subprocess.run([sys.executable, "-c", code], cwd=PROJECT_DIR, capture_output=True, text=True, check=True)
    assert found.stdout == "True []\n"
