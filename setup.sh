#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Install the Debian packages of packages.txt that are missing, with sudo unless we are root.
# Usage: ./setup.sh [PURPOSE...]      purposes: run kernel unit test (default: these), cluster completion debian docs programs vagrant vm
set -eu
cd "$(dirname "$0")"
if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "setup: this is not a Debian or Ubuntu system; install the equivalents of packages.txt by hand" >&2
    exit 3
fi
wanted=$(sed 's/#.*//' packages.txt | while read -r purpose package; do
    [ -n "$package" ] || continue
    case " ${*:-run kernel unit test} " in *" $purpose "*) echo "$package" ;; esac
done)
missing=
for package in $wanted; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || missing="$missing $package"
done
as_root=
if [ "$(id -u)" != 0 ]; then
    as_root=sudo
fi
need_lists=no
# The guest kernel is built from Debian's source package; apt must know of it.
case " ${*:-run kernel unit test} " in
*" kernel "*) apt-cache policy linux-source-6.12 2>/dev/null | grep -q 'Candidate: [^(]' || need_lists=yes ;;
esac
[ -n "$missing" ] || [ "$need_lists" = yes ] || exit 0
if [ -n "$as_root" ] && ! command -v sudo >/dev/null; then
    echo "setup: run as root, or install sudo: apt-get install$missing" >&2
    exit 3
fi
$as_root apt-get -q update
if [ -n "$missing" ]; then
    echo "setup: installing$missing" >&2
    # shellcheck disable=SC2086  # a list of package names
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends $missing
fi
