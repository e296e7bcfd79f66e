# SPDX-License-Identifier: GPL-2.0-only
"""Examples that pages show are files of docs/examples, with the same text, and scenarios."""
from __future__ import annotations

import pathlib
import re

import pytest

from testbed.scenario import scenario
from tests.unit.test_documents import PROJECT

SHOWN = {name: text for page in sorted(PROJECT.glob("docs/*/*.md")) for name, text in re.findall(
    r"`examples/([\w-]+)\.yaml`(?:(?!```|`examples/).)*?```yaml\n(.*?)```", page.read_text(), re.DOTALL)}
FILES = sorted(PROJECT.glob("docs/examples/*.yaml"))


def test_pages_show_every_example() -> None:
    assert sorted(SHOWN) == [path.stem for path in FILES]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example(path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert path.read_text() == "# SPDX-License-Identifier: GPL-2.0-only\n" + SHOWN[path.stem]
    monkeypatch.chdir(PROJECT)
    assert scenario.expand(str(path))
