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
	"strings"
	"time"

	"github.com/thawpool/thawpool/runtime/host"
)

const (
	// dropIn: systemd's own default lacks some controllers before systemd 252.
	dropIn     = host.DelegateDropIn
	dropInText = "# Written by thawpool setup; removed by thawpool setup --undo.\n[Service]\nDelegate=cpu cpuset io memory pids\n"
	// managerWait bounds the start of a systemd user manager, which is slow on a busy or emulated machine.
	managerWait = 60 * time.Second
)

// groups delegates control groups to the account.
func (p *Preparer) groups(ctx context.Context, u *user.User) error {
	uid, gid, err := ids(u)
	if err != nil {
		return err
	}
	m, err := host.ReadHierarchies(p.root)
	if err != nil {
		return err
	}
	if m.Version == host.V2 {
		return p.groupsV2(ctx, u, uid)
	}
	return p.groupsV1(m, u, uid, gid)
}

// groupsV1 makes one directory in every hierarchy that sandboxes join and gives it, and nothing in it, to the account:
// its limits stay root's.
func (p *Preparer) groupsV1(m host.Hierarchies, u *user.User, uid, gid int) error {
	made := 0
	for _, mount := range m.Delegable() {
		dir := filepath.Join(mount, host.GroupBase(uid))
		err := os.Mkdir(dir, 0o755)
		if err == nil {
			made++
		} else if !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("delegate: %w", err)
		}
		if mount == m.V1["cpuset"] { // a new cpuset is empty, and nothing can join an empty one
			if err := copyCPUSet(mount, dir); err != nil {
				return err
			}
		}
		if err := p.chown(dir, uid, gid); err != nil {
			return fmt.Errorf("delegate: %w", err)
		}
	}
	if made == 0 {
		return nil
	}
	p.user(u.Username).Groups = true
	p.say("delegated the control group %s in %d hierarchies to %s (until the next boot)", host.GroupBase(uid), made, u.Username)
	return p.save()
}

func copyCPUSet(parent, dir string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		have, err := os.ReadFile(filepath.Join(dir, file))
		if err == nil && strings.TrimSpace(string(have)) != "" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(parent, file))
		if err != nil {
			return fmt.Errorf("delegate: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o644); err != nil {
			return fmt.Errorf("delegate: %w", err)
		}
	}
	return nil
}

// groupsV2 has systemd keep a user manager for the account and delegate the controllers to it.
func (p *Preparer) groupsV2(ctx context.Context, u *user.User, uid int) error {
	if _, err := os.Stat(p.path("/run/systemd/system")); err != nil {
		return errors.New("cgroup v2 needs systemd to delegate control groups, and this machine was not booted with it")
	}
	if err := p.linger(ctx, u, uid); err != nil {
		return err
	}
	missing, err := p.waitManager(ctx, uid)
	if err != nil || len(missing) == 0 {
		return err
	}
	p.rec.Drop = true
	if err := p.save(); err != nil {
		return err
	}
	if err := p.replaceFile(dropIn, []byte(dropInText), 0o644); err != nil {
		return fmt.Errorf("delegate: %w", err)
	}
	if err := p.run(ctx, "systemctl", "daemon-reload"); err != nil {
		return err
	}
	p.say("wrote %s: systemd delegates all controllers to user managers", dropIn)
	return p.applyDropIn(ctx, u, uid)
}

// linger has systemd start the account's user manager now and at every boot.
func (p *Preparer) linger(ctx context.Context, u *user.User, uid int) error {
	if _, err := os.Stat(p.path("/var/lib/systemd/linger/" + u.Username)); err == nil {
		if _, err := os.Stat(p.path(fmt.Sprintf("/run/user/%d", uid))); err == nil {
			return nil
		}
	} else {
		p.user(u.Username).Linger = true
		if err := p.save(); err != nil {
			return err
		}
	}
	if err := p.run(ctx, "loginctl", "enable-linger", u.Username); err != nil {
		return err
	}
	p.say("enabled lingering of %s: its systemd user manager runs without a session", u.Username)
	return nil
}

// applyDropIn restarts the account's user manager when it is ours alone. An ordinary user's holds that user's own
// services, so the user decides when.
func (p *Preparer) applyDropIn(ctx context.Context, u *user.User, uid int) error {
	if missing, err := p.waitManager(ctx, uid); err != nil || len(missing) == 0 {
		return err
	}
	unit := fmt.Sprintf("user@%d.service", uid)
	if u.Username != p.service.name {
		return fmt.Errorf("the new delegation takes effect when the user manager of %s starts again: sudo systemctl restart %s "+
			"(ends that user's background services), or reboot", u.Username, unit)
	}
	if err := p.run(ctx, "systemctl", "restart", unit); err != nil {
		return err
	}
	missing, err := p.waitManager(ctx, uid)
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("systemd still does not delegate %s to %s", strings.Join(missing, ", "), u.Username)
	}
	return err
}

// waitManager waits until the user manager runs, and gives the needed controllers that it does not get.
func (p *Preparer) waitManager(ctx context.Context, uid int) (missing []string, err error) {
	m, err := host.ReadHierarchies(p.root)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, managerWait)
	defer cancel()
	file := filepath.Join(m.V2, host.UserManagerGroup(uid), "cgroup.controllers")
	socket := p.path(fmt.Sprintf("/run/user/%d/systemd/private", uid))
	for {
		data, err := os.ReadFile(file)
		if err == nil {
			_, err = os.Stat(socket)
		}
		if err == nil {
			have := strings.Fields(string(data))
			return slices.DeleteFunc(slices.Clone(host.NeededV2), func(c string) bool { return slices.Contains(have, c) }), nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the systemd user manager of uid %d did not start (systemctl status user@%d.service): %w", uid, uid, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
