//go:build integration

package ctrd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/ctrd"
	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
	"github.com/thawpool/thawpool/runtime/guest"
)

// stateEnv is where the shared state is: set for processes that tests start, or by somebody who has a state directory
// with an image in it.
const stateEnv = "THAWPOOL_TEST_STATE"

// shared is the daemon that most tests of this package use: making the default image takes seconds.
var shared struct {
	once sync.Once
	made string // to be removed in the end
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == weakenArg {
		weaken(os.Args[2:])
	}
	ctrdtest.WithFiles(document)
	ctrdtest.Main(m, cleanup)
}

func cleanup() error {
	if shared.made == "" {
		return nil
	}
	return ctrdtest.RemoveState(shared.made)
}

// env is the shared environment, and what is in it now.
func env(t *testing.T) (*ctrdtest.Env, ctrdtest.Leaks) {
	t.Helper()
	e := envOf(t)
	base, err := e.Count()
	if err != nil {
		t.Fatal(err)
	}
	return e, base
}

func envOf(t testing.TB) *ctrdtest.Env {
	t.Helper()
	shared.once.Do(func() {
		if os.Getenv(stateEnv) != "" {
			return
		}
		dir, err := os.MkdirTemp("/var/tmp", "tp-") //nolint:usetesting // shared by all tests of the package
		if err != nil {
			t.Fatal(err)
		}
		shared.made = filepath.Join(dir, "s")
		if err := os.Setenv(stateEnv, shared.made); err != nil { //nolint:usetesting // as above
			t.Fatal(err)
		}
	})
	e := ctrdtest.OpenEnv(t, os.Getenv(stateEnv))
	e.Ensure(t)
	return e
}

// both runs a test with the stock runc shim and with our own.
func both(t *testing.T, test func(t *testing.T, e *ctrdtest.Env, rt *ctrd.Runtime)) {
	t.Helper()
	for _, name := range []string{ctrd.RuntimeRunc, ctrd.RuntimeThawpool} {
		t.Run(name, func(t *testing.T) {
			e, base := env(t)
			t.Cleanup(func() { e.RequireNone(t, base) }) // after the runtime's own clean-up
			test(t, e, e.Runtime(t, func(c *ctrd.Config) { c.Runtime = name }))
		})
	}
}

// outcome is what one run gave.
type outcome struct {
	out  string
	exit guest.Frame
	done guest.Frame
	err  error
}

// run thaws a sandbox and runs code in it.
func run(t *testing.T, sb runtime.Sandbox, code string) outcome {
	t.Helper()
	if err := sb.Thaw(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := guest.NewWriter(sb.Stream()).Run(guest.Run{ID: "r", Code: code, ValueMax: 1 << 16}); err != nil {
		t.Fatal(err)
	}
	return read(sb)
}

func read(sb runtime.Sandbox) (o outcome) {
	r := guest.NewReader(sb.Stream())
	for {
		f, err := r.Next()
		if err != nil {
			o.err = err
			return o
		}
		switch f.Kind {
		case guest.KindOut:
			o.out += string(f.Data)
		case guest.KindDone:
			o.done = *f
		case guest.KindExit:
			o.exit = *f
			return o
		}
	}
}

func (o outcome) String() string {
	text := fmt.Sprintf("out %q, exit %d signal %d, err %v", o.out, o.exit.Code, o.exit.Signal, o.err)
	if o.done.Error != nil {
		text += ", " + o.done.Error.Type + ": " + o.done.Error.Message
	}
	return text
}

// must runs code that has to succeed, and gives its output.
func must(t *testing.T, sb runtime.Sandbox, code string) string {
	t.Helper()
	o := run(t, sb, code)
	if o.err != nil || o.exit.Code != 0 || o.exit.Signal != 0 || o.done.Error != nil {
		t.Fatal(o)
	}
	return o.out
}
