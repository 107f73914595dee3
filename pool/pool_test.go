package pool

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// rig drives a Pool by hand and keeps what it asked for.
type rig struct {
	t   *testing.T
	p   *Pool
	now time.Time
	booting, destroying,
	leased []Slot
	holder  map[Waiter]Hand
	rejects map[Waiter]Reject
	timer   time.Time
}

func newRig(t *testing.T, change func(*Config)) *rig {
	t.Helper()
	cfg := Config{Size: 2, Max: 6, Refill: 2, MaxAge: time.Hour, Empty: EmptyWait, Queue: 8, QueueWait: 10 * time.Second}
	if change != nil {
		change(&cfg)
	}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, p: p, now: time.Unix(1000, 0), holder: map[Waiter]Hand{}, rejects: map[Waiter]Reject{}}
	r.send(Tick{})
	return r
}

func (r *rig) send(ev Event) {
	r.t.Helper()
	for _, a := range r.p.Handle(r.now, ev) {
		switch a := a.(type) {
		case Boot:
			r.booting = append(r.booting, a.Slot)
		case Destroy:
			r.destroying = append(r.destroying, a.Slot)
		case Hand:
			r.leased = append(r.leased, a.Slot)
			r.holder[a.Waiter] = a
		case Reject:
			r.rejects[a.Waiter] = a
		case Timer:
			r.timer = a.At
		}
	}
}

// after lets time pass, ticking when the pool asked for it.
func (r *rig) after(d time.Duration) {
	end := r.now.Add(d)
	for !r.timer.IsZero() && !r.timer.After(end) {
		r.now, r.timer = r.timer, time.Time{}
		r.send(Tick{})
	}
	r.now = end
}

func pop(list *[]Slot) Slot {
	s := (*list)[0]
	*list = (*list)[1:]
	return s
}

// bootAll finishes boots until none is under way.
func (r *rig) bootAll() {
	for len(r.booting) > 0 {
		r.send(BootDone{Slot: pop(&r.booting)})
	}
}

func (r *rig) destroyAll() {
	for len(r.destroying) > 0 {
		r.send(Destroyed{Slot: pop(&r.destroying)})
	}
}

func (r *rig) loseAll() {
	for len(r.p.ready) > 0 {
		r.send(Lost{Slot: r.p.ready[0].id})
	}
}

func (r *rig) want(what string, got, want any) {
	r.t.Helper()
	if got != want {
		r.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestFillAndHit(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.want("boots", len(r.booting), 2)
	r.bootAll()
	r.want("ready", r.p.Stats().Ready, 2)
	r.send(LeaseWanted{Waiter: 1})
	r.want("how", r.holder[1].How, Hit)
	r.want("refill", len(r.booting), 1)
	r.send(Released{Slot: r.holder[1].Slot})
	r.want("destroy", len(r.destroying), 1)
	r.send(Released{Slot: r.holder[1].Slot}) // again: no news
	r.want("destroy", len(r.destroying), 1)
	r.destroyAll()
	r.bootAll()
	r.want("slots", len(r.p.slots), 2)
}

// A sandbox that still boots is never handed out.
func TestOnlyReadyOnesAreHanded(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.send(LeaseWanted{Waiter: 1})
	r.want("leased", len(r.leased), 0)
	r.after(3 * time.Second)
	r.send(BootDone{Slot: pop(&r.booting)})
	r.want("how", r.holder[1].How, Wait)
	r.want("waited", r.holder[1].Waited, 3*time.Second)
}

func TestMaxCountsEveryState(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Size, c.Max = 2, 3 })
	r.bootAll()
	r.send(LeaseWanted{Waiter: 1})
	r.send(LeaseWanted{Waiter: 2})
	r.send(LeaseWanted{Waiter: 3})
	r.want("booting: two leased leave room for one", len(r.booting), 1)
	r.send(Released{Slot: r.holder[1].Slot})
	r.want("booting: it is still being destroyed", len(r.booting), 1)
	r.destroyAll()
	r.want("booting: now it has gone", len(r.booting), 2)
}

// An empty pool queues with a bound, boots at once, or refuses, as configured.
func TestEmpty(t *testing.T) {
	t.Parallel()
	t.Run("wait", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, func(c *Config) { c.Queue = 3 })
		for w := Waiter(1); w <= 5; w++ {
			r.send(LeaseWanted{Waiter: w})
		}
		r.want("boots", len(r.booting), 2)
		r.want("4th", r.rejects[4].Reason, ReasonFull)
		r.want("5th", r.rejects[5].Reason, ReasonFull)
		r.after(9 * time.Second)
		r.send(BootDone{Slot: pop(&r.booting)})
		r.want("first", r.holder[1].Waited, 9*time.Second)
		r.after(2 * time.Second)
		r.want("late", r.rejects[2].Reason, ReasonLate)
		r.want("late", r.rejects[3].Waited, 10*time.Second)
	})
	t.Run("cold", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, func(c *Config) { c.Empty, c.Size, c.Refill, c.Max, c.Queue = EmptyCold, 0, 1, 3, 1 })
		r.want("boots", len(r.booting), 0)
		for w := Waiter(1); w <= 5; w++ {
			r.send(LeaseWanted{Waiter: w})
		}
		r.want("boots", len(r.booting), 3)
		r.want("4th waits", r.p.Stats().Waiting, 4)
		r.want("5th", r.rejects[5].Reason, ReasonFull)
		r.bootAll()
		r.want("how", r.holder[3].How, Cold)
		r.send(Released{Slot: r.holder[1].Slot})
		r.destroyAll()
		r.bootAll()
		r.want("4th", r.holder[4].How, Cold)
	})
	t.Run("refuse", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, func(c *Config) { c.Empty = EmptyRefuse })
		r.send(LeaseWanted{Waiter: 1})
		r.want("none ready", r.rejects[1].Reason, ReasonEmpty)
		r.bootAll()
		r.send(LeaseWanted{Waiter: 2})
		r.want("ready", r.holder[2].How, Hit)
	})
	t.Run("pool 0 waits", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, func(c *Config) { c.Size, c.Refill = 0, 1 })
		for w := Waiter(1); w <= 3; w++ {
			r.send(LeaseWanted{Waiter: w})
		}
		for range 3 {
			r.want("one at a time", len(r.booting), 1)
			r.send(BootDone{Slot: pop(&r.booting)})
		}
		r.want("how", r.holder[3].How, Cold)
		r.want("booting", len(r.booting), 0)
	})
}

func TestQueueIsFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Size = 1 })
	for w := Waiter(1); w <= 4; w++ {
		r.send(LeaseWanted{Waiter: w})
	}
	r.send(LeaseCancelled{Waiter: 2})
	r.bootAll()
	got := fmt.Sprint(r.holder[1].Slot < r.holder[3].Slot, r.holder[3].Slot < r.holder[4].Slot, r.holder[2].Slot)
	r.want("order", got, "true true 0")
}

// A call that was cancelled leaves a sandbox too many; it goes.
func TestCancelledColdBootIsRetired(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Empty, c.Size = EmptyCold, 0 })
	r.send(LeaseWanted{Waiter: 1})
	r.send(LeaseCancelled{Waiter: 1})
	r.bootAll()
	r.want("destroyed", len(r.destroying), 1)
}

// A dead sandbox is replaced by the next one, invisibly to the call.
func TestDeadAtHandOut(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.bootAll()
	r.after(time.Minute)
	r.send(LeaseWanted{Waiter: 1})
	first := r.holder[1].Slot
	r.send(HandFailed{Slot: first, Waiter: 1, Cause: errors.New("gone")})
	r.want("another", r.holder[1].Slot != first, true)
	r.want("how", r.holder[1].How, Hit)
	r.want("hits", r.p.Stats().Hits, int64(1))
	r.send(HandFailed{Slot: r.holder[1].Slot, Waiter: 1, Cause: errors.New("gone")})
	r.want("waiting at the head", r.p.Stats().Waiting, 1)
	r.send(LeaseWanted{Waiter: 2})
	r.destroyAll()
	r.send(BootDone{Slot: pop(&r.booting)})
	r.want("first in line again", r.p.Stats().Waiting, 1)
	r.want("how", r.holder[1].How, Wait)
	if _, ok := r.holder[2]; ok {
		t.Error("the second call was served before the first")
	}
}

func TestDyingUnderOneCallEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.bootAll()
	r.send(LeaseWanted{Waiter: 1})
	for range 20 {
		if h, ok := r.holder[1]; ok {
			delete(r.holder, 1)
			r.send(HandFailed{Slot: h.Slot, Waiter: 1, Cause: errors.New("gone")})
		}
		r.destroyAll()
		r.bootAll()
		r.after(time.Second)
	}
	got := r.rejects[1]
	if got.Reason != ReasonDying && got.Reason != ReasonBoots {
		t.Errorf("reason %q", got.Reason)
	}
	if got.Cause == nil || got.Cause.Error() != "gone" {
		t.Errorf("cause %v", got.Cause)
	}
}

// Boots that fail back off, tell their cause, and recover by themselves.
func TestBootsFailing(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	full := errors.New("no space left on device")
	var starts []time.Time
	fail := func() {
		for len(r.booting) > 0 {
			starts = append(starts, r.now)
			r.send(BootFailed{Slot: pop(&r.booting), Cause: full})
		}
	}
	fail()
	r.want("two side by side", len(starts), 2)
	r.want("none at once again", len(r.booting), 0)
	for range 600 {
		r.after(time.Second)
		fail()
	}
	if n := len(starts); n < 50 || n > 80 {
		t.Errorf("%d boots in 10 minutes of failing", n)
	}
	r.send(LeaseWanted{Waiter: 1})
	r.want("told at once", r.rejects[1].Reason, ReasonBoots)
	r.want("cause", r.rejects[1].Cause, full)
	r.want("stats", r.p.Stats().BootError, full)
	r.after(40 * time.Second)
	r.bootAll()
	r.want("recovered", r.p.Stats().Ready, 2)
	r.want("no error any more", r.p.Stats().BootError, nil)
	r.send(LeaseWanted{Waiter: 2})
	r.want("serves", r.holder[2].How, Hit)
}

func TestFirstFailureKeepsCallsWaiting(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Size, c.Refill = 1, 1 })
	r.send(LeaseWanted{Waiter: 1})
	r.send(BootFailed{Slot: pop(&r.booting), Cause: errors.New("hiccup")})
	r.want("still waiting", r.p.Stats().Waiting, 1)
	r.after(time.Second)
	r.bootAll()
	r.want("served", r.holder[1].How, Wait)

	r = newRig(t, func(c *Config) { c.Size, c.Refill = 1, 1 })
	r.send(LeaseWanted{Waiter: 1})
	r.send(BootFailed{Slot: pop(&r.booting), Cause: errors.New("no user namespaces"), Final: true})
	r.want("final: told at once", r.rejects[1].Reason, ReasonBoots)
}

// Calls served by old sandboxes say nothing of boots: the back-off stays.
func TestReleaseDoesNotEndBackoff(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.bootAll()
	r.send(LeaseWanted{Waiter: 1})
	r.send(BootFailed{Slot: pop(&r.booting), Cause: errors.New("image gone")})
	r.send(Released{Slot: r.holder[1].Slot})
	r.destroyAll()
	r.want("booting", len(r.booting), 0)
	if r.p.Stats().BootError == nil {
		t.Error("the error is forgotten")
	}
}

// Sandboxes that die as soon as they are frozen do not make the refill spin; many that die together are one failure.
func TestDyingFrozenBacksOff(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Size, c.Refill = 4, 4 })
	boots := 0
	for range 60 * 10 {
		boots += len(r.booting)
		r.bootAll()
		r.loseAll()
		r.destroyAll()
		r.after(100 * time.Millisecond)
	}
	if boots > 40 {
		t.Errorf("%d boots in a minute", boots)
	}
	r.after(time.Minute)
	r.bootAll()
	r.after(youngFor)
	r.bootAll()
	r.want("ready", r.p.Stats().Ready, 4)
	r.want("recovered", r.p.Stats().BootError, nil)

	r = newRig(t, func(c *Config) { c.Size, c.Refill = 4, 4 })
	r.bootAll()
	r.loseAll()
	r.send(LeaseWanted{Waiter: 1})
	r.want("kept waiting", r.p.Stats().Waiting, 1)
	r.destroyAll()
	r.after(time.Second)
	r.bootAll()
	r.want("served", r.holder[1].How, Wait)
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 100; n++ {
		d, want := backoff(n), backoffCap
		if n < 8 {
			want = min(backoffFirst<<(n-1), backoffCap)
		}
		if d < want*8/10 || d > want*12/10 {
			t.Errorf("backoff(%d) = %v, want %v ± 20 %%", n, d, want)
		}
	}
}

func TestRetire(t *testing.T) {
	t.Parallel()
	t.Run("replacement first", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, func(c *Config) { c.Size, c.Max = 3, 6 })
		r.bootAll()
		old := r.p.last
		r.after(time.Hour)
		r.want("boots", len(r.booting), 2)
		r.want("none destroyed before", len(r.destroying), 0)
		for len(r.booting) > 0 {
			r.send(BootDone{Slot: pop(&r.booting)})
			if got := r.p.Stats().Ready; got < 3 {
				t.Errorf("only %d ready", got)
			}
			r.destroyAll()
		}
		r.want("ready", r.p.Stats().Ready, 3)
		r.want("retired", r.p.Stats().Retired, int64(3))
		for _, s := range r.p.ready {
			if s.id <= old {
				t.Errorf("slot %d is an old one", s.id)
			}
		}
	})
	t.Run("no room beside them", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, func(c *Config) { c.Size, c.Max = 2, 2 })
		r.bootAll()
		r.after(time.Hour)
		for range 2 {
			r.want("one at a time", len(r.destroying), 1)
			r.want("ready", r.p.Stats().Ready, 1)
			r.destroyAll()
			r.bootAll()
		}
		r.want("ready", r.p.Stats().Ready, 2)
		r.want("destroying", len(r.destroying), 0)
	})
	t.Run("not while boots fail", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, nil)
		r.bootAll()
		r.after(time.Hour)
		for range 100 {
			for len(r.booting) > 0 {
				r.send(BootFailed{Slot: pop(&r.booting), Cause: errors.New("no")})
			}
			r.after(time.Second)
		}
		r.want("ready", r.p.Stats().Ready, 2)
	})
}

func TestResizeAndDrain(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.bootAll()
	r.send(Resize{Size: 4})
	r.bootAll()
	r.want("grown", r.p.Stats().Ready, 4)
	r.send(Resize{Size: 1})
	r.want("shrunk", r.p.Stats().Ready, 1)
	r.destroyAll()
	r.send(LeaseWanted{Waiter: 1})
	r.send(LeaseWanted{Waiter: 2})
	r.send(Drain{})
	r.want("waiting", r.rejects[2].Reason, ReasonClosing)
	r.send(LeaseWanted{Waiter: 3})
	r.want("new", r.rejects[3].Reason, ReasonClosing)
	r.bootAll()
	r.want("gone", r.p.Gone(), false)
	r.send(Released{Slot: r.holder[1].Slot})
	r.destroyAll()
	r.want("gone", r.p.Gone(), true)
	r.want("booting", len(r.booting), 0)
}

func TestRestore(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	cfg := Config{Size: 3, Max: 5, Refill: 2, MaxAge: time.Hour, Empty: EmptyWait, Queue: 8, QueueWait: 10 * time.Second}
	p, err := Restore(cfg, Memory{
		Last: 40,
		Slots: []KeptSlot{
			{Slot: 12, State: Ready, Since: now.Add(-time.Minute)},
			{Slot: 11, State: Ready, Since: now.Add(-time.Hour / 2)},
			{Slot: 13, State: Leased, Holder: KeptWaiter{Waiter: 7, Arrived: now, How: Hit}},
			{Slot: 14, State: Booting, Since: now},
			{Slot: 15, State: Destroying},
		},
		Waiters: []KeptWaiter{{Waiter: 8, Arrived: now.Add(-9 * time.Second)}, {Waiter: 9, Arrived: now}, {Waiter: 10, Arrived: now}},
		Counts:  Counts{Hits: 5},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, p: p, now: now, holder: map[Waiter]Hand{}, rejects: map[Waiter]Reject{}}
	r.send(Tick{})
	r.want("oldest first", r.holder[8].Slot, Slot(11))
	r.want("then the next", r.holder[9].Slot, Slot(12))
	r.want("one waits", p.Stats().Waiting, 1)
	r.want("full: nothing booted", len(r.booting), 0)
	r.send(Destroyed{Slot: 15})
	r.want("new slot", fmt.Sprint(r.booting), "[41]")
	r.send(BootDone{Slot: 14})
	r.want("adopted boot", r.holder[10].Slot, Slot(14))
	r.send(HandFailed{Slot: 13, Waiter: 7, Cause: errors.New("gone")})
	r.want("holder known", p.Stats().Waiting, 1)
	r.want("counts go on", p.Stats().Waits, int64(3))
}

// A Resize outlives the pool that it was told, and ends Auto there too.
func TestRestoreResized(t *testing.T) {
	t.Parallel()
	cfg := Default()
	cfg.Auto, cfg.SizeMin, cfg.SizeMax = true, 1, 20
	size := 3
	p, err := Restore(cfg, Memory{Resized: &size})
	if err != nil {
		t.Fatal(err)
	}
	for w := range Waiter(12) {
		p.Handle(time.Unix(1000, 0), LeaseWanted{Waiter: w + 1})
	}
	if got := p.Stats().Size; got != 3 {
		t.Errorf("size %d, want 3", got)
	}
	if _, err := Restore(Config{}, Memory{}); err == nil {
		t.Error("a bad configuration is restored")
	}
}

// With Auto the size follows arrivals in the pool itself: up at once, down after the hold.
func TestAutoInThePool(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Max, c.Queue, c.Auto, c.SizeMin, c.SizeMax = 20, 20, true, 1, 12 })
	r.bootAll()
	for w := Waiter(1); w <= 8; w++ {
		r.send(LeaseWanted{Waiter: w})
	}
	r.want("up", r.p.Stats().Size, 9)
	r.bootAll()
	r.want("filled", r.p.Stats().Ready, 9)
	for r.p.Stats().Size > 1 {
		r.after(autoHold)
		r.destroyAll()
		if r.now.Sub(time.Unix(1000, 0)) > time.Hour {
			t.Fatal("the size never falls")
		}
	}
	r.want("down", r.p.Stats().Ready, 1)
}

func TestValidateNamesEveryField(t *testing.T) {
	t.Parallel()
	if err := Default().Validate(); err != nil {
		t.Fatal(err)
	}
	err := Config{Size: -1, Max: 0, Empty: "maybe", Queue: -1, Auto: true, SizeMax: 3}.Validate()
	for _, field := range []string{"Size", "Max", "Refill", "MaxAge", "Empty", "Queue", "QueueWait", "SizeMin", "SizeMax"} {
		if !strings.Contains(err.Error(), field+" ") {
			t.Errorf("%s is not named in %q", field, err)
		}
	}
	var fe *FieldError
	if !errors.As(err, &fe) {
		t.Errorf("no FieldError in %T", err)
	}
	for name, change := range map[string]func(*Config){
		"Size above Max":       func(c *Config) { c.Size = 25 },
		"refuse with none":     func(c *Config) { c.Size, c.Empty = 0, EmptyRefuse },
		"wait without a queue": func(c *Config) { c.Size, c.Queue = 0, 0 },
		"auto out of bounds":   func(c *Config) { c.Auto, c.SizeMin, c.SizeMax = true, 9, 12 },
	} {
		c := Default()
		change(&c)
		if c.Validate() == nil {
			t.Errorf("%s is accepted", name)
		}
		if _, err := New(c); err == nil {
			t.Errorf("New accepts %s", name)
		}
	}
}
