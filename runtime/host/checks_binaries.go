package host

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Binaries are the programs that must stand beside thawpool.
var Binaries = []string{"rootlesskit", "containerd", "containerd-shim-runc-v2", "runc"}

// binaries checks that the programs of the private daemon are in binDir and that uid can execute them there.
func (h machine) binaries(uid int, binDir string) Check {
	c := Check{ID: "binaries", Title: "programs beside thawpool", Fatal: true}
	for _, name := range Binaries {
		path := filepath.Join(binDir, name)
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			return c.broken("make build   # in the checkout, then start bin/thawpool", "%s is missing from %s", name, binDir)
		}
		if blocked := h.blocked(path, uid); blocked != "" {
			return c.broken(h.setupCommand(uid), "%s may not execute %s: %s is closed to it", h.name(uid), path, blocked)
		}
	}
	return c.passed("%s in %s", strings.Join(Binaries, ", "), binDir)
}

// Reachable tells whether uid can execute the program at path: every directory above it must let it pass.
func Reachable(path string, uid int) bool { return realHost.blocked(path, uid) == "" }

// blocked is the first file or directory on the way to path that keeps uid from executing it, or "".
func (h machine) blocked(path string, uid int) string {
	if uid == h.euid && h.root == "" {
		if unix.Access(path, unix.X_OK) != nil {
			return path
		}
		return ""
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return path
	}
	var chain []string
	for at := real; len(at) > len(h.root) && at != "/"; at = filepath.Dir(at) {
		chain = append([]string{at}, chain...)
	}
	for _, at := range chain {
		if !executable(at, uid, h.gidOf(uid)) {
			return at
		}
	}
	return ""
}

// executable tells by owner and mode whether uid with group gid may execute or pass path. Access lists are not looked at:
// where they open a file, root makes a copy that was not needed, which harms nobody.
func executable(path string, uid, gid int) bool {
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return false
	}
	switch {
	case int(st.Uid) == uid:
		return st.Mode&0o100 != 0
	case int(st.Gid) == gid:
		return st.Mode&0o010 != 0
	default:
		return st.Mode&0o001 != 0
	}
}
