# SPDX-License-Identifier: GPL-2.0-only
"""Text in Markdown, for pages that are read in a terminal or a mail, too."""
import re

#: characters that mean something in Markdown
_MARKUP = re.compile(r"([\\`*_\[\]<>|#])")


def plain(text: str) -> str:
    """Text of which nothing is taken for markup."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))
