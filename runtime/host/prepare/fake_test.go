package prepare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/thawpool/thawpool/runtime/host"
)

const (
	v1Mounts = `32 30 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
33 30 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
34 30 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
35 30 0:31 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
36 30 0:32 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer
37 30 0:33 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset
`
	v2Mounts = "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
)

// fake is a Preparer on a directory that looks like a machine. Its commands are recorded, and those that matter change
// the directory as the real ones would.
type fake struct {
	*Preparer
	t     *testing.T
	said  []string
	ran   []string
	fails map[string]error // by the beginning of the command line; each fails once
	users map[string]*user.User
}

func newFake(t *testing.T, mounts string) *fake {
	t.Helper()
	f := &fake{t: t, fails: map[string]error{}, users: map[string]*user.User{}}
	f.Preparer = &Preparer{
		root: t.TempDir(), service: theService,
		report: func(line string) { f.said = append(f.said, line) },
		run:    f.command,
		lookup: func(name string) (*user.User, error) {
			if u := f.users[name]; u != nil {
				return u, nil
			}
			return nil, user.UnknownUserError(name)
		},
		chown: func(string, int, int) error { return nil },
	}
	f.put("/proc/self/mountinfo", mounts)
	f.put("/usr/bin/newuidmap", "")
	f.put("/usr/bin/newgidmap", "")
	f.put("/etc/subuid", "bob:100000:65536\n")
	f.put("/etc/subgid", "")
	f.mkdir("/var/lib/systemd/linger")
	for _, name := range []string{"systemd", "memory", "cpu,cpuacct", "pids", "freezer", "cpuset"} {
		f.mkdir("/sys/fs/cgroup/" + name)
	}
	f.put("/sys/fs/cgroup/cpuset/cpuset.cpus", "0-3\n")
	f.put("/sys/fs/cgroup/cpuset/cpuset.mems", "0\n")
	return f
}

// addUser adds an ordinary account with the test's own ids.
func (f *fake) addUser(name string) *user.User {
	u := &user.User{Username: name, Uid: "1234", Gid: strconv.Itoa(os.Getgid()), HomeDir: "/home/" + name}
	f.users[name] = u
	return u
}

func (f *fake) command(_ context.Context, name string, args ...string) error {
	line := name + " " + strings.Join(args, " ")
	f.ran = append(f.ran, line)
	for prefix, err := range f.fails {
		if strings.HasPrefix(line, prefix) {
			delete(f.fails, prefix)
			return err
		}
	}
	last := args[len(args)-1]
	switch name {
	case "useradd":
		u := f.addUser(last)
		u.HomeDir, u.Name = theService.home, theService.fullName
	case "userdel":
		delete(f.users, last)
	case "usermod":
		first, _, _ := strings.Cut(args[1], "-")
		file := map[string]string{"uids": "/etc/subuid", "gids": "/etc/subgid"}[args[0][len(args[0])-4:]]
		entry := fmt.Sprintf("%s:%s:%d\n", last, first, host.MinSubIDs)
		if strings.HasPrefix(args[0], "--del") {
			f.put(file, strings.Replace(f.get(file), entry, "", 1))
		} else {
			f.put(file, f.get(file)+entry)
		}
	case "loginctl":
		f.linger(args[0] == "enable-linger", last)
	case "apt-get":
		if args[0] == "install" {
			f.put("/usr/bin/newuidmap", "")
			f.put("/usr/bin/newgidmap", "")
		}
	}
	return nil
}

// linger starts the account's user manager, which gets the controllers of delegatedByDefault.
func (f *fake) linger(on bool, name string) {
	mark := f.path("/var/lib/systemd/linger/" + name)
	if !on {
		f.check(os.Remove(mark))
		return
	}
	f.check(os.WriteFile(mark, nil, 0o644))
	f.put("/run/user/1234/systemd/private", "")
	controllers := f.path("/sys/fs/cgroup" + host.UserManagerGroup(1234) + "/cgroup.controllers")
	if _, err := os.Stat(controllers); err != nil {
		f.put("/sys/fs/cgroup"+host.UserManagerGroup(1234)+"/cgroup.controllers", "cpuset cpu io memory pids\n")
	}
}

func (f *fake) check(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fake) mkdir(name string) { f.t.Helper(); f.check(os.MkdirAll(f.path(name), 0o755)) }

func (f *fake) put(name, text string) {
	f.t.Helper()
	f.mkdir(filepath.Dir(name))
	f.check(os.WriteFile(f.path(name), []byte(text), 0o644))
}

func (f *fake) get(name string) string {
	f.t.Helper()
	data, err := os.ReadFile(f.path(name))
	f.check(err)
	return string(data)
}

func (f *fake) there(name string) bool {
	_, err := os.Lstat(f.path(name))
	return err == nil
}

// prepare runs a preparation that must work, and forgets what came before it.
func (f *fake) prepare(users ...string) {
	f.t.Helper()
	f.said, f.ran = nil, nil
	if err := f.Run(f.t.Context(), Options{Users: users, BinDir: "/opt/thawpool"}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fake) fail(users ...string) error {
	f.t.Helper()
	f.said, f.ran = nil, nil
	err := f.Run(f.t.Context(), Options{Users: users, BinDir: "/opt/thawpool"})
	if err == nil {
		f.t.Fatal("it went through")
	}
	return err
}

func (f *fake) hasRun(prefix string) bool {
	return slices.ContainsFunc(f.ran, func(line string) bool { return strings.HasPrefix(line, prefix) })
}

// emptyKernelFiles removes the files from the account's control groups: the kernel's do not keep a directory.
func (f *fake) emptyKernelFiles() {
	files, err := filepath.Glob(f.path("/sys/fs/cgroup/*" + host.GroupBase(1234) + "/*"))
	f.check(err)
	var errs []error
	for _, file := range files {
		errs = append(errs, os.Remove(file))
	}
	f.check(errors.Join(errs...))
}
