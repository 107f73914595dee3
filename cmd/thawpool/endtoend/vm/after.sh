# After the machine went down while a server had frozen sandboxes, and at the end. Sourced.

recovered() {
  works
  [ "$(image_sum)" = "$(cat /root/image.sum)" ] || fail "the image is $(image_sum) and was $(cat /root/image.sum)"
  nothing_left "from before"
  as_alice "$in/client thawpool serve --pool-size 2 --queue-wait 10m --log-level warn"
  nothing_left "after a server"
}

removed() {
  say "removed, by the words of docs/operations.md"
  local name
  name=$(basename "$in"/thawpool-*.tar.gz .tar.gz)
  sed -n '/^\*\*Remove\*\*/,/^## / s/^    //p' "$in/operations.md" | sed "s/thawpool-VERSION-linux-amd64/$name/g" > /tmp/remove
  as_alice "set -x; $(cat /tmp/remove)"
  # The daemon ends when it sees that its state directory has gone.
  for _ in $(seq 60); do
    [ -n "$(remains)" ] || { echo "      nothing is left of it"; return; }
    sleep 1
  done
  fail "left after removal: $(remains)"
}

# remains lists what an installation has outside of its control groups.
remains() {
  ls -d /opt/thawpool-* /usr/local/bin/thawpool /usr/local/lib/thawpool /var/lib/thawpool* /home/alice/.local/state/thawpool \
    /home/alice/.cache/thawpool /etc/apparmor.d/thawpool /etc/systemd/system/user@.service.d/50-thawpool.conf \
    /etc/sysctl.d/90-thawpool.conf /var/lib/systemd/linger/alice 2>/dev/null || true
  pgrep -fa thawpool- || true
}
