# SPDX-License-Identifier: GPL-2.0-only
"""Documents agree with the tree: links lead somewhere, commands and their options exist."""
from __future__ import annotations

import argparse
import ast
import pathlib
import re
import shlex

import pytest

from testbed import cli, engines

PROJECT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted([*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md"), *PROJECT.glob("kernel-modules/*/*.md")])


def _name(page: pathlib.Path) -> str:
    return str(page.relative_to(PROJECT))


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links(page: pathlib.Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        path, _, heading = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), target
        if heading:
            headings = re.findall(r"^#+ (.*)$", linked.read_text(), re.MULTILINE)
            assert heading in [re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings], target


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_files_that_are_named(page: pathlib.Path) -> None:
    """`docs/x.md`, `testbed/y.py` ... are there; what CONTRIBUTING.md adds is not."""
    if page.name in ("CONTRIBUTING.md", "CHANGELOG.md"):
        return
    folders = "|".join(path.name for path in PROJECT.iterdir() if path.is_dir() and not path.name.startswith("."))
    for name in re.findall(rf"`((?:{folders})/[\w/.-]+\.(?:py|md|yaml|c|sh|config))`", page.read_text()):
        assert (PROJECT / name).exists() or "NAME" in name, name


def test_documents_that_code_names_are_there() -> None:
    code = (p for p in PROJECT.glob("*/**/*.py") if p.relative_to(PROJECT).parts[0] not in ("tests", "results"))
    for path in [*code, *PROJECT.glob("scenarios/*.yaml")]:
        for name in re.findall(r"docs/[\w/-]+\.md", path.read_text()):
            assert (PROJECT / name).exists(), f"{path}: {name}"


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_commands(page: pathlib.Path) -> None:
    """Each command line of a page has a command and options that there are."""
    for line in re.findall(r"^(?:    |\$ )?(bin/testbed .*?)(?:\s{2,}.*)?$", page.read_text(), re.MULTILINE):
        words = shlex.split(line, comments=True)[1:]
        if not words or words[0].startswith("-"):
            continue
        options = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert words[0] in cli.command_names() or page.name == "CONTRIBUTING.md", line
        if words[0] in cli.command_names():
            assert options <= _options(words[0]) | _of_engines(page), line


def _of_engines(page: pathlib.Path) -> set[str]:
    """Options of engines, also of an engine that the page adds."""
    return {option.flag for of_engine in engines.declared().values() for option in of_engine} | set(
        re.findall(r'Option\("\w+", "(--[\w-]+)"', page.read_text()))


def _options(command: str) -> set[str]:
    folder = PROJECT / "testbed/cli"
    source = "".join(path.read_text() for path in (folder / f"{command}.py", *folder.glob("_*.py")))
    return set(re.findall(r'"(--[\w-]+)"', source)) | {"--help"}


def _texts(path: pathlib.Path) -> list[str]:
    """The strings of a module; X for what is filled in."""
    texts = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.JoinedStr):
            texts.append("".join(str(one.value) if isinstance(one, ast.Constant) else "X" for one in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.append(node.value)
    return texts


def _wrong(command: str) -> str:
    """What is wrong with a command of a message; '' if it can be typed like this."""
    words = shlex.split(command)
    if words[0] not in cli.command_names():
        return "no such command"
    parser, name = argparse.ArgumentParser(), words[:1]
    cli._load(words[0]).add_arguments(parser)
    for verbs in [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]:
        if len(words) > 1 and words[1] not in verbs.choices:
            return f"no such verb: {words[1]}"
        parser, name = (verbs.choices[words[1]], words[:2]) if len(words) > 1 else (parser, name)
    given = {word.partition("=")[0] for word in words if word.startswith("--")}
    if unknown := given - {*parser._option_string_actions} - _of_engines(PROJECT / "README.md"):
        return f"no such option: {unknown}"
    # a command or an option that is only named, as in "the same `testbed run`", lacks what it has to be given
    return "" if all(word.startswith("--") for word in words[len(name):]) else " ".join(
        one.option_strings[0] for one in parser._actions
        if one.option_strings and one.required and not given & {*one.option_strings})


def test_commands_that_messages_name() -> None:
    """`testbed ...` in a message has a command, a verb and options that there are, and those that it must have."""
    found = 0
    for folder in ("testbed", "analysis", "topologies", "traffic", "kernel"):
        for path in (PROJECT / folder).rglob("*.py"):
            for command in re.findall(r"`(?:bin/)?testbed ([a-z][^`]*)`", "\n".join(_texts(path))):
                found += 1
                assert not (wrong := _wrong(command)), f"{path}: testbed {command}: {wrong}"
    assert found > 40
    assert _wrong("runs") == _wrong("runs drop X Y --why TEXT") == ""
    assert [_wrong("runs drop X"), _wrong("runs rid X"), _wrong("rum")] == [
        "--why", "no such verb: rid", "no such command"]
    assert _wrong("run --no-such-option X") == "no such option: {'--no-such-option'}"
