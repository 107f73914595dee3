package pool

import "time"

// expired is how many ready sandboxes are older than MaxAge. They are the first ones of ready.
func (p *Pool) expired(now time.Time) int {
	n := 0
	for n < len(p.ready) && now.Sub(p.ready[n].since) >= p.cfg.MaxAge {
		n++
	}
	return n
}

// replacing is how many sandboxes are booted beyond Size to take the place of old ones: no more than the refill boots at
// once, so that a pool that was filled at one time is not emptied at one time.
func (p *Pool) replacing(now time.Time) int {
	return min(p.expired(now), p.cfg.Refill)
}

// retire removes ready sandboxes that are too many: what a Resize, Auto or a cancelled call left over, and old ones whose
// replacement has come. Where Max leaves no room for a replacement beside them, old ones go one at a time.
func (p *Pool) retire(now time.Time) {
	for len(p.ready) > p.size {
		p.retireOldest()
	}
	full := len(p.slots) >= p.cfg.Max
	if full && p.expired(now) > 0 && p.booting == 0 && p.destroying == 0 && !p.trouble.now() {
		p.retireOldest()
	}
}

func (p *Pool) retireOldest() {
	s := p.ready[0]
	p.ready = p.ready[1:]
	p.counts.Retired++
	p.move(s, Destroying)
}
