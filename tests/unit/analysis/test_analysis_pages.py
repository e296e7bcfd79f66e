# SPDX-License-Identifier: GPL-2.0-only
"""Compiled templates that are kept: damaged ones are made again, changed ones too, and nobody needs them."""
import sys

import pytest

from analysis import pages


@pytest.fixture
def rendered(tmp_path, monkeypatch):
    """rendered() -> a page of a template of one's own, in a folder of one's own."""
    (tmp_path / "page.html.j2").write_text("{% for n in numbers %}{{ n }}, {% endfor %}")
    monkeypatch.setattr(pages, "TEMPLATES", tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return lambda: pages.templates().get_template("page.html.j2").render(numbers=[1, 2])


def kept(folder):
    return list((folder / "__pycache__").iterdir())


def test_it_is_compiled_once_and_again_when_it_has_changed(tmp_path, rendered, monkeypatch):
    assert rendered() == "1, 2, "
    file, = kept(tmp_path)
    first = file.read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(pages.jinja2.Environment, "compile", lambda *_, **__: pytest.fail("compiled again"))
        assert rendered() == "1, 2, "
    (tmp_path / "page.html.j2").write_text("{{ numbers | length }}")
    assert rendered() == "2" and kept(tmp_path) == [file] and file.read_bytes() != first


@pytest.mark.parametrize("damage", [
    lambda content: b"", lambda content: content[:40], lambda content: content[:-1], lambda content: b"x" * 5000,
    *(lambda content, at=at: content[:at] + bytes([content[at] ^ 1]) + content[at + 1:] for at in range(0, 400, 7))])
def test_a_damaged_one_is_made_again(tmp_path, rendered, damage):
    rendered()
    file, = kept(tmp_path)
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert rendered() == "1, 2, " and file.read_bytes() == whole


def test_without_a_place_for_them(tmp_path, rendered, monkeypatch):
    (tmp_path / "__pycache__").write_text("no folder")
    assert rendered() == "1, 2, "
    (tmp_path / "__pycache__").unlink()
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert rendered() == "1, 2, " and not (tmp_path / "__pycache__").exists()
