#!/usr/bin/env bash
# disk.sh RELEASE: makes the disk of a fresh Debian machine once, which takes some minutes, keeps it in ~/.cache/thawpool-vm and
# prints its path without the ending: .ext4, .vmlinuz, .initrd. Needs root, for mmdebstrap and packages.
#
# The machine has systemd, cgroup v2, an ordinary user alice who may sudo, and what else a server install has, but not
# uidmap: that lies in apt's cache, so that the command that installs it works without a network.
set -euo pipefail
release=$1
here=$(dirname "$(readlink -f "$0")")

need=()
for pair in mmdebstrap:mmdebstrap qemu-system-x86_64:qemu-system-x86 mke2fs:e2fsprogs; do
  command -v "${pair%:*}" >/dev/null || need+=("${pair#*:}")
done
[ ${#need[@]} = 0 ] || { apt-get update -q; apt-get install -y -q --no-install-recommends "${need[@]}"; } >&2

cache=${XDG_CACHE_HOME:-$HOME/.cache}/thawpool-vm
disk=$cache/$release-$(cat "$here"/disk.sh "$here"/job.service | sha256sum | cut -c1-12)
echo "$disk"
[ ! -s "$disk.ext4" ] || exit 0
mkdir -p "$cache"
root=$(mktemp -d "${TMPDIR:-/var/tmp}/thawpool-vm.XXXXXX")
trap 'rm -rf "$root"' EXIT

packages=systemd,systemd-sysv,dbus,dbus-user-session,libpam-systemd,linux-image-cloud-amd64,iproute2,udev,kmod,login,passwd
packages=$packages,util-linux,procps,cron,ca-certificates,sudo,openssh-server,openssh-client,apparmor,e2fsprogs
{
  mmdebstrap --variant=minbase --include=$packages --skip=cleanup/apt/lists,cleanup/apt/cache \
    --customize-hook='chroot "$1" apt-get clean' \
    --customize-hook='chroot "$1" apt-get install -y -q --no-install-recommends --download-only uidmap' \
    "$release" "$root/tree"
  root=$root/tree
  cp "$root"/boot/vmlinuz-* "$disk.vmlinuz"
  cp "$root"/boot/initrd.img-* "$disk.initrd"
  echo '/dev/vda / ext4 defaults 0 1' > "$root/etc/fstab"
  echo fresh > "$root/etc/hostname"
  echo '127.0.0.1 localhost fresh' > "$root/etc/hosts"
  chroot "$root" useradd -m -s /bin/bash alice
  echo 'alice ALL=(ALL) NOPASSWD: ALL' > "$root/etc/sudoers.d/alice"
  install -m 644 "$here/job.service" "$root/etc/systemd/system/job.service"
  ln -sf ../job.service "$root/etc/systemd/system/multi-user.target.wants/job.service"
  ln -sf /dev/null "$root/etc/systemd/system/serial-getty@ttyS0.service"
  mke2fs -q -t ext4 -d "$root" "$disk.part" "$(($(du -sm "$root" | cut -f1) + 4096))M"
  mv "$disk.part" "$disk.ext4"
  root=${root%/tree}
} >&2
