#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# make_image.sh OUTPUT.tar: the file system of a small image with client and server of ngtcp2, as `docker export` has it
set -eu
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/bin" "$root/certs" "$root/downloads" "$root/etc" "$root/logs" "$root/tmp" "$root/www"
for program in sh mkdir gtlsserver gtlsclient; do
    path=$(PATH=/usr/sbin:$PATH; command -v "$program")
    cp -L "$path" "$root/bin/$program"
    for library in $(ldd "$path" | grep -o '/[^ ]*'); do
        mkdir -p "$root${library%/*}"
        cp -L "$library" "$root$library"
    done
done
cp "${0%/*}/run_endpoint.sh" "$root/run_endpoint.sh"
# as in images of the interop runner: they fail where there is no simulator
for script in setup.sh wait-for-it.sh; do
    printf '#!/bin/sh\necho "there is no simulator" >&2\nexit 1\n' > "$root/$script"
    chmod +x "$root/$script"
done
tar -C "$root" -cf "$1" .
