//go:build integration

package ctrd_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/ctrd"
	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
	"github.com/thawpool/thawpool/runtime/guest"
)

// TestDestroyInEachState: no state refuses, hangs, or leaves anything.
func TestDestroyInEachState(t *testing.T) {
	states := map[string]func(t *testing.T, e *ctrdtest.Env, sb runtime.Sandbox){
		"frozen": func(*testing.T, *ctrdtest.Env, runtime.Sandbox) {},
		"thawed": func(t *testing.T, _ *ctrdtest.Env, sb runtime.Sandbox) {
			if err := sb.Thaw(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		"running": func(t *testing.T, _ *ctrdtest.Env, sb runtime.Sandbox) {
			start(t, sb, "while True: pass")
		},
		"flooding": func(t *testing.T, _ *ctrdtest.Env, sb runtime.Sandbox) {
			start(t, sb, "while True: print('x' * 1000)")
			if _, err := sb.Stream().Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		},
		"forking": func(t *testing.T, _ *ctrdtest.Env, sb runtime.Sandbox) {
			start(t, sb, "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass")
		},
		"ended": func(t *testing.T, _ *ctrdtest.Env, sb runtime.Sandbox) { must(t, sb, "pass") },
		"killed": func(t *testing.T, e *ctrdtest.Env, sb runtime.Sandbox) {
			if err := e.Group(sb.ID()).Kill(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-sb.Done()
		},
		"refrozen by someone": func(t *testing.T, e *ctrdtest.Env, sb runtime.Sandbox) {
			start(t, sb, "while True: pass")
			if err := e.Group(sb.ID()).SetFrozen(true); err != nil {
				t.Fatal(err)
			}
		},
	}
	both(t, func(t *testing.T, e *ctrdtest.Env, rt *ctrd.Runtime) {
		for name, reach := range states {
			t.Run(name, func(t *testing.T) {
				id := "state-" + strings.ReplaceAll(name, " ", "-")
				sb := ctrdtest.Boot(t, rt, id)
				reach(t, e, sb)
				var wait sync.WaitGroup
				for range 3 { // at the same time, and again
					wait.Go(func() {
						if err := sb.Destroy(t.Context()); err != nil {
							t.Error(err)
						}
					})
				}
				wait.Wait()
				<-sb.Done()
				if pids, err := e.Group(id).Procs(); err != nil || len(pids) > 0 {
					t.Errorf("left: %v, %v", pids, err)
				}
			})
		}
	})
}

// start thaws and begins a run without waiting for its end.
func start(t *testing.T, sb runtime.Sandbox, code string) {
	t.Helper()
	if err := sb.Thaw(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := guest.NewWriter(sb.Stream()).Run(guest.Run{ID: "r", Code: code, ValueMax: 1 << 16}); err != nil {
		t.Fatal(err)
	}
}

// TestDestroyEndsBlockedReader: a session that waits for a frame is freed.
func TestDestroyEndsBlockedReader(t *testing.T) {
	both(t, func(t *testing.T, _ *ctrdtest.Env, rt *ctrd.Runtime) {
		sb := ctrdtest.Boot(t, rt, "blocked")
		ended := make(chan error, 1)
		go func() {
			_, err := sb.Stream().Read(make([]byte, 1))
			ended <- err
		}()
		if err := sb.Destroy(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-ended:
			if err == nil {
				t.Fatal("read something")
			}
		case <-time.After(ctrdtest.Patience):
			t.Fatal("still reading")
		}
	})
}

// TestBootCancelled breaks boots off at every stage.
func TestBootCancelled(t *testing.T) {
	both(t, func(t *testing.T, _ *ctrdtest.Env, rt *ctrd.Runtime) {
		if err := rt.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range 12 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*25*time.Millisecond)
			sb, err := rt.Boot(ctx, fmt.Sprintf("cancelled-%d", i))
			cancel()
			if err == nil {
				if err := sb.Destroy(t.Context()); err != nil {
					t.Error(err)
				}
			} else if !errors.Is(err, runtime.ErrUnavailable) {
				t.Errorf("after %d ms: %v", i*25, err)
			}
		}
	})
}

// TestHostKeepsNothing: descriptors and goroutines come back to where they were.
func TestHostKeepsNothing(t *testing.T) {
	both(t, func(t *testing.T, _ *ctrdtest.Env, rt *ctrd.Runtime) {
		cycle := func(i int) {
			sb := ctrdtest.Boot(t, rt, fmt.Sprintf("keeps-%d", i))
			must(t, sb, "print(1)")
			if err := sb.Destroy(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		cycle(0) // what is opened once
		fds, routines := descriptors(t), goruntime.NumGoroutine()
		for i := range 5 {
			cycle(i + 1)
		}
		ctrdtest.Await(t, "the host is as before", func() error {
			if n := descriptors(t); n > fds {
				return fmt.Errorf("%d descriptors, %d before", n, fds)
			}
			if n := goruntime.NumGoroutine(); n > routines {
				return fmt.Errorf("%d goroutines, %d before", n, routines)
			}
			return nil
		})
	})
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
