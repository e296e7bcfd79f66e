# SPDX-License-Identifier: GPL-2.0-only
"""A patch, and the file it is for before and after."""

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
