# SPDX-License-Identifier: GPL-2.0-only
"""`python3 -m testbed`: see testbed/cli."""
import sys

from testbed.cli import main

sys.exit(main())
