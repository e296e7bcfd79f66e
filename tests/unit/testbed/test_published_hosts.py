# SPDX-License-Identifier: GPL-2.0-only
"""Published results of one source were measured on the same hosts: where their files differ in that, each says why."""
import itertools
import re

import pytest
import yaml

from testbed import PROJECT_DIR

FILES = {path.stem: yaml.safe_load(path.read_text())
         for path in sorted((PROJECT_DIR / "suites/published").glob("*.yaml"))}
#: settings of hosts and their programs, and what deviations call them
WORDS = {"tool": "iperf3", "window": "in flight", "nagle": "Nagle", "sockets": "sockets", "sysctls": "sockets?",
         "offloads": "offloads"}


def source(content):
    """Its authors and the beginning of its title: the first line of the file's field."""
    return " ".join(content["source"].split())[:60]


def of_hosts(content):
    """{setting: value} of the hosts and the programs on them, whatever components are called."""
    found = {key: value for key, value in {**content.get("set", {}), **content.get("choices", {})}.items()
             if key.startswith("hosts.") or key.rpartition(".")[2] in WORDS}
    return {key.rpartition(".")[2]: str(value) for key, value in found.items()}


def unsaid(contents):
    """(file, setting) of files of one source that differ in a setting, and of which one does not say so."""
    for same in itertools.groupby(sorted(contents, key=lambda name: source(contents[name])),
                                  key=lambda name: source(contents[name])):
        names = list(same[1])
        settings = {name: of_hosts(contents[name]) for name in names}
        for key in sorted(set().union(*settings.values())):
            if len({one.get(key) for one in settings.values()}) > 1:
                for name in names:
                    said = " ".join(f"{one['what']} {one['why']}" for one in contents[name].get("deviations", []))
                    said += " ".join(one["what"] for one in contents[name].get("parameters", []))
                    if not re.search(rf"\b{WORDS.get(key, key)}\b", said):
                        yield name, key


def test_files_of_one_source_have_the_same_hosts_or_say_why_not():
    assert len({source(content) for content in FILES.values()}) < len(FILES)
    assert list(unsaid(FILES)) == []


DEEP = {"source": "A, B, On buffers, IMC 2023; deep.csv", "set": {"limit": "9 MB", "traffic.window": 2066},
        "deviations": [{"what": "at most 2066 segments in flight", "why": "they had 2.99 MB"}]}
SHALLOW = {**DEEP, "set": {"limit": "100 kB"}}


@pytest.mark.parametrize("changes, found", [
    ({}, []), ({"deviations": []}, [("shallow", "window")]),
    ({"deviations": [], "source": "C, Another paper, IMC 2019"}, []),
    ({"deviations": [], "set": {"traffic.window": 2066}}, []),
    ({"set": {"traffic.flow.window": 2066, "hosts.jitter": "1 ms"}}, [("deep", "jitter"), ("shallow", "jitter")])])
def test_a_window_that_one_file_has_must_not_be_missing_from_the_next_in_silence(changes, found):
    assert list(unsaid({"deep": DEEP, "shallow": {**SHALLOW, **changes}})) == found
