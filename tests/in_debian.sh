#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# What a fresh machine with another Debian does: a minimal system in a chroot, a clone of the last commit in root's
# home, and there `make TARGET...`. mmdebstrap mounts what the chroot needs, and removes it all at the end or on Ctrl-C;
# in a mount namespace of their own no mounts are left, however it ends.
# Usage: tests/in_debian.sh RELEASE [TARGET...]     (trixie, bookworm; test)
# TESTBED_MIRROR: a Debian mirror other than mmdebstrap's own. TMPDIR: where the system lies (5 GB; /var/tmp).
# shellcheck disable=SC2016  # what is quoted is for the hook's shell
set -eu
cd "$(dirname "$0")/.."
if [ $# = 0 ]; then
    echo "usage: tests/in_debian.sh RELEASE [TARGET...]" >&2
    exit 2
fi
release=$1
shift
if [ "$(id -u)" != 0 ] || ! command -v mmdebstrap >/dev/null; then
    echo "in_debian: run as root, with mmdebstrap installed (./setup.sh debian)" >&2
    exit 3
fi
export TESTBED_CHECKOUT="$PWD" TESTBED_TARGETS="${*:-test}" TMPDIR="${TMPDIR:-/var/tmp}"
exec unshare --mount --propagation private \
    mmdebstrap --quiet --mode=root --variant=minbase --format=null --include=git,make \
    --customize-hook='git clone --quiet "$TESTBED_CHECKOUT" "$1/root/testbed"' \
    --customize-hook='mount -o remount,rw "$1/proc" && mount -o remount,rw "$1/sys"' \
    --customize-hook='chroot "$1" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM="${TERM:-dumb}" \
        make -C /root/testbed $TESTBED_TARGETS' \
    "$release" /dev/null ${TESTBED_MIRROR:+"$TESTBED_MIRROR"}
