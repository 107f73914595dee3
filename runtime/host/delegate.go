package host

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// GroupBase is the group that `thawpool setup` delegates to uid on a v1 host, below the mount of every hierarchy.
func GroupBase(uid int) string { return "/thawpool-" + strconv.Itoa(uid) }

// DelegateDropIn makes systemd delegate the controllers to every user manager; `thawpool setup` writes it where needed.
const DelegateDropIn = "/etc/systemd/system/user@.service.d/50-thawpool.conf"

// UserManagerGroup is the group of uid's systemd user manager: the top of what systemd delegates to an ordinary user.
func UserManagerGroup(uid int) string {
	return fmt.Sprintf("/user.slice/user-%d.slice/user@%d.service", uid, uid)
}

// Delegated is the group below which uid may make control groups that limit, count and freeze: on v1 the directory of
// `thawpool setup`, on v2 the group of uid's systemd user manager. What is missing is an ErrUnsupported whose hint is
// the root command that mends it.
func Delegated(uid int) (base string, err error) {
	base, c := realHost.delegated(uid)
	return base, c.Err()
}

// delegated finds the base and says what it is, or what is missing.
func (h machine) delegated(uid int) (string, Check) {
	c := Check{ID: "cgroups", Title: "delegated control groups", Fatal: true}
	m, err := readMounts(h.root)
	if err != nil {
		return "", c.failed(err)
	}
	v, err := m.version()
	if err != nil {
		return "", c.failed(err)
	}
	if v == V2 {
		return h.delegatedV2(c, m, uid)
	}
	return h.delegatedV1(c, m, uid)
}

func (h machine) delegatedV1(c Check, m mounts, uid int) (string, Check) {
	base, fix := GroupBase(uid), h.setupCommand(uid)
	for _, name := range NeededV1 {
		if m.v1[name] == "" {
			continue // not mounted: version has seen to those that cannot be done without
		}
		if err := ownedDir(filepath.Join(m.v1[name], base), uid); err != nil {
			return "", c.broken(fix, "the %s control group is not delegated to %s: %v", name, h.name(uid), err)
		}
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		dir := m.v1["cpuset"]
		if dir == "" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, base, file))
		if err != nil || strings.TrimSpace(string(data)) == "" {
			return "", c.broken(fix, "%s of %s is empty, so no process can join it", file, base)
		}
	}
	return base, c.passed("v1, %s in %d hierarchies", base, len(m.dirs))
}

// ownedDir tells whether uid owns dir and may make groups in it. It looks at the owner instead of trying, so that root
// gets the same answer for an account as the account itself.
func ownedDir(dir string, uid int) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() {
		return &fs.PathError{Op: "use", Path: dir, Err: syscall.ENOTDIR}
	}
	if int(st.Uid) != uid || info.Mode().Perm()&0o300 != 0o300 {
		return fmt.Errorf("%s belongs to uid %d with mode %s", dir, st.Uid, info.Mode().Perm())
	}
	return nil
}

func (h machine) delegatedV2(c Check, m mounts, uid int) (string, Check) {
	if !exists(h.path("/run/systemd/system")) {
		return "", c.broken("boot this machine with systemd, or with the control groups of cgroup v1",
			"cgroup v2 without systemd: there is nobody who delegates control groups to %s", h.name(uid))
	}
	base, fix := UserManagerGroup(uid), h.setupCommand(uid)
	missing, err := MissingV2(filepath.Join(m.v2, base))
	if err != nil {
		return "", c.broken(fix, "the systemd user manager of %s does not run (no session, no lingering)", h.name(uid))
	}
	if !exists(h.path(fmt.Sprintf("/run/user/%d", uid))) {
		return "", c.broken(fix, "/run/user/%d does not exist, so the systemd user manager cannot be reached", uid)
	}
	if len(missing) > 0 {
		if exists(h.path(DelegateDropIn)) { // setup did its part, and leaves to the user when the manager starts again
			fix = RestartManagerCommand(uid)
		}
		return "", c.broken(fix, "systemd does not delegate the controllers %s to %s", strings.Join(missing, ", "), h.name(uid))
	}
	return base, c.passed("v2, %s delegated to %s", strings.Join(NeededV2, " "), base)
}

// MissingV2 lists the needed controllers that a v2 group, given by its directory, does not get.
func MissingV2(dir string) ([]string, error) {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return nil, err
	}
	have := strings.Fields(string(data))
	return slices.DeleteFunc(slices.Clone(NeededV2), func(name string) bool { return slices.Contains(have, name) }), nil
}

// RestartManagerCommand is what the user types where uid's systemd user manager is older than what is delegated to it: it
// hands on only what it got when it started.
func RestartManagerCommand(uid int) string {
	return fmt.Sprintf("sudo systemctl restart user@%d.service   # ends that user's background services", uid)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
