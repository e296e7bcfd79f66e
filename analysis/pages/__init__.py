# SPDX-License-Identifier: GPL-2.0-only
"""Folders with a page in them: templates, and how a new page takes the place of an old one."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import importlib
import os
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import jinja2

from analysis.read.runs import AnalysisError
from testbed.core import files
from testbed.core.errors import EnvironmentProblem

#: a larger picture is put into a page as its PNG
MOST_SVG_BYTES = 400_000
_DIGEST = hashlib.sha256().digest_size
TEMPLATES = Path(__file__).parent / "templates"


def templates() -> jinja2.Environment:
    """The templates of pages; everything that is put into them is escaped."""
    return jinja2.Environment(loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True,
                              lstrip_blocks=True, undefined=jinja2.StrictUndefined, bytecode_cache=_compiled())


class _Kept(jinja2.BytecodeCache):      # type: ignore[misc]
    """Compiled templates, which jinja2 knows by the hash of their text; where they cannot be kept they are not.

    Before each file's content is its SHA-256: unmarshalling a damaged one may raise anything, or run another program.
    """

    def __init__(self, folder: Path, made_by: str) -> None:
        self._folder, self._made_by = folder, made_by

    def load_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        with contextlib.suppress(OSError):
            kept = self._file(bucket).read_bytes()
            if hashlib.sha256(kept[_DIGEST:]).digest() == kept[:_DIGEST]:
                bucket.bytecode_from_string(kept[_DIGEST:])

    def dump_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        code = bucket.bytecode_to_string()
        with contextlib.suppress(OSError):
            files.write_bytes(self._file(bucket), hashlib.sha256(code).digest() + code)

    def _file(self, bucket: jinja2.bccache.Bucket) -> Path:
        return self._folder / f"{bucket.key}.{self._made_by}.jinja2"


def _compiled() -> jinja2.BytecodeCache | None:
    """Keeps compiled templates where Python keeps its byte code, apart for each version and each way to compile."""
    folder = TEMPLATES / "__pycache__"
    if sys.dont_write_bytecode:
        return None
    with contextlib.suppress(OSError):
        folder.mkdir(exist_ok=True)
    made_by = hashlib.sha256(jinja2.__version__.encode() + Path(__file__).read_bytes()).hexdigest()[:8]
    return _Kept(folder, made_by)


class Head(NamedTuple):
    """What the page of a suite says of itself. short: its runs were shortened."""

    title: str
    description: str
    command: Sequence[str]
    short: bool


def module_of(name: str) -> ModuleType:
    """The module that makes a suite's page of this name, one that says `PAGE_OF_A_SUITE`; AnalysisError if there is
    none."""
    modules = {path.stem.removesuffix("_report").replace("_", "-"): path
               for path in sorted(Path(__file__).parent.glob("*_report.py"))
               if "\nPAGE_OF_A_SUITE = True\n" in path.read_text("utf-8")}
    if name not in modules:
        raise AnalysisError(f"no page {name!r}; there are: {', '.join(modules)}")
    return importlib.import_module(f"{__name__}.{modules[name].stem}")


@contextlib.contextmanager
def page_folder(folder: Path, own: Collection[str], what: str) -> Iterator[Path]:
    """A folder to build a page in, with those of tables/ and figures/ that `own` names; put in place at the end, whole.

    own: what such a folder has, and nothing else; what: what it is, in words. AnalysisError when `folder` is there and
    is something else, or a folder above it cannot be made; EnvironmentProblem when it cannot be written.
    """
    others = sorted({path.name for path in folder.iterdir()} - set(own)) if folder.is_dir() else []
    if others or folder.exists() and not folder.is_dir():
        raise AnalysisError(f"{folder}: is there already and is no {what}" + "".join(f" (it has {name})" for name in
                            others[:1]) + "; move it away, or name another place")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AnalysisError(f"{folder}: {error.strerror}") from None
    try:
        building = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise EnvironmentProblem(f"{folder}: cannot be written: {error.strerror}") from None
    try:
        building.chmod(0o755)
        for name in {"tables", "figures"} & set(own):
            (building / name).mkdir()
        yield building
        old = folder.with_name(f".{folder.name}-old-{os.getpid()}")
        shutil.rmtree(old, ignore_errors=True)
        if folder.exists():
            os.rename(folder, old)
        os.rename(building, folder)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise EnvironmentProblem(f"{error.filename or folder}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(building, ignore_errors=True)


def inline(svg: Path) -> str:
    """An SVG file as a data URI: images do not share their ids as inline SVGs would.

    Of one with very many points, the PNG beside it where that is smaller.
    """
    png = svg.with_suffix(".png")
    if svg.stat().st_size > MOST_SVG_BYTES and png.is_file() and png.stat().st_size < svg.stat().st_size:
        return "data:image/png;base64," + base64.b64encode(png.read_bytes()).decode("ascii")
    return "data:image/svg+xml;base64," + base64.b64encode(svg.read_bytes()).decode("ascii")
