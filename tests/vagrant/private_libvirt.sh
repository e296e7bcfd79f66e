#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Run a command where a libvirt answers: this machine's if it has one, else (as root) one of our own in namespaces
# of our own. What that one keeps is in a temporary folder, and with the command everything of it ends.
# Usage: tests/vagrant/private_libvirt.sh COMMAND...
set -eu

if [ "${1:-}" != --inside ]; then
    [ $# -gt 0 ] || { echo "usage: private_libvirt.sh COMMAND..." >&2; exit 2; }
    if virsh -c qemu:///system version >/dev/null 2>&1; then
        exec "$@"
    fi
    for program in libvirtd virtlogd slirp4netns dnsmasq iptables unshare; do
        PATH=$PATH:/usr/sbin command -v "$program" >/dev/null || {
            echo "private_libvirt: no libvirt answers here, and $program is missing for one of our own" >&2; exit 3; }
    done
    if [ "$(id -u)" != 0 ]; then
        echo "private_libvirt: no libvirt answers here; a member of group libvirt with libvirtd running, or root, is needed" >&2
        exit 3
    fi
    work=$(mktemp -d "${TMPDIR:-/var/tmp}/tcp-testbed-libvirt.XXXXXX")
    # when the command ends, its process namespace ends: libvirtd, dnsmasq and QEMU with it
    unshare --net --mount --pid --fork --kill-child --mount-proc "$0" --inside "$work" "$@" &
    inside=$!
    trap 'kill -KILL "$inside" 2>/dev/null || true; wait "$inside" || true; rm -rf "$work"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    until child=$(pgrep -P "$inside") && [ -e "$work/inside" ]; do sleep 0.1; done
    slirp4netns --configure --mtu=1500 --disable-host-loopback "$child" tap0 >"$work/slirp4netns.log" 2>&1 &
    slirp=$!
    status=0
    wait "$inside" || status=$?
    kill "$slirp" 2>/dev/null || true
    rm -rf "$work"
    trap - EXIT
    exit "$status"
fi

work=$2
shift 2
# folders of our own in place of those in which libvirt keeps its state
for folder in /run/libvirt /var/lib/libvirt /var/cache/libvirt /var/log/libvirt /etc/libvirt/qemu; do
    mkdir -p "$folder" "$work$folder"
    chmod 755 "$work$folder"
    mount --bind "$work$folder" "$folder"
done
mkdir -p /var/lib/libvirt/images /var/lib/libvirt/dnsmasq
chmod 711 "$work"
printf 'auth_unix_rw = "none"\nauth_unix_ro = "none"\nunix_sock_group = "root"\n' > "$work/libvirtd.conf"
# no machine of systemd, no security driver: this may run where there is neither
printf 'cgroup_controllers = []\nsecurity_driver = "none"\n' > "$work/qemu.conf"
mount --bind "$work/qemu.conf" /etc/libvirt/qemu.conf
touch "$work/inside"
until ip -4 address show dev tap0 2>/dev/null | grep -q inet; do sleep 0.1; done
# DNS of slirp4netns
echo "nameserver 10.0.2.3" > "$work/resolv.conf"
mount --bind "$work/resolv.conf" "$(readlink -f /etc/resolv.conf)"
ip link set lo up
echo 1 > /proc/sys/net/ipv4/ip_forward
virtlogd --daemon --pid-file "$work/virtlogd.pid"
libvirtd --daemon --config "$work/libvirtd.conf" --pid-file "$work/libvirtd.pid"
for _ in $(seq 100); do
    virsh -c qemu:///system version >/dev/null 2>&1 && break
    sleep 0.2
done
virsh -c qemu:///system version >/dev/null || { echo "private_libvirt: libvirtd does not answer" >&2; exit 3; }
"$@"
