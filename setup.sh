#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Install the Debian packages of packages.txt that are missing, with sudo unless we are root.
# Usage: ./setup.sh [PURPOSE...]      purposes: run kernel unit test (default: these), cluster completion container debian docs notebook programs quic vagrant vm
# TESTBED_WAIT_S: how long to wait while another program installs packages (1800).
set -eu
cd "$(dirname "$0")"
if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "setup: this is not a Debian or Ubuntu system; install the equivalents of packages.txt by hand" >&2
    exit 3
fi

# Names of packages that are wanted: all, or those that a distribution may lack.
packages() {
    sed 's/#.*//' packages.txt | while read -r purpose package need; do
        [ -n "$package" ] || continue
        [ "$1" = all ] || [ "$need" = "$1" ] || continue
        case " $purposes " in *" $purpose "*) echo "$package" ;; esac
    done
}

# `apt-get ARGUMENT...` as root. A machine that has just started upgrades itself and holds apt's locks meanwhile.
apt() {
    waited=0
    while :; do
        code=0
        said=$($as_root env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -q "$@" 2>&1 >&3) || code=$?
        [ -z "$said" ] || printf '%s\n' "$said" >&2
        case "$code $said" in
        0*) return 0 ;;
        *"Could not get lock"* | *"Unable to acquire the dpkg"* | *"Unable to lock"*) ;;
        *) return "$code" ;;
        esac
        if [ "$waited" -ge "${TESTBED_WAIT_S:-1800}" ]; then
            echo "setup: another program still holds the package manager's lock after $waited s" >&2
            return "$code"
        fi
        [ "$waited" != 0 ] || echo "setup: another program is installing packages; waiting until it is done" >&2
        sleep 5
        waited=$((waited + 5))
    done
}

purposes=${*:-run kernel unit test}
known=$(sed 's/#.*//' packages.txt | {
    known=
    while read -r purpose package _; do
        [ -n "$package" ] || continue
        case "$known " in *" $purpose "*) ;; *) known="$known $purpose" ;; esac
    done
    echo "$known"
})
for purpose in $purposes; do
    case "$known " in
    *" $purpose "*) ;;
    *)
        echo "setup: no purpose $purpose; there are:$known" >&2
        exit 2
        ;;
    esac
done
missing=
for package in $(packages all); do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || missing="$missing $package"
done
as_root=
if [ "$(id -u)" != 0 ]; then
    as_root=sudo
fi
need_lists=no
# The guest kernel is built from Debian's source package; apt must know of it.
case " $purposes " in
*" kernel "*) apt-cache policy linux-source-6.12 2>/dev/null | grep -q 'Candidate: [^(]' || need_lists=yes ;;
esac
[ -n "$missing" ] || [ "$need_lists" = yes ] || exit 0
if [ -n "$as_root" ] && ! command -v sudo >/dev/null; then
    echo "setup: run as root, or install sudo: apt-get install$missing" >&2
    exit 3
fi
exec 3>&1
apt update
optional=$(packages optional)
install=
absent=
for package in $missing; do
    case "
$optional
" in
    *"
$package
"*) apt-cache policy "$package" 2>/dev/null | grep -q 'Candidate: [^(]' || { absent="$absent $package"; continue; } ;;
    esac
    install="$install $package"
done
if [ -n "$absent" ]; then
    echo "setup: this distribution has no$absent; what needs them says so (packages.txt), the rest works" >&2
fi
if [ -n "$install" ]; then
    echo "setup: installing$install" >&2
    # shellcheck disable=SC2086  # a list of package names
    apt install -y --no-install-recommends $install
fi
