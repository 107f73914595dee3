# Machines on which sandboxes cannot run: doctor names the cause and a command, and that command mends it. Sourced.

clone() {
  say "broken: user namespaces are forbidden (kernel.unprivileged_userns_clone)"
  idle
  sysctl -qw kernel.unprivileged_userns_clone=0
  doctor_fails "kernel.unprivileged_userns_clone is 0" "echo kernel.unprivileged_userns_clone=1"
  mended
}

namespaces() {
  say "broken: user namespaces are forbidden (user.max_user_namespaces)"
  idle
  sysctl -qw user.max_user_namespaces=0
  doctor_fails "user.max_user_namespaces is 0" "echo user.max_user_namespaces="
  mended
}

apparmor() {
  if [ ! -e /proc/sys/kernel/apparmor_restrict_unprivileged_userns ]; then
    say "this kernel's AppArmor cannot restrict user namespaces"
    return
  fi
  say "broken: AppArmor restricts user namespaces, as Ubuntu does"
  idle
  sysctl -qw kernel.apparmor_restrict_unprivileged_userns=1
  doctor_fails "AppArmor restricts user namespaces" "sudo "
  mended
  sysctl -qw kernel.apparmor_restrict_unprivileged_userns=0
}

setuid() {
  say "broken: newuidmap has lost its setuid bit"
  idle
  chmod u-s /usr/bin/newuidmap
  doctor_fails "newuidmap is neither setuid root" "sudo chmod u+s"
  mended
}

subids() {
  say "broken: no subordinate ids"
  idle
  sed -i /^alice:/d /etc/subuid /etc/subgid
  doctor_fails "/etc/subuid has no range for alice" "sudo "
  mended
}

controller() {
  say "broken: systemd delegates no more than the pids controller"
  idle
  mkdir -p /etc/systemd/system/user@.service.d
  printf '[Service]\nDelegate=\nDelegate=pids\n' > /etc/systemd/system/user@.service.d/10-site.conf
  systemctl daemon-reload
  systemctl restart user@1000.service
  doctor_fails "systemd does not delegate the controllers" "sudo "
  mended
}
