package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// self is the test's own user in the place of the service account: it can read what the test writes.
func self(t *testing.T) serviceAccount {
	t.Helper()
	return serviceAccount{uid: os.Getuid(), gid: os.Getgid(), name: "me", home: t.TempDir()}
}

func TestAccountsEnvironmentHoldsNothingOfRoots(t *testing.T) {
	a := serviceAccount{uid: 1 << 30, name: "thawpool", home: "/var/lib/thawpool"}
	got := a.environ([]string{
		"HOME=/root", "USER=root", "AWS_SECRET_ACCESS_KEY=x", "SUDO_USER=alice", "XDG_RUNTIME_DIR=/run/user/0", "LD_PRELOAD=x",
		"DBUS_SESSION_BUS_ADDRESS=x", "TERM=xterm", "TZ=UTC", "LANG=C.UTF-8", "LC_ALL=C", "PATH=/bin",
		"THAWPOOL_POOL_SIZE=4", "MCP_BRIDGE_TIMEOUT=3", "https_proxy=http://proxy:1",
	})
	want := []string{
		"HOME=/var/lib/thawpool", "USER=thawpool", "LOGNAME=thawpool", "TERM=xterm", "TZ=UTC", "LANG=C.UTF-8", "LC_ALL=C",
		"PATH=/bin", "THAWPOOL_POOL_SIZE=4", "MCP_BRIDGE_TIMEOUT=3", "https_proxy=http://proxy:1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got := a.environ(nil); !slices.Contains(got, "PATH="+safePath) {
		t.Errorf("no PATH in %q", got)
	}
}

func TestHandOverOfReadableFiles(t *testing.T) {
	a := self(t)
	t.Chdir(t.TempDir())
	for _, name := range []string{"x.py", "c.json"} {
		if err := os.WriteFile(name, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	given := []string{"run", "x.py", "--config=c.json", "--name=other", "-", "missing.py"}
	files := []string{"x.py", "c.json", "-", "missing.py"}
	for _, tt := range []struct {
		kept bool
		args []string
		env  string
	}{
		{true, given, "c.json"},
		{false, []string{"run", cwd + "/x.py", "--config=" + cwd + "/c.json", "--name=other", "-", "missing.py"}, cwd + "/c.json"},
	} {
		args, env := slices.Clone(given), []string{"HOME=c.json", "THAWPOOL_CONFIG=c.json", "THAWPOOL_TIMEOUT=3s"}
		if err := a.handOver(args, env, files, tt.kept); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(args, tt.args) || !slices.Equal(env, []string{"HOME=c.json", "THAWPOOL_CONFIG=" + tt.env, "THAWPOOL_TIMEOUT=3s"}) {
			t.Errorf("got %q and %q", args, env)
		}
	}
}

// What the account cannot read it gets as an open copy, which it may read by path as often as it likes.
func TestCopyForTheAccount(t *testing.T) {
	a := self(t)
	name := filepath.Join(t.TempDir(), "x.py")
	if err := os.WriteFile(name, []byte("print(1)\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := a.copyOf(name)
	if err != nil {
		t.Fatal(err)
	}
	defer os.NewFile(uintptr(fd), name).Close()
	for range 2 {
		data, err := os.ReadFile("/proc/self/fd/" + strconv.Itoa(fd))
		if err != nil || string(data) != "print(1)\n" {
			t.Errorf("%q, %v", data, err)
		}
	}
	if left, err := os.ReadDir(a.home); err != nil || len(left) > 0 {
		t.Errorf("the copy has a name: %v, %v", left, err)
	}
}

func TestWorkingDirectoryOfTheAccount(t *testing.T) {
	a := self(t)
	dir := t.TempDir()
	t.Chdir(dir)
	if got, err := a.enterableCwd(); err != nil || !got.kept {
		t.Errorf("%+v, %v", got, err)
	}
	// Another user may enter neither the test's directory nor that home.
	a.uid, a.gid = 1<<30, 1<<30
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(a.home, 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := a.enterableCwd(); err == nil || !strings.Contains(err.Error(), a.home) {
		t.Errorf("%+v, %v", got, err)
	}
	a.home = "/"
	if got, err := a.enterableCwd(); err != nil || got.kept || got.dir != "/" {
		t.Errorf("%+v, %v", got, err)
	}
}
