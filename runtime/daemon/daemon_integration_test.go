//go:build integration

package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
	"github.com/thawpool/thawpool/runtime/daemon"
)

func TestMain(m *testing.M) { ctrdtest.Main(m) }

func ensure(t *testing.T, e *ctrdtest.Env) *daemon.Daemon {
	t.Helper()
	d, err := daemon.Ensure(t.Context(), e.Config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// nothing fails unless every trace of a daemon that has stopped is gone.
func nothing(t *testing.T, e *ctrdtest.Env) {
	t.Helper()
	ctrdtest.Await(t, "the daemon has gone", func() error {
		if owner, ok := e.Keeper(); ok {
			return fmt.Errorf("keeper %d still runs", owner.PID)
		}
		return nil
	})
	e.RequireNone(t, ctrdtest.Leaks{})
	if _, err := os.Stat(filepath.Join(e.StateDir, "rk")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("rootlesskit's directory is left: %v", err)
	}
}

func TestOneDaemonForAll(t *testing.T) {
	e := ctrdtest.NewEnv(t)
	const users = 8
	pids := make([]int, users)
	var wait sync.WaitGroup
	for i := range users {
		wait.Go(func() {
			d, err := daemon.Ensure(t.Context(), e.Config)
			if err != nil {
				t.Error(err)
				return
			}
			defer d.Close()
			pids[i] = d.PID()
		})
	}
	wait.Wait()
	for _, pid := range pids {
		if pid != pids[0] || pid == 0 {
			t.Fatalf("several daemons: %v", pids)
		}
	}
	// Another look, as from a cron job: without what a login has.
	t.Setenv("XDG_RUNTIME_DIR", "")
	if d := ensure(t, e); d.PID() != pids[0] {
		t.Errorf("another daemon without XDG_RUNTIME_DIR: %d, not %d", d.PID(), pids[0])
	}
	if err := daemon.Keep(t.Context(), e.Config); err == nil {
		t.Error("a second keeper ran")
	}
}

func TestIdleStop(t *testing.T) {
	e := ctrdtest.NewEnv(t)
	e.Config.Idle = time.Second
	first := ensure(t, e)
	second := ensure(t, e)
	second.Close()
	second.Close() // once more is allowed
	select {
	case <-first.Lost():
		t.Fatal("stopped while it was in use")
	case <-time.After(3 * e.Config.Idle): // an absence can only be waited for
	}
	first.Close()
	nothing(t, e)
	again := ensure(t, e)
	if again.PID() == first.PID() {
		t.Error("the same process")
	}
}

// TestReplaced: the loss of a daemon is told to its users, and the next one gets another.
func TestReplaced(t *testing.T) {
	e := ctrdtest.NewEnv(t)
	d := ensure(t, e)
	if err := syscall.Kill(d.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-d.Lost():
	case <-time.After(ctrdtest.Patience):
		t.Fatal("the loss is not told")
	}
	if other := ensure(t, e); other.PID() == d.PID() {
		t.Error("the dead one again")
	}
}

// TestStaleState: whatever an earlier daemon or somebody else has left is no obstacle.
func TestStaleState(t *testing.T) {
	e := ctrdtest.NewEnv(t)
	for path, text := range map[string]string{
		"run/containerd.sock": "no socket", "run/containerd.sock.ttrpc": "", "run/s/dead": "", "keeper.json": "{not json",
		"keeper.lock": "", "start.lock": "", "rk/lock": "", "rk/api.sock": "", "rk/child_pid": "1",
		"users/garbage": "", "users/.b.1.1~1": "", "users/b.1.1~1": "", "fifo/stray/in": "", "state/x/y": "", "containerd.toml": "broken [",
	} {
		file := filepath.Join(e.StateDir, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ensure(t, e)
	info, err := os.Stat(e.StateDir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the state directory is open to others: %v, %v", info.Mode(), err)
	}
	l, err := e.Count()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{ctrdtest.FIFOs, ctrdtest.Sockets} {
		if len(l[kind]) > 0 {
			t.Errorf("left: %v", l)
		}
	}
}

// TestStatusSocketOfDead: a server that was killed leaves its socket for operators, and the keeper removes it.
func TestStatusSocketOfDead(t *testing.T) {
	e := ctrdtest.NewEnv(t)
	ensure(t, e)
	dir := filepath.Join(e.StateDir, daemon.StatusDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	bind := func(name string) *net.UnixListener {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, name), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	bind("living")
	if err := bind("dead").Close(); err != nil {
		t.Fatal(err)
	}
	ctrdtest.Await(t, "the dead one's has gone", func() error {
		entries, err := os.ReadDir(dir)
		if err == nil && (len(entries) != 1 || entries[0].Name() != "living") {
			err = fmt.Errorf("there are %v", entries)
		}
		return err
	})
}

// TestBrokenStore: a store that a power cut has damaged is set aside and made anew, once: the first may have images.
func TestBrokenStore(t *testing.T) {
	e := ctrdtest.NewEnv(t)
	ensure(t, e).Close()
	e.Stop(t)
	const db = "io.containerd.metadata.v1.bolt/meta.db"
	for _, damage := range []string{"first", "second"} {
		if err := os.WriteFile(filepath.Join(e.StateDir, "root", db), []byte(strings.Repeat(damage, 5000)), 0o600); err != nil {
			t.Fatal(err)
		}
		ensure(t, e).Close()
		e.Stop(t)
	}
	kept, err := os.ReadFile(filepath.Join(e.StateDir, "root.damaged", db))
	if err != nil || !strings.HasPrefix(string(kept), "first") {
		t.Errorf("%.20q was set aside, %v", kept, err)
	}
}

func TestLongPath(t *testing.T) {
	e := ctrdtest.NewEnv(t)
	e.StateDir = filepath.Join(e.StateDir, strings.Repeat("long/", 30))
	e.Config.StateDir = e.StateDir
	defer e.Stop(t)
	d := ensure(t, e)
	if len(d.Address()) > 107 {
		t.Errorf("address %s", d.Address())
	}
	d.Close()
}

// TestCannotStart: what keeps a daemon from starting is said, and soon.
func TestCannotStart(t *testing.T) {
	e := ctrdtest.NewEnv(t)
	e.Config.BinDir = t.TempDir()
	_, err := daemon.Ensure(t.Context(), e.Config)
	if !errors.Is(err, runtime.ErrUnavailable) || !strings.Contains(err.Error(), "rootlesskit") {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(filepath.Join(e.Config.BinDir, "rootlesskit"), []byte("#!/bin/sh\necho no luck today >&2; exit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err = daemon.Ensure(t.Context(), e.Config)
	if !errors.Is(err, runtime.ErrUnavailable) || !strings.Contains(err.Error(), "no luck today") {
		t.Errorf("%v", err)
	}
	nothing(t, e)
	e.Config.BinDir = ctrdtest.BinDir()
	ensure(t, e)
}

// TestGivesUpInTime: a caller's deadline holds also for a daemon that never serves.
func TestGivesUpInTime(t *testing.T) {
	e := ctrdtest.NewEnv(t)
	e.Config.BinDir = t.TempDir()
	if err := os.WriteFile(filepath.Join(e.Config.BinDir, "rootlesskit"), []byte("#!/bin/sh\nexec sleep 3600\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := daemon.Ensure(ctx, e.Config)
	if !errors.Is(err, runtime.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	e.Stop(t)
	nothing(t, e)
}

// TestEnvironment: the daemon lives long and has many children, so nothing of its starter's environment goes with it. Nor does
// its umask: containerd makes the roots of sandboxes by it.
func TestEnvironment(t *testing.T) {
	e := ctrdtest.NewEnv(t)
	umask := unix.Umask(0o077)
	t.Cleanup(func() { unix.Umask(umask) })
	t.Setenv("API_TOKEN", "do-not-tell")
	d := ensure(t, e)
	keeper, ok := e.Keeper()
	if !ok {
		t.Fatal("no keeper")
	}
	for _, pid := range []int{keeper.PID, d.PID()} {
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(env), "do-not-tell") {
			t.Errorf("process %d has the environment of its starter", pid)
		}
	}
	if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.PID())); err != nil || !strings.Contains(string(status), "\nUmask:\t0022\n") {
		t.Errorf("containerd has the umask of its starter: %s, %v", status, err)
	}
}

// TestKeeperLog: what goes wrong can be read afterwards.
func TestKeeperLog(t *testing.T) {
	e := ctrdtest.NewEnv(t)
	d := ensure(t, e)
	if err := syscall.Kill(d.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ensure(t, e)
	log, err := os.ReadFile(filepath.Join(e.StateDir, "log", "keeper.log"))
	if err != nil || !strings.Contains(string(log), "containerd has ended") {
		t.Errorf("%s, %v", log, err)
	}
}

func TestAttach(t *testing.T) {
	e := ctrdtest.NewEnv(t)
	private := ensure(t, e)
	other := ctrdtest.NewEnv(t)
	d, err := daemon.Attach(t.Context(), private.Address(), other.Config)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if d.PID() != private.PID() || d.Address() != private.Address() {
		t.Errorf("attached to %d at %s", d.PID(), d.Address())
	}
	if !strings.HasPrefix(d.FIFODir(), other.StateDir) || d.Inside(d.FIFODir()) != d.FIFODir() {
		t.Errorf("FIFOs in %s, inside %s", d.FIFODir(), d.Inside(d.FIFODir()))
	}
	if err := syscall.Kill(private.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-d.Lost():
	case <-time.After(ctrdtest.Patience):
		t.Fatal("the loss is not told")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := daemon.Attach(ctx, filepath.Join(other.StateDir, "none.sock"), other.Config); !errors.Is(err, runtime.ErrUnavailable) {
		t.Errorf("%v", err)
	}
}

// TestStateRemoved: a daemon whose directory was taken away serves nobody any more, and ends.
func TestStateRemoved(t *testing.T) {
	e := ctrdtest.NewEnv(t)
	d := ensure(t, e)
	keeper, ok := e.Keeper()
	if !ok {
		t.Fatal("no keeper")
	}
	if err := os.RemoveAll(e.StateDir); err != nil {
		t.Fatal(err)
	}
	select {
	case <-d.Lost():
	case <-time.After(ctrdtest.Patience):
		t.Fatal("containerd still runs")
	}
	ctrdtest.Await(t, "the keeper ends", func() error {
		if keeper.Alive() {
			return errors.New("it is alive")
		}
		return nil
	})
	if _, err := os.Stat(e.StateDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is back: %v", err)
	}
}
