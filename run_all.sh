#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Run every scenario, then make one page of all reports: results/index.html.
# Usage: ./run_all.sh [--quick|--full|--smoke] [--list] [--engine NAME] [--jobs N]      (bin/testbed all --help)
set -eu
here=$(dirname "$(readlink -f "$0")")
"$here/setup.sh" run kernel
exec "$here/bin/testbed" all "$@"
