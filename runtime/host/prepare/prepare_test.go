package prepare

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	mobyuser "github.com/moby/sys/user"

	"github.com/thawpool/thawpool/runtime/host"
)

func TestServiceAccountIsMadeOnceAndTakenBack(t *testing.T) {
	f := newFake(t, v1Mounts)
	f.prepare(host.Account)
	if !f.hasRun("useradd --system") || !f.there(Home) || len(f.said) != 4 {
		t.Errorf("ran %q, said %q", f.ran, f.said)
	}
	if got := f.get("/etc/subuid"); got != "bob:100000:65536\nthawpool:165536:65536\n" {
		t.Errorf("subuid %q", got)
	}
	if got := f.get("/etc/subgid"); got != "thawpool:165536:65536\n" {
		t.Errorf("subgid %q", got)
	}
	for _, name := range []string{"systemd", "memory", "cpu,cpuacct", "pids", "freezer", "cpuset"} {
		if !f.there("/sys/fs/cgroup/" + name + "/thawpool-1234") {
			t.Errorf("%s is not delegated", name)
		}
	}
	if got := f.get("/sys/fs/cgroup/cpuset/thawpool-1234/cpuset.cpus"); got != "0-3\n" {
		t.Errorf("cpuset.cpus %q", got)
	}

	f.prepare(host.Account)
	if len(f.said)+len(f.ran) > 0 {
		t.Errorf("the second time it ran %q and said %q", f.ran, f.said)
	}

	f.emptyKernelFiles()
	f.ran = nil
	f.check(f.Undo(t.Context(), nil))
	if !f.hasRun("userdel --remove thawpool") || f.there("/sys/fs/cgroup/memory/thawpool-1234") || f.there(recordFile) {
		t.Errorf("undo ran %q", f.ran)
	}
	f.ran = nil
	f.check(f.Undo(t.Context(), nil))
	if len(f.ran) > 0 {
		t.Errorf("the second undo ran %q", f.ran)
	}
}

// The account is known again by its looks when the record is gone.
func TestUndoWithoutARecord(t *testing.T) {
	f := newFake(t, v1Mounts)
	f.prepare(host.Account)
	f.emptyKernelFiles()
	f.check(os.Remove(f.path(recordFile)))
	f.check(f.Undo(t.Context(), nil))
	if f.users[host.Account] != nil || f.there("/sys/fs/cgroup/pids/thawpool-1234") {
		t.Error("the account or its groups are left")
	}
}

func TestOrdinaryUserKeepsWhatItHad(t *testing.T) {
	f := newFake(t, v1Mounts)
	f.addUser("alice")
	f.put("/etc/subuid", "alice:300000:65536\n")
	f.prepare("alice")
	if f.hasRun("useradd") || f.hasRun("usermod --add-subuids") || !f.hasRun("usermod --add-subgids 100000-165535 alice") {
		t.Errorf("ran %q", f.ran)
	}
	f.emptyKernelFiles()
	f.ran = nil
	f.check(f.Undo(t.Context(), []string{"alice"}))
	if f.users["alice"] == nil || f.hasRun("userdel") {
		t.Error("the user was removed")
	}
	if f.get("/etc/subuid") != "alice:300000:65536\n" || f.get("/etc/subgid") != "" {
		t.Errorf("subuid %q, subgid %q", f.get("/etc/subuid"), f.get("/etc/subgid"))
	}
}

func TestUserThatCannotBePrepared(t *testing.T) {
	f := newFake(t, v1Mounts)
	if err := f.fail("nobody-here"); !strings.Contains(err.Error(), "no such account") {
		t.Error(err)
	}
	f.addUser("root").Uid = "0"
	if err := f.fail("root"); !strings.Contains(err.Error(), "root runs no sandboxes") {
		t.Error(err)
	}
}

// usermod knows only /etc/passwd; an account of a directory service gets its line all the same.
func TestSubIDsOfADirectoryUser(t *testing.T) {
	f := newFake(t, v1Mounts)
	f.addUser("ldap.user")
	f.put("/etc/subuid", "bob:100000:65536") // without a final newline
	f.fails["usermod --add-subuids"] = errors.New("user 'ldap.user' does not exist")
	f.prepare("ldap.user")
	if got := f.get("/etc/subuid"); got != "bob:100000:65536\nldap.user:165536:65536\n" {
		t.Errorf("%q", got)
	}
	f.emptyKernelFiles()
	f.fails["usermod --del-subuids"] = errors.New("user 'ldap.user' does not exist")
	f.check(f.Undo(t.Context(), nil))
	if got := f.get("/etc/subuid"); got != "bob:100000:65536\n" {
		t.Errorf("%q", got)
	}
}

func TestIDMapToolsAreInstalled(t *testing.T) {
	missing := func(t *testing.T) *fake {
		f := newFake(t, v1Mounts)
		f.addUser("alice")
		f.check(os.Remove(f.path("/usr/bin/newgidmap")))
		return f
	}
	t.Run("with apt", func(t *testing.T) {
		f := missing(t)
		f.put("/usr/bin/apt-get", "")
		f.fails["apt-get install"] = errors.New("unable to locate package uidmap")
		f.prepare("alice")
		if !f.hasRun("apt-get update") || !f.there("/usr/bin/newgidmap") {
			t.Errorf("ran %q", f.ran)
		}
	})
	t.Run("without", func(t *testing.T) {
		if err := missing(t).fail("alice"); !strings.Contains(err.Error(), "newuidmap and newgidmap are missing: ") {
			t.Error(err)
		}
	})
}

func TestFreeRange(t *testing.T) {
	sub := func(first, count int64) mobyuser.SubID { return mobyuser.SubID{Name: "x", SubID: first, Count: count} }
	for _, tt := range []struct {
		name  string
		taken []mobyuser.SubID
		want  int64
	}{
		{"nothing taken", nil, 100000},
		{"one taken", []mobyuser.SubID{sub(100000, 65536)}, 165536},
		{"out of order", []mobyuser.SubID{sub(165536, 65536), sub(100000, 65536)}, 231072},
		{"a gap that is too small", []mobyuser.SubID{sub(100000, 1000), sub(120000, 65536)}, 185536},
		{"a gap that fits", []mobyuser.SubID{sub(100000, 65536), sub(500000, 65536)}, 165536},
		{"below and across the first", []mobyuser.SubID{sub(1000, 10), sub(90000, 20000)}, 110000},
		{"nested", []mobyuser.SubID{sub(100000, 500000), sub(200000, 10)}, 600000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := freeRange(tt.taken, host.MinSubIDs); err != nil || got != tt.want {
				t.Errorf("%d, %v", got, err)
			}
		})
	}
	if got, err := freeRange([]mobyuser.SubID{sub(1, lastSubID)}, 1); err == nil {
		t.Errorf("got %d out of none", got)
	}
}

func TestV2LetsTheUserManagerLinger(t *testing.T) {
	f := newFake(t, v2Mounts)
	f.mkdir("/run/systemd/system")
	f.addUser("alice")
	f.prepare("alice")
	if !f.hasRun("loginctl enable-linger alice") || f.there(dropIn) {
		t.Errorf("ran %q", f.ran)
	}
	f.prepare("alice")
	if len(f.ran)+len(f.said) > 0 {
		t.Errorf("the second time it ran %q", f.ran)
	}
	f.check(f.Undo(t.Context(), nil))
	if f.there("/var/lib/systemd/linger/alice") {
		t.Error("lingering is left")
	}
}

// Lingering that the user had set is not taken away.
func TestV2LingeringOfOthersStays(t *testing.T) {
	f := newFake(t, v2Mounts)
	f.mkdir("/run/systemd/system")
	f.addUser("alice")
	f.linger(true, "alice")
	f.prepare("alice")
	f.check(f.Undo(t.Context(), nil))
	if !f.there("/var/lib/systemd/linger/alice") {
		t.Error("lingering was taken away")
	}
}

func TestV2DelegatesMissingControllers(t *testing.T) {
	group := "/sys/fs/cgroup" + host.UserManagerGroup(1234) + "/cgroup.controllers"
	t.Run("service account", func(t *testing.T) {
		f := newFake(t, v2Mounts)
		f.mkdir("/run/systemd/system")
		f.put(group, "pids\n")
		real := f.run
		f.run = func(ctx context.Context, name string, args ...string) error {
			if name == "systemctl" && args[0] == "restart" {
				f.put(group, "cpuset cpu io memory pids\n")
			}
			return real(ctx, name, args...)
		}
		f.prepare(host.Account)
		if !f.hasRun("systemctl daemon-reload") || !f.hasRun("systemctl restart user@1234.service") {
			t.Errorf("ran %q", f.ran)
		}
		if !strings.Contains(f.get(dropIn), "Delegate=cpu cpuset io memory pids") {
			t.Error("drop-in is wrong")
		}
		f.check(f.Undo(t.Context(), nil))
		if f.there(dropIn) {
			t.Error("drop-in is left")
		}
	})
	t.Run("ordinary user decides when its services restart", func(t *testing.T) {
		f := newFake(t, v2Mounts)
		f.mkdir("/run/systemd/system")
		f.put(group, "pids\n")
		f.addUser("alice")
		err := f.fail("alice")
		if f.hasRun("systemctl restart") || !strings.Contains(err.Error(), "sudo systemctl restart user@1234.service") {
			t.Errorf("ran %q, %v", f.ran, err)
		}
	})
}

func TestV2WithoutSystemdIsRefused(t *testing.T) {
	f := newFake(t, v2Mounts)
	f.addUser("alice")
	if err := f.fail("alice"); !strings.Contains(err.Error(), "systemd") {
		t.Error(err)
	}
}

func TestAppArmorProfile(t *testing.T) {
	f := newFake(t, v1Mounts)
	f.addUser("alice")
	f.put("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n")
	f.prepare("alice")
	text := f.get(host.AppArmorProfile)
	for _, part := range []string{"userns,", `"/opt/thawpool/{thawpool,rootlesskit}"`, `"/usr/local/lib/thawpool/*/{thawpool,rootlesskit}"`} {
		if !strings.Contains(text, part) {
			t.Errorf("profile lacks %s:\n%s", part, text)
		}
	}
	if !host.ProfileAllows([]byte(text), "/opt/thawpool") || !host.ProfileAllows([]byte(text), InstallDir+"/abc") {
		t.Error("the check does not know the profile again")
	}
	f.prepare("alice")
	if f.hasRun("apparmor_parser") {
		t.Error("an unchanged profile was loaded again")
	}
	f.check(f.Run(t.Context(), Options{Users: []string{"alice"}, BinDir: "/srv/other"}))
	if both := f.get(host.AppArmorProfile); !host.ProfileAllows([]byte(both), "/opt/thawpool") || !host.ProfileAllows([]byte(both), "/srv/other") {
		t.Errorf("a second directory took the first one's place:\n%s", both)
	}
	if err := f.Run(t.Context(), Options{BinDir: "/srv/{x}"}); err == nil {
		t.Error("a directory that the profile cannot name was accepted")
	}
	f.emptyKernelFiles()
	f.check(f.Undo(t.Context(), nil))
	if f.there(host.AppArmorProfile) || !f.hasRun("apparmor_parser -R") {
		t.Error("the profile is left")
	}
}

// Who has removed the profile by hand can undo the rest.
func TestUndoWithoutProfile(t *testing.T) {
	f := newFake(t, v1Mounts)
	f.addUser("alice")
	f.put("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n")
	f.prepare("alice")
	f.check(os.Remove(f.path(host.AppArmorProfile)))
	f.emptyKernelFiles()
	f.check(f.Undo(t.Context(), nil))
	if f.hasRun("apparmor_parser -R") || f.there(recordFile) {
		t.Error("a profile that is not there is unloaded, or the record stays")
	}
}

// A setup that stopped half-way can be undone.
func TestUndoOfFailedReload(t *testing.T) {
	f := newFake(t, v2Mounts)
	f.addUser("alice")
	f.mkdir("/run/systemd/system")
	f.put("/sys/fs/cgroup"+host.UserManagerGroup(1234)+"/cgroup.controllers", "pids\n")
	real := f.run
	f.run = func(ctx context.Context, name string, args ...string) error {
		if name == "systemctl" {
			return errors.New("no reload today")
		}
		return real(ctx, name, args...)
	}
	if err := f.fail("alice"); !strings.Contains(err.Error(), "no reload today") || !f.there(dropIn) {
		t.Fatal(err)
	}
	f.run = real
	f.check(f.Undo(t.Context(), nil))
	if f.there(dropIn) {
		t.Error("the drop-in is left")
	}
}

func TestDamagedRecordIsNamed(t *testing.T) {
	f := newFake(t, v1Mounts)
	f.put(recordFile, "{")
	if err := f.fail(host.Account); !strings.Contains(err.Error(), recordFile) {
		t.Error(err)
	}
}

// buildIn makes a directory with programs as a checkout's bin.
func buildIn(f *fake, dir, text string) string {
	for _, name := range append([]string{"thawpool", "thawpool-delete", "containerd-shim-thawpool-v1"}, host.Binaries...) {
		f.put(dir+"/"+name, text)
	}
	f.put(dir+"/README", "not ours")
	return f.path(dir + "/thawpool")
}

func TestInstallCopiesWholeBuildsAndKeepsFew(t *testing.T) {
	f := newFake(t, v1Mounts)
	exe := buildIn(f, "/root/bin", "one")
	first, err := f.Install(exe, 1234)
	f.check(err)
	if got := f.get(first); got != "one" || !strings.HasPrefix(first, InstallDir+"/") {
		t.Errorf("%s holds %q", first, got)
	}
	dir := strings.TrimSuffix(first, "/thawpool")
	info, err := os.Stat(f.path(dir + "/runc"))
	if err != nil || info.Mode().Perm() != 0o755 || f.there(dir+"/README") || !f.there(dir+"/thawpool-delete") {
		t.Errorf("%v, %v", info, err)
	}
	again, err := f.Install(exe, 1234)
	if err != nil || again != first {
		t.Errorf("the same build went to %s, %v", again, err)
	}
	for i := range 2 * keepInstalls {
		when := time.Unix(int64(1000+i), 0)
		f.check(os.Chtimes(exe, when, when))
		_, err := f.Install(exe, 1234)
		f.check(err)
	}
	entries, err := os.ReadDir(f.path(InstallDir))
	if err != nil || len(entries) != keepInstalls {
		t.Errorf("%d copies are kept: %v, %v", len(entries), entries, err)
	}
}

func TestInstallKeepsWhatRuns(t *testing.T) {
	f := newFake(t, v1Mounts)
	exe := buildIn(f, "/root/bin", "one")
	first, err := f.Install(exe, 1234)
	f.check(err)
	f.mkdir("/proc/77")
	f.check(os.Symlink(strings.TrimSuffix(first, "thawpool")+"containerd", f.path("/proc/77/exe")))
	old := time.Unix(1, 0)
	f.check(os.Chtimes(f.path(strings.TrimSuffix(first, "/thawpool")), old, old))
	for i := range 2 * keepInstalls {
		when := time.Unix(int64(1000+i), 0)
		f.check(os.Chtimes(exe, when, when))
		_, err := f.Install(exe, 1234)
		f.check(err)
	}
	if !f.there(first) {
		t.Error("a copy that a process runs from was removed")
	}
}

func TestInstallOfNothing(t *testing.T) {
	f := newFake(t, v1Mounts)
	if path, err := f.Install(f.path("/nowhere/thawpool"), 1234); err == nil {
		t.Errorf("installed %s", path)
	}
}
