// Package prepare makes a machine ready for sandboxes, as root: the service account, subordinate ids, delegated control
// groups, and programs that the account can reach. Every step looks first and changes only what is missing, says what it
// changed, and writes it down so that Undo takes away exactly that.
package prepare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/thawpool/thawpool/runtime/host"
)

// lockFile serialises preparations: several commands may be started by root at once.
const lockFile = "/run/thawpool-setup.lock"

// ErrNotRoot means that somebody else than root tried: preparing a machine takes root.
var ErrNotRoot = errors.New("preparing this machine takes root")

// Preparer prepares one machine. The zero value is not usable; see New.
type Preparer struct {
	root    string // prefix of every path in tests, "" for the real machine
	service serviceAccount
	report  func(line string)
	run     func(ctx context.Context, name string, args ...string) error
	lookup  func(name string) (*user.User, error)
	chown   func(path string, uid, gid int) error // tests are not root
	rec     record
}

// New is a preparer of this machine. It calls report with one line for each change it makes, and for nothing else.
func New(report func(line string)) *Preparer {
	return &Preparer{service: theService, report: report, run: runCommand, lookup: host.LookupName, chown: os.Chown}
}

// Options say what to prepare for.
type Options struct {
	Users  []string // account names; the service account is made when it is missing, others must exist
	BinDir string   // where the running thawpool and the programs beside it are
}

// Run prepares the machine for every user. It may be repeated at any time, also while sandboxes run.
func (p *Preparer) Run(ctx context.Context, o Options) error {
	return p.locked(func() error {
		for _, name := range o.Users {
			if err := p.prepareUser(ctx, name); err != nil {
				return fmt.Errorf("prepare %s: %w", name, err)
			}
		}
		return p.appArmor(ctx, o.BinDir)
	})
}

func (p *Preparer) prepareUser(ctx context.Context, name string) error {
	u, err := p.account(ctx, name)
	if err != nil {
		return err
	}
	if err := p.subIDs(ctx, u); err != nil {
		return err
	}
	if err := p.idMapTools(ctx); err != nil {
		return err
	}
	return p.groups(ctx, u)
}

// Undo takes away what Run made, for these users or for all when there are none. It ends the sandboxes of those users
// and the processes of an account that Run created; it ends nothing else.
func (p *Preparer) Undo(ctx context.Context, users []string) error {
	return p.locked(func() error {
		all := len(users) == 0
		if all {
			users = p.names()
		}
		var errs []error
		for _, name := range users {
			if err := p.undoUser(ctx, name); err != nil {
				errs = append(errs, fmt.Errorf("undo %s: %w", name, err))
			}
		}
		if all {
			errs = append(errs, p.undoMachine(ctx))
		}
		return errors.Join(errs...)
	})
}

// locked runs f with the record of earlier runs loaded, while no other preparer is at work.
func (p *Preparer) locked(f func() error) error {
	if p.root == "" && os.Geteuid() != 0 {
		return ErrNotRoot
	}
	if err := os.MkdirAll(p.path(filepath.Dir(lockFile)), 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(p.path(lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	defer lock.Close() // which also unlocks
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lockFile, err)
	}
	if p.rec, err = p.loadRecord(); err != nil {
		return err
	}
	return f()
}

func (p *Preparer) path(name string) string { return filepath.Join(p.root, name) }

func (p *Preparer) say(format string, args ...any) { p.report(fmt.Sprintf(format, args...)) }

// runCommand runs an administrative program with no input and an untranslated, quiet environment. What it printed is
// part of the error.
func runCommand(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive", "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	out, err := cmd.CombinedOutput()
	if err != nil {
		text := strings.TrimSpace(string(out[max(0, len(out)-1000):]))
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, text)
	}
	return nil
}

// ids are an account's own numbers.
func ids(u *user.User) (uid, gid int, err error) {
	uid, err = strconv.Atoi(u.Uid)
	if err != nil {
		return 0, 0, fmt.Errorf("uid of %s: %w", u.Username, err)
	}
	gid, err = strconv.Atoi(u.Gid)
	if err != nil {
		return 0, 0, fmt.Errorf("gid of %s: %w", u.Username, err)
	}
	return uid, gid, nil
}

// uidOf is an account's number, or -1.
func uidOf(u *user.User) int {
	uid, _, err := ids(u)
	if err != nil {
		return -1
	}
	return uid
}
