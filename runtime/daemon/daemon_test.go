package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/host"
)

func openTestLayout(t *testing.T) layout {
	t.Helper()
	l, err := openLayout(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestConfigComplete(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Config{
		"state": {StateDir: "relative"},
		"bin":   {StateDir: "/s", BinDir: "relative"},
		"idle":  {StateDir: "/s", Idle: -1},
	} {
		if _, err := c.complete(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	c, err := Config{StateDir: "/s"}.complete()
	if err != nil || c.Idle != DefaultIdle || !filepath.IsAbs(c.BinDir) || len(c.Command) != 2 {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestLayoutShortens(t *testing.T) {
	t.Parallel()
	tmp, err := os.MkdirTemp("/tmp", "tp") //nolint:usetesting // short enough for sockets
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	l := layout{dir: "/" + strings.Repeat("d", 100), id: "0123abcd"}
	link, err := l.shorten(tmp)
	if err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(link); err != nil || to != l.dir || len(link)+len(longestSocket) > maxSocketPath {
		t.Errorf("%s → %s, %v", link, to, err)
	}
	if again, err := l.shorten(tmp); err != nil || again != link {
		t.Errorf("the second time %s, %v", again, err)
	}
	if info, err := os.Stat(filepath.Dir(link)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := l.shorten("/tmp/" + strings.Repeat("t", 100)); err == nil {
		t.Error("a temporary directory that is too long itself")
	}
}

func TestLayoutRefusesOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := private(file); err == nil {
		t.Error("a file for a directory")
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("/", link); err != nil {
		t.Fatal(err)
	}
	if err := private(link); err == nil {
		t.Error("a link to somebody else's directory")
	}
}

func TestLayoutInside(t *testing.T) {
	t.Parallel()
	l := layout{dir: "/home/a/s"}
	for path, want := range map[string]string{
		"/home/a/s/fifo/x/in": "/run/thawpool/fifo/x/in",
		"/elsewhere":          "/elsewhere",
	} {
		if got := l.inside(path); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}

func TestUsers(t *testing.T) {
	t.Parallel()
	l := openTestLayout(t)
	self, err := host.Self()
	if err != nil {
		t.Fatal(err)
	}
	count := func(wantLiving, wantDead int) {
		t.Helper()
		living, dead, err := l.users()
		if err != nil || len(living) != wantLiving || len(dead) != wantDead {
			t.Errorf("living %v, dead %v, %v; want %d and %d", living, dead, err, wantLiving, wantDead)
		}
	}
	count(0, 0)
	one, err := register(l)
	if err != nil {
		t.Fatal(err)
	}
	two, err := register(l)
	if err != nil {
		t.Fatal(err)
	}
	count(1, 0) // one process
	one.close(l)
	count(1, 0)
	// A process that dies lets go of its lock and leaves its file.
	if err := two.file.Close(); err != nil {
		t.Fatal(err)
	}
	if living, dead, err := l.users(); err != nil || len(living) != 0 || !dead[self] {
		t.Errorf("living %v, dead %v, %v", living, dead, err)
	}
	count(0, 0) // told once
}

func TestIsLocked(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	if _, err := isLocked(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, held := range []bool{false, true} {
		if held {
			if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := isLocked(path); err != nil || got != held {
			t.Errorf("locked %v, %v; want %v", got, err, held)
		}
	}
}

func TestRecord(t *testing.T) {
	t.Parallel()
	l := openTestLayout(t)
	if _, err := l.readRecord(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	want := record{Keeper: "b.1.2", Phase: phaseReady, Cgroup: host.V2, HostPath: "/h", SpecPath: "/s"}
	if err := want.write(l); err != nil {
		t.Fatal(err)
	}
	if got, err := l.readRecord(); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestContainerdConfig(t *testing.T) {
	t.Parallel()
	data, err := containerdConfig()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"no_sync = true", `"io.containerd.monitor.container.v1.restart"`, `address = "/run/thawpool/run/containerd.sock"`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%s is not in\n%s", want, data)
		}
	}
}

func TestProcessWait(t *testing.T) {
	t.Parallel()
	p, err := openProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.wait() }()
	p.close()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("this process has ended")
		}
	case <-time.After(10 * time.Second):
		t.Error("close does not end the wait")
	}
}

func TestDeadSockets(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/tmp", "tp") //nolint:usetesting // short enough for sockets
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	old := time.Now().Add(-time.Minute)
	bind := func(name string, listening bool) {
		t.Helper()
		path := filepath.Join(dir, name)
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
			t.Fatal(err)
		}
		if listening {
			if err := unix.Listen(fd, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	bind("serving", true)
	bind("dead", false)
	bind("just made", false)
	s := suspects{filepath.Join(dir, "dead"): old, filepath.Join(dir, "serving"): old, filepath.Join(dir, "gone"): old}
	s.sweep(dir)
	if len(s) != 1 || s[filepath.Join(dir, "just made")].IsZero() {
		t.Errorf("suspects are %v", s)
	}
	for name, want := range map[string]bool{"serving": true, "dead": false, "just made": true} {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s is there: %v", name, err == nil)
		}
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	w := &words{}
	for range 1000 {
		_, _ = w.Write([]byte("0123456789"))
	}
	if s := w.String(); len(s) > maxTail+len("…") || !strings.HasSuffix(s, "0123456789") {
		t.Errorf("%d bytes: %s", len(s), s)
	}
	if s := (&words{}).String(); s != "it said nothing" {
		t.Errorf("%s", s)
	}
}

func TestDelegatedAbove(t *testing.T) {
	t.Parallel()
	for group, want := range map[string]string{
		"/user.slice/user-1.slice/user@1.service/app.slice/containerd.service/evac": "/user.slice/user-1.slice/user@1.service/app.slice/containerd.service",
		"/user.slice/session-1.scope": "/user.slice/session-1.scope",
		"/docker/abc":                 "/docker/abc",
	} {
		if got := delegatedAbove(group); got != want {
			t.Errorf("%s: %s, want %s", group, got, want)
		}
	}
}

// TestHandOn: a unit whose systemd is older than the delegation lacks controllers, and what helps is said.
func TestHandOn(t *testing.T) {
	dir := t.TempDir()
	control := filepath.Join(dir, "cgroup.subtree_control")
	for file, text := range map[string]string{"cgroup.controllers": "memory pids\n", "cgroup.subtree_control": ""} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var hint *runtime.HintError
	err := handOn(dir)
	if !errors.As(err, &hint) || !errors.Is(err, runtime.ErrUnsupported) || !strings.Contains(err.Error(), "controllers cpu ") ||
		!strings.HasPrefix(hint.Hint, "sudo systemctl restart user@") {
		t.Errorf("without cpu: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.controllers"), []byte("cpu memory pids\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := handOn(dir); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(control); err != nil || len(got) == 0 {
		t.Errorf("%q, %v", got, err)
	}
}
