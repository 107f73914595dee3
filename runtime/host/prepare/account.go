package prepare

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	mobyuser "github.com/moby/sys/user"

	"github.com/thawpool/thawpool/runtime/host"
)

// Home is the home of the service account.
const Home = "/var/lib/thawpool"

// serviceAccount is the account that Run may create. Undo also knows it by its full name, when the record was lost.
type serviceAccount struct{ name, home, fullName string }

var theService = serviceAccount{name: host.Account, home: Home, fullName: "thawpool sandboxes"}

const (
	// firstSubID and lastSubID bound the ranges that are handed out; they are the defaults of shadow's login.defs.
	firstSubID = int64(100000)
	lastSubID  = int64(600100000)
)

// account finds the account, and creates it when it is the service account.
func (p *Preparer) account(ctx context.Context, name string) (*user.User, error) {
	u, err := p.lookup(name)
	if err == nil {
		if u.Uid == "0" {
			return nil, errors.New("root runs no sandboxes itself: prepare the service account (no --user) or an ordinary user")
		}
		return u, nil
	}
	if name != p.service.name {
		return nil, fmt.Errorf("there is no such account (%w): create it, or leave --user out to use the service account", err)
	}
	err = p.run(ctx, "useradd", "--system", "--user-group", "--home-dir", p.service.home, "--no-create-home",
		"--shell", "/usr/sbin/nologin", "--comment", p.service.fullName, name)
	if err != nil {
		return nil, err
	}
	p.user(name).Created = true
	if err := p.save(); err != nil {
		return nil, err
	}
	if u, err = p.lookup(name); err != nil {
		return nil, err
	}
	p.say("created the account %s with home %s", name, p.service.home)
	return u, p.makeHome(u)
}

// makeHome makes the home of the created account, closed to others and without the files of a login shell.
func (p *Preparer) makeHome(u *user.User) error {
	uid, gid, err := ids(u)
	if err != nil {
		return err
	}
	home := p.path(u.HomeDir)
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	return errors.Join(os.Chmod(home, 0o700), p.chown(home, uid, gid))
}

// isService tells whether the account is the one that account would create.
func (p *Preparer) isService(u *user.User) bool {
	return serviceAccount{u.Username, u.HomeDir, u.Name} == p.service
}

// subIDs gives the account ranges of subordinate ids where it has not enough of them, the same in both files where
// both lack one.
func (p *Preparer) subIDs(ctx context.Context, u *user.User) error {
	var taken []mobyuser.SubID
	for _, file := range []string{"/etc/subuid", "/etc/subgid"} {
		_, all, err := p.countSubIDs(file, u)
		if err != nil {
			return err
		}
		taken = append(taken, all...)
	}
	first, err := freeRange(taken, host.MinSubIDs)
	if err != nil {
		return err
	}
	for _, kind := range []struct{ file, flag string }{
		{"/etc/subuid", "--add-subuids"},
		{"/etc/subgid", "--add-subgids"},
	} {
		count, _, err := p.countSubIDs(kind.file, u)
		if err != nil {
			return err
		}
		if count >= host.MinSubIDs {
			continue
		}
		if p.root == "" && host.SubIDCount(kind.file, u.Username, uidOf(u)) >= host.MinSubIDs {
			continue // a directory service gives them
		}
		ids := fmt.Sprintf("%d-%d", first, first+host.MinSubIDs-1)
		if err := p.addSubIDs(ctx, kind.file, kind.flag, u.Username, first); err != nil {
			return err
		}
		if kind.flag == "--add-subuids" {
			p.user(u.Username).SubUIDs = ids
		} else {
			p.user(u.Username).SubGIDs = ids
		}
		if err := p.save(); err != nil {
			return err
		}
		p.say("gave %s the subordinate ids %s in %s", u.Username, ids, kind.file)
	}
	return nil
}

// addSubIDs has usermod add the range, under the lock that it shares with other tools of its kind. It refuses users
// that are not in /etc/passwd; for those the line is added to the file.
func (p *Preparer) addSubIDs(ctx context.Context, file, flag, name string, first int64) error {
	err := p.run(ctx, "usermod", flag, fmt.Sprintf("%d-%d", first, first+host.MinSubIDs-1), name)
	if err == nil {
		return nil
	}
	data, rerr := os.ReadFile(p.path(file))
	if rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		return errors.Join(err, rerr)
	}
	if len(data) > 0 && data[len(data)-1] != '\n' {
		data = append(data, '\n')
	}
	data = fmt.Appendf(data, "%s:%d:%d\n", name, first, host.MinSubIDs)
	if werr := p.replaceFile(file, data, 0o644); werr != nil {
		return errors.Join(err, werr)
	}
	return nil
}

// countSubIDs counts the ids of an account in a file, and gives every range in it.
func (p *Preparer) countSubIDs(file string, u *user.User) (int64, []mobyuser.SubID, error) {
	all, err := mobyuser.ParseSubIDFile(p.path(file))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, nil, fmt.Errorf("read %s: %w", file, err)
	}
	var count int64
	for _, r := range all {
		if r.Name == u.Username || r.Name == u.Uid {
			count += r.Count
		}
	}
	return count, all, nil
}

// freeRange is the first id from which count ids belong to nobody.
func freeRange(taken []mobyuser.SubID, count int64) (int64, error) {
	taken = slices.Clone(taken)
	slices.SortFunc(taken, func(a, b mobyuser.SubID) int { return int(min(max(a.SubID-b.SubID, -1), 1)) })
	first := firstSubID
	for _, r := range taken {
		if r.SubID < first+count && first < r.SubID+r.Count {
			first = r.SubID + r.Count
		}
	}
	if first+count-1 > lastSubID {
		return 0, fmt.Errorf("no %d free subordinate ids are left below %d", count, lastSubID)
	}
	return first, nil
}

// dropSubIDs takes back a range that was given.
func (p *Preparer) dropSubIDs(ctx context.Context, file, flag, name, ids string) error {
	if err := p.run(ctx, "usermod", flag, ids, name); err == nil {
		return nil
	}
	data, err := os.ReadFile(p.path(file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	from, _, _ := strings.Cut(ids, "-")
	mine := name + ":" + from + ":" + strconv.Itoa(host.MinSubIDs)
	var kept strings.Builder
	for line := range strings.Lines(string(data)) {
		if strings.TrimSpace(line) != mine {
			kept.WriteString(line)
		}
	}
	return p.replaceFile(file, []byte(kept.String()), 0o644)
}

// idMapTools installs newuidmap and newgidmap where they are missing and this is a Debian.
func (p *Preparer) idMapTools(ctx context.Context) error {
	if p.hasProgram("newuidmap") && p.hasProgram("newgidmap") {
		return nil
	}
	if !p.hasProgram("apt-get") {
		return fmt.Errorf("newuidmap and newgidmap are missing: %s", host.IDMapPackageCommand())
	}
	install := func() error {
		return p.run(ctx, "apt-get", "install", "-y", "-q", "--no-install-recommends", "uidmap")
	}
	if err := install(); err != nil { // a fresh machine has no package lists yet
		if err := p.run(ctx, "apt-get", "update", "-q"); err != nil {
			return err
		}
		if err := install(); err != nil {
			return err
		}
	}
	p.say("installed the package uidmap (newuidmap, newgidmap)")
	return nil
}

// hasProgram looks where Debian and its like keep such programs, whatever PATH says.
func (p *Preparer) hasProgram(name string) bool {
	for _, dir := range []string{"/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/local/sbin"} {
		if _, err := os.Stat(p.path(dir + "/" + name)); err == nil {
			return true
		}
	}
	return false
}
