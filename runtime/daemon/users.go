package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/thawpool/thawpool/runtime/host"
)

// A user of the daemon holds a lock on a file of its own in the users directory. The kernel lets go of the lock when the
// process dies, however it dies; who then gets the lock knows it.
type user struct {
	file *os.File
}

// userCount tells several users in one process apart.
var userCount atomic.Int64

// register makes this process a user. The file gets its name only when it is locked, so nobody sees it unlocked.
func register(l layout) (*user, error) {
	owner, err := host.Self()
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%s~%d", owner, userCount.Add(1))
	temp := l.path("users", "."+name)
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("register as a user of the daemon: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		err = os.Rename(temp, l.path("users", name))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("register as a user of the daemon: %w", err), f.Close(), os.Remove(temp))
	}
	return &user{file: f}, nil
}

// close ends the use. The file goes first, so that no one takes the closed user for a dead one.
func (u *user) close(l layout) {
	name := strings.TrimPrefix(filepath.Base(u.file.Name()), ".")
	_ = os.Remove(l.path("users", name)) // one that stays is found unlocked and removed by the keeper
	_ = u.file.Close()
}

// users are the processes that use the daemon, and those that died without saying so, whose files are removed.
func (l layout) users() (living, dead map[host.Owner]bool, err error) {
	entries, err := os.ReadDir(l.path("users"))
	if err != nil {
		return nil, nil, fmt.Errorf("list users of the daemon: %w", err)
	}
	living, dead = map[host.Owner]bool{}, map[host.Owner]bool{}
	for _, e := range entries {
		name, _, _ := strings.Cut(e.Name(), "~")
		owner, err := host.ParseOwner(strings.TrimPrefix(name, "."))
		if err != nil {
			continue // not ours
		}
		if strings.HasPrefix(name, ".") {
			if !owner.Alive() { // died between creating the file and naming it
				_ = os.Remove(l.path("users", e.Name()))
			}
			continue
		}
		held, err := isLocked(l.path("users", e.Name()))
		switch {
		case errors.Is(err, fs.ErrNotExist): // has just closed
		case err != nil:
			return nil, nil, fmt.Errorf("look at user %s: %w", e.Name(), err)
		case held:
			living[owner] = true
		default:
			dead[owner] = true
			_ = os.Remove(l.path("users", e.Name()))
		}
	}
	for owner := range living {
		delete(dead, owner)
	}
	return living, dead, nil
}

// isLocked tells whether someone holds the lock of a file.
func isLocked(path string) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}
