package pool

import (
	"slices"
	"time"
)

// maxLosses is how many sandboxes may die under one call before it is told so. A frozen sandbox hardly ever dies; more
// than a few in a row mean that something kills them, and the call must not wait for that to stop.
const maxLosses = 5

func (p *Pool) onLeaseWanted(now time.Time, ev LeaseWanted) {
	w := waiter{id: ev.Waiter, arrived: now, deadline: now.Add(p.cfg.QueueWait)}
	if p.auto != nil {
		p.auto.Arrive(now, p.bootTook)
	}
	switch {
	case p.draining:
		p.reject(now, w, ReasonClosing)
	case len(p.ready) > 0 && len(p.waiters) == 0:
		p.hand(now, p.ready[0], w, Hit)
	case p.cfg.Empty == EmptyRefuse:
		p.reject(now, w, ReasonEmpty)
	case p.hopeless(now):
		p.reject(now, w, ReasonBoots)
	case p.queued() >= p.cfg.Queue:
		p.reject(now, w, ReasonFull)
	default:
		p.waiters = append(p.waiters, w)
	}
}

// queued is how many calls wait that have no boot of their own to wait for; less than 0 when the next one would get one.
func (p *Pool) queued() int {
	n := len(p.waiters)
	if p.cfg.Empty == EmptyCold && !p.trouble.now() {
		n -= p.booting + p.cfg.Max - len(p.slots) // those with a boot of their own, or room for one
	}
	return n
}

func (p *Pool) onLeaseCancelled(ev LeaseCancelled) {
	i := slices.IndexFunc(p.waiters, func(w waiter) bool { return w.id == ev.Waiter })
	if i >= 0 {
		p.waiters = slices.Delete(p.waiters, i, i+1)
	}
}

func (p *Pool) onHandFailed(now time.Time, ev HandFailed) {
	s := p.in(ev.Slot, Leased)
	if s == nil {
		return
	}
	w := p.handed[s.id]
	delete(p.handed, s.id)
	p.counts.Lost++
	p.trouble.lost(now, s.since, ev.Cause)
	p.move(s, Destroying)
	if ev.Waiter == 0 || w.id != ev.Waiter {
		return
	}
	p.tally(w.how, -1)
	w.losses++
	switch {
	case p.draining:
		p.reject(now, w, ReasonClosing)
	case w.losses >= maxLosses:
		p.reject(now, w, ReasonDying)
	case len(p.ready) > 0:
		p.hand(now, p.ready[0], w, w.how)
	default: // it has waited its turn already, so neither Queue nor Empty refuses it now
		p.waiters = slices.Insert(p.waiters, 0, w)
	}
}

// serve gives ready sandboxes to those who wait, first come first served.
func (p *Pool) serve(now time.Time) {
	for len(p.waiters) > 0 && len(p.ready) > 0 {
		w, s := p.waiters[0], p.ready[0]
		p.waiters = slices.Delete(p.waiters, 0, 1)
		how := Wait
		if s.forCall {
			how = Cold
		}
		p.hand(now, s, w, how)
	}
}

func (p *Pool) hand(now time.Time, s *slot, w waiter, how How) {
	p.unready(s)
	p.move(s, Leased)
	w.how = how
	p.handed[s.id] = w
	p.tally(how, +1)
	p.do(Hand{Slot: s.id, Waiter: w.id, How: how, Waited: now.Sub(w.arrived)})
}

// tally counts each call once, by the way to the sandbox that it ran in.
func (p *Pool) tally(how How, by int64) {
	switch how {
	case Hit:
		p.counts.Hits += by
	case Wait:
		p.counts.Waits += by
	case Cold:
		p.counts.Colds += by
	}
}

func (p *Pool) reject(now time.Time, w waiter, why Reason) {
	p.counts.Rejected++
	r := Reject{Waiter: w.id, Reason: why, Waited: now.Sub(w.arrived)}
	if p.trouble.now() || why == ReasonDying {
		r.Cause = p.trouble.cause
		r.Retry = max(p.trouble.until.Sub(now), 0)
	}
	p.do(r)
}

// expire rejects those who have waited too long, and everybody when there is no hope of a sandbox.
func (p *Pool) expire(now time.Time) {
	why := ReasonLate
	if p.trouble.now() && p.booting == 0 {
		why = ReasonBoots // what kept it waiting is the boots, and their cause is what helps
	}
	hopeless := p.hopeless(now)
	p.waiters = slices.DeleteFunc(p.waiters, func(w waiter) bool {
		switch {
		case hopeless:
			p.reject(now, w, ReasonBoots)
		case !now.Before(w.deadline):
			p.reject(now, w, why)
		default:
			return false
		}
		return true
	})
}
