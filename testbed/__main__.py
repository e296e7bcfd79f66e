# SPDX-License-Identifier: GPL-2.0-only
"""The program: `bin/testbed`, or `python3 -m testbed` in the checkout. See testbed/cli."""
import os
import sys

if __name__ == "__main__":
    # whatever the checkout's folder is called: PYTHONPATH cannot hold a name with a colon
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    from testbed.cli import main
    code = main()
    # all is said and cleaned up; what libraries would do at the end can only be interrupted, or hang
    os._exit(code)
