#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Build a Vagrant box for libvirt from Debian packages, where the public box cannot be had.
# The testbed's packages are in it, so that provisioning has little to do; with --bare they are not, as in the public box.
# Usage: provision/box.sh [--bare] FILE.box
# shellcheck disable=SC2016  # what is quoted is for other shells
# Needs: mmdebstrap qemu-utils grub-pc-bin grub-common fdisk e2fsprogs; without root also fakeroot.
set -eu

here=$(dirname "$(readlink -f "$0")")
bare=no
if [ "${1:-}" = --bare ]; then
    bare=yes
    shift
fi
if [ $# != 1 ]; then
    echo "usage: provision/box.sh [--bare] FILE.box" >&2
    exit 2
fi
output=$(readlink -f "$(dirname "$1")")/$(basename "$1")
packages=linux-image-amd64,systemd-sysv,dbus,udev,kmod,ifupdown,isc-dhcp-client,iproute2,openssh-server,sudo,rsync,ca-certificates
if [ "$bare" = no ]; then
    packages=$packages,linux-headers-amd64$(sed -n 's/#.*//; s/^\(run\|vm\) *\([^ ]*\).*/,\2/p' "$here/../packages.txt" | tr -d '\n')
fi
suite=bookworm
disk_gb=10
key=$(find /usr/share/rubygems-integration /opt/vagrant /usr/share -path '*keys/vagrant.pub' 2>/dev/null | head -n 1)
PATH=$PATH:/sbin:/usr/sbin

for program in mmdebstrap qemu-img grub-mkimage sfdisk mke2fs; do
    command -v "$program" >/dev/null || { echo "box: $program is missing (the packages are named in $0)" >&2; exit 3; }
done
[ -n "$key" ] || { echo "box: vagrant.pub is nowhere to be found: install vagrant" >&2; exit 3; }
as_root=
if [ "$(id -u)" != 0 ]; then
    command -v fakeroot >/dev/null || { echo "box: install fakeroot, or run as root" >&2; exit 3; }
    as_root=fakeroot
fi

work=$(mktemp -d "${TMPDIR:-/var/tmp}/tcp-testbed-box.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
mkdir "$work/overlay" "$work/box"

# -- what makes a Debian system a Vagrant box: the user vagrant, its well-known key, sudo, a network by DHCP
cd "$work/overlay"
mkdir -p etc/sudoers.d etc/network boot/grub etc/ssh/sshd_config.d home/vagrant/.ssh
cp "$key" home/vagrant/.ssh/authorized_keys
chmod 700 home/vagrant/.ssh
chmod 600 home/vagrant/.ssh/authorized_keys
echo 'vagrant ALL=(ALL) NOPASSWD: ALL' > etc/sudoers.d/vagrant
chmod 440 etc/sudoers.d/vagrant
printf 'auto lo\niface lo inet loopback\nallow-hotplug eth0\niface eth0 inet dhcp\n' > etc/network/interfaces
echo 'LABEL=root / ext4 noatime,errors=remount-ro 0 1' > etc/fstab
echo 'UseDNS no' > etc/ssh/sshd_config.d/vagrant.conf
echo tcp-testbed > etc/hostname
# /vmlinuz and /initrd.img follow the newest kernel that is installed
cat > boot/grub/grub.cfg <<'END'
set timeout=0
serial --unit=0 --speed=115200
menuentry "Debian" {
    linux /vmlinuz root=LABEL=root ro net.ifnames=0 mitigations=off console=tty0 console=ttyS0,115200
    initrd /initrd.img
}
END
cd "$work"

mmdebstrap --quiet --variant=minbase --include="$packages" \
    --customize-hook="sync-in $work/overlay /" \
    --customize-hook='chroot "$1" chown -R root:root /etc/sudoers.d /etc/network /etc/fstab /etc/hostname /boot/grub /etc/ssh/sshd_config.d' \
    --customize-hook='chroot "$1" useradd --shell /bin/bash vagrant' \
    --customize-hook='chroot "$1" chown -R vagrant:vagrant /home/vagrant' \
    --customize-hook='echo "127.0.0.1 localhost tcp-testbed" > "$1/etc/hosts"' \
    --customize-hook='rm -f "$1"/etc/ssh/ssh_host_* "$1/etc/resolv.conf"' \
    --customize-hook='printf "[Unit]\nBefore=ssh.service\n[Service]\nType=oneshot\nExecStart=/usr/bin/ssh-keygen -A\n[Install]\nWantedBy=multi-user.target\n" > "$1/etc/systemd/system/ssh-host-keys.service"' \
    --customize-hook='chroot "$1" systemctl --quiet enable ssh-host-keys.service serial-getty@ttyS0.service' \
    "$suite" "$work/root.tar" ${TESTBED_MIRROR:+"$TESTBED_MIRROR"}

# -- a disk with one bootable partition
truncate -s "${disk_gb}G" disk.raw
echo '2048,,L,*' | sfdisk --quiet disk.raw
$as_root sh -euc '
    mkdir root && tar --numeric-owner -xf root.tar -C root
    mke2fs -q -t ext4 -L root -d root -E offset=1048576 disk.raw "$1"
    rm -rf root root.tar' sh $((disk_gb * 1048576 - 1024))k
grub-mkimage -O i386-pc -p '(hd0,msdos1)/boot/grub' -o core.img biosdisk part_msdos ext2 linux normal configfile serial echo
dd if=/usr/lib/grub/i386-pc/boot.img of=disk.raw bs=440 count=1 conv=notrunc status=none
dd if=core.img of=disk.raw bs=512 seek=1 conv=notrunc status=none
qemu-img convert -O qcow2 disk.raw box/box.img
rm disk.raw
printf '{"provider": "libvirt", "format": "qcow2", "virtual_size": %d}\n' "$disk_gb" > box/metadata.json
echo 'Vagrant.configure("2") { |config| config.vm.guest = :debian }' > box/Vagrantfile
# not compressed: it is used here and once
tar -C box -cf "$output.part" metadata.json Vagrantfile box.img
mv "$output.part" "$output"
echo "box: $output, $(du -m "$output" | cut -f1) MB"
