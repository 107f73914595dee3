package prepare

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/thawpool/thawpool/runtime/host"
)

const (
	// InstallDir holds root's copies of our programs, one directory for each build, for accounts that cannot reach the
	// build itself.
	InstallDir = "/usr/local/lib/thawpool"
	// keepInstalls is how many copies are kept: running processes may still start programs of an older one.
	keepInstalls = 3
)

// Install makes our executable and the programs beside it reachable for uid, and gives the path to start: exe itself when
// uid can reach it, else root's copy, made when it is missing.
func (p *Preparer) Install(exe string, uid int) (string, error) {
	if p.root == "" && host.Reachable(exe, uid) {
		return exe, nil
	}
	err := p.locked(func() (err error) {
		exe, err = p.installCopy(exe)
		return err
	})
	return exe, err
}

// Installed is the path that Install would give, when nothing needs to be done for it.
func Installed(exe string, uid int) (string, bool) {
	if host.Reachable(exe, uid) {
		return exe, true
	}
	_, key, err := programs(exe)
	if err != nil {
		return "", false
	}
	copied := filepath.Join(InstallDir, key, filepath.Base(exe))
	return copied, host.Reachable(copied, uid) // a copy appears whole, by a rename
}

func (p *Preparer) installCopy(exe string) (string, error) {
	names, key, err := programs(exe)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(InstallDir, key)
	copied := filepath.Join(dir, filepath.Base(exe))
	if _, err := os.Stat(p.path(dir)); err == nil {
		now := time.Now()
		return copied, os.Chtimes(p.path(dir), now, now) // so that the newest are those in use
	}
	if err := os.MkdirAll(p.path(InstallDir), 0o755); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(p.path(InstallDir), ".new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp) // gone already after the rename
	for _, name := range names {
		if err := copyProgram(filepath.Join(filepath.Dir(exe), name), filepath.Join(tmp, name)); err != nil {
			return "", fmt.Errorf("copy %s: %w", name, err)
		}
	}
	if err := errors.Join(os.Chmod(tmp, 0o755), os.Chmod(p.path(InstallDir), 0o755), os.Rename(tmp, p.path(dir))); err != nil {
		return "", err
	}
	p.say("copied %s and the programs beside it to %s, because others cannot reach it", exe, dir)
	return copied, p.prune(dir)
}

// programs are the files beside exe that belong to us, exe included, and a key that changes with any of them. The key is
// made of what the file system knows of them; reading some hundred megabytes at each start would cost more than it brings.
func programs(exe string) (names []string, key string, err error) {
	dir := filepath.Dir(exe)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, "", err
	}
	sum := sha256.New()
	for _, e := range entries {
		name := e.Name()
		ours := name == filepath.Base(exe) || name == "ctr" || slices.Contains(host.Binaries, name) ||
			strings.HasPrefix(name, "containerd-shim-") || strings.HasPrefix(name, "thawpool-")
		if !ours {
			continue
		}
		info, err := os.Stat(filepath.Join(dir, name)) // through a symbolic link
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		names = append(names, name)
		fmt.Fprintf(sum, "%s\x00%s\x00%d\x00%d\x00", dir, name, info.Size(), info.ModTime().UnixNano())
	}
	if !slices.Contains(names, filepath.Base(exe)) {
		return nil, "", fmt.Errorf("%w: %s", fs.ErrNotExist, exe)
	}
	return names, hex.EncodeToString(sum.Sum(nil)[:8]), nil
}

func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(0o755), out.Close()) // the umask may have taken bits away
}

// prune removes all copies but the newest few and those that a process still runs from.
func (p *Preparer) prune(current string) error {
	entries, err := os.ReadDir(p.path(InstallDir))
	if err != nil {
		return err
	}
	type install struct {
		dir  string
		used time.Time
	}
	var all []install
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.IsDir() {
			all = append(all, install{filepath.Join(InstallDir, e.Name()), info.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b install) int { return b.used.Compare(a.used) })
	for _, old := range all[min(keepInstalls, len(all)):] {
		if old.dir == current || p.running(old.dir) {
			continue
		}
		if err := os.RemoveAll(p.path(old.dir)); err != nil {
			return err
		}
	}
	return nil
}

// running tells whether a process of this machine was started from dir.
func (p *Preparer) running(dir string) bool {
	exes, _ := filepath.Glob(p.path("/proc/[0-9]*/exe")) // the pattern is well formed
	return slices.ContainsFunc(exes, func(link string) bool {
		exe, err := os.Readlink(link)
		return err == nil && strings.HasPrefix(exe, dir+"/")
	})
}
