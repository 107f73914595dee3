#!/usr/bin/env bash
# machine.sh RELEASE DIR: boots a fresh Debian machine (disk.sh) in QEMU, without KVM or a network, and runs DIR/job in it as
# root at every boot, with the number of the boot. The job ends with 194 to have the machine rebooted; with any other status
# the machine is switched off, and that is the status of this script, too. What the job prints is printed.
set -euo pipefail
release=$1 dir=$2
limit=${VM_LIMIT:-7200} memory=${VM_MEMORY:-4096} # seconds, MiB
disk=$("$(dirname "$(readlink -f "$0")")/disk.sh" "$release")
work=$(mktemp -d "${TMPDIR:-/var/tmp}/thawpool-vm.XXXXXX")
trap 'rm -rf "$work"' EXIT

# The machine's clock counts its instructions, two nanoseconds each, and jumps ahead when it has nothing to do: so nothing in
# it times out because this machine is busy, and waiting costs nothing.
#
# The disk is only read: what the machine writes goes to a temporary file. The second disk is a tar of DIR.
tar -C "$dir" -cf "$work/in" .
truncate -s %512 "$work/in"
TMPDIR=$work timeout "$limit" qemu-system-x86_64 -accel tcg,thread=single -icount shift=1,sleep=off -rtc clock=vm \
  -cpu max -smp 1 -m "$memory" -nographic -nic none \
  -kernel "$disk.vmlinuz" -initrd "$disk.initrd" -append 'root=/dev/vda rw console=ttyS0 quiet mitigations=off nowatchdog systemd.show_status=0' \
  -drive "file=$disk.ext4,format=raw,if=virtio,cache=unsafe,snapshot=on" -drive "file=$work/in,format=raw,if=virtio,readonly=on" \
  </dev/null 2>&1 | sed -u 's/\r$//' | tee "$work/log" | sed -un 's/^VM> //p' || true
code=$(sed -n 's/^VM> exit \([0-9]*\)$/\1/p' "$work/log" | tail -1)
[ -n "$code" ] || { echo "machine.sh: the machine did not finish in $limit s:" >&2; tail -30 "$work/log" >&2; exit 124; }
exit "$code"
