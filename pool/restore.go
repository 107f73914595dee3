package pool

import (
	"cmp"
	"slices"
	"time"
)

// Memory is what a driver knows of a pool whose Pool was lost: the sandboxes and calls that are really there.
type Memory struct {
	Last    Slot // the highest slot ever handed out
	Slots   []KeptSlot
	Waiters []KeptWaiter // first come first
	Counts  Counts
	Resized *int // the Size of the last Resize; nil when there was none
}

// KeptSlot is one sandbox that is there. With Destroying, its removal is on its way already.
type KeptSlot struct {
	Slot   Slot
	State  State
	Since  time.Time  // the boot's start while it boots, else the moment it became ready
	Holder KeptWaiter // who holds it, with Leased
}

// KeptWaiter is one call that waits, or holds a slot.
type KeptWaiter struct {
	Waiter  Waiter
	Arrived time.Time
	How     How // with a leased slot: how it came to it
}

// Restore returns a Pool that goes on from what is there. Its first event should be a Tick.
func Restore(cfg Config, m Memory) (*Pool, error) {
	p, err := New(cfg)
	if err != nil {
		return nil, err
	}
	p.last, p.counts = m.Last, m.Counts
	if m.Resized != nil {
		p.auto, p.size = nil, min(max(*m.Resized, 0), cfg.Max)
	}
	for _, k := range m.Slots {
		s := &slot{id: k.Slot, state: k.State, since: k.Since}
		p.slots[s.id] = s
		p.last = max(p.last, s.id)
		p.count(s.state, +1)
		switch s.state {
		case Ready:
			p.ready = append(p.ready, s)
		case Leased:
			p.handed[s.id] = p.keep(k.Holder)
		case Booting, Destroying:
		}
	}
	slices.SortFunc(p.ready, func(a, b *slot) int {
		return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.id, b.id))
	})
	for _, w := range m.Waiters {
		p.waiters = append(p.waiters, p.keep(w))
	}
	return p, nil
}

func (p *Pool) keep(k KeptWaiter) waiter {
	return waiter{id: k.Waiter, arrived: k.Arrived, deadline: k.Arrived.Add(p.cfg.QueueWait), how: k.How}
}
