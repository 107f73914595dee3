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

	"github.com/thawpool/thawpool/runtime"
)

// Account is the service account that thawpool runs as when it is started by root.
const Account = "thawpool"

// GroupBase is the group that `thawpool setup` delegates to uid on a v1 host, below the mount of every hierarchy.
func GroupBase(uid int) string { return "/thawpool-" + strconv.Itoa(uid) }

// userManagerGroup is the group of uid's systemd user manager, the root of what systemd delegates to an ordinary user.
func userManagerGroup(uid int) string {
	return fmt.Sprintf("/user.slice/user-%d.slice/user@%d.service", uid, uid)
}

// Delegated is the group below which uid may make control groups that limit, count and freeze: on v1 the directory of
// `thawpool setup`, on v2 the group of uid's systemd user manager. What is missing is an ErrUnsupported whose hint is
// the root command that mends it.
func Delegated(uid int) (base string, err error) {
	return realHost.delegated(uid)
}

func (h machine) delegated(uid int) (string, error) {
	m, err := readMounts(h.root)
	if err != nil {
		return "", err
	}
	v, err := m.version()
	if err != nil {
		return "", err
	}
	if v == V2 {
		return h.delegatedV2(m, uid)
	}
	return h.delegatedV1(m, uid)
}

func (h machine) delegatedV1(m mounts, uid int) (string, error) {
	base := GroupBase(uid)
	for _, name := range NeededV1 {
		if m.v1[name] == "" {
			continue // not mounted: version has seen to those that cannot be done without
		}
		dir := filepath.Join(m.v1[name], base)
		if err := ownedDir(dir, uid); err != nil {
			err = fmt.Errorf("%w: cgroup %s is not delegated to uid %d: %w", runtime.ErrUnsupported, name, uid, err)
			return "", runtime.WithHint(err, h.setupCommand(uid))
		}
	}
	if dir := m.v1["cpuset"]; dir != "" {
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			data, err := os.ReadFile(filepath.Join(dir, base, file))
			if err != nil || strings.TrimSpace(string(data)) == "" {
				err := fmt.Errorf("%w: %s of %s is empty, so no process can join it", runtime.ErrUnsupported, file, base)
				return "", runtime.WithHint(err, h.setupCommand(uid))
			}
		}
	}
	return base, nil
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

func (h machine) delegatedV2(m mounts, uid int) (string, error) {
	base := userManagerGroup(uid)
	data, err := os.ReadFile(filepath.Join(m.v2, base, "cgroup.controllers"))
	if err != nil {
		err = fmt.Errorf("%w: the systemd user manager of uid %d does not run: %w", runtime.ErrUnsupported, uid, err)
		return "", runtime.WithHint(err, h.setupCommand(uid))
	}
	var missing []string
	have := strings.Fields(string(data))
	for _, name := range NeededV2 {
		if !slices.Contains(have, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		err := fmt.Errorf("%w: systemd does not delegate the controllers %s to uid %d",
			runtime.ErrUnsupported, strings.Join(missing, ", "), uid)
		return "", runtime.WithHint(err, h.setupCommand(uid))
	}
	return base, nil
}
