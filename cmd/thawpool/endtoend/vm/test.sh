#!/usr/bin/env bash
# test.sh TARBALL CLIENT [RELEASE...]: installs the release on fresh Debian machines and uses it there; see job. As root.
# VM_SCENARIOS="cron setuid" runs of use.sh and broken.sh only these; the installation, the falls and the removal always run.
set -euo pipefail
tarball=$1 client=$2
shift 2
[ $# -gt 0 ] || set -- bookworm trixie
here=$(dirname "$(readlink -f "$0")")
in=$(mktemp -d "${TMPDIR:-/var/tmp}/thawpool-vm.XXXXXX")
trap 'rm -rf "$in"' EXIT
cp "$here"/{job,sum.py,lib.sh,use.sh,broken.sh,after.sh} "$in/"
cp "$tarball" "$in/"
cp "$client" "$in/client"
tar -C "$in" -xzf "$tarball" --strip-components=1 --wildcards '*/README.md'
tar -C "$in" -xzf "$tarball" --strip-components=2 --wildcards '*/docs/operations.md'
printf '%s\n' ${VM_SCENARIOS:-} > "$in/only"
failed=()
for release in "$@"; do
  began=$SECONDS
  "$here/machine.sh" "$release" "$in" || failed+=("$release")
  echo "== $release took $((SECONDS - began)) s"
done
[ ${#failed[@]} = 0 ] || { echo "test.sh: failed on ${failed[*]}" >&2; exit 1; }
