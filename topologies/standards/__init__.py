# SPDX-License-Identifier: GPL-2.0-only
"""Standards of radios, one file each, found by listing this folder.

A file holds one subclass of `Standard` (_standard.py), which scenarios name as `NAME` says. What is told of a cell of
network.json comes from `of`. Guest and checks use it, too: only plain values here.
"""
import functools
import importlib
import pathlib

from topologies.links.records import Cell
from topologies.standards._standard import Standard


@functools.cache
def found() -> dict[str, type[Standard]]:
    """{name: what its file holds} of all standards."""
    files = sorted({file.stem for folder in __path__ for file in pathlib.Path(folder).glob("[a-z]*.py")})
    classes = [thing for stem in files for module in [importlib.import_module(f"{__name__}.{stem}")]
               for thing in vars(module).values()
               if isinstance(thing, type) and issubclass(thing, Standard) and thing.__module__ == module.__name__]
    return {one.NAME: one for one in classes}


def names(stack: str) -> tuple[str, ...]:
    """Of the standards below a stack of the kernel's."""
    return tuple(name for name, one in found().items() if one.STACK == stack)


def modules() -> tuple[str, ...]:
    """What makes radios: folders of kernel-modules/."""
    return tuple(sorted({one.MODULE for one in found().values()}))


def of(cell: Cell) -> Standard:
    """What its standard says of a cell of network.json."""
    return found()[cell.standard](cell)
