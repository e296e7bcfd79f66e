# SPDX-License-Identifier: GPL-2.0-only
"""A patch, and the file it is for before and after."""

import pathlib

PATCH = """\
--- a/net/tcp.c
+++ b/net/tcp.c
@@ -1,3 +1,3 @@
 int first;
-int cwnd = 10;
+int cwnd = 4;
 int last;
"""


ORIGINAL = "int first;\nint cwnd = 10;\nint last;\n"
PATCHED = ORIGINAL.replace("10", "4")
NEW_FILE = "--- /dev/null\n+++ b/net/fast.c\n@@ -0,0 +1 @@\n+int fast;\n"


def add_patch(patches: pathlib.Path, name: str, text: str = PATCH, versions: str = "all") -> None:
    """Add a patch to the folder kernel/patches of a test, and to its series."""
    (patches / name).parent.mkdir(parents=True, exist_ok=True)
    (patches / name).write_text(text)
    with open(patches / "series", "a") as series:
        series.write(f"{versions}  {name}\n")
