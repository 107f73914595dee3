package host

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const (
	v1Mounts = `30 1 0:26 / /sys/fs/cgroup rw shared:9 - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/unified rw shared:10 - cgroup2 cgroup2 rw
32 30 0:28 / /sys/fs/cgroup/systemd rw shared:11 - cgroup cgroup rw,xattr,name=systemd
33 30 0:29 / /sys/fs/cgroup/memory rw shared:12 - cgroup cgroup rw,memory
34 30 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:13 - cgroup cgroup rw,cpu,cpuacct
35 30 0:31 / /sys/fs/cgroup/pids rw shared:14 - cgroup cgroup rw,pids
36 30 0:32 / /sys/fs/cgroup/freezer rw shared:15 - cgroup cgroup rw,freezer
37 30 0:33 / /sys/fs/cgroup/cpuset rw shared:16 - cgroup cgroup rw,cpuset
38 30 0:34 / /sys/fs/cgroup/devices rw shared:17 - cgroup cgroup rw,devices
39 30 0:35 / /sys/fs/cgroup/blkio rw shared:18 - cgroup cgroup rw,blkio
`
	v2Mounts = "30 1 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
)

// fakeMachine is a directory that looks like a machine on which everything is as it should be, with the test's own user
// as alice.
type fakeMachine struct {
	machine
	t   *testing.T
	bin string
}

func newFake(t *testing.T, v Version) *fakeMachine {
	t.Helper()
	uid := os.Getuid()
	alice := &user.User{Username: "alice", Uid: strconv.Itoa(uid), Gid: strconv.Itoa(os.Getgid()), HomeDir: "/home/alice"}
	f := &fakeMachine{t: t, machine: machine{
		root: t.TempDir(), self: "thawpool", euid: uid,
		lookup: func(int) (*user.User, error) { return alice, nil },
		try:    func(int, string) error { return nil },
		probe:  func(Group) error { return nil },
	}}
	f.bin = f.path("/opt/thawpool/bin")
	f.write("/proc/sys/kernel/osrelease", "6.1.0-28-amd64\n")
	f.write("/proc/sys/kernel/seccomp/actions_avail", "kill_process kill_thread trap errno user_notif trace log allow\n")
	f.write("/proc/sys/user/max_user_namespaces", "15000\n")
	f.write("/proc/self/ns/user", "")
	f.write("/proc/self/status", "Name:\tx\nNoNewPrivs:\t0\n")
	f.write("/etc/os-release", "ID=debian\n")
	f.write("/etc/subuid", "alice:100000:65536\n")
	f.write("/etc/subgid", "alice:100000:65536\n")
	f.write("/home/alice/.profile", "")
	for _, name := range []string{"newuidmap", "newgidmap"} {
		f.write("/usr/bin/"+name, "")
		f.chmod("/usr/bin/"+name, os.ModeSetuid|0o755)
	}
	for _, name := range Binaries {
		f.write("/opt/thawpool/bin/"+name, "")
		f.chmod("/opt/thawpool/bin/"+name, 0o755)
	}
	f.delegate(v, uid)
	return f
}

// delegate makes the control groups that uid was given.
func (f *fakeMachine) delegate(v Version, uid int) {
	f.t.Helper()
	if v == V2 {
		f.write("/proc/self/mountinfo", v2Mounts)
		f.write("/run/systemd/system/x", "")
		f.write(fmt.Sprintf("/run/user/%d/bus", uid), "")
		f.write("/var/lib/systemd/linger/alice", "")
		f.write("/sys/fs/cgroup"+UserManagerGroup(uid)+"/cgroup.controllers", "cpu memory pids\n")
		return
	}
	f.write("/proc/self/mountinfo", v1Mounts)
	for _, name := range []string{"systemd", "memory", "cpu,cpuacct", "pids", "freezer", "cpuset", "devices", "blkio"} {
		f.write("/sys/fs/cgroup/"+name+GroupBase(uid)+"/cgroup.procs", "")
	}
	f.write("/sys/fs/cgroup/cpuset"+GroupBase(uid)+"/cpuset.cpus", "0-1\n")
	f.write("/sys/fs/cgroup/cpuset"+GroupBase(uid)+"/cpuset.mems", "0\n")
}

func (f *fakeMachine) write(name, text string) {
	f.t.Helper()
	path := f.path(name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fakeMachine) remove(name string) {
	f.t.Helper()
	if err := os.RemoveAll(f.path(name)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fakeMachine) chmod(name string, mode os.FileMode) {
	f.t.Helper()
	if err := os.Chmod(f.path(name), mode); err != nil {
		f.t.Fatal(err)
	}
}

// noBits closes a directory for everybody, and opens it again for the test's clean-up.
func (f *fakeMachine) noBits(name string) {
	f.chmod(name, 0)
	f.t.Cleanup(func() { _ = os.Chmod(f.path(name), 0o755) })
}

// onlyFailure is the one failed check of a machine; more or none fail the test.
func (f *fakeMachine) onlyFailure() Check {
	f.t.Helper()
	var failed []Check
	for _, c := range f.preflight(f.euid, f.bin, "") {
		if !c.OK {
			failed = append(failed, c)
		}
		if c.ID == "" || c.Title == "" || c.OK == (c.Detail == "") || c.OK == (c.Cause != "") {
			f.t.Errorf("check is not filled in as its outcome wants: %+v", c)
		}
	}
	if len(failed) != 1 {
		f.t.Fatalf("want one failure, got %+v", failed)
	}
	return failed[0]
}

func has(text string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}
