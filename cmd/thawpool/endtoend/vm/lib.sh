# What the scenarios share. Sourced; in is the directory of the job.
say() { echo "== $*"; }
fail() { echo "FAILED: $*"; exit 1; }

# wanted NAME...: those of these scenarios that VM_SCENARIOS of test.sh names, all when it names none.
wanted() { printf '%s\n' "$@" | if grep -q . "$in/only"; then grep -xFf "$in/only"; else cat; fi; }

# scenarios FILE NAME...: runs these functions of FILE, each in a shell of its own. What fails is noted, and the next is tried.
scenarios() {
  local file=$1 name began
  shift
  for name in "$@"; do
    began=$SECONDS
    if in=$in bash -euo pipefail -c '. "$in/lib.sh"; . "$in/$1"; "$2"' scenario "$file" "$name"; then
      echo "      ($name: $((SECONDS - began)) s of its clock)"
    else
      echo "FAILED: $name"
      echo "$name" >> /root/failed
      sync /root/failed
    fi
  done
}

# readme FIRST,LAST: these lines of README's install commands, for this tarball.
readme() {
  local name; name=$(basename "$in"/thawpool-*.tar.gz .tar.gz)
  sed -n '/^## Install/,/^## In a shell/ s/^    //p' "$in/README.md" |
    sed "s/thawpool-VERSION-linux-amd64/$name/g; s,-xzf ,-xzf $in/," | sed -n "$1p"
}

# as_alice COMMANDS: in a login of hers over ssh, as a person at a keyboard would.
as_alice() {
  local status=0
  ssh -o BatchMode=yes -o StrictHostKeyChecking=accept-new -o LogLevel=ERROR -i /root/.ssh/alice alice@localhost \
    "bash -lec $(printf %q "$1")" < /dev/null || status=$?
  return "$status"
}

enter_by_ssh() {
  chmod 711 /root && chmod -R a+rX "$in"
  mkdir -p /root/.ssh ~alice/.ssh
  ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/alice
  cp /root/.ssh/alice.pub ~alice/.ssh/authorized_keys
  chown -R alice: ~alice/.ssh
  chmod 700 ~alice/.ssh
}

# doctor_fails CAUSE FIX: doctor says as alice that sandboxes cannot run, why, and the command that mends it.
doctor_fails() {
  local out status=0
  out=$(as_alice 'thawpool doctor' 2>&1) || status=$?
  echo "$out" | grep -A1 -E '^(FAIL|warn)' || true
  [ "$status" = 1 ] || fail "doctor's status is $status: $out"
  [[ $out == *"$1"* ]] || fail "doctor does not say: $1: $out"
  [[ $out == *"mend it: $2"* ]] || fail "doctor does not say how to mend it: $2: $out"
  # serve and run say the same, at once.
  out=$(as_alice 'echo 1 | thawpool run -' 2>&1) && fail "run works all the same: $out"
  [[ $out == *"$1"* && $out == *"$2"* ]] || fail "run says something else: $out"
}

# mended: the commands that doctor names, run as alice one after the other, make sandboxes run. A second one is only needed
# where the first does not dare to end a user's services.
mended() {
  local fix
  for _ in 1 2; do
    fix=$(as_alice 'thawpool doctor' 2>/dev/null | sed -n 's/^      mend it: //p' | head -1 || true) # doctor fails
    [ -n "$fix" ] || break
    echo "      run: $fix"
    as_alice "$fix" 2>&1 | sed 's/^/        /' || true
  done
  works
}

# idle ends the daemon, so that the next start meets the machine as it is.
idle() { as_alice 'systemctl --user stop "thawpool-*.service"' || true; }

works() {
  local out
  out=$(as_alice 'thawpool doctor && echo "print(6*7)" | thawpool run -' 2>&1) || fail "$out"
  [[ $out == *"sandboxes can run"*42 ]] || fail "$out"
  echo "      sandboxes can run"
}

# leftovers lists what sandboxes have: runner processes, their groups, FIFOs, bundles, snapshots but the image's own two, and
# what else a start makes for a moment.
leftovers() {
  pgrep -fa /opt/thawpool/runner.py || true
  find /sys/fs/cgroup/user.slice -path '*/daemon/sandboxes/*' -type d 2>/dev/null || true
  local state=/home/alice/.local/state/thawpool
  find "$state/fifo" "$state/users" -mindepth 1 2>/dev/null || true
  find "$state" -maxdepth 1 -name '.thawpool-probe-*' 2>/dev/null || true
  find "$state/root/io.containerd.runtime.v2.task" -mindepth 2 -maxdepth 2 2>/dev/null || true
  find "$state/root/io.containerd.snapshotter.v1.overlayfs/snapshots" -mindepth 1 -maxdepth 1 2>/dev/null | tail -n +3 || true
}

# await WHAT COMMAND: polls until the command succeeds.
await() {
  for _ in $(seq 180); do
    ! eval "$2" || return 0
    sleep 1
  done
  fail "still not: $1"
}

# nothing_left WHEN: waits until sandboxes have left nothing.
nothing_left() {
  for _ in $(seq 60); do
    [ -n "$(leftovers)" ] || { echo "      nothing is left of the sandboxes"; return; }
    sleep 1
  done
  leftovers
  fail "left $1"
}

# image_sum is one for all files of the default image, as a sandbox sees them.
image_sum() { as_alice "thawpool run --timeout 120 $in/sum.py"; }

# start_server: a server of alice's with two sandboxes frozen, in a service of her own user manager. Its input stays open.
start_server() {
  as_alice 'systemd-run --user --quiet --collect --unit=server --setenv=PATH=$PATH bash -c "sleep infinity | thawpool serve --pool-size 2"'
  await "two sandboxes are frozen" '[ "$(frozen)" = 2 ]'
}

frozen() {
  cat /sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/thawpool-*.service/daemon/sandboxes/*/cgroup.events 2>/dev/null |
    grep -c 'frozen 1' || true
}
