package actors

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thawpool/thawpool/pool"
	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/fake"
)

// bomb is an error that fails whoever asks for its text: it makes a Receive panic without a hook in what is tested.
type bomb struct{}

func (bomb) Error() string { panic("bomb") }

// breakPool makes the default pool's actor fail n times.
func (b *bed) breakPool(n int) {
	for range n {
		b.sys.out.root.Send(b.sys.supervisor, toPool{profile: "default", message: bootEnded{slot: 1 << 40, err: bomb{}}})
	}
}

// breakSupervisor makes the supervisor fail.
func (b *bed) breakSupervisor() {
	b.sys.out.root.Send(b.sys.supervisor, cancelCall{})
}

// sleeper runs for as long as its code says.
func sleeper(g *fake.Guest) {
	d, _ := time.ParseDuration(g.Code)
	if g.Sleep(d) {
		_ = g.Print(1, g.Code)
		_ = g.Exit(0)
	}
}

// A pool that fails goes on with the sandboxes and calls that it had.
func TestPoolFailsAndAdopts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := &fake.Runtime{Run: sleeper, BootFunc: func(context.Context, string) error { time.Sleep(time.Second); return nil }}
		b := start(t, rt, withPool(func(c *pool.Config) { c.Size, c.Max = 2, 4 }))
		defer b.close()
		time.Sleep(3 * time.Second)
		running := b.goRun(t.Context(), Request{ID: "running", Code: "5s"})
		synctest.Wait() // one leased, one ready, one booting
		booted := len(rt.Booted())
		b.breakPool(1)
		synctest.Wait()
		want(t, "leased", b.stats().Leased, 1)
		want(t, "ready", b.stats().Ready, 1)
		want(t, "booting", b.stats().Booting, 1)
		want(t, "hits so far", b.stats().Hits, 1)
		r := b.runAs(Request{ID: "next", Code: "1s"})
		want(t, "next", r.Status, StatusSuccess)
		want(t, "next has an adopted one", strings.Join(rt.Booted()[:booted], " "), strings.Join([]string{rt.Booted()[0], r.Receipt.Sandbox}, " "))
		r = <-running
		want(t, "running", r.Status, StatusSuccess)
		want(t, "running stdout", r.Stdout, "5s")
		time.Sleep(5 * time.Second)
		want(t, "live", len(rt.Live()), 2)
		want(t, "ready", b.stats().Ready, 2)
	})
}

func TestPoolFailsWithCallsWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := &fake.Runtime{Run: sleeper}
		b := start(t, rt, withPool(func(c *pool.Config) { c.Size, c.Max, c.Refill, c.QueueWait = 1, 1, 1, 20*time.Second }))
		defer b.close()
		synctest.Wait()
		var replies []<-chan Result
		for range 4 {
			replies = append(replies, b.goRun(t.Context(), Request{Code: "8s"}))
			synctest.Wait()
		}
		b.breakPool(3) // 0 s, 100 ms, 200 ms
		for i, c := range replies {
			r := <-c
			if i < 3 {
				want(t, fmt.Sprint("call ", i), r.Status, StatusSuccess)
			} else {
				wantError(t, r, StatusRejected, "--queue-wait", "20s")
			}
		}
		synctest.Wait()
		want(t, "live", len(rt.Live()), 1)
		want(t, "never more than one", rt.Most(), 1)
	})
}

// A pool that fails again and again does so ever more slowly, and its sandboxes are there when it works again.
func TestPoolFailsOften(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := &fake.Runtime{}
		b := start(t, rt, nil)
		defer b.close()
		synctest.Wait()
		b.breakPool(20)
		began := time.Now()
		r := b.run("x")
		want(t, "status", r.Status, StatusSuccess)
		if d := time.Since(began); d < 20*time.Second || d > 100*time.Second {
			t.Errorf("served again after %v", d)
		}
		want(t, "sandbox", r.Receipt.Sandbox, rt.Booted()[0])
	})
}

func TestPoolFailsWhileDestroying(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := &fake.Runtime{DestroyFunc: func(context.Context, *fake.Sandbox) error { time.Sleep(time.Second); return nil }}
		b := start(t, rt, withPool(func(c *pool.Config) { c.Max = 3 }))
		defer b.close()
		synctest.Wait()
		b.run("x")
		b.run("x")
		synctest.Wait()
		want(t, "destroying", b.stats().Destroying, 2)
		b.breakPool(1)
		synctest.Wait()
		want(t, "still", b.stats().Destroying, 2)
		time.Sleep(2 * time.Second)
		want(t, "done", b.stats().Destroying, 0)
		want(t, "live", len(rt.Live()), 2)
		want(t, "never above Max", rt.Most(), 3)
	})
}

// A supervisor that fails takes its children with it; calls are answered, sandboxes go on or go.
func TestSupervisorFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := &fake.Runtime{Run: sleeper}
		b := start(t, rt, withPool(func(c *pool.Config) { c.Max = 3 }))
		defer b.close()
		synctest.Wait()
		var replies []<-chan Result
		for range 5 { // three run, two wait
			replies = append(replies, b.goRun(t.Context(), Request{Code: "20s"}))
		}
		synctest.Wait()
		b.breakSupervisor()
		for _, c := range replies {
			wantError(t, <-c, StatusKilled, "internal failure")
		}
		synctest.Wait()
		want(t, "leased", b.stats().Leased, 0)
		want(t, "ready", b.stats().Ready, 2)
		want(t, "live", len(rt.Live()), 2)
		want(t, "next", b.run("1s").Status, StatusSuccess)
	})
}

// A supervisor that cannot be kept alive ends the System aloud: every call is answered, and Close still cleans up.
func TestSupervisorFailsForGood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := &fake.Runtime{Run: sleeper}
		b := start(t, rt, nil)
		defer b.close()
		synctest.Wait()
		for range supervisorFailures + 1 {
			b.breakSupervisor()
		}
		<-b.sys.Dead()
		wantError(t, b.run("1s"), StatusRejected, "restart thawpool")
		told := false
		for _, l := range b.log.lines(t) {
			told = told || l["event"] == "supervisor stopped" && l["level"] == "error"
		}
		want(t, "in the log", told, true)
		want(t, "live before Close", len(rt.Live()), 2)
	})
}

// A session that fails fails its own call only.
func TestSessionFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := &fake.Runtime{Run: sleeper}
		b := start(t, rt, withPool(func(c *pool.Config) { c.Max = 3 }))
		defer b.close()
		synctest.Wait()
		other := b.goRun(t.Context(), Request{ID: "other", Code: "9s"})
		synctest.Wait()
		for _, id := range []string{"running", "second", "waiting"} {
			c := b.goRun(t.Context(), Request{ID: id, Code: "5s"})
			synctest.Wait()
			for _, k := range b.sys.ledger.calls() {
				if k.req.ID == id && id != "second" {
					b.sys.out.root.Send(b.sys.supervisor, cancelCall{call: k, cause: bomb{}})
				}
			}
			if id != "second" {
				wantError(t, <-c, StatusKilled, "internal")
			}
			synctest.Wait()
			want(t, id+": waiting", b.stats().Waiting, 0)
		}
		want(t, "other", (<-other).Status, StatusSuccess)
		synctest.Wait()
		time.Sleep(10 * time.Second)
		want(t, "live", len(rt.Live()), 2)
	})
}

// A bug in what takes the output, or in the bridge, ends in that run.
func TestBugsOfOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, &fake.Runtime{Run: sleeper}, nil)
		defer b.close()
		synctest.Wait()
		r := b.runAs(Request{Code: "1s", Output: func(int, []byte) { panic("sink") }})
		wantError(t, r, StatusKilled, "InternalError", "sink")
		want(t, "next", b.run("1s").Status, StatusSuccess)
	})
}

// A sandbox that died in the pool is replaced; the call does not notice.
func TestDeadSandboxes(t *testing.T) {
	t.Parallel()
	t.Run("seen while frozen", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			rt := &fake.Runtime{}
			b := start(t, rt, nil)
			defer b.close()
			time.Sleep(time.Minute)
			rt.Live()[0].Kill()
			synctest.Wait()
			want(t, "ready again", b.stats().Ready, 2)
			want(t, "lost", b.stats().Lost, 1)
			want(t, "live", len(rt.Live()), 2)
			want(t, "hit", b.run("x").Receipt.Pool, "hit")
		})
	})
	t.Run("found at the thaw", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			rt := &fake.Runtime{}
			rt.ThawFunc = func(_ context.Context, s *fake.Sandbox) error {
				if s.ID() == rt.Booted()[0] {
					return fmt.Errorf("thaw: %w", runtime.ErrLost)
				}
				return nil
			}
			br := &testBridge{}
			b := start(t, rt, func(c *Config) { c.Bridge = br })
			defer b.close()
			time.Sleep(time.Minute)
			r := b.run("x")
			want(t, "status", r.Status, StatusSuccess)
			want(t, "pool", r.Receipt.Pool, "hit")
			want(t, "sandbox", r.Receipt.Sandbox, rt.Booted()[1])
			synctest.Wait()
			want(t, "hits", b.stats().Hits, 1)
			want(t, "bridge", br.counts(), "opened 1, 0 calls under way")
		})
	})
	t.Run("found after the thaw", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			rt := &fake.Runtime{}
			rt.UnreadFunc = func(s *fake.Sandbox) bool { return s.ID() == rt.Booted()[0] }
			br := &testBridge{}
			b := start(t, rt, func(c *Config) { c.Bridge = br })
			defer b.close()
			time.Sleep(time.Minute)
			r := b.run("x")
			want(t, "status", r.Status, StatusSuccess)
			want(t, "sandbox", r.Receipt.Sandbox, rt.Booted()[1])
			synctest.Wait()
			want(t, "lost", b.stats().Lost, 1)
			want(t, "bridge", br.counts(), "opened 1, 0 calls under way")
		})
	})
	t.Run("all of them", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			rt := &fake.Runtime{ThawFunc: func(context.Context, *fake.Sandbox) error { return runtime.ErrLost }}
			br := &testBridge{}
			b := start(t, rt, func(c *Config) { c.Bridge = br })
			defer b.close()
			time.Sleep(time.Minute)
			wantError(t, b.run("x"), StatusRejected, "lost")
			synctest.Wait()
			want(t, "bridge", br.counts(), "opened 1, 0 calls under way")
		})
	})
}

// Boots that fail back off, are told with their cause, and recover.
func TestBootsFail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		var boots atomic.Int32
		broken.Store(true)
		rt := &fake.Runtime{BootFunc: func(context.Context, string) error {
			boots.Add(1)
			if broken.Load() {
				return runtime.WithHint(errors.New("no space left on device"), "df -h")
			}
			return nil
		}}
		b := start(t, rt, withPool(func(c *pool.Config) { c.Refill = 1 }))
		defer b.close()
		time.Sleep(10 * time.Minute)
		if n := boots.Load(); n > 80 {
			t.Errorf("%d boots in ten minutes of failing", n)
		}
		wantError(t, b.run("x"), StatusRejected, "no space left on device (df -h)", "thawpool doctor", "next attempt is in")
		if b.stats().BootError == nil {
			t.Error("stats do not say why")
		}
		broken.Store(false)
		time.Sleep(time.Minute)
		want(t, "ready", b.stats().Ready, 2)
		want(t, "status", b.run("x").Status, StatusSuccess)
	})
}

// A host that cannot run sandboxes is told at once, not after a wait.
func TestUnsupportedHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, &fake.Runtime{BootFunc: func(context.Context, string) error {
			return fmt.Errorf("boot: %w", runtime.WithHint(runtime.ErrUnsupported, "sudo thawpool setup"))
		}}, nil)
		defer b.close()
		synctest.Wait()
		began := time.Now()
		wantError(t, b.run("x"), StatusRejected, "host cannot run sandboxes", "sudo thawpool setup")
		want(t, "took", time.Since(began), 0)
	})
}

// A boot that hangs ends and is tried again.
func TestBootHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var later atomic.Bool
		rt := &fake.Runtime{BootFunc: func(ctx context.Context, _ string) error {
			if later.Swap(true) {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}}
		b := start(t, rt, withPool(func(c *pool.Config) { c.Size, c.Refill = 1, 1 }))
		defer b.close()
		time.Sleep(bootMax + time.Second)
		want(t, "ready", b.stats().Ready, 1)
	})
}

// A runtime that panics costs one boot.
func TestBootPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var later atomic.Bool
		rt := &fake.Runtime{BootFunc: func(context.Context, string) error {
			if !later.Swap(true) {
				panic("boot")
			}
			return nil
		}}
		b := start(t, rt, withPool(func(c *pool.Config) { c.Size, c.Refill = 1, 1 }))
		defer b.close()
		time.Sleep(time.Second)
		want(t, "ready", b.stats().Ready, 1)
	})
}

// A call that has waited too long is told why the last boot failed, also while the next one hangs.
func TestLateCallIsToldTheCause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var boots atomic.Int32
		rt := &fake.Runtime{BootFunc: func(ctx context.Context, _ string) error {
			if boots.Add(1) == 1 {
				return errors.New("no such runtime")
			}
			<-ctx.Done()
			return ctx.Err()
		}}
		b := start(t, rt, withPool(func(c *pool.Config) { c.Size, c.Refill, c.QueueWait = 1, 1, 5*time.Second }))
		defer b.close()
		time.Sleep(time.Second)
		wantError(t, b.run("x"), StatusRejected, "--queue-wait", "no such runtime")
	})
}

// Destroying is tried until it works, and what is not gone counts.
func TestDestroyIsRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var busy atomic.Bool
		busy.Store(true)
		rt := &fake.Runtime{DestroyFunc: func(context.Context, *fake.Sandbox) error {
			if busy.Load() {
				return errors.New("device busy")
			}
			return nil
		}}
		b := start(t, rt, withPool(func(c *pool.Config) { c.Size, c.Max, c.QueueWait = 1, 2, time.Second }))
		defer b.close()
		synctest.Wait()
		b.run("x")
		b.run("x")
		wantError(t, b.run("x"), StatusRejected, "--queue-wait")
		want(t, "destroying", b.stats().Destroying, 2)
		time.Sleep(10 * time.Minute)
		if n := rt.Live()[0].Destroys(); n < 15 || n > 80 {
			t.Errorf("%d attempts in ten minutes", n)
		}
		busy.Store(false)
		time.Sleep(time.Minute)
		want(t, "live", len(rt.Live()), 1)
		want(t, "status", b.run("x").Status, StatusSuccess)
	})
}

func TestQueueAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, &fake.Runtime{Run: sleeper}, withPool(func(c *pool.Config) { c.Size, c.Max, c.Queue = 1, 1, 1 }))
		defer b.close()
		synctest.Wait()
		first := b.goRun(t.Context(), Request{Code: "15s"})
		synctest.Wait()
		second := b.goRun(t.Context(), Request{Code: "1s"})
		synctest.Wait()
		wantError(t, b.run("1s"), StatusRejected, "--queue", "1 calls wait")
		r := <-second
		wantError(t, r, StatusRejected, "within 10s")
		want(t, "queue", r.Receipt.QueueMS, 10_000)
		want(t, "first", (<-first).Status, StatusSuccess)
	})
	synctest.Test(t, func(t *testing.T) {
		b := start(t, &fake.Runtime{Run: sleeper}, withPool(func(c *pool.Config) { c.Size, c.Max, c.Empty = 1, 1, pool.EmptyRefuse }))
		defer b.close()
		synctest.Wait()
		first := b.goRun(t.Context(), Request{Code: "1s"})
		synctest.Wait()
		wantError(t, b.run("1s"), StatusRejected, "--pool-empty=refuse")
		<-first
	})
	synctest.Test(t, func(t *testing.T) {
		rt := &fake.Runtime{Run: sleeper, BootFunc: func(context.Context, string) error { time.Sleep(300 * time.Millisecond); return nil }}
		b := start(t, rt, withPool(func(c *pool.Config) { c.Size, c.Empty = 0, pool.EmptyCold }))
		defer b.close()
		synctest.Wait()
		r := b.run("1s")
		want(t, "pool", r.Receipt.Pool, "cold")
		want(t, "queue", r.Receipt.QueueMS, 300)
		want(t, "boot times", fmt.Sprint(b.sys.Stats().Profiles["default"].BootTimes), "[300ms]")
	})
}

// Should the machinery lose a call in spite of everything, Run still comes back.
func TestALostCallIsAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		br := &testBridge{}
		b := start(t, &fake.Runtime{Run: sleeper}, func(c *Config) {
			withPool(func(p *pool.Config) { p.Size, p.Max = 1, 1 })(c)
			c.Bridge = br
		})
		defer b.close()
		synctest.Wait()
		first := b.goRun(t.Context(), Request{Code: "25s"})
		synctest.Wait()
		lost := b.goRun(t.Context(), Request{Code: "1s"})
		synctest.Wait()
		for _, c := range b.sys.ledger.calls() {
			b.sys.out.root.Send(b.sys.supervisor, toPool{profile: "default", message: forgo{key: max(c.key, 2)}})
		}
		want(t, "first", (<-first).Status, StatusSuccess)
		wantError(t, <-lost, StatusKilled, "internal failure")
		synctest.Wait()
		want(t, "bridge", br.counts(), "opened 2, 0 calls under way")
	})
}

type badBridge struct{ open func(context.Context) }

func (b badBridge) Open(ctx context.Context, _ Request) (BridgeRun, error) {
	b.open(ctx)
	return nil, ctx.Err()
}

// A bridge that fails to begin costs its call only.
func TestBridgeThatDoesNotOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, &fake.Runtime{}, func(c *Config) { c.Bridge = badBridge{func(context.Context) { panic("open") }} })
		wantError(t, b.run("x"), StatusKilled, "InternalError", "open")
		b.close()
		b = start(t, &fake.Runtime{}, func(c *Config) { c.Bridge = badBridge{func(ctx context.Context) { <-ctx.Done() }} })
		defer b.close()
		ctx, end := context.WithTimeout(context.Background(), time.Second)
		defer end()
		wantError(t, b.sys.Run(ctx, Request{Code: "x"}), StatusCancelled)
	})
}

// A boot that ends when the actor that began it is no more, not even by its address, is news for its successor.
func TestSupervisorFailsDuringBoots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := &fake.Runtime{BootFunc: func(context.Context, string) error { time.Sleep(time.Second); return nil }}
		b := start(t, rt, withPool(func(c *pool.Config) { c.Refill = 2 }))
		defer b.close()
		synctest.Wait()
		b.breakSupervisor()
		time.Sleep(time.Minute)
		want(t, "ready", b.stats().Ready, 2)
		want(t, "booting", b.stats().Booting, 0)
		rt.Live()[0].Kill()
		time.Sleep(time.Minute)
		want(t, "one that died since is replaced", b.stats().Ready, 2)
	})
}
