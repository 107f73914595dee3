//go:build integration

package ctrd_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/ctrd"
	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
	"github.com/thawpool/thawpool/runtime/local"
)

// kill sends a signal to a process that must be there.
func kill(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatalf("signal %d to %d: %v", sig, pid, err)
	}
}

// stop stops a process, and waits until it is.
func stop(t *testing.T, pid int) {
	t.Helper()
	kill(t, pid, syscall.SIGSTOP)
	ctrdtest.Await(t, "process stops", func() error {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err == nil && !strings.Contains(string(stat), ") T ") {
			err = errors.New(string(stat))
		}
		return err
	})
}

// next shows that the runtime works again: a boot may fail while parts are being replaced, but not for long.
func next(t *testing.T, rt runtime.Runtime, id string) {
	t.Helper()
	var sb runtime.Sandbox
	ctrdtest.Await(t, "the next boot", func() (err error) {
		sb, err = rt.Boot(t.Context(), id)
		if err != nil && !errors.Is(err, runtime.ErrUnavailable) {
			t.Logf("other kind of error: %v", err)
		}
		return err
	})
	if out := must(t, sb, "print('again')"); out != "again\n" {
		t.Errorf("%q", out)
	}
	if err := sb.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
}

// ended waits until a sandbox is known to have gone.
func ended(t *testing.T, sb runtime.Sandbox) {
	t.Helper()
	select {
	case <-sb.Done():
	case <-time.After(ctrdtest.Patience):
		t.Fatalf("sandbox %s is not known to have gone", sb.ID())
	}
}

// TestKillRunner kills the first process of a sandbox, frozen and running.
func TestKillRunner(t *testing.T) {
	both(t, func(t *testing.T, e *ctrdtest.Env, rt *ctrd.Runtime) {
		first := func(id string) int {
			pids, err := e.Group(id).Procs()
			if err != nil || len(pids) == 0 {
				t.Fatal(pids, err)
			}
			return pids[0]
		}
		running := ctrdtest.Boot(t, rt, "runner-running")
		start(t, running, "import time; time.sleep(3600)")
		kill(t, first("runner-running"), syscall.SIGKILL)
		ended(t, running)
		if o := read(running); o.err == nil {
			t.Errorf("a killed runner said %v", o)
		}
		frozen := ctrdtest.Boot(t, rt, "runner-frozen")
		kill(t, first("runner-frozen"), syscall.SIGKILL)
		// On cgroup v1 the kernel keeps the signal until the thaw; the stream tells in any case.
		if err := frozen.Thaw(t.Context()); err == nil {
			if _, err := frozen.Stream().Read(make([]byte, 1)); err == nil {
				t.Error("a killed runner spoke")
			}
		} else if !errors.Is(err, runtime.ErrLost) {
			t.Error(err)
		}
		ended(t, frozen)
	})
}

// TestKillShim: sandboxes of a dead shim are known as lost at once, and go without a trace.
func TestKillShim(t *testing.T) {
	both(t, func(t *testing.T, e *ctrdtest.Env, rt *ctrd.Runtime) {
		frozen := ctrdtest.Boot(t, rt, "shim-frozen")
		running := ctrdtest.Boot(t, rt, "shim-running")
		start(t, running, "import time; time.sleep(3600)")
		shim := e.FindPrefix(t, "containerd-shim-")
		kill(t, shim.PID, syscall.SIGKILL)
		ended(t, frozen)
		ended(t, running)
		if err := frozen.Thaw(t.Context()); !errors.Is(err, runtime.ErrLost) {
			t.Errorf("thaw: %v", err)
		}
		next(t, rt, "shim-next")
	})
}

// TestHungShim: a shim that does not answer delays its own sandboxes for a bounded time only. Ours is not even needed for
// the thaw.
func TestHungShim(t *testing.T) {
	both(t, func(t *testing.T, e *ctrdtest.Env, rt *ctrd.Runtime) {
		sb := ctrdtest.Boot(t, rt, "hung-shim")
		stop(t, e.FindPrefix(t, "containerd-shim-").PID)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := sb.Thaw(ctx)
		if needed := !strings.HasSuffix(t.Name(), ctrd.RuntimeThawpool); needed != errors.Is(err, runtime.ErrUnavailable) {
			t.Errorf("thaw: %v", err)
		}
		if err := sb.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
		next(t, rt, "hung-next")
	})
}

// TestHungShimOfMany: each of a shim's sandboxes finds that it hangs. What clears up after it is left alone.
func TestHungShimOfMany(t *testing.T) {
	both(t, func(t *testing.T, e *ctrdtest.Env, rt *ctrd.Runtime) {
		var all []runtime.Sandbox
		for i := range 4 {
			all = append(all, ctrdtest.Boot(t, rt, fmt.Sprintf("hung-many-%d", i)))
		}
		stop(t, e.FindPrefix(t, "containerd-shim-").PID)
		var wait sync.WaitGroup
		for _, sb := range all {
			wait.Go(func() {
				if err := sb.Destroy(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
	})
}

// TestHungRemover: the program that containerd runs at a task's end is killed when it hangs, and its shim goes on.
func TestHungRemover(t *testing.T) {
	e, base := env(t)
	t.Cleanup(func() { e.RequireNone(t, base) }) // after the runtime's own clean-up
	bin := hangingRemover(t)
	rt := e.Runtime(t, func(c *ctrd.Config) { c.Runtime, c.BinDir = ctrd.RuntimeThawpool, bin })
	gone, kept := ctrdtest.Boot(t, rt, "remover-gone"), ctrdtest.Boot(t, rt, "remover-kept")
	shim := e.FindPrefix(t, "containerd-shim-")
	if err := gone.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(bin, "met")); err != nil {
		t.Errorf("the program was not run: %v", err)
	}
	if now := e.FindPrefix(t, "containerd-shim-"); now.PID != shim.PID {
		t.Errorf("the shim is %d, and was %d", now.PID, shim.PID)
	}
	if out := must(t, kept, "print('kept')"); out != "kept\n" {
		t.Errorf("%q", out)
	}
}

// hangingRemover is a directory of programs of which the one that removes tasks hangs.
func hangingRemover(t *testing.T) string {
	t.Helper()
	bin, err := os.MkdirTemp("/var/tmp", "tpf-") //nolint:usetesting // the daemon's processes can reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(bin) })
	const name = "thawpool-delete"
	text := fmt.Sprintf("#!/bin/sh\ncase \" $* \" in *' delete '*) touch %s/met; exec sleep 600 ;; esac\nexec %s \"$@\"\n",
		bin, filepath.Join(ctrdtest.BinDir(), name))
	if err := errors.Join(
		os.WriteFile(filepath.Join(bin, name), []byte(text), 0o700), //nolint:gosec // a program
		os.Symlink(filepath.Join(ctrdtest.BinDir(), "containerd-shim-thawpool-v1"), filepath.Join(bin, "containerd-shim-thawpool-v1")),
	); err != nil {
		t.Fatal(err)
	}
	return bin
}

// TestKillDaemon ends one part of the daemon at a time: everything that depends on it is cleared up and replaced.
func TestKillDaemon(t *testing.T) {
	parts := map[string]func(t *testing.T, e *ctrdtest.Env) int{
		"containerd":  func(t *testing.T, e *ctrdtest.Env) int { return e.Find(t, "containerd").PID },
		"rootlesskit": func(t *testing.T, e *ctrdtest.Env) int { return e.Find(t, "rootlesskit").PID },
		"rootlesskit's child": func(t *testing.T, e *ctrdtest.Env) int {
			return e.Find(t, "exe").PID
		},
		"keeper": func(t *testing.T, e *ctrdtest.Env) int {
			owner, ok := e.Keeper()
			if !ok {
				t.Fatal("no keeper")
			}
			return owner.PID
		},
	}
	for name, find := range parts {
		t.Run(name, func(t *testing.T) {
			e, base := env(t)
			rt := e.Runtime(t, func(c *ctrd.Config) { c.Runtime = ctrd.RuntimeThawpool })
			frozen := ctrdtest.Boot(t, rt, "daemon-frozen")
			running := ctrdtest.Boot(t, rt, "daemon-running")
			start(t, running, "import time; time.sleep(3600)")
			kill(t, find(t, e), syscall.SIGKILL)
			ended(t, frozen)
			ended(t, running)
			if err := frozen.Thaw(t.Context()); !errors.Is(err, runtime.ErrLost) {
				t.Errorf("thaw: %v", err)
			}
			// What is destroyed without a daemon, and while it is replaced, goes too.
			if err := running.Destroy(t.Context()); err != nil {
				t.Errorf("destroy: %v", err)
			}
			next(t, rt, "daemon-next")
			if err := frozen.Destroy(t.Context()); err != nil {
				t.Errorf("destroy: %v", err)
			}
			if err := rt.Close(); err != nil {
				t.Error(err)
			}
			e.RequireNone(t, base)
		})
	}
}

// TestHungDaemon: a containerd that hangs is noticed by its keeper, one whose keeper hangs too by the next user.
func TestHungDaemon(t *testing.T) {
	for _, both := range []bool{false, true} {
		t.Run(fmt.Sprintf("keeper too %v", both), func(t *testing.T) {
			e, base := env(t)
			rt := e.Runtime(t, func(c *ctrd.Config) { c.Runtime = ctrd.RuntimeThawpool })
			sb := ctrdtest.Boot(t, rt, "hung-daemon")
			if both {
				owner, _ := e.Keeper()
				stop(t, owner.PID)
			}
			stop(t, e.Find(t, "containerd").PID)
			if both {
				// Nobody has noticed: a call has to fail before a new user looks.
				other := e.Runtime(t, func(c *ctrd.Config) { c.Runtime = ctrd.RuntimeThawpool })
				next(t, other, "hung-daemon-other")
				if err := other.Close(); err != nil {
					t.Error(err)
				}
			}
			ended(t, sb)
			next(t, rt, "hung-daemon-next")
			if err := sb.Destroy(t.Context()); err != nil {
				t.Error(err)
			}
			if err := rt.Close(); err != nil {
				t.Error(err)
			}
			e.RequireNone(t, base)
		})
	}
}

// ownerEnv makes this test binary an owner that boots sandboxes and then waits to be killed.
const ownerEnv = "THAWPOOL_TEST_OWNER"

// TestKillOwner: what a killed process has left is removed while others go on.
func TestKillOwner(t *testing.T) {
	if os.Getenv(ownerEnv) != "" {
		ownAndWait(t)
		return
	}
	e, base := env(t)
	survivor := e.Runtime(t, func(c *ctrd.Config) { c.Runtime = ctrd.RuntimeThawpool })
	kept := ctrdtest.Boot(t, survivor, "owner-kept")
	withKept, err := e.Count()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{ctrd.RuntimeRunc, ctrd.RuntimeThawpool} {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestKillOwner$", "-test.v")
		cmd.Env = append(os.Environ(), ownerEnv+"="+name)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ready := false
		for lines := bufio.NewScanner(out); !ready && lines.Scan(); {
			ready = strings.Contains(lines.Text(), ownerEnv)
		}
		kill(t, cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		if !ready {
			t.Fatal("the owner did not get ready")
		}
		e.RequireNone(t, withKept)
	}
	if out := must(t, kept, "print('kept')"); out != "kept\n" {
		t.Errorf("%q", out)
	}
	if err := kept.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	if err := survivor.Close(); err != nil {
		t.Error(err)
	}
	e.RequireNone(t, base)
}

func ownAndWait(t *testing.T) {
	e := ctrdtest.OpenEnv(t, os.Getenv(stateEnv))
	rt := e.Runtime(t, func(c *ctrd.Config) { c.Runtime = os.Getenv(ownerEnv) })
	for i := range 2 {
		ctrdtest.Boot(t, rt, fmt.Sprintf("owned-%d", i))
	}
	running := ctrdtest.Boot(t, rt, "owned-running")
	start(t, running, "import time; time.sleep(3600)")
	fmt.Println(ownerEnv, "is ready")
	select {}
}

// TestSweepOrphans: what belongs to no sandbox goes, what a living one has stays.
func TestSweepOrphans(t *testing.T) {
	e, base := env(t)
	rt := e.Runtime(t)
	sb := ctrdtest.Boot(t, rt, "orphans-living")
	with, err := e.Count()
	if err != nil {
		t.Fatal(err)
	}
	kinds := e.PlantOrphans(t, "orphan")
	if l, err := e.Count(); err != nil || len(l.Minus(with)) != kinds {
		t.Fatalf("planted %d kinds, and see %v, %v", kinds, l.Minus(with), err)
	}
	e.RequireNone(t, with)
	if out := must(t, sb, "print(1)"); out != "1\n" {
		t.Errorf("%q", out)
	}
	if err := errors.Join(sb.Destroy(t.Context()), rt.Close()); err != nil {
		t.Error(err)
	}
	e.RequireNone(t, base)
}

// TestTaskDeletedByOther: someone removes a sandbox from under us.
func TestTaskDeletedByOther(t *testing.T) {
	both(t, func(t *testing.T, e *ctrdtest.Env, rt *ctrd.Runtime) {
		sb := ctrdtest.Boot(t, rt, "by-other")
		found, err := ctrd.Sweep(t.Context(), e.SweepEverything())
		if err != nil || found.Containers != 1 {
			t.Fatalf("%+v, %v", found, err)
		}
		ended(t, sb)
		if err := sb.Thaw(t.Context()); !errors.Is(err, runtime.ErrLost) {
			t.Errorf("thaw: %v", err)
		}
		if err := sb.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestBackendComesBack: a backend that was lost and is there again still has the records of its sandboxes. They go, and
// nothing of them is taken for a sandbox that lives.
func TestBackendComesBack(t *testing.T) {
	for _, name := range []string{ctrd.RuntimeRunc, ctrd.RuntimeThawpool} {
		t.Run(name, func(t *testing.T) {
			e, base := env(t)
			lost := make(chan struct{})
			rt := e.Runtime(t, func(c *ctrd.Config) {
				connect := c.Connect
				c.Runtime = name
				c.Connect = func(ctx context.Context) (*ctrd.Backend, error) {
					b, err := connect(ctx)
					if err == nil {
						b.Lost = lost
					}
					return b, err
				}
			})
			frozen, running := ctrdtest.Boot(t, rt, "back-frozen"), ctrdtest.Boot(t, rt, "back-running")
			start(t, running, "import time; time.sleep(3600)")
			close(lost)
			ended(t, frozen)
			ended(t, running)
			lost = make(chan struct{})
			next(t, rt, "back-next")
			if err := errors.Join(frozen.Destroy(t.Context()), running.Destroy(t.Context()), rt.Close()); err != nil {
				t.Error(err)
			}
			e.RequireNone(t, base)
		})
	}
}

// TestAttached runs sandboxes on a containerd that somebody else keeps.
func TestAttached(t *testing.T) {
	owner, base := env(t)
	d := owner.Ensure(t)
	for _, name := range []string{ctrd.RuntimeRunc, ctrd.RuntimeThawpool} {
		t.Run(name, func(t *testing.T) {
			e := ctrdtest.NewEnv(t)
			rt := owner.Runtime(t, func(c *ctrd.Config) {
				c.Runtime = name
				c.Connect = local.Connect(local.Config{Daemon: e.Config, Address: d.Address(), Log: e.Log})
			})
			sb := ctrdtest.Boot(t, rt, "attached")
			if out := must(t, sb, "print('attached')"); out != "attached\n" {
				t.Errorf("%q", out)
			}
			if err := errors.Join(sb.Destroy(t.Context()), rt.Close()); err != nil {
				t.Error(err)
			}
			if _, ok := e.Keeper(); ok {
				t.Error("a private daemon was started all the same")
			}
		})
	}
	d.Close()
	owner.RequireNone(t, base)
}

// TestBootBrokenOff: who gives up a boot while containerd makes its task leaves nothing.
func TestBootBrokenOff(t *testing.T) {
	both(t, func(t *testing.T, e *ctrdtest.Env, rt *ctrd.Runtime) {
		ctrdtest.Boot(t, rt, "broken-off-other") // the shim is there, or the stock one's program in memory
		with, err := e.Count()
		if err != nil {
			t.Fatal(err)
		}
		broken := 0
		for i := range 8 {
			ctx, cancel := context.WithCancel(t.Context())
			made := make(chan runtime.Sandbox)
			go func() {
				sb, err := rt.Boot(ctx, fmt.Sprintf("broken-off-%d", i))
				if err != nil {
					sb = nil
				}
				made <- sb
			}()
			ctrdtest.Await(t, "its task is being made", func() error {
				l, err := e.Count()
				if err == nil && len(l.Minus(with)[ctrdtest.Bundles]) == 0 {
					err = errors.New("not yet")
				}
				return err
			})
			cancel()
			if sb := <-made; sb == nil {
				broken++
			} else if err := sb.Destroy(t.Context()); err != nil { // the look took longer than the rest of the boot
				t.Fatal(err)
			}
		}
		if broken == 0 {
			t.Error("all boots had ended before")
		}
	})
}

// TestLimitsMustHold: where limits cannot be shown to hold, nothing runs.
func TestLimitsMustHold(t *testing.T) {
	both(t, func(t *testing.T, e *ctrdtest.Env, rt *ctrd.Runtime) {
		elsewhere := e.Runtime(t, func(c *ctrd.Config) {
			connect := c.Connect
			c.Runtime = ctrd.RuntimeThawpool
			c.Connect = func(ctx context.Context) (*ctrd.Backend, error) {
				b, err := connect(ctx)
				if err == nil {
					b.HostPath += "-elsewhere"
				}
				return b, err
			}
		})
		_, err := elsewhere.Boot(t.Context(), "unlimited")
		var hint *runtime.HintError
		if !errors.Is(err, runtime.ErrUnsupported) || !errors.As(err, &hint) {
			t.Errorf("%v", err)
		}
		next(t, rt, "limited")
	})
}
