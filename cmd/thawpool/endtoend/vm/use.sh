# Installed by README's words, and used by a real MCP client in every way that a server is started. Sourced.
client="$in/client thawpool serve --pool-size 2 --queue-wait 10m --log-level warn"

installed() {
  say "README's words: unpack, link"
  as_alice "$(readme 1,2)"
  as_alice "thawpool version"
  say "doctor before setup"
  doctor_fails "newuidmap is not installed" "sudo apt-get install"
  say "README's words: setup, doctor, demo"
  as_alice "$(readme 3,5)"
  image_sum > /root/image.sum
  sync /root/image.sum
}

limits() {
  say "serve, from a login"
  as_alice "$client"
  nothing_left "after a login's server"
}

clock() {
  say "serve, while the machine's clock is set an hour back, right, an hour forward, and right again, each for 3 s"
  idle
  touch /tmp/setting
  trap 'rm -f /tmp/setting' EXIT
  while [ -e /tmp/setting ]; do
    for hour in "1 hour ago" "1 hour" "1 hour" "1 hour ago"; do
      sleep 3
      date -s "$hour" >> /tmp/set
    done
  done &
  as_alice "$client"
  nothing_left "after a server whose clock was set"
  rm /tmp/setting
  wait
  echo "      it was set $(wc -l < /tmp/set) times"
}

cron() {
  say "serve, from cron, which sets no XDG_RUNTIME_DIR"
  printf '#!/bin/sh\ncrontab -r\nPATH=/usr/local/bin:$PATH\nenv | grep XDG_\n%s\necho status $?\n' "$client" > /usr/local/bin/by-cron
  chmod 755 /usr/local/bin/by-cron
  echo "* * * * * /usr/local/bin/by-cron > /tmp/cron.part 2>&1; mv /tmp/cron.part /tmp/cron.out" | crontab -u alice -
  for _ in $(seq 900); do [ ! -e /tmp/cron.out ] || break; sleep 1; done
  cat /tmp/cron.out
  grep -qx 'status 0' /tmp/cron.out || fail "under cron"
  ! grep -q XDG_RUNTIME_DIR /tmp/cron.out || fail "this cron sets XDG_RUNTIME_DIR"
  nothing_left "after cron's server"
}

linger() {
  say "serve, as a service of a lingering user without a session"
  await "alice has no session" '! loginctl list-sessions --no-legend | grep -w alice | grep -qvw manager'
  await "alice's user manager runs" '[ -S /run/user/1000/systemd/private ]'
  systemd-run --quiet --wait --pipe --uid=alice --setenv=XDG_RUNTIME_DIR=/run/user/1000 \
    systemd-run --quiet --user --wait --pipe --setenv=PATH=/usr/local/bin:/usr/bin:/bin $client
  nothing_left "after a service's server"
}

killed() {
  say "a server is killed with all that belongs to its session"
  start_server
  as_alice 'systemctl --user kill --signal=KILL server.service'
  nothing_left "by a server that was killed"
  works
}

logout() {
  say "a user who does not linger: the daemon ends with the last session, the next login starts it anew"
  loginctl disable-linger alice
  await "the user manager ends" '[ ! -d /run/user/1000 ]'
  nothing_left "by the last logout"
  as_alice 'thawpool doctor | grep -A1 -E "^(FAIL|warn)"; echo "print(6*7)" | thawpool run -'
  mended
  [ -e /var/lib/systemd/linger/alice ] || fail "she does not linger"
}
