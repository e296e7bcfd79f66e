# SPDX-License-Identifier: GPL-2.0-only
"""Arguments of commands by their own parser: an option that is added is there, too."""
import argparse

from testbed import cli


def parsed(*words: object) -> argparse.Namespace:
    """As of these words behind `bin/testbed`."""
    given = [str(word) for word in words]
    return cli._parser(given[0]).parse_args(given)
