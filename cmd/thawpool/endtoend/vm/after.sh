# After the machine went down while a server had frozen sandboxes, and at the end. Sourced.

recovered() {
  works
  nothing_left "from before"
  as_alice "$in/client thawpool serve --pool-size 2 --queue-wait 10m --log-level warn"
  nothing_left "after a server"
}

removed() {
  say "removed, by the words of docs/operations.md"
  local name left
  name=$(basename "$in"/thawpool-*.tar.gz .tar.gz)
  sed -n '/^\*\*Remove\*\*/,/^## / s/^    //p' "$in/operations.md" | sed "s/thawpool-VERSION-linux-amd64/$name/g" > /tmp/remove
  as_alice "$(cat /tmp/remove)"
  left=$(ls -d /opt/thawpool-* /usr/local/bin/thawpool /usr/local/lib/thawpool /var/lib/thawpool* /home/alice/.local/state/thawpool \
    /home/alice/.cache/thawpool /etc/apparmor.d/thawpool /etc/systemd/system/user@.service.d/50-thawpool.conf \
    /var/lib/systemd/linger/alice 2>/dev/null || true)
  [ -z "$left" ] || fail "left after removal: $left"
  [ -z "$(pgrep -fa thawpool- || true)" ] || { pgrep -fa thawpool-; fail "still runs"; }
}
