#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Builds the image of Containerfile and runs it as docs/howto/containers.md says: for a user's folder, with a congestion
# control of the user's, and with every privilege taken away.
# Usage: tests/in_container.sh      TESTBED_BASE: the base image; without it a minimal Debian is made by mmdebstrap.
# TESTBED_RELEASE: of that Debian (bookworm). TMPDIR: where images are made (6 GB; /var/tmp).
set -eu
cd "$(dirname "$0")/.."
export TMPDIR="${TMPDIR:-/var/tmp}"
image=localhost/testbed-test base=${TESTBED_BASE:-localhost/testbed-test-base}
work=$(mktemp -d)
trap 'rm -rf "$work"; podman rmi --force "$image" >/dev/null 2>&1 || true' EXIT
trap 'exit 130' INT TERM
if [ -z "${TESTBED_BASE:-}" ] && ! podman image exists "$base"; then
    mmdebstrap --quiet --variant=minbase "${TESTBED_RELEASE:-bookworm}" "$work/base.tar" ${TESTBED_MIRROR:+"$TESTBED_MIRROR"}
    podman import --quiet "$work/base.tar" "$base" >/dev/null
    rm "$work/base.tar"
fi
make container CONTAINERS="podman" IMAGE="$image" BASE="$base" BUILD_OPTIONS="--network host"
mkdir "$work/data"

# What is valid in the user's folder, counted by the same image.
valid() {
    podman run --rm --network none -v "$work/data:/data" "$image" runs query verdict=valid --csv | tail -n +2 | wc -l
}

cp docs/examples/tcp_mine.c "$work/data/tcp_mine.c"
podman run --rm --network none -v "$work/data:/data" "$image" run access-link --quick --cca cubic,./tcp_mine.c
[ "$(valid)" = 2 ] || { echo "in_container: two valid runs expected, of cubic and tcp_mine.c" >&2; exit 1; }
test -f "$work"/data/results/access-link*-quick/report/index.html
echo "in_container: a user's congestion control: valid"

# no root, no capability, no network, nothing to write to but the user's folder and /tmp
rm -r "$work/data"
mkdir "$work/data"
chown 12345:12345 "$work/data"
podman run --rm --user 12345:12345 --cap-drop all --security-opt no-new-privileges --network none --read-only \
    -v "$work/data:/data" "$image" run access-link --quick --cca cubic
[ "$(valid)" = 1 ] || { echo "in_container: one valid run expected without privileges" >&2; exit 1; }
if [ -n "$(find "$work/data/results" ! -user 12345)" ]; then
    echo "in_container: results that are not the user's:" >&2
    find "$work/data/results" ! -user 12345 >&2
    exit 1
fi
echo "in_container: without any privilege: valid, and the results are the user's"
