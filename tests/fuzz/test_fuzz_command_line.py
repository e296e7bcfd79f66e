# SPDX-License-Identifier: GPL-2.0-only
"""Whatever is typed: an exit code that is documented, and never a bug."""
from __future__ import annotations

import contextlib
import functools
import io
import os
import pathlib
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings, strategies as st

import kernel
import kernel.apt
from testbed import cli

_DOCUMENTED = {0, 1, 2, 3}
_TEXT = st.text(st.characters(blacklist_characters="\0"), max_size=12)
_STRANGE = st.sampled_from([
    "", " ", "-", "--", "..", "/", "~", "~nosuchuser", "/dev/null", "/proc/self/mem", "file", "folder", "loop", "nan",
    "inf", "-1", "1e400", "9" * 40, "x" * 300, "\udcff", "\n", "%s", "{}", "$(id)", "*"]) | _TEXT
_RUN = ["run", "access-link", "--cca", "nosuch"]
#: words that neither start runs nor build kernels
_COMMANDS = st.sampled_from([
    ["list"], ["list", "runs"], ["list", "topologies", "--json"], ["report"], ["verify"], ["runs", "judge"],
    ["runs", "list"], ["suite", "list"],
    ["tmix", "info"], ["tmix", "convert"], ["tmix", "convert", "file"], ["tmix", "synth", "out", "--duration"],
    ["tmix", "shuffle", "vectors", "out", "--bin"], ["tmix", "synth", "out", "--duration", "1", "--seed"],
    ["tmix", "synth", "out", "--duration", "1", "--set"], ["tmix", "plot"], ["tmix", "plot", "vectors", "-o"],
    ["tmix", "plot", "vectors", "-o", "page", "--rate"], ["tmix", "from-pcap", "file", "--output"],
    ["tmix", "from-pcap", "vectors", "--output", "out", "--quiet-time"],
    ["export", "folder", "--output", "out", "--format"], ["watch", "--once", "--every"], ["watch", "--once", "--json"],
    ["run"], ["run", "access-link", "--seeds", "0", "--choose"], ["run", "access-link", "--engine"],
    [*_RUN, "--load"], [*_RUN, "--set"], [*_RUN, "--sweep"], [*_RUN, "--probe"],
    ["kernel", "--nosuch"], ["nosuch"], []])
_LINES = st.sampled_from([
    b"SEQ 1000 1 1 1", b"CONC 1 1 1 1 1", b"S 5 1 1 1", b"C 5 1 1 1 1", b"w 1 1", b"r 5", b"l 0 0", b"m 500 500",
    b"> 5", b"< 5", b"t 5", b"c> 5", b"c< 5", b"t> 5", b"t< 5",
    b"I 0 0 5", b"A 0 5 5", b"I 0 5 0", b"#", b"> -1", b"SEQ", b"\xff"])


@pytest.fixture(scope="module", autouse=True)
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A folder with a few things to stumble over."""
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "file").write_bytes(bytes(range(256)))
    (folder / "vectors").write_text("SEQ 1000 1 1 1\n> 500\nt 100\n< 2000\n")
    (folder / "folder").mkdir()
    (folder / "loop").symlink_to("loop")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("TESTBED_RESULTS", str(folder / "results"))
        patch.setattr(tempfile, "tempdir", str(folder))
        # asking apt takes longer than all the rest
        patch.setattr(kernel.apt, "candidate", functools.cache(kernel.apt.candidate))
        yield


def _code(words: list[str]) -> tuple[int, str]:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            code = cli.main(words)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
    return code, said.getvalue()


@settings(max_examples=120)
@given(_COMMANDS, st.lists(_STRANGE, max_size=3))
@example(["report"], ["~nosuchuser"])
@example(["verify"], ["x" * 300])
def test_any_words(command: list[str], more: list[str]) -> None:
    code, said = _code([*command, *more])
    assert code in _DOCUMENTED, said
    assert "Traceback" not in said


@settings(max_examples=300)
@given(st.binary(max_size=200) | st.lists(_LINES, max_size=12).map(b"\n".join))
def test_any_vector_file(content: bytes) -> None:
    pathlib.Path("some.cvec").write_bytes(content)
    assert _code(["tmix", "info", "some.cvec"])[0] in (0, 2)
    code, said = _code(["tmix", "convert", "some.cvec", "some.out"])
    assert code in (0, 2), said
    assert os.path.exists("some.out") == (code == 0)
    if code == 0:
        assert _code(["tmix", "info", "some.out"])[0] == 0
        os.unlink("some.out")
