package pool

import (
	"slices"
	"time"
)

// State is where a slot is in its life.
type State uint8

// The states of a slot, in the order in which it passes them.
const (
	Booting State = iota + 1
	Ready
	Leased
	Destroying
)

type slot struct {
	id      Slot
	state   State
	since   time.Time // the boot's start while it boots, then the moment it became ready
	forCall bool      // the boot was started for a waiting call, not for the refill
}

type waiter struct {
	id       Waiter
	arrived  time.Time
	deadline time.Time
	how      How // with a leased slot: how it came to it
	losses   int // sandboxes that died under it
}

// Pool is the state of one pool. It is not safe for concurrent use.
type Pool struct {
	cfg  Config
	size int // the Size in force: Config's, Resize's or Auto's
	last Slot

	slots   map[Slot]*slot
	ready   []*slot // oldest first
	waiters []waiter
	handed  map[Slot]waiter // who holds a leased slot, for HandFailed

	booting, leased, destroying int

	trouble  trouble
	auto     *Sizer
	draining bool
	timer    time.Time // the Timer outstanding; zero when none is
	counts   Counts
	bootTook time.Duration // smoothed

	out []Action // of the event in hand
}

// New returns a pool in which nothing is booted yet; the first event, a Tick for example, starts the fill.
func New(cfg Config) (*Pool, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	p := &Pool{cfg: cfg, size: cfg.Size, slots: map[Slot]*slot{}, handed: map[Slot]waiter{}}
	if cfg.Auto {
		p.auto = NewSizer(cfg.Size, cfg.SizeMin, cfg.SizeMax, cfg.Refill)
	}
	return p, nil
}

// Handle takes one event in and returns what is to be done about it. The time never goes back between two calls. The
// returned slice is the caller's.
func (p *Pool) Handle(now time.Time, ev Event) []Action {
	p.out = nil
	switch ev := ev.(type) {
	case BootDone:
		p.onBootDone(now, ev)
	case BootFailed:
		p.onBootFailed(now, ev)
	case LeaseWanted:
		p.onLeaseWanted(now, ev)
	case LeaseCancelled:
		p.onLeaseCancelled(ev)
	case HandFailed:
		p.onHandFailed(now, ev)
	case Released:
		p.onReleased(ev)
	case Lost:
		p.onLost(now, ev)
	case Destroyed:
		p.onDestroyed(ev)
	case Tick:
		if !now.Before(p.timer) {
			p.timer = time.Time{}
		}
	case Resize:
		p.auto, p.size = nil, min(max(ev.Size, 0), p.cfg.Max)
	case Drain:
		p.onDrain(now)
	}
	p.settle(now)
	return p.out
}

// settle brings the pool as near to its aim as it can come at this moment.
func (p *Pool) settle(now time.Time) {
	if p.auto != nil {
		p.size = p.auto.Size(now)
	}
	p.serve(now)
	p.expire(now)
	p.retire(now)
	p.boot(now)
	p.arm(now)
}

func (p *Pool) do(a Action) { p.out = append(p.out, a) }

// move puts a slot into its next state and keeps the counts.
func (p *Pool) move(s *slot, to State) {
	p.count(s.state, -1)
	p.count(to, +1)
	s.state = to
	if to == Destroying {
		p.do(Destroy{Slot: s.id})
	}
}

func (p *Pool) count(st State, by int) {
	switch st {
	case Booting:
		p.booting += by
	case Leased:
		p.leased += by
	case Destroying:
		p.destroying += by
	case Ready: // counted by the length of ready
	}
}

// in returns the slot if it is known and in that state.
func (p *Pool) in(id Slot, st State) *slot {
	if s := p.slots[id]; s != nil && s.state == st {
		return s
	}
	return nil
}

// unready takes a slot out of the ready ones.
func (p *Pool) unready(s *slot) {
	if i := slices.Index(p.ready, s); i >= 0 {
		p.ready = slices.Delete(p.ready, i, i+1)
	}
}

func (p *Pool) onReleased(ev Released) {
	s := p.in(ev.Slot, Leased)
	if s == nil {
		return
	}
	delete(p.handed, s.id)
	if p.trouble.losses() { // one has lived long enough to serve; of boots that fail this says nothing
		p.trouble.clear()
	}
	p.move(s, Destroying)
}

func (p *Pool) onDestroyed(ev Destroyed) {
	if s := p.in(ev.Slot, Destroying); s != nil {
		p.count(Destroying, -1)
		delete(p.slots, s.id)
	}
}

func (p *Pool) onDrain(now time.Time) {
	p.draining = true
	for _, w := range p.waiters {
		p.reject(now, w, ReasonClosing)
	}
	p.waiters = nil
	for _, s := range p.ready {
		p.move(s, Destroying)
	}
	p.ready = nil
}

// arm asks for a Tick at the next time at which something is due, unless an earlier one is already on its way. So a busy
// pool does not set a new timer for each call; a tick that comes early just arms the next.
func (p *Pool) arm(now time.Time) {
	at := p.due(now)
	if at.IsZero() || (!p.timer.IsZero() && !at.Before(p.timer)) {
		return
	}
	p.timer = at
	p.do(Timer{At: at})
}

// due is the next time at which time alone changes something; zero when nothing waits for time.
func (p *Pool) due(now time.Time) time.Time {
	var at time.Time
	sooner := func(t time.Time) {
		if t.After(now) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for i := range p.waiters {
		sooner(p.waiters[i].deadline)
	}
	if p.draining {
		return at
	}
	if len(p.ready) > 0 {
		sooner(p.ready[0].since.Add(p.cfg.MaxAge))
		if p.trouble.losses() {
			sooner(p.ready[0].since.Add(youngFor))
		}
	}
	sooner(p.trouble.until)
	if p.auto != nil {
		sooner(p.auto.Due())
	}
	return at
}

// Gone tells that the pool drains and that no slot is left.
func (p *Pool) Gone() bool { return p.draining && len(p.slots) == 0 }
