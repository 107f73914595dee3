package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/thawpool/thawpool/runtime"
)

// Inside is where containerd and the shims see the state directory.
const Inside = "/run/thawpool"

// StatusDir is where servers publish themselves by sockets, below the state directory. A keeper removes those of dead ones.
const StatusDir = "status"

// maxSocketPath is the longest path that a unix socket can be bound to: sun_path has 108 bytes with its final zero.
const maxSocketPath = 107

// longestSocket is the longest socket below the state directory that is used from outside the namespaces.
const longestSocket = "/run/containerd.sock.ttrpc"

// layout is the state directory's.
type layout struct {
	dir   string // the state directory, without symbolic links
	short string // dir, or a short symbolic link to it where dir is too long for sockets
	id    string // names this state directory: in cgroups and units
}

// openLayout makes the state directory and sees to it that nobody else can enter.
func openLayout(stateDir string) (layout, error) {
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return layout{}, fmt.Errorf("make the state directory: %w", err)
	}
	dir, err := filepath.EvalSymlinks(stateDir)
	if err != nil {
		return layout{}, fmt.Errorf("resolve the state directory: %w", err)
	}
	if err := private(dir); err != nil {
		return layout{}, err
	}
	sum := sha256.Sum256([]byte(dir))
	l := layout{dir: dir, short: dir, id: hex.EncodeToString(sum[:4])}
	if len(dir)+len(longestSocket) > maxSocketPath {
		if l.short, err = l.shorten(os.TempDir()); err != nil {
			return layout{}, err
		}
	}
	for _, sub := range []string{"run", "fifo", "users", "log"} {
		if err := os.MkdirAll(l.path(sub), 0o700); err != nil {
			return layout{}, err
		}
	}
	return l, nil
}

// private checks that dir is this user's own, and closes it to others.
func private(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(st.Uid) != os.Geteuid() {
		return runtime.WithHint(fmt.Errorf("%s is not a directory of this user", dir),
			"remove it, or choose another with --state-dir")
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	return os.Chmod(dir, 0o700)
}

// shorten makes a symbolic link to the state directory in a directory of this user in tmp.
func (l layout) shorten(tmp string) (string, error) {
	dir := filepath.Join(tmp, fmt.Sprintf("thawpool-%d", os.Geteuid()))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("the state directory's path is too long for sockets: %w", err)
	}
	if err := private(dir); err != nil {
		return "", err
	}
	link := filepath.Join(dir, l.id)
	if len(link)+len(longestSocket) > maxSocketPath {
		return "", runtime.WithHint(fmt.Errorf("%s is too long for sockets, and so is %s", l.dir, link),
			"choose a shorter --state-dir")
	}
	if to, err := os.Readlink(link); err == nil && to == l.dir {
		return link, nil
	}
	// Two processes may do this at once: the rename is atomic, and both links are the same.
	temp := fmt.Sprintf("%s.%d", link, os.Getpid())
	if err := os.Symlink(l.dir, temp); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return link, os.Rename(temp, link)
}

func (l layout) path(elem ...string) string {
	return filepath.Join(append([]string{l.dir}, elem...)...)
}

// socket is containerd's, as seen from outside.
func (l layout) socket() string { return filepath.Join(l.short, "run", "containerd.sock") }

// rootlesskit's own state directory, as on its command line.
func (l layout) rootlesskit() string { return filepath.Join(l.short, "rk") }

// inside is the path that containerd has for a path below the state directory.
func (l layout) inside(path string) string {
	rest, ok := strings.CutPrefix(path, l.dir)
	if !ok {
		return path
	}
	return Inside + rest
}
