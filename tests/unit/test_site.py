# SPDX-License-Identifier: GPL-2.0-only
"""The documentation as a site (`make docs`): every page is in its navigation, and every link leads somewhere."""
from __future__ import annotations

import html.parser
import pathlib
import re
import shutil
import subprocess
import urllib.parse

import pytest

from tests.unit.test_documents import PAGES, PROJECT

CONFIGURATION = (PROJECT / "mkdocs.yml").read_text()
SITE_PAGES = [page for page in PAGES if "kernel-modules" not in page.parts]


def test_every_page_is_in_the_navigation_once() -> None:
    named = re.findall(r": (\S+\.md)$", CONFIGURATION, re.MULTILINE)
    assert sorted(named) == sorted(str(page.relative_to(PROJECT)) for page in SITE_PAGES)


@pytest.mark.parametrize("page", SITE_PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_pages_link_to_what_the_site_has(page: pathlib.Path) -> None:
    """Source files are named, not linked: the site does not have them."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" not in target and not target.startswith("#"):
            linked = (page.parent / target.partition("#")[0]).resolve().relative_to(PROJECT)
            assert linked.parts[0] == "docs" or len(linked.parts) <= 1, target


class _Links(html.parser.HTMLParser):
    """Links and anchors of a page of the site."""

    def __init__(self, page: pathlib.Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors = {""}
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.targets += [value for name, value in attrs if name in ("href", "src") and value]
        self.anchors |= {value for name, value in attrs if name == "id" and value}


@pytest.mark.skipif(not shutil.which("mkdocs"), reason="needs mkdocs: ./setup.sh docs")
def test_the_site_is_built_without_warnings_and_has_no_dead_link(tmp_path: pathlib.Path) -> None:
    for name in ("Makefile", "mkdocs.yml", "CITATION.cff", *(path.name for path in PROJECT.glob("*.md"))):
        shutil.copy(PROJECT / name, tmp_path)
    shutil.copytree(PROJECT / "docs", tmp_path / "docs")
    done = subprocess.run(["make", "-C", tmp_path, "site"], capture_output=True, text=True, check=False)
    assert not done.returncode and "WARNING" not in done.stderr, done.stderr
    site = tmp_path / "build/site"
    pages = {path: _Links(path) for path in site.rglob("*.html") if path.name != "404.html"}
    assert len(pages) == len(SITE_PAGES)
    assert (site / "search/search_index.json").exists()
    for path, links in pages.items():
        for target in links.targets:
            if "://" not in target and not target.startswith(("data:", "javascript:")):
                name, _, anchor = urllib.parse.unquote(target).partition("#")
                linked = (path.parent / name).resolve() if name else path
                assert linked.exists(), f"{path}: {target}"
                assert linked not in pages or anchor in pages[linked].anchors, f"{path}: {target}"
