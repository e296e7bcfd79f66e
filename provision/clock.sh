#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Inside the virtual machine, as root: note what its clock counts, which testbed/core/no_idle.py wants to know.
# Usage: clock.sh host|instructions
set -eu
note=/etc/tcp-testbed-vm
case $1 in
instructions) grep -qx "clock: instructions" "$note" || echo "clock: instructions" >> "$note" ;;
*) if grep -q "^clock: " "$note"; then sed -i "/^clock: /d" "$note"; fi ;;
esac
