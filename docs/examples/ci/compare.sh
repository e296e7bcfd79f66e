#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# The quick comparison of a congestion control at every push: expectations first, then the access link beside CUBIC.
# Usage: compare.sh TESTBED SOURCE      the testbed's folder, and tcp_mine.c or a folder with a Kbuild
# Exit code 0: as expected; 6: not as expected; 4: a run failed. JUnit files and reports are in results/.
set -eu
testbed=$1 source=$2
here=$(dirname "$0")
mkdir -p results
code=0
"$testbed/bin/testbed" run "$here/mine.yaml" --cca "$source" --seeds 5 --yes --junit results/expected.xml || code=$?
"$testbed/bin/testbed" run access-link --quick --cca "cubic,$source" --seeds 5 --yes --junit results/access-link.xml || code=$?
exit "$code"
