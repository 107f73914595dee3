package ctrdtest

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/ctrd"
	"github.com/thawpool/thawpool/runtime/daemon"
	"github.com/thawpool/thawpool/runtime/local"
)

// Env is a state directory of its own with the daemon that may run in it.
type Env struct {
	StateDir string
	Config   daemon.Config
	Log      zerolog.Logger
}

// NewEnv makes a state directory that goes with the test, after its daemon has stopped.
func NewEnv(t testing.TB) *Env {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "tp-") //nolint:usetesting // short enough for sockets; removed after the daemon has ended
	if err != nil {
		t.Fatal(err)
	}
	e := OpenEnv(t, filepath.Join(dir, "s"))
	t.Cleanup(func() {
		e.Stop(t)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return e
}

// OpenEnv uses a state directory that stays.
func OpenEnv(t testing.TB, stateDir string) *Env {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	log := zerolog.New(zerolog.NewConsoleWriter(zerolog.ConsoleTestWriter(t))).With().Timestamp().Logger()
	return &Env{StateDir: stateDir, Log: log, Config: daemon.Config{
		StateDir: stateDir, BinDir: BinDir(), Idle: time.Minute, Command: []string{self, "daemon"}, Log: log,
	}}
}

// Ensure starts the daemon and uses it for the length of the test.
func (e *Env) Ensure(t testing.TB) *daemon.Daemon {
	t.Helper()
	d, err := daemon.Ensure(t.Context(), e.Config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// BinDir has containerd, runc, rootlesskit and the shims, where this user can reach them.
func BinDir() string { return os.Getenv(envBin) }

// Module is the directory of go.mod.
func Module() string { return os.Getenv(envRoot) }

// Runtime is a runtime on this environment's daemon with the default image. change may adapt its configuration.
func (e *Env) Runtime(t testing.TB, change ...func(*ctrd.Config)) *ctrd.Runtime {
	t.Helper()
	c := ctrd.Config{
		Connect: local.Connect(local.Config{Daemon: e.Config, Log: e.Log}),
		Limits:  runtime.DefaultLimits(),
		BinDir:  BinDir(),
		Profile: "test",
		Log:     e.Log,
	}
	for _, f := range change {
		f(&c)
	}
	rt, err := ctrd.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Errorf("close runtime: %v", err)
		}
	})
	return rt
}

// Boot boots a sandbox and destroys it with the test.
func Boot(t testing.TB, rt runtime.Runtime, id string) runtime.Sandbox {
	t.Helper()
	sb, err := rt.Boot(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		if err := sb.Destroy(ctx); err != nil {
			t.Errorf("destroy: %v", err)
		}
	})
	return sb
}
