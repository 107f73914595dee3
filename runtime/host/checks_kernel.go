package host

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// minKernel is the first Linux that lets an unprivileged user mount overlayfs in a user namespace (5.11, 459c7c565ac3).
var minKernel = [2]int{5, 11}

// kernel checks the kernel's version.
func (h machine) kernel() Check {
	c := Check{ID: "kernel", Title: "Linux kernel", Fatal: true}
	release := h.read("/proc/sys/kernel/osrelease")
	var have [2]int
	if n, _ := fmt.Sscanf(release, "%d.%d", &have[0], &have[1]); n != 2 {
		return c.broken("run thawpool on Linux with /proc mounted", "no kernel version in /proc/sys/kernel/osrelease (%q)", release)
	}
	if slices.Compare(have[:], minKernel[:]) < 0 {
		return c.broken("upgrade the distribution, or install a newer kernel and reboot",
			"Linux %s is older than %d.%d, the first that lets ordinary users mount overlayfs", release, minKernel[0], minKernel[1])
	}
	return c.passed("%s", release)
}

// userns checks that ordinary users may make user namespaces, as far as the kernel's settings tell.
func (h machine) userns() Check {
	c := Check{ID: "userns", Title: "user namespaces", Fatal: true}
	if !exists(h.path("/proc/self/ns/user")) {
		return c.broken("boot a kernel that is built with CONFIG_USER_NS", "this kernel has no user namespaces")
	}
	if h.read("/proc/sys/kernel/unprivileged_userns_clone") == "0" { // a Debian and Arch patch
		return c.broken(sysctlFix("kernel.unprivileged_userns_clone", "1"),
			"kernel.unprivileged_userns_clone is 0: ordinary users may not make user namespaces")
	}
	limit := h.read("/proc/sys/user/max_user_namespaces")
	if limit == "0" {
		return c.broken(sysctlFix("user.max_user_namespaces", "15000"),
			"user.max_user_namespaces is 0: nobody may make user namespaces")
	}
	return c.passed("at most %s", limit)
}

// sysctlFix is the command that sets a kernel setting now and for every boot.
func sysctlFix(key, value string) string {
	return fmt.Sprintf("echo %s=%s | sudo tee /etc/sysctl.d/90-thawpool.conf && sudo sysctl --system", key, value)
}

// AppArmorProfile is the file with the profile that `thawpool setup` installs where AppArmor restricts user namespaces.
const AppArmorProfile = "/etc/apparmor.d/thawpool"

// AppArmorRestricts tells whether AppArmor takes the capabilities away from user namespaces of programs without a
// profile, as Ubuntu does since 23.10 and by default since 24.04.
func AppArmorRestricts() bool { return realHost.appArmorRestricts() }

func (h machine) appArmorRestricts() bool {
	return h.read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1"
}

// appArmor checks that AppArmor's restriction of user namespaces is off, or lifted for our binaries by a profile.
func (h machine) appArmor(uid int, binDir string) Check {
	c := Check{ID: "apparmor", Title: "AppArmor and user namespaces", Fatal: true}
	if !h.appArmorRestricts() {
		return c.passed("no restriction")
	}
	profile, _ := os.ReadFile(h.path(AppArmorProfile)) // absent allows nothing
	if !ProfileAllows(profile, binDir) {
		return c.broken(h.setupCommand(uid), "AppArmor restricts user namespaces "+
			"(kernel.apparmor_restrict_unprivileged_userns is 1) and no profile allows them to the programs in %s", binDir)
	}
	return c.passed("restricted, and allowed to thawpool by %s", AppArmorProfile)
}

// seccomp checks that the kernel filters system calls.
func (h machine) seccomp() Check {
	c := Check{ID: "seccomp", Title: "seccomp filters", Fatal: true}
	actions := strings.Fields(h.read("/proc/sys/kernel/seccomp/actions_avail"))
	if !slices.Contains(actions, "errno") {
		return c.broken("boot a kernel that is built with CONFIG_SECCOMP_FILTER", "this kernel has no seccomp filters")
	}
	return c.passed("%s", strings.Join(actions, " "))
}

// privileges checks that setuid programs work for this process at all: newuidmap is one.
func (h machine) privileges() Check {
	c := Check{ID: "no-new-privs", Title: "setuid programs", Fatal: true}
	for line := range strings.Lines(h.read("/proc/self/status")) {
		if key, value, _ := strings.Cut(line, ":"); key == "NoNewPrivs" && strings.TrimSpace(value) == "1" {
			return c.broken("start thawpool outside of that sandbox (systemd: NoNewPrivileges=no, docker: without no-new-privileges)",
				"this process runs with no_new_privs, under which newuidmap cannot work")
		}
	}
	return c.passed("allowed")
}

// gidOf is uid's own group, or -1.
func (h machine) gidOf(uid int) int {
	u, err := h.lookup(uid)
	if err != nil {
		return -1
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return -1
	}
	return gid
}
