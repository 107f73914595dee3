package prepare

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thawpool/thawpool/runtime/host"
)

// endWait bounds the end of an account's processes.
const endWait = 20 * time.Second

// undoUser takes back what was made for one account.
func (p *Preparer) undoUser(ctx context.Context, name string) error {
	u, err := p.lookup(name)
	if err != nil { // gone already, by hand
		delete(p.rec.Users, name)
		return p.save()
	}
	name = u.Username // it may have been given as a number
	rec := *p.user(name)
	rec.Created = rec.Created || p.isService(u)
	uid, _, err := ids(u)
	if err != nil {
		return err
	}
	if rec.Created {
		if err := p.endProcesses(ctx, uid, name, rec.Linger); err != nil {
			return err
		}
	}
	if err := p.undoGroups(ctx, name, uid); err != nil {
		return err
	}
	if rec.Linger && !rec.Created {
		if err := p.run(ctx, "loginctl", "disable-linger", name); err != nil {
			return err
		}
		p.say("disabled lingering of %s", name)
	}
	if err := p.undoAccount(ctx, u, rec); err != nil {
		return err
	}
	delete(p.rec.Users, name)
	return p.save()
}

// undoGroups ends the sandboxes of the account on a v1 host and removes the directories that it was given.
func (p *Preparer) undoGroups(ctx context.Context, name string, uid int) error {
	m, err := host.ReadHierarchies(p.root)
	if err != nil {
		return err
	}
	if m.Version != host.V1 {
		return nil // systemd's own, it takes them away
	}
	if !slices.ContainsFunc(m.Delegable(), func(mount string) bool {
		_, err := os.Stat(filepath.Join(mount, host.GroupBase(uid)))
		return err == nil
	}) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, endWait)
	defer cancel()
	g := m.Group(host.GroupBase(uid))
	if err := errors.Join(g.Kill(ctx), g.Remove()); err != nil {
		return err
	}
	p.say("removed the control group %s of %s", host.GroupBase(uid), name)
	return nil
}

// undoAccount removes a created account with its home, or takes the ranges back that an existing one was given.
func (p *Preparer) undoAccount(ctx context.Context, u *user.User, rec userRecord) error {
	if rec.Created {
		if err := p.run(ctx, "userdel", "--remove", u.Username); err != nil {
			return err
		}
		p.say("removed the account %s with its home %s and its subordinate ids", u.Username, u.HomeDir)
		return nil
	}
	for _, r := range []struct{ ids, file, flag string }{
		{rec.SubUIDs, "/etc/subuid", "--del-subuids"},
		{rec.SubGIDs, "/etc/subgid", "--del-subgids"},
	} {
		if r.ids == "" {
			continue
		}
		if err := p.dropSubIDs(ctx, r.file, r.flag, u.Username, r.ids); err != nil {
			return err
		}
		p.say("took the subordinate ids %s in %s back from %s", r.ids, r.file, u.Username)
	}
	return nil
}

// endProcesses ends everything that a created account runs: nobody else uses it.
func (p *Preparer) endProcesses(ctx context.Context, uid int, name string, linger bool) error {
	if linger {
		if err := p.run(ctx, "loginctl", "disable-linger", name); err != nil {
			return err
		}
		if err := p.run(ctx, "systemctl", "stop", fmt.Sprintf("user@%d.service", uid)); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, endWait)
	defer cancel()
	for ended := 0; ; {
		pids := p.processesOf(uid)
		if len(pids) == 0 {
			if ended > 0 {
				p.say("ended %d processes of %s", ended, name)
			}
			return nil
		}
		ended = max(ended, len(pids))
		for _, pid := range pids {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("end process %d of %s: %w", pid, name, err)
			}
		}
		p.killGroups(ctx, uid)
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d processes of %s are still there: %w", len(pids), name, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// processesOf lists the processes whose real user is uid, but those that have ended and wait for their parent.
func (p *Preparer) processesOf(uid int) []int {
	entries, _ := os.ReadDir(p.path("/proc")) // unreadable shows as userdel's own refusal
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		status, err := os.ReadFile(p.path("/proc/" + e.Name() + "/status"))
		if err != nil {
			continue // gone meanwhile
		}
		_, line, _ := strings.Cut(string(status), "\nUid:")
		zombie := strings.Contains(string(status), "\nState:\tZ")
		if f := strings.Fields(line); !zombie && len(f) > 0 && f[0] == strconv.Itoa(uid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// killGroups ends sandboxes on a v1 host: a frozen process dies only after its thaw. An error shows as a process that
// stays.
func (p *Preparer) killGroups(ctx context.Context, uid int) {
	if m, err := host.ReadHierarchies(p.root); err == nil && m.Version == host.V1 {
		_ = m.Group(host.GroupBase(uid)).Kill(ctx)
	}
}

// undoMachine takes back what was made for no single account.
func (p *Preparer) undoMachine(ctx context.Context) error {
	if p.rec.AppArmor {
		if _, err := os.Lstat(p.path(host.AppArmorProfile)); err == nil { // else its profiles stay until a reboot
			if err := p.run(ctx, "apparmor_parser", "-R", host.AppArmorProfile); err != nil {
				return err
			}
		}
		if err := p.remove(host.AppArmorProfile); err != nil {
			return err
		}
	}
	if p.rec.Drop {
		if err := p.remove(dropIn); err != nil {
			return err
		}
		if err := p.run(ctx, "systemctl", "daemon-reload"); err != nil {
			return err
		}
	}
	if err := p.remove(InstallDir); err != nil {
		return err
	}
	return os.RemoveAll(p.path(recordFile))
}

// remove takes a file or a directory of ours away and says so, when it is there.
func (p *Preparer) remove(name string) error {
	if _, err := os.Lstat(p.path(name)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.RemoveAll(p.path(name)); err != nil {
		return err
	}
	p.say("removed %s", name)
	return nil
}
