package host

import (
	"errors"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// state checks that uid has a place for its images and sandboxes, and that the file system there takes an overlay: one
// is really mounted, in a new user namespace.
func (h machine) state(uid int, stateDir string) []Check {
	c := Check{ID: "state", Title: "state directory", Fatal: true}
	wanted := h.stateDir(uid, stateDir)
	if wanted == "" {
		return []Check{c.broken("set "+StateEnv+" to a directory of your own",
			"%s has no home directory to keep images in", h.name(uid))}
	}
	dir := nearest(wanted)
	if !h.writable(dir, uid) {
		return []Check{c.broken("sudo install -d -m 700 -o "+h.name(uid)+" "+wanted+"   # or set "+StateEnv,
			"%s cannot keep images in %s: %s is closed to it", h.name(uid), wanted, dir)}
	}
	return []Check{c.passed("%s", wanted), h.overlay(uid, dir)}
}

func (h machine) overlay(uid int, dir string) Check {
	c := Check{ID: "overlayfs", Title: "overlayfs in a user namespace", Fatal: true}
	err := h.try(uid, dir)
	switch {
	case err == nil:
		return c.passed("mounted in %s", dir)
	case errors.Is(err, errNoUserns):
		return c.broken("allow unprivileged user namespaces; in a container, start it with --security-opt seccomp=unconfined",
			"a user namespace cannot be made: %v", err)
	case errors.Is(err, errSlow):
		c.Fatal = false
		return c.broken("wait until the machine is less busy", "not known: %v", err)
	default:
		return c.broken("set "+StateEnv+" to a directory on ext4, xfs, btrfs or tmpfs; dmesg holds the kernel's reason",
			"an overlay cannot be mounted in %s: %v", dir, err)
	}
}

// stateDir is where uid's state is kept: what is configured, else what the environment says to the caller, else below
// the account's home.
func (h machine) stateDir(uid int, configured string) string {
	if configured != "" {
		return configured
	}
	if uid == h.euid && h.root == "" {
		if dir, err := DefaultStateDir(); err == nil {
			return dir
		}
	}
	u, err := h.lookup(uid)
	if err != nil || u.HomeDir == "" {
		return ""
	}
	return h.path(filepath.Join(u.HomeDir, ".local", "state", "thawpool"))
}

// nearest is dir, or the nearest directory above it that exists.
func nearest(dir string) string {
	for !exists(dir) && len(dir) > 1 {
		dir = filepath.Dir(dir)
	}
	return dir
}

// writable tells whether uid may make files in dir. For another than the caller only the owner is looked at.
func (h machine) writable(dir string, uid int) bool {
	if uid == h.euid {
		return unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS) == nil
	}
	return ownedDir(dir, uid) == nil
}
