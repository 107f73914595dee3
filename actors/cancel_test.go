package actors

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thawpool/thawpool/pool"
	"github.com/thawpool/thawpool/runtime/fake"
)

var errTaken = errors.New("the client took it back")

// A call that is cancelled ends at once, in whatever stage it is, and its slot is free.
func TestCancel(t *testing.T) {
	t.Parallel()
	hang := func(g *fake.Guest) { _ = g.Print(1, "begun"); g.Hang() }
	stuckThaw := func(ctx context.Context, s *fake.Sandbox) error { <-s.Done(); return errors.New("thaw: it was killed") }
	politeThaw := func(ctx context.Context, _ *fake.Sandbox) error { <-ctx.Done(); return ctx.Err() }
	for name, c := range map[string]struct {
		rt     *fake.Runtime
		before func(b *bed) // brings the pool where the stage needs it
		stdout string
	}{
		"queued": {&fake.Runtime{Run: hang}, func(b *bed) {
			for range 6 {
				b.goRun(b.t.Context(), Request{ID: "other", Code: "x", Timeout: time.Minute})
			}
			synctest.Wait()
			want(b.t, "leased", b.stats().Leased, 6)
		}, ""},
		"queued while the pool boots": {&fake.Runtime{Run: hang, BootFunc: func(ctx context.Context, _ string) error {
			<-ctx.Done()
			return ctx.Err()
		}}, nil, ""},
		"thawing":                      {&fake.Runtime{Run: hang, ThawFunc: politeThaw}, nil, ""},
		"thawing, deaf to its context": {&fake.Runtime{Run: hang, ThawFunc: stuckThaw}, nil, ""},
		"running":                      {&fake.Runtime{Run: hang}, nil, "begun"},
		"flooding": {&fake.Runtime{Run: func(g *fake.Guest) {
			for g.Print(1, "y") == nil {
				time.Sleep(time.Microsecond)
			}
		}}, nil, "-"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := start(t, c.rt, nil)
				defer b.close()
				if c.before != nil {
					c.before(b)
				}
				ctx, cancel := context.WithCancelCause(context.Background())
				reply := b.goRun(ctx, Request{ID: "r1", Code: "x"})
				time.Sleep(time.Millisecond)
				leased := b.stats().Leased
				cancelled := time.Now()
				cancel(errTaken)
				r := <-reply
				wantError(t, r, StatusCancelled, "Cancelled", "the client took it back")
				want(t, "took", time.Since(cancelled), 0)
				if c.stdout != "-" {
					want(t, "stdout", r.Stdout, c.stdout)
				}
				synctest.Wait()
				want(t, "waiting", b.stats().Waiting, 0)
				if leased > 0 && leased < 6 {
					want(t, "leased", b.stats().Leased, leased-1)
				}
			})
		})
	}
}

// A cancel that comes with the answer on its way changes nothing, and one that comes before everything runs nothing.
func TestCancelAtTheEdges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		b := start(t, &fake.Runtime{Run: func(g *fake.Guest) {
			_ = g.Done("")
			_ = g.Exit(0)
			cancel()
		}}, nil)
		defer b.close()
		synctest.Wait()
		if r := <-b.goRun(ctx, Request{Code: "x"}); r.Status != StatusSuccess && r.Status != StatusCancelled {
			t.Errorf("%+v", r)
		}
		r := b.sys.Run(ctx, Request{Code: "x"})
		want(t, "status", r.Status, StatusCancelled)
		synctest.Wait()
		want(t, "leased", b.stats().Leased, 0)
		want(t, "ready again", b.stats().Ready, 2)
	})
}

// Clients that give up without a word leave nothing behind once the time limit has passed.
func TestClientsThatGiveUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, &fake.Runtime{Run: func(g *fake.Guest) { g.Hang() }}, withPool(func(c *pool.Config) { c.Max = 24 }))
		defer b.close()
		for range 20 {
			b.goRun(context.Background(), Request{Code: "x"})
		}
		time.Sleep(30*time.Second + 5*time.Second)
		synctest.Wait()
		want(t, "live", len(b.rt.Live()), 2)
		want(t, "leased", b.stats().Leased, 0)
	})
}

func TestClose(t *testing.T) {
	t.Parallel()
	t.Run("while running", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			b := start(t, &fake.Runtime{Run: func(g *fake.Guest) { _ = g.Print(1, "so far"); g.Hang() }}, nil)
			var replies []<-chan Result
			for range 9 { // six run, three wait
				replies = append(replies, b.goRun(context.Background(), Request{Code: "x"}))
			}
			synctest.Wait()
			second := make(chan error, 1)
			go func() { second <- b.sys.Close(context.Background()) }()
			b.close()
			want(t, "took", b.closeTook, DefaultGrace)
			if err := <-second; err != nil {
				t.Error(err)
			}
			for i, c := range replies {
				r := <-c
				wantError(t, r, StatusKilled, "shutting down")
				if i < 6 && r.Stdout != "so far" && r.Receipt.Sandbox != "" {
					t.Errorf("stdout %q", r.Stdout)
				}
			}
			wantError(t, b.run("x"), StatusRejected, "shutting down")
			if err := b.sys.Close(context.Background()); err != nil {
				t.Error(err)
			}
			want(t, "dead", isClosed(b.sys.Dead()), true)
		})
	})
	t.Run("lets short runs end", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			b := start(t, &fake.Runtime{Run: func(g *fake.Guest) {
				time.Sleep(300 * time.Millisecond)
				_ = g.Exit(0)
			}}, nil)
			reply := b.goRun(context.Background(), Request{Code: "x"})
			synctest.Wait()
			b.close()
			want(t, "status", (<-reply).Status, StatusSuccess)
		})
	})
	t.Run("during boots", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			b := start(t, &fake.Runtime{BootFunc: func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }}, nil)
			synctest.Wait()
			b.close()
			want(t, "took", b.closeTook, 0)
		})
	})
	t.Run("names what it could not destroy", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			rt := &fake.Runtime{DestroyFunc: func(context.Context, *fake.Sandbox) error { return errors.New("device busy") }}
			b := start(t, rt, nil)
			synctest.Wait()
			ctx, end := context.WithTimeout(context.Background(), 3*time.Second)
			defer end()
			err := b.sys.Close(ctx)
			if err == nil || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v", err)
			}
			for _, s := range rt.Live() {
				wantError(t, Result{Status: StatusKilled, Error: &RunError{Message: err.Error()}}, StatusKilled, s.ID())
			}
			if n := rt.Live()[0].Destroys(); n < 3 {
				t.Errorf("%d attempts", n)
			}
			time.Sleep(2 * destroyRetryCap) // the timers of the next attempts end in nothing
		})
	})
}

func TestDrainAndResize(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := &fake.Runtime{Run: func(g *fake.Guest) { time.Sleep(5 * time.Second); _ = g.Exit(0) }}
		b := start(t, rt, nil)
		defer b.close()
		if err := b.sys.Resize("default", 4); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		want(t, "ready", b.stats().Ready, 4)
		want(t, "size", b.stats().Size, 4)
		var fe *pool.FieldError
		if err := b.sys.Resize("default", 7); !errors.As(err, &fe) {
			t.Errorf("%v", err)
		}
		if b.sys.Resize("gpu", 1) == nil || b.sys.Drain(context.Background(), "gpu") == nil {
			t.Error("an unknown profile is accepted")
		}
		reply := b.goRun(context.Background(), Request{Code: "x"})
		synctest.Wait()
		if err := b.sys.Drain(context.Background(), "default"); err != nil {
			t.Error(err)
		}
		want(t, "running call", (<-reply).Status, StatusSuccess)
		want(t, "live", len(rt.Live()), 0)
		wantError(t, b.run("x"), StatusRejected)
	})
}
