# SPDX-License-Identifier: GPL-2.0-only
"""Which name somebody meant who mistyped one."""
from collections.abc import Iterable

_MOST = 3
#: of difflib: 1 for the same word
_LEAST_LIKENESS = 0.6
_LONGEST_WORD = 100


def close(word: object, names: Iterable[str]) -> list[str]:
    """The names that are most like a word but not the same, the nearest first."""
    if not isinstance(word, str):
        return []
    # 2 ms, which guests that import `fields` need not spend
    import difflib
    others = list(dict.fromkeys(name for name in names if name != word))
    return difflib.get_close_matches(word[:_LONGEST_WORD], others, _MOST, _LEAST_LIKENESS)


def question(word: object, names: Iterable[str]) -> str:
    """'; did you mean cubic?', or '' if no name is like the word."""
    found = close(word, names)
    return f"; did you mean {' or '.join(found)}?" if found else ""


def alternatives(word: object, names: Iterable[str]) -> str:
    """'did you mean cubic?', or all names if none is like the word."""
    every = list(names)
    return question(word, every).removeprefix("; ") or f"there are: {', '.join(every)}"
