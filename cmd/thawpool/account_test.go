package main

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/thawpool/thawpool/actors/catalog/config"
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
	for _, name := range []string{"run", "c.json"} {
		if err := os.WriteFile(name, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	r := reads{operands: []string{"run", "-", "missing.py"}, options: map[string][]string{"config": {"c.json"}, "servers-config": {"c.json", "none.json"}}}
	given := []string{"run", "--config", "c.json", "--servers-config=c.json,none.json", "--name=other", "run", "-", "missing.py", "--", "--config"}
	for _, tt := range []struct {
		kept bool
		at   string
	}{{true, ""}, {false, cwd + "/"}} {
		args, env, err := a.handOver(given, []string{"HOME=c.json", "THAWPOOL_CONFIG=x", "THAWPOOL_TIMEOUT=3s"}, r, tt.kept)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(env)
		if want := []string{"run", "--name=other", tt.at + "run", "-", "missing.py", "--", "--config"}; !slices.Equal(args, want) {
			t.Errorf("got %q", args)
		}
		want := []string{"HOME=c.json", "THAWPOOL_CONFIG=" + tt.at + "c.json", "THAWPOOL_SERVERS_CONFIG=" + tt.at + "c.json,none.json", "THAWPOOL_TIMEOUT=3s"}
		if !slices.Equal(env, want) {
			t.Errorf("got %q", env)
		}
	}
}

// Whatever way a file was named, root's command hands it over: by flags, variables, the config file, or its mere place.
func TestFilesThatRootReads(t *testing.T) {
	cleanEnv(t)
	home, dir := os.Getenv("HOME"), t.TempDir()
	for _, name := range []string{home + "/MCPs/m.json", home + "/MCPs/.hidden.json", dir + "/defs/d.json", dir + "/defs/e.jsonc", dir + "/defs/note.txt"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte("{}"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(config.EnvConfig, dir+"/defs")
	file := writeFile(t, "c.yaml", "servers-config: [/x/a.json, ~/b.json]\nadd-catalog: /x/c.json\nlisten-token-file: /x/token\n")
	a, err := loaded(t, "--config", file, "--listen-cert", "/x/cert")
	if err != nil {
		t.Fatal(err)
	}
	r, err := a.reads()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"config": {file}, "add-catalog": {"/x/c.json"}, "listen-token-file": {"/x/token"}, "listen-cert": {"/x/cert"},
		"servers-config": {"/x/a.json", home + "/b.json", dir + "/defs", home + "/MCPs/m.json"},
	}
	if !maps.EqualFunc(r.options, want, slices.Equal) {
		t.Errorf("got %q", r.options)
	}
	if left := os.Getenv(config.EnvConfig); left != "" {
		t.Errorf("the account would read %s as well", left)
	}
	// A directory that the account cannot look into is handed over file by file.
	got := serviceAccount{uid: 1 << 30}.opened([]string{dir + "/defs", "/x/a.json", dir})
	if !slices.Equal(got, []string{dir + "/defs/d.json", dir + "/defs/e.jsonc", "/x/a.json", dir}) {
		t.Errorf("got %q", got)
	}
}

// What the account cannot read it gets as an open copy, which it may read by path as often as it likes.
func TestCopyForTheAccount(t *testing.T) {
	a := self(t)
	name := filepath.Join(t.TempDir(), "x.py")
	if err := os.WriteFile(name, []byte("print(1)\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	small, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		info   fs.FileInfo
		called string
	}{{small, name}, {big{small}, ""}} {
		fd, err := a.copyOf(name, tt.info)
		if err != nil {
			t.Fatal(err)
		}
		defer os.NewFile(uintptr(fd), name).Close()
		path := "/proc/self/fd/" + strconv.Itoa(fd)
		for range 2 {
			data, err := os.ReadFile(path)
			if err != nil || string(data) != "print(1)\n" {
				t.Errorf("%q, %v", data, err)
			}
		}
		if got := config.NameOf(path); tt.called != "" && got != tt.called {
			t.Errorf("it is called %s", got)
		}
	}
	if left, err := os.ReadDir(a.home); err != nil || len(left) > 0 {
		t.Errorf("the copy has a name: %v, %v", left, err)
	}
}

// big is too large for a copy in memory.
type big struct{ fs.FileInfo }

func (big) Size() int64 { return inMemory + 1 }

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
