#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Inside the virtual machine, as root: packages, kernel headers, the congestion-control modules by DKMS.
# What is there already is left alone: a second time changes nothing.
set -eu
project=${1:-/vagrant}
export DEBIAN_FRONTEND=noninteractive
say() { echo "provision: $*"; }

"$project/setup.sh" run vm

# -- headers of the running kernel, or another kernel with its headers
if [ ! -e "/lib/modules/$(uname -r)/build" ]; then
    apt-get -q update
    if apt-cache show "linux-headers-$(uname -r)" >/dev/null 2>&1; then
        say "headers of the running kernel $(uname -r)"
        apt-get -q install -y --no-install-recommends "linux-headers-$(uname -r)"
    else
        say "Debian no longer has headers of $(uname -r): the newest kernel and its headers"
        apt-get -q install -y --no-install-recommends linux-image-amd64 linux-headers-amd64
        touch /run/tcp-testbed-restart      # Vagrantfile looks for it
    fi
fi

# -- modules of kernel-modules/ for every kernel with headers
value() { sed -n "s/^$1=\"\(.*\)\"/\1/p" "$project/kernel-modules/dkms.conf"; }
name=$(value PACKAGE_NAME)
version=$(value PACKAGE_VERSION)
source=/usr/src/$name-$version
changed=$(rsync --recursive --copy-links --checksum --delete --itemize-changes --exclude='*.ko' --exclude='*.o' --exclude='*.mod*' \
    --exclude='.*' --exclude='Module.symvers' --exclude='modules.order' --no-perms "$project/kernel-modules/" "$source/")
if [ -n "$changed" ] && [ -n "$(dkms status -m "$name" -v "$version")" ]; then
    say "modules have changed: building them again"
    dkms remove -m "$name" -v "$version" --all
fi
[ -n "$(dkms status -m "$name" -v "$version")" ] || dkms add -m "$name" -v "$version"
for headers in /lib/modules/*/build; do
    kernel=$(basename "$(dirname "$headers")")
    case $(dkms status -m "$name" -v "$version" -k "$kernel") in
    *installed*) ;;
    *) dkms install -m "$name" -v "$version" -k "$kernel" ;;
    esac
done

[ -e /etc/tcp-testbed-vm ] || echo "engine: host" > /etc/tcp-testbed-vm     # run_all.sh looks for it
say "ready: $(dkms status -m "$name" -v "$version" | tr '\n' ' ')"
