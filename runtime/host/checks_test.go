package host

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"testing"

	"github.com/thawpool/thawpool/runtime"
)

func TestPreflightOfAGoodMachinePasses(t *testing.T) {
	for _, v := range []Version{V1, V2} {
		t.Run(v.String(), func(t *testing.T) {
			f := newFake(t, v)
			checks := f.preflight(f.euid, f.bin, "")
			for _, c := range checks {
				if !c.OK || c.Detail == "" {
					t.Errorf("%+v", c)
				}
			}
			if err := FirstFailure(checks); err != nil {
				t.Error(err)
			}
		})
	}
}

// Each thing that can be missing is named, alone, with the command that mends it.
func TestPreflightNamesWhatIsMissing(t *testing.T) {
	uid := os.Getuid()
	base := GroupBase(uid)
	tests := []struct {
		name    string
		version Version
		spoil   func(f *fakeMachine)
		id      string
		cause   []string
		fix     []string
	}{
		{"old kernel", V1, func(f *fakeMachine) { f.write("/proc/sys/kernel/osrelease", "4.19.0-27-amd64\n") },
			"kernel", []string{"4.19.0-27-amd64", "5.11"}, []string{"kernel"}},
		{"kernel 5.10", V1, func(f *fakeMachine) { f.write("/proc/sys/kernel/osrelease", "5.10.0\n") },
			"kernel", []string{"5.10.0"}, []string{"kernel"}},
		{"no proc", V1, func(f *fakeMachine) { f.remove("/proc/sys/kernel/osrelease") }, "kernel", []string{"osrelease"}, []string{"/proc"}},
		{"no seccomp", V1, func(f *fakeMachine) { f.remove("/proc/sys/kernel/seccomp") },
			"seccomp", []string{"no seccomp filters"}, []string{"CONFIG_SECCOMP_FILTER"}},
		{"no user namespaces in the kernel", V1, func(f *fakeMachine) { f.remove("/proc/self/ns/user") },
			"userns", []string{"no user namespaces"}, []string{"CONFIG_USER_NS"}},
		{"user namespaces off by Debian's switch", V1,
			func(f *fakeMachine) { f.write("/proc/sys/kernel/unprivileged_userns_clone", "0\n") },
			"userns", []string{"unprivileged_userns_clone is 0"}, []string{"kernel.unprivileged_userns_clone=1", "sysctl --system"}},
		{"no user namespaces allowed", V1, func(f *fakeMachine) { f.write("/proc/sys/user/max_user_namespaces", "0\n") },
			"userns", []string{"max_user_namespaces is 0"}, []string{"user.max_user_namespaces=15000"}},
		{"no_new_privs", V1, func(f *fakeMachine) { f.write("/proc/self/status", "NoNewPrivs:\t1\n") },
			"no-new-privs", []string{"no_new_privs", "newuidmap"}, []string{"NoNewPrivileges=no"}},
		{"newuidmap missing", V1, func(f *fakeMachine) { f.remove("/usr/bin/newuidmap") },
			"newuidmap", []string{"newuidmap is not installed"}, []string{"sudo apt-get install -y uidmap"}},
		{"newgidmap missing on Fedora", V1, func(f *fakeMachine) {
			f.remove("/usr/bin/newgidmap")
			f.write("/etc/os-release", "NAME=x\nID=\"nobara\"\nID_LIKE=\"fedora rhel\"\n")
		}, "newuidmap", []string{"newgidmap is not installed"}, []string{"sudo dnf install -y shadow-utils"}},
		{"newuidmap missing on an unknown system", V1, func(f *fakeMachine) {
			f.remove("/usr/bin/newuidmap")
			f.remove("/etc/os-release")
		}, "newuidmap", []string{"newuidmap is not installed"}, []string{"install the package", "newuidmap"}},
		{"newuidmap without setuid", V1, func(f *fakeMachine) { f.chmod("/usr/bin/newuidmap", 0o755) },
			"newuidmap", []string{"/usr/bin/newuidmap", "neither setuid root"}, []string{"sudo chmod u+s", "newuidmap"}},
		{"no subuid range", V1, func(f *fakeMachine) { f.write("/etc/subuid", "bob:100000:65536\n") },
			"subids", []string{"/etc/subuid has no range for alice"}, []string{"sudo thawpool setup --user alice"}},
		{"no subgid file", V1, func(f *fakeMachine) { f.remove("/etc/subgid") },
			"subids", []string{"/etc/subgid has no range for alice"}, []string{"sudo thawpool setup --user alice"}},
		{"too small a range", V1, func(f *fakeMachine) { f.write("/etc/subuid", "alice:100000:1000\n") },
			"subids", []string{"only 1000 ids", "65536"}, []string{"sudo thawpool setup --user alice"}},
		{"binary missing", V1, func(f *fakeMachine) { f.remove("/opt/thawpool/bin/runc") },
			"binaries", []string{"runc is missing"}, []string{"make build"}},
		{"binaries out of reach", V1, func(f *fakeMachine) { f.noBits("/opt/thawpool/bin/containerd") },
			"binaries", []string{"alice may not execute", "containerd is closed"}, []string{"sudo thawpool setup --user alice"}},
		{"AppArmor restricts", V1, func(f *fakeMachine) { f.write("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n") },
			"apparmor", []string{"apparmor_restrict_unprivileged_userns", "no profile"}, []string{"sudo thawpool setup --user alice"}},
		{"group not delegated", V1, func(f *fakeMachine) { f.remove("/sys/fs/cgroup/memory" + base) },
			"cgroups", []string{"memory control group is not delegated to alice"}, []string{"sudo thawpool setup --user alice"}},
		{"co-mounted group not delegated", V1, func(f *fakeMachine) { f.remove("/sys/fs/cgroup/cpu,cpuacct" + base) },
			"cgroups", []string{"cpu control group is not delegated"}, []string{"sudo thawpool setup --user alice"}},
		{"group closed", V1, func(f *fakeMachine) { f.noBits("/sys/fs/cgroup/freezer" + base) },
			"cgroups", []string{"freezer control group", "mode ----------"}, []string{"sudo thawpool setup --user alice"}},
		{"empty cpuset", V1, func(f *fakeMachine) { f.write("/sys/fs/cgroup/cpuset"+base+"/cpuset.mems", "\n") },
			"cgroups", []string{"cpuset.mems", "empty"}, []string{"sudo thawpool setup --user alice"}},
		{"no user manager", V2, func(f *fakeMachine) { f.remove("/sys/fs/cgroup/user.slice") },
			"cgroups", []string{"systemd user manager of alice does not run"}, []string{"sudo thawpool setup --user alice"}},
		{"no runtime directory", V2, func(f *fakeMachine) { f.remove("/run/user") },
			"cgroups", []string{fmt.Sprintf("/run/user/%d does not exist", uid)}, []string{"sudo thawpool setup --user alice"}},
		{"controllers not delegated", V2, func(f *fakeMachine) {
			f.write("/sys/fs/cgroup"+UserManagerGroup(uid)+"/cgroup.controllers", "pids\n")
		}, "cgroups", []string{"does not delegate the controllers memory, cpu to alice"}, []string{"sudo thawpool setup --user alice"}},
		{"controllers not delegated yet", V2, func(f *fakeMachine) {
			f.write("/sys/fs/cgroup"+UserManagerGroup(uid)+"/cgroup.controllers", "pids\n")
			f.write(DelegateDropIn, "[Service]\n")
		}, "cgroups", []string{"does not delegate the controllers memory, cpu to alice"}, []string{"sudo systemctl restart user@"}},
		{"v2 without systemd", V2, func(f *fakeMachine) { f.remove("/run/systemd") },
			"cgroups", []string{"cgroup v2 without systemd"}, []string{"systemd"}},
		{"no cgroups", V1, func(f *fakeMachine) { f.write("/proc/self/mountinfo", "") },
			"cgroups", []string{"no cgroup controller for memory, pids, cpuacct, freezer"}, []string{"mount -t cgroup2"}},
		{"limits do not hold", V1, func(f *fakeMachine) {
			f.probe = func(g Group) error { return fmt.Errorf("%s: no such controller", g.Path()) }
		}, "limits", []string{"cannot be limited or frozen", base}, []string{"sudo thawpool setup --user alice"}},
		{"no overlayfs", V1, func(f *fakeMachine) {
			f.try = func(int, string) error { return errors.New("mount overlay: invalid argument") }
		}, "overlayfs", []string{"/home/alice", "invalid argument"}, []string{StateEnv, "ext4"}},
		{"no lingering", V2, func(f *fakeMachine) { f.remove("/var/lib/systemd/linger/alice") },
			"lingering", []string{"end with the last session of alice"}, []string{"sudo thawpool setup --user alice"}},
		{"no home", V1, func(f *fakeMachine) {
			f.lookup = func(int) (*user.User, error) { return &user.User{Username: "alice", Gid: "1"}, nil }
		}, "state", []string{"alice has no home"}, []string{StateEnv}},
		{"home that is no directory", V1, func(f *fakeMachine) {
			f.remove("/home/alice")
			f.write("/home/alice", "")
		}, "state", []string{"/home/alice is closed to it"}, []string{"sudo install -d -m 700 -o alice", StateEnv}},
		{"a machine too busy to tell", V1, func(f *fakeMachine) { f.try = func(int, string) error { return errSlow } },
			"overlayfs", []string{"not known", probeTimeout.String()}, []string{"less busy"}},
		{"a container that forbids namespaces", V1, func(f *fakeMachine) {
			f.try = func(int, string) error { return fmt.Errorf("%w: operation not permitted", errNoUserns) }
		}, "overlayfs", []string{"user namespace cannot be made"}, []string{"seccomp=unconfined"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, tt.version)
			tt.spoil(f)
			c := f.onlyFailure()
			if c.ID != tt.id || !has(c.Cause, tt.cause...) || !has(c.Fix, tt.fix...) {
				t.Errorf("got %s: %q, fix %q\nwant %s: %q, fix %q", c.ID, c.Cause, c.Fix, tt.id, tt.cause, tt.fix)
			}
			if strings.Contains(c.Fix, "\n") {
				t.Errorf("the fix is not one line: %q", c.Fix)
			}
			err := FirstFailure([]Check{c})
			if !c.Fatal {
				if err != nil {
					t.Errorf("a warning became %v", err)
				}
				return
			}
			if !errors.Is(err, runtime.ErrUnsupported) || !has(err.Error(), c.Cause, c.Fix) {
				t.Errorf("error says %q", err)
			}
		})
	}
}

// A user whom no password database knows gets words, and no panic.
func TestUserWithoutPasswordEntry(t *testing.T) {
	f := newFake(t, V1)
	f.lookup = func(uid int) (*user.User, error) { return nil, user.UnknownUserIdError(uid) }
	f.write("/etc/subuid", fmt.Sprintf("%d:100000:65536\n", f.euid))
	err := FirstFailure(f.preflight(f.euid, f.bin, ""))
	if !errors.Is(err, runtime.ErrUnsupported) || !has(err.Error(), "password database", "newuidmap", "sudo", "service account") {
		t.Error(err)
	}
}

// An entry by number serves as well as one by name, and ranges add up.
func TestNumericSubIDs(t *testing.T) {
	f := newFake(t, V1)
	f.write("/etc/subuid", fmt.Sprintf("# comment\nalice:100000:32768\n%d:200000:32768\n", f.euid))
	for _, c := range f.preflight(f.euid, f.bin, "") {
		if !c.OK {
			t.Errorf("%+v", c)
		}
	}
}

func TestStateDirectoryOfTheConfiguration(t *testing.T) {
	f := newFake(t, V1)
	dir := t.TempDir()
	f.try = func(_ int, tried string) error {
		if tried != dir {
			t.Errorf("tried %s", tried)
		}
		return nil
	}
	checks := f.state(f.euid, dir+"/not/yet/there")
	if len(checks) != 2 || !checks[0].OK || checks[0].Detail != dir+"/not/yet/there" {
		t.Errorf("%+v", checks)
	}
}

func TestSetupCommandNamesTheAccount(t *testing.T) {
	f := newFake(t, V1)
	f.self = "/root/thawpool/bin/thawpool"
	if got := f.setupCommand(4242); got != "sudo /root/thawpool/bin/thawpool setup --user alice" {
		t.Error(got)
	}
	f.lookup = func(int) (*user.User, error) { return &user.User{Username: Account}, nil }
	if got := f.setupCommand(4242); got != "sudo /root/thawpool/bin/thawpool setup" {
		t.Error(got)
	}
	f.lookup = func(uid int) (*user.User, error) { return nil, user.UnknownUserIdError(uid) }
	if got := f.setupCommand(4242); !strings.HasSuffix(got, "setup --user 4242") {
		t.Error(got)
	}
}

func TestAppArmorProfileAllowsDirectories(t *testing.T) {
	f := newFake(t, V1)
	f.write("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n")
	text := ProfileLine("/elsewhere") + ProfileLine("/usr/local/lib/thawpool/*")
	f.write(AppArmorProfile, text)
	for dir, want := range map[string]bool{
		"/elsewhere": true, "/usr/local/lib/thawpool/ab12": true, "/usr/local/lib/thawpool": false, "/else": false,
	} {
		if got := f.appArmor(f.euid, dir).OK; got != want {
			t.Errorf("%s: got %v", dir, got)
		}
	}
}

func TestFailedCheckTakesHintAsFix(t *testing.T) {
	c := Check{ID: "x", Title: "x", Fatal: true}.failed(runtime.WithHint(errors.New("cause"), "command"))
	if c.Cause != "cause" || c.Fix != "command" || c.OK {
		t.Errorf("%+v", c)
	}
	if err := FirstFailure([]Check{{OK: true, Fatal: true}, {ID: "warn", Cause: "only a warning"}}); err != nil {
		t.Error(err)
	}
}

// As root for another account, owner and mode decide and nothing is tried as that account.
func TestPreflightForAnotherUser(t *testing.T) {
	f := newFake(t, V1)
	other := f.euid + 1
	f.delegate(V1, other)
	f.probe = func(Group) error { t.Error("tried limits as another user"); return nil }
	for _, c := range f.preflight(other, f.bin, "") {
		if c.ID == "cgroups" && (c.OK || !has(c.Cause, "belongs to uid")) {
			t.Errorf("%+v", c)
		}
	}
}
