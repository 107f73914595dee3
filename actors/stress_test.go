package actors

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	goruntime "runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thawpool/thawpool/pool"
	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/fake"
)

// parrot says its code back, in pieces.
func parrot(g *fake.Guest) {
	for _, word := range strings.Fields(g.Code) {
		_ = g.Print(1, word+" ")
	}
	_ = g.Done("'" + g.ID + "'")
	_ = g.Exit(0)
}

// atOnce runs n calls, at most width of them at once, and checks each answer.
func atOnce(t *testing.T, b *bed, n, width int, check func(i int, r Result)) {
	t.Helper()
	var all sync.WaitGroup
	next := make(chan int)
	for range width {
		all.Go(func() {
			for i := range next {
				check(i, b.runAs(Request{ID: fmt.Sprint("id-", i), Code: fmt.Sprintf("call number %d", i)}))
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
}

// goroutines waits until no more goroutines run than before, but for those that the runtime keeps.
func goroutines(t *testing.T, before int) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for goruntime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			var b bytes.Buffer
			buf := make([]byte, 1<<20)
			b.Write(buf[:goruntime.Stack(buf, true)])
			t.Fatalf("%d goroutines, %d before\n%s", goruntime.NumGoroutine(), before, b.String())
		}
		goruntime.Gosched()
	}
}

// 200 calls at concurrency 16 on a pool of 4: all answered, none crossed, nothing left. Not parallel, as the rest here: it
// counts goroutines, and runs in real time for the race detector's sake.
func TestManyCalls(t *testing.T) {
	before := goruntime.NumGoroutine()
	rt := &fake.Runtime{Run: parrot}
	b := start(t, rt, withPool(func(c *pool.Config) { c.Size, c.Max, c.Refill = 4, 8, 2 }))
	b.real = true
	var mu sync.Mutex
	used := map[string]int{}
	atOnce(t, b, 200, 16, func(i int, r Result) {
		mu.Lock()
		defer mu.Unlock()
		if r.Status != StatusSuccess || r.Stdout != fmt.Sprintf("call number %d ", i) || *r.Value != fmt.Sprintf("'id-%d'", i) ||
			r.Receipt.RequestID != fmt.Sprint("id-", i) {
			t.Errorf("call %d: %+v", i, r)
		}
		used[r.Receipt.Sandbox]++
	})
	if len(used) != 200 {
		t.Errorf("%d sandboxes for 200 calls", len(used))
	}
	st := b.stats()
	want(t, "calls", st.Hits+st.Waits+st.Colds, 200)
	b.close()
	if rt.Most() > 8 {
		t.Errorf("%d sandboxes at once, Max is 8", rt.Most())
	}
	goroutines(t, before)
}

// Everything fails now and then, everybody gives up now and then: each call has its answer, and nothing is left.
func TestChaos(t *testing.T) {
	before := goruntime.NumGoroutine()
	var odd atomic.Uint64
	roll := func(n uint64) bool { return odd.Add(0x9e3779b97f4a7c15)>>33%n == 0 }
	rt := &fake.Runtime{
		Run: func(g *fake.Guest) {
			switch {
			case roll(20):
				g.Box().Kill()
			case roll(20):
				_ = g.Raw([]byte("garbage\n"))
			case roll(20):
				g.Hang()
			default:
				parrot(g)
			}
		},
		BootFunc: func(context.Context, string) error {
			if roll(10) {
				return errors.New("odd boot")
			}
			return nil
		},
		ThawFunc: func(context.Context, *fake.Sandbox) error {
			if roll(10) {
				return runtime.ErrLost
			}
			return nil
		},
		DestroyFunc: func(context.Context, *fake.Sandbox) error {
			if roll(10) {
				return errors.New("odd destroy")
			}
			return nil
		},
	}
	b := start(t, rt, func(c *Config) {
		withPool(func(p *pool.Config) { p.Size, p.Max, p.Refill, p.Empty = 4, 8, 2, pool.EmptyCold })(c)
		c.DefaultTimeout = 100 * time.Millisecond
		c.Bridge = &testBridge{call: echo}
	})
	b.real = true
	var all sync.WaitGroup
	var answered atomic.Int32
	for i := range 300 {
		all.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%7 == 0 {
				time.AfterFunc(time.Duration(rand.IntN(20))*time.Millisecond, cancel)
			}
			r := b.sys.Run(ctx, Request{ID: fmt.Sprint(i), Code: fmt.Sprint("c", i)})
			if r.Status == StatusSuccess && r.Stdout != fmt.Sprintf("c%d ", i) {
				t.Errorf("call %d: %+v", i, r)
			}
			answered.Add(1)
			b.sys.Sandboxes() // what operators look at goes through all of it
		})
		switch i {
		case 100, 150:
			b.breakPool(1)
		case 200:
			b.breakSupervisor()
		}
	}
	all.Wait()
	want(t, "answered", answered.Load(), 300)
	b.close()
	if rt.Most() > 8 {
		t.Errorf("%d sandboxes at once, Max is 8", rt.Most())
	}
	goroutines(t, before)
}

func TestConfigNamesEveryField(t *testing.T) {
	t.Parallel()
	_, err := Start(Config{
		Profiles: map[string]Profile{"a": {}}, DefaultProfile: "b", DefaultTimeout: 10, MaxTimeout: 5, OutputMax: 1, Grace: -1,
	})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, part := range []string{"DefaultProfile b", "MaxTimeout", "OutputMax 1", "Grace", "a: has no runtime", "profile a: ", "Refill"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %q", part, err)
		}
	}
	if _, err := Start(Config{}); err == nil || !strings.Contains(err.Error(), "at least one profile") {
		t.Errorf("%v", err)
	}
}

func TestProfiles(t *testing.T) {
	t.Parallel()
	a, c := &fake.Runtime{Run: parrot}, &fake.Runtime{Run: parrot}
	sys, err := Start(Config{
		Profiles:       map[string]Profile{"a": {Runtime: a, Pool: testPool()}, "c": {Runtime: c, Pool: testPool()}},
		DefaultProfile: "c",
	})
	if err != nil {
		t.Fatal(err)
	}
	first := sys.Run(t.Context(), Request{Code: "x", Profile: "a"})
	second := sys.Run(t.Context(), Request{Code: "x"})
	if !strings.HasPrefix(first.Receipt.Sandbox, a.Booted()[0][:len("tp-0123456789abcdef-0")]) || first.Receipt.Sandbox == second.Receipt.Sandbox {
		t.Errorf("%s, %s", first.Receipt.Sandbox, second.Receipt.Sandbox)
	}
	st := sys.Stats().Profiles
	want(t, "a", st["a"].Hits+st["a"].Waits, 1)
	want(t, "c", st["c"].Hits+st["c"].Waits, 1)
	if err := sys.Close(t.Context()); err != nil {
		t.Error(err)
	}
	want(t, "left", len(a.Live())+len(c.Live()), 0)
}
