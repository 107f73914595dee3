//go:build integration

package ctrd_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/ctrd"
	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
	"github.com/thawpool/thawpool/runtime/guest"
	"github.com/thawpool/thawpool/runtime/host"
)

func TestRoundTrip(t *testing.T) {
	both(t, func(t *testing.T, e *ctrdtest.Env, rt *ctrd.Runtime) {
		for range 3 { // an id may be used again at once
			sb := ctrdtest.Boot(t, rt, "round-trip")
			if out := must(t, sb, "print(6*7)"); out != "42\n" {
				t.Fatalf("%q", out)
			}
			u, err := sb.Usage()
			if err != nil || u.CPU <= 0 || u.MemoryPeak <= 0 || u.OOMKills != 0 {
				t.Fatalf("usage %+v, %v", u, err)
			}
			if info := sb.Boot(); info.Python == "" || info.Took <= 0 || info.At.IsZero() {
				t.Fatalf("%+v", info)
			}
			if err := sb.Destroy(t.Context()); err != nil {
				t.Fatal(err)
			}
			select {
			case <-sb.Done():
			default:
				t.Fatal("destroyed and not done")
			}
			if _, err := e.Group("round-trip").Usage(); !errors.Is(err, os.ErrNotExist) {
				t.Fatalf("its group is still there: %v", err)
			}
		}
	})
}

// TestFrozen reads the freezer: a ready sandbox is really frozen, and gets no processor time.
func TestFrozen(t *testing.T) {
	both(t, func(t *testing.T, e *ctrdtest.Env, rt *ctrd.Runtime) {
		sb := ctrdtest.Boot(t, rt, "frozen")
		frozen := func() bool {
			f, err := e.Group("frozen").Frozen()
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		if !frozen() {
			t.Fatal("a ready sandbox is not frozen")
		}
		pids, err := e.Group("frozen").Procs()
		if err != nil || len(pids) < 2 {
			t.Fatalf("runner and child are not both in the group: %v, %v", pids, err)
		}
		if err := sb.Thaw(t.Context()); err != nil {
			t.Fatal(err)
		}
		if frozen() {
			t.Fatal("still frozen after the thaw")
		}
		if err := sb.Thaw(t.Context()); err == nil || errors.Is(err, runtime.ErrLost) {
			t.Fatalf("a second thaw: %v", err)
		}
	})
}

// TestThawOfDead: a sandbox that died in the pool is known as such at hand-out.
func TestThawOfDead(t *testing.T) {
	both(t, func(t *testing.T, e *ctrdtest.Env, rt *ctrd.Runtime) {
		sb := ctrdtest.Boot(t, rt, "dead")
		if err := e.Group("dead").Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-sb.Done()
		if err := sb.Thaw(t.Context()); !errors.Is(err, runtime.ErrLost) {
			t.Fatalf("thaw of a dead sandbox: %v", err)
		}
		if _, err := sb.Usage(); err != nil {
			t.Fatalf("usage after the end: %v", err)
		}
		if _, err := sb.Stream().Read(make([]byte, 1)); err == nil {
			t.Fatal("a dead sandbox still says something")
		}
	})
}

func TestMemoryLimit(t *testing.T) {
	both(t, func(t *testing.T, e *ctrdtest.Env, rt *ctrd.Runtime) {
		sb := ctrdtest.Boot(t, rt, "memory")
		if n, err := e.Group("memory").MemoryLimit(); err != nil || n != runtime.DefaultLimits().Memory {
			t.Fatalf("limit %d, %v", n, err)
		}
		o := run(t, sb, "print('before', flush=True)\nx = bytearray(2 << 30)\nfor i in range(0, len(x), 4096): x[i] = 1")
		if o.exit.Signal != 9 && o.err == nil {
			t.Fatal(o)
		}
		u, err := sb.Usage()
		if err != nil || u.OOMKills < 1 || u.MemoryPeak < runtime.DefaultLimits().Memory*9/10 {
			t.Fatalf("usage %+v, %v", u, err)
		}
	})
}

func TestPIDsLimit(t *testing.T) {
	both(t, func(t *testing.T, _ *ctrdtest.Env, rt *ctrd.Runtime) {
		sb := ctrdtest.Boot(t, rt, "pids")
		out := must(t, sb, `import os, time
n = 0
try:
    while n < 1000:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        n += 1
except OSError as e:
    print(n, e.errno)
`)
		var n, errno int
		if _, err := fmt.Sscan(out, &n, &errno); err != nil || errno != int(syscall.EAGAIN) || n > int(runtime.DefaultLimits().PIDs) {
			t.Fatalf("%q", out)
		}
	})
}

// TestSameID: an id that is in use is refused, and its sandbox comes to no harm.
func TestSameID(t *testing.T) {
	both(t, func(t *testing.T, _ *ctrdtest.Env, rt *ctrd.Runtime) {
		sb := ctrdtest.Boot(t, rt, "same")
		if other, err := rt.Boot(t.Context(), "same"); err == nil {
			t.Error("two of one id", other.Destroy(t.Context()))
		}
		if out := must(t, sb, "print('unharmed')"); out != "unharmed\n" {
			t.Errorf("%q", out)
		}
	})
}

// TestUnready: what the runner says before it can be ready reaches the caller.
func TestUnready(t *testing.T) {
	e, base := env(t)
	t.Cleanup(func() { e.RequireNone(t, base) })
	rt := e.Runtime(t, func(c *ctrd.Config) {
		c.Runtime, c.Preload = ctrd.RuntimeThawpool, []string{"no_such_module"}
	})
	_, err := rt.Boot(t.Context(), "unready")
	if !errors.Is(err, runtime.ErrImage) || !strings.Contains(err.Error(), "no_such_module") {
		t.Fatal(err)
	}
}

func TestManyAtOnce(t *testing.T) {
	both(t, func(t *testing.T, _ *ctrdtest.Env, rt *ctrd.Runtime) {
		const n = 20 // more than one shim's worth
		var wait sync.WaitGroup
		slots := make(chan struct{}, 4)
		for i := range n {
			wait.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				sb, err := rt.Boot(t.Context(), fmt.Sprintf("many-%d", i))
				if err != nil {
					t.Error(err)
					return
				}
				if err := sb.Thaw(t.Context()); err != nil {
					t.Error(err)
				}
				w := guest.NewWriter(sb.Stream())
				if err := w.Run(guest.Run{ID: "r", Code: fmt.Sprintf("print(%d)", i), ValueMax: 100}); err != nil {
					t.Error(err)
				}
				if o := read(sb); o.out != fmt.Sprintf("%d\n", i) {
					t.Error(o)
				}
				if err := sb.Destroy(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
	})
}

// TestLabels: containerd itself must never start or keep a sandbox, and anyone can tell whose it is.
func TestLabels(t *testing.T) {
	e, _ := env(t)
	rt := e.Runtime(t)
	ctrdtest.Boot(t, rt, "labels")
	c, err := e.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, err := c.ContainerService().Get(t.Context(), "labels")
	if err != nil {
		t.Fatal(err)
	}
	for k := range r.Labels {
		if strings.Contains(k, "restart") {
			t.Errorf("label %s", k)
		}
	}
	owner, err := host.ParseOwner(r.Labels[host.LabelOwner])
	if err != nil || !owner.Alive() || owner.PID != os.Getpid() {
		t.Errorf("owner %v, %v", owner, err)
	}
	if r.Labels[ctrd.LabelProfile] != "test" {
		t.Errorf("profile %q", r.Labels[ctrd.LabelProfile])
	}
}

// TestLeakCounter: the counter that other tests rely on sees one of each kind when a sandbox is left on purpose.
func TestLeakCounter(t *testing.T) {
	e, base := env(t)
	rt := e.Runtime(t, func(c *ctrd.Config) { c.Runtime = ctrd.RuntimeThawpool })
	ctrdtest.Boot(t, rt, "left")
	l, err := e.Count()
	if err != nil {
		t.Fatal(err)
	}
	l = l.Minus(base)
	for _, kind := range []string{
		ctrdtest.Processes, ctrdtest.Mounts, ctrdtest.Cgroups, ctrdtest.Containers, ctrdtest.Tasks, ctrdtest.Shims,
		ctrdtest.Snapshots, ctrdtest.Leases, ctrdtest.FIFOs, ctrdtest.Sockets, ctrdtest.Bundles, ctrdtest.Users,
	} {
		if len(l[kind]) == 0 {
			t.Errorf("no %s counted in:\n%v", kind, l)
		}
	}
}
