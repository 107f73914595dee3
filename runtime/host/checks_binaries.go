package host

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Binaries are the programs that must stand beside thawpool: the private daemon's, our shim's and those of the stock shim,
// which is the other runtime that can be chosen.
var Binaries = []string{
	"rootlesskit", "containerd",
	"containerd-shim-thawpool-v1", "thawpool-init", "thawpool-delete",
	"containerd-shim-runc-v2", "runc",
}

// binaries checks that the programs of the private daemon are in binDir and that uid can execute them there.
func (h machine) binaries(uid int, binDir string) Check {
	c := Check{ID: "binaries", Title: "programs beside thawpool", Fatal: true}
	for _, name := range Binaries {
		path := filepath.Join(binDir, name)
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			return c.broken("unpack the release again, or in a checkout: make build", "%s is missing from %s", name, binDir)
		}
		if blocked := h.blocked(path, uid); blocked != "" {
			return c.broken(h.setupCommand(uid), "%s may not execute %s: %s is closed to it", h.name(uid), path, blocked)
		}
	}
	return c.passed("%s in %s", strings.Join(Binaries, ", "), binDir)
}

// The permission bits of a file's last class: others.
const (
	mayRead    = 0o004
	mayExecute = 0o001
)

// Reachable tells whether uid can execute the program, or enter the directory, at path.
func Reachable(path string, uid int) bool { return realHost.blocked(path, uid) == "" }

// Readable tells whether uid can read the file at path.
func Readable(path string, uid int) bool {
	return realHost.blocked(filepath.Dir(path), uid) == "" && realHost.permits(path, uid, mayRead)
}

// blocked is the first file or directory on the way to path that keeps uid from executing it, or "".
func (h machine) blocked(path string, uid int) string {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	target, err := filepath.EvalSymlinks(absolute)
	if err != nil {
		return path
	}
	var chain []string
	for at := target; len(at) > len(h.root) && at != "/"; at = filepath.Dir(at) {
		chain = append(chain, at)
	}
	for _, at := range slices.Backward(chain) {
		if !h.permits(at, uid, mayExecute) {
			return at
		}
	}
	return ""
}

// permits tells whether uid has the permission on one file or directory. For the caller the kernel is asked. For another
// user owner and mode are looked at, not access lists: where those open a file, root makes a copy that was not needed.
func (h machine) permits(path string, uid int, permission uint32) bool {
	if uid == h.euid && h.root == "" {
		return unix.Faccessat(unix.AT_FDCWD, path, permission, unix.AT_EACCESS) == nil
	}
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return false
	}
	switch {
	case int(st.Uid) == uid:
		permission <<= 6
	case int(st.Gid) == h.gidOf(uid):
		permission <<= 3
	}
	return st.Mode&permission != 0
}
