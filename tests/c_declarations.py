# SPDX-License-Identifier: GPL-2.0-only
"""What C files below traffic/ declare, to be compared with what Python says of it."""
import re
from pathlib import Path

TRAFFIC = Path(__file__).resolve().parents[1] / "traffic"


def read(*names):
    """The files' text without comments."""
    return "\n".join(re.sub(r"/\*.*?\*/", "", (TRAFFIC / name).read_text(), flags=re.DOTALL) for name in names)


def numbers(text):
    """[(name, value)] of what is enumerated."""
    found = {}
    for body in re.findall(r"^enum \{(.*?)\}", text, re.DOTALL | re.MULTILINE):
        value = -1
        for entry in filter(str.strip, body.split(",")):
            name, _, given = entry.partition("=")
            value = eval(given, {}, found) if given else value + 1
            found[name.strip()] = value
    return list(found.items())


def fields(text, struct):
    """The names of the fields of a struct, in their order."""
    body, = re.findall(rf"^struct {struct} \{{(.*?)^\}};", text, re.DOTALL | re.MULTILINE)
    found = []
    for declaration in filter(str.strip, body.split(";")):
        pointer_to_function = re.search(r"\(\*(\w+)\)", declaration)
        found += ([pointer_to_function[1]] if pointer_to_function else
                  [re.search(r"(\w+)(\[\w+\])?$", name.strip())[1] for name in declaration.split(",")])
    return found
