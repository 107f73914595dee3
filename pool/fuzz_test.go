package pool

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"
)

// world is what a driver would hold, driven by bytes, with every promise of the Pool checked after each event.
type world struct {
	t       *testing.T
	p       *Pool
	cfg     Config
	now     time.Time
	slots   map[Slot]State
	waiting map[Waiter]bool
	holder  map[Slot]Waiter
	tick    time.Time
	last    Waiter
	drained bool
}

func (w *world) send(ev Event) {
	w.t.Helper()
	for _, a := range w.p.Handle(w.now, ev) {
		w.act(a)
	}
	w.check()
}

func (w *world) act(a Action) {
	w.t.Helper()
	switch a := a.(type) {
	case Boot:
		if w.slots[a.Slot] != 0 {
			w.t.Fatalf("slot %d booted twice", a.Slot)
		}
		if w.drained {
			w.t.Fatal("boot while draining")
		}
		w.slots[a.Slot] = Booting
	case Hand:
		if w.slots[a.Slot] != Ready {
			w.t.Fatalf("slot %d handed in state %d", a.Slot, w.slots[a.Slot])
		}
		if !w.waiting[a.Waiter] {
			w.t.Fatalf("waiter %d answered twice or never came", a.Waiter)
		}
		delete(w.waiting, a.Waiter)
		w.slots[a.Slot], w.holder[a.Slot] = Leased, a.Waiter
	case Reject:
		if !w.waiting[a.Waiter] {
			w.t.Fatalf("waiter %d rejected twice or never came", a.Waiter)
		}
		delete(w.waiting, a.Waiter)
	case Destroy:
		if st := w.slots[a.Slot]; st != Ready && st != Destroying {
			w.t.Fatalf("slot %d destroyed in state %d", a.Slot, st)
		}
		w.slots[a.Slot] = Destroying
	case Timer:
		if !a.At.After(w.now) {
			w.t.Fatal("timer not in the future")
		}
		w.tick = a.At
	}
}

func (w *world) check() {
	w.t.Helper()
	if len(w.slots) > w.cfg.Max {
		w.t.Fatalf("%d sandboxes, Max is %d", len(w.slots), w.cfg.Max)
	}
	st := w.p.Stats()
	n := map[State]int{}
	for _, s := range w.slots {
		n[s]++
	}
	if st.Ready != n[Ready] || st.Booting != n[Booting] || st.Leased != n[Leased] || st.Destroying != n[Destroying] {
		w.t.Fatalf("stats %+v, really %v", st, n)
	}
	if st.Waiting != len(w.waiting) {
		w.t.Fatalf("%d waiting, really %d", st.Waiting, len(w.waiting))
	}
	if st.Waiting > 0 && st.Ready > 0 {
		w.t.Fatal("a call waits beside a ready sandbox")
	}
	if st.Waiting > 0 && w.tick.IsZero() {
		w.t.Fatal("a call waits and no tick is coming")
	}
}

// some returns a slot in the state, the b-th of them by number.
func (w *world) some(st State, b byte) Slot {
	var found []Slot
	for s := Slot(1); s <= w.p.last; s++ {
		if w.slots[s] == st {
			found = append(found, s)
		}
	}
	if len(found) == 0 {
		return 0
	}
	return found[int(b)%len(found)]
}

func (w *world) pass(d time.Duration) {
	end := w.now.Add(d)
	for !w.tick.IsZero() && !w.tick.After(end) {
		w.now, w.tick = w.tick, time.Time{}
		w.send(Tick{})
	}
	w.now = end
}

// leave marks what the driver did to a slot before it tells.
func (w *world) leave(s Slot, to State) {
	if to == 0 {
		delete(w.slots, s)
	} else {
		w.slots[s] = to
	}
	delete(w.holder, s)
}

func (w *world) step(op, b byte) {
	switch op % 13 {
	case 0, 1:
		if s := w.some(Booting, b); s != 0 {
			to := Ready
			if w.drained {
				to = Destroying
			}
			w.leave(s, to)
			w.send(BootDone{Slot: s})
		}
	case 2:
		if s := w.some(Booting, b); s != 0 {
			w.leave(s, 0)
			w.send(BootFailed{Slot: s, Cause: errors.New("x"), Final: b%8 == 0})
		}
	case 3, 4:
		w.last++
		w.waiting[w.last] = true
		w.send(LeaseWanted{Waiter: w.last})
	case 5:
		who := w.last - Waiter(b%8)
		delete(w.waiting, who)
		w.send(LeaseCancelled{Waiter: who})
	case 6:
		if s := w.some(Leased, b); s != 0 {
			who := w.holder[s]
			w.leave(s, Destroying)
			if b%2 == 0 {
				who = 0
			} else {
				w.waiting[who] = true
			}
			w.send(HandFailed{Slot: s, Waiter: who, Cause: errors.New("x")})
		}
	case 7, 8:
		if s := w.some(Leased, b); s != 0 {
			w.leave(s, Destroying)
			w.send(Released{Slot: s})
		}
	case 9:
		if s := w.some(Ready, b); s != 0 {
			w.leave(s, Destroying)
			w.send(Lost{Slot: s})
		}
	case 10:
		if s := w.some(Destroying, b); s != 0 {
			w.leave(s, 0)
			w.send(Destroyed{Slot: s})
		}
	case 11:
		w.pass(time.Duration(b) * time.Duration(b) * 50 * time.Millisecond)
		w.send(Tick{})
	case 12:
		w.rare(b)
	}
}

// rare are the events of an operator, and news that make no sense.
func (w *world) rare(b byte) {
	switch {
	case b < 40:
		w.send(Resize{Size: int(b) % (w.cfg.Max + 1)})
	case b == 255:
		w.drained = true
		w.send(Drain{})
	default:
		s := Slot(b)
		if w.slots[s] == 0 {
			w.send(BootDone{Slot: s})
			w.send(Released{Slot: s})
			w.send(Destroyed{Slot: s})
			w.send(Lost{Slot: s})
			w.send(HandFailed{Slot: s, Waiter: 3})
		}
	}
}

// rest lets the world come to rest with everything working: all calls end, all boots succeed, nothing dies.
func (w *world) rest() {
	for range 2000 {
		busy := false
		for _, from := range []struct {
			st State
			op byte
		}{{Leased, 7}, {Destroying, 10}, {Booting, 0}} {
			for w.some(from.st, 0) != 0 {
				w.step(from.op, 0)
				busy = true
			}
		}
		if busy {
			continue
		}
		if w.tick.IsZero() || w.p.Stats().BootError == nil && len(w.waiting) == 0 {
			break
		}
		w.pass(time.Second)
	}
	st := w.p.Stats()
	if len(w.waiting) != 0 {
		w.t.Fatalf("at rest %d calls have no answer", len(w.waiting))
	}
	if w.drained {
		if !w.p.Gone() || len(w.slots) != 0 {
			w.t.Fatalf("drained, and %d sandboxes are left", len(w.slots))
		}
		return
	}
	if st.Ready != st.Size || len(w.slots) != st.Size {
		w.t.Fatalf("at rest %d ready of %d slots, Size is %d: %+v", st.Ready, len(w.slots), st.Size, st)
	}
}

func FuzzInvariants(f *testing.F) {
	f.Add([]byte{2, 6, 2, 0, 8, 0, 0, 3, 0, 3, 0, 3, 0, 7, 0, 10, 0})
	f.Add([]byte{4, 4, 4, 1, 2, 2, 1, 2, 1, 2, 1, 11, 200, 3, 0, 2, 1, 11, 255, 9, 0})
	f.Add([]byte{0, 3, 1, 1, 0, 3, 0, 3, 0, 5, 0, 0, 0, 6, 1, 12, 255, 7, 0})
	f.Add([]byte{3, 5, 1, 2, 9, 0, 0, 0, 0, 0, 0, 9, 0, 9, 1, 6, 1, 11, 90, 12, 2, 11, 255, 11, 255})
	f.Fuzz(drive)
}

// drive builds a world from the bytes, runs it and lets it come to rest.
func drive(t *testing.T, in []byte) {
	t.Helper()
	if len(in) < 5 || len(in) > 4000 {
		return
	}
	cfg := Config{
		Size: int(in[0] % 6), Max: 1 + int(in[1]%8), Refill: 1 + int(in[2]%4), MaxAge: 20 * time.Minute,
		Empty: []Empty{EmptyWait, EmptyCold, EmptyRefuse}[in[3]%3], Queue: int(in[4] % 10), QueueWait: 20 * time.Second,
	}
	if in[3]&0x80 != 0 {
		cfg.Auto, cfg.SizeMin, cfg.SizeMax = true, 1, cfg.Max
		cfg.Size = max(cfg.Size, 1)
	}
	p, err := New(cfg)
	if err != nil {
		return
	}
	w := &world{
		t: t, p: p, cfg: cfg, now: time.Unix(1000, 0),
		slots: map[Slot]State{}, waiting: map[Waiter]bool{}, holder: map[Slot]Waiter{},
	}
	w.send(Tick{})
	for i := 5; i+1 < len(in); i += 2 {
		w.step(in[i], in[i+1])
	}
	w.rest()
}

// The same promises over worlds drawn at random, for runs without a fuzzer.
func TestInvariants(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		in := make([]byte, 5+rng.IntN(600))
		for i := range in {
			in[i] = byte(rng.UintN(256))
		}
		drive(t, in)
		if t.Failed() {
			t.Fatalf("input %v", in)
		}
	}
}
