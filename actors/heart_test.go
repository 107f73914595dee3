package actors

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thawpool/thawpool/actors/upstream/fakeup"
	"github.com/thawpool/thawpool/pool"
	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/fake"
)

// snag makes the next one who passes hang until it is freed.
type snag struct {
	set   atomic.Bool
	freed chan struct{}
}

func newSnag() *snag { return &snag{freed: make(chan struct{})} }

func (s *snag) pass() {
	if s.set.CompareAndSwap(true, false) {
		<-s.freed
	}
}

// hanging is a runtime whose sandboxes hang when they are asked for what must come at once.
type hanging struct {
	*fake.Runtime
	*snag
}

func (h hanging) Boot(ctx context.Context, id string) (runtime.Sandbox, error) {
	sb, err := h.Runtime.Boot(ctx, id)
	if err != nil {
		return nil, err
	}
	return hangingBox{sb, h.snag}, nil
}

type hangingBox struct {
	runtime.Sandbox
	*snag
}

func (b hangingBox) Done() <-chan struct{} {
	b.pass()
	return b.Sandbox.Done()
}

// hungParts counts the parts that were told to hang.
type hungParts struct {
	mu  sync.Mutex
	all []string
	on  func(Event) // called first; may be nil
}

func (h *hungParts) Observe(e Event) {
	if h.on != nil {
		h.on(e)
	}
	if e, ok := e.(ActorHung); ok {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.all = append(h.all, e.Part)
	}
}

func (h *hungParts) list() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all)
}

const (
	untilTold     = (pulsesTold+1)*pulseEvery + pulseEvery/2
	untilReplaced = (pulsesMost + 3) * pulseEvery
)

// A pool that hangs is told, and replaced by one that knows of every call: of the one it hung at, of those whose questions
// it never read, of those that ended meanwhile, and of those that gave up. Should it go on one day it does no harm.
func TestHungPoolIsReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt, stuck, parts := &fake.Runtime{Run: sleeper}, newSnag(), &hungParts{}
		b := start(t, rt, func(c *Config) {
			withPool(func(p *pool.Config) { p.QueueWait = time.Minute })(c)
			p := c.Profiles["default"]
			p.Runtime = hanging{rt, stuck}
			c.Profiles["default"], c.Observer = p, parts
		})
		defer b.close()
		synctest.Wait()
		endsMeanwhile := b.goRun(t.Context(), Request{Code: "3s"})
		longer := b.goRun(t.Context(), Request{Code: "25s"})
		synctest.Wait()
		time.Sleep(time.Second) // two are ready again
		stuck.set.Store(true)
		atHand := b.goRun(t.Context(), Request{Code: "1s"})
		synctest.Wait()
		unread := b.goRun(t.Context(), Request{Code: "1s"})
		ctx, giveUp := context.WithCancel(t.Context())
		given := b.goRun(ctx, Request{Code: "1s"})
		synctest.Wait()
		want(t, "hanging at first", len(b.sys.Stats().Hanging), 0)
		giveUp()
		wantError(t, <-given, StatusCancelled)
		time.Sleep(untilTold)
		if told := b.sys.Stats().Hanging; !slices.Equal(told, []string{"the pool default"}) {
			t.Errorf("told are %q", told)
		}
		time.Sleep(untilReplaced - untilTold)
		for _, c := range []<-chan Result{endsMeanwhile, atHand, unread} {
			want(t, "status", (<-c).Status, StatusSuccess)
		}
		want(t, "hanging", len(b.sys.Stats().Hanging), 0)
		if got := parts.list(); !slices.Equal(got, []string{"pool"}) {
			t.Errorf("counted were %q", got)
		}
		close(stuck.freed)
		synctest.Wait()
		want(t, "status", (<-longer).Status, StatusSuccess)
		want(t, "status", b.run("1s").Status, StatusSuccess)
		time.Sleep(time.Minute)
		want(t, "leased", b.stats().Leased, 0)
		want(t, "ready", b.stats().Ready, 2)
		want(t, "live", len(rt.Live()), 2)
		if rt.Most() > 6 {
			t.Errorf("%d sandboxes were there at once", rt.Most())
		}
		want(t, "pools replaced", len(parts.list()), 1)
	})
}

// hangingFollower hangs the session that tells it of a lease.
type hangingFollower struct{ *snag }

func (f hangingFollower) Leased(string, pool.How) { f.pass() }
func (hangingFollower) Thawed(string)             {}
func (hangingFollower) Inner(ctx context.Context, _ string, _ json.RawMessage) (context.Context, func(InnerCall)) {
	return ctx, nil
}

// The call of a session that hangs is ended, and its sandbox does not stay.
func TestHungSessionIsEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt, stuck, parts := &fake.Runtime{Run: sleeper}, newSnag(), &hungParts{}
		b := start(t, rt, func(c *Config) { c.Observer = parts })
		defer b.close()
		synctest.Wait()
		stuck.set.Store(true)
		reply := b.goRun(t.Context(), Request{ID: "r-7", Code: "1s", Follow: hangingFollower{stuck}})
		time.Sleep(untilTold)
		if told := b.sys.Stats().Hanging; !slices.Equal(told, []string{"the session of call r-7"}) {
			t.Errorf("told are %q", told)
		}
		wantError(t, <-reply, StatusKilled, "internal failure")
		time.Sleep(10 * time.Second)
		want(t, "leased", b.stats().Leased, 0)
		if got := parts.list(); !slices.Equal(got, []string{"session"}) || len(b.sys.Stats().Hanging) > 0 {
			t.Errorf("counted were %q, hanging %q", got, b.sys.Stats().Hanging)
		}
		close(stuck.freed)
		time.Sleep(10 * time.Second)
		want(t, "status", b.run("1s").Status, StatusSuccess)
		time.Sleep(10 * time.Second)
		want(t, "ready", b.stats().Ready, 2)
		want(t, "live", len(rt.Live()), 2)
	})
}

// That the supervisor hangs is told and counted, and also that it goes on.
func TestHungSupervisorIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stuck := newSnag()
		parts := &hungParts{on: func(e Event) {
			if _, ok := e.(ActorRestarted); ok {
				stuck.pass()
			}
		}}
		b := start(t, &fake.Runtime{}, func(c *Config) { c.Observer = parts })
		defer b.close()
		synctest.Wait()
		stuck.set.Store(true)
		b.breakPool(1)
		time.Sleep(untilReplaced)
		if told := b.sys.Stats().Hanging; !slices.Equal(told, []string{"the supervisor"}) {
			t.Errorf("told are %q", told)
		}
		if got := parts.list(); !slices.Equal(got, []string{"supervisor"}) {
			t.Errorf("counted were %q", got)
		}
		close(stuck.freed)
		time.Sleep(time.Minute)
		want(t, "hanging", len(b.sys.Stats().Hanging), 0)
		want(t, "status", b.run("x").Status, StatusSuccess)
	})
}

// Nobody hangs who is only busy or restarted, however long.
func TestWhoAnswersDoesNotHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := &hungParts{}
		b := start(t, &fake.Runtime{Run: sleeper}, func(c *Config) { c.Observer = parts })
		defer b.close()
		for range 20 {
			b.breakPool(1)
			b.run("1s")
			b.breakSupervisor()
			time.Sleep(7 * time.Second)
		}
		time.Sleep(time.Hour)
		if got := parts.list(); len(got) > 0 || len(b.sys.Stats().Hanging) > 0 {
			t.Errorf("counted were %q, hanging %q", got, b.sys.Stats().Hanging)
		}
	})
}

// A Client that hangs is told, and replaced by one that connects anew.
func TestHungClientIsReplaced(t *testing.T) {
	t.Parallel()
	stuck := newSnag()
	parts := &hungParts{on: func(e Event) {
		if _, ok := e.(ServerConnected); ok {
			stuck.pass()
		}
	}}
	b := newHubBed(t, map[string]entry{"up": fakeEntry(fakeup.Script{})}, func(c *HubConfig) { c.Observer = parts })
	r := b.open()
	stuck.set.Store(true)
	lost := make(chan error, 1)
	go func() {
		_, _, err := r.call("up", "echo", `{}`)
		lost <- err
	}()
	eventually(t, "it hangs", func() bool { return !stuck.set.Load() })
	for range pulsesTold + 1 {
		b.pulse()
	}
	if st := b.statusOf("up"); st.State != ClientHanging {
		t.Errorf("%+v", st)
	}
	for range pulsesMost {
		b.pulse()
	}
	r.mustCall("up", "echo", `{}`)
	if got := parts.list(); !slices.Equal(got, []string{"client"}) {
		t.Errorf("counted were %q", got)
	}
	close(stuck.freed)
	<-lost // its connection was the old Client's: any answer will do
	r.mustCall("up", "echo", `{}`)
	eventually(t, "one connection is left, in nobody's hands", func() bool {
		st := b.statusOf("up")
		return st.State == ClientRunning && st.Instances == 1 && len(st.PIDs) == 1 && st.InFlight == 0
	})
}
