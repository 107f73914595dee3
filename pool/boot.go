package pool

import (
	"errors"
	"time"
)

// The back-off after boots that failed: the first retry after backoffFirst, each next one after twice the time, at most
// backoffCap, each ± 20 % so that the pools of several processes do not keep step. The cap bounds
// how long calls still fail once what kept boots from succeeding has gone.
const (
	backoffFirst = 250 * time.Millisecond
	backoffCap   = 10 * time.Second
)

// giveUpAfter is how many boots in a row must fail before calls are no longer kept waiting for the next try.
const giveUpAfter = 3

// youngFor: a sandbox that dies younger than this counts as a boot that failed, so that sandboxes which die as soon as
// they are frozen do not make the refill spin.
const youngFor = 10 * time.Second

var errDied = errors.New("sandbox died while it was frozen")

// trouble is what goes wrong with boots at present. The zero value is none.
type trouble struct {
	fails  int // in a row
	deaths int // in a row, of sandboxes that booted and then died; 0 when the last failure was a boot
	cause  error
	final  bool
	since  time.Time // of the last failure
	until  time.Time // no boot before this
}

func (t *trouble) now() bool    { return t.fails > 0 }
func (t *trouble) losses() bool { return t.deaths > 0 }
func (t *trouble) clear()       { *t = trouble{} }

// failed notes a boot that was started at from. Boots that ran side by side with the one that failed last are no news:
// only the first of them raises the back-off.
func (t *trouble) failed(now, from time.Time, cause error, final bool) {
	t.cause, t.final, t.deaths = cause, final, 0
	if t.fails > 0 && !from.After(t.since) {
		return
	}
	t.fails++
	t.since = now
	t.until = now.Add(backoff(t.fails))
}

// lost notes a sandbox that died frozen and had become ready at born. Those that die together count as one.
func (t *trouble) lost(now, born time.Time, cause error) {
	if now.Sub(born) >= youngFor {
		return
	}
	if cause == nil {
		cause = errDied
	}
	deaths := t.deaths
	t.failed(now, born, cause, false)
	t.deaths = deaths + 1
}

// backoff is how long to wait after the n-th failure in a row.
func backoff(n int) time.Duration {
	d := backoffCap
	if n < 8 { // 250 ms doubled seven times passes the cap
		d = min(backoffFirst<<(n-1), backoffCap)
	}
	// splitmix64 of n: as good as random for spreading, and the same in every run of a test.
	x := uint64(n) * 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x ^= x >> 27
	return d - d/5 + time.Duration(x%uint64(2*d/5))
}

func (p *Pool) onBootDone(now time.Time, ev BootDone) {
	s := p.in(ev.Slot, Booting)
	if s == nil {
		return
	}
	p.tookBoot(now.Sub(s.since))
	s.since = now
	if !p.trouble.losses() { // where they die once frozen, a boot alone proves nothing
		p.trouble.clear()
	}
	if p.draining {
		p.move(s, Destroying)
		return
	}
	p.move(s, Ready)
	p.ready = append(p.ready, s)
}

func (p *Pool) onBootFailed(now time.Time, ev BootFailed) {
	s := p.in(ev.Slot, Booting)
	if s == nil {
		return
	}
	p.counts.BootFailures++
	p.trouble.failed(now, s.since, ev.Cause, ev.Final)
	p.count(Booting, -1)
	delete(p.slots, s.id)
}

func (p *Pool) onLost(now time.Time, ev Lost) {
	s := p.in(ev.Slot, Ready)
	if s == nil {
		return
	}
	p.counts.Lost++
	p.unready(s)
	p.trouble.lost(now, s.since, ev.Cause)
	p.move(s, Destroying)
}

// hopeless tells that nobody should be kept waiting: boots have failed again and again, none runs and the next try is
// some time away.
func (p *Pool) hopeless(now time.Time) bool {
	t := &p.trouble
	return (t.fails >= giveUpAfter || t.final) && p.booting == 0 && len(p.ready) == 0 && now.Before(t.until)
}

// boot starts as many boots as are wanted and allowed.
func (p *Pool) boot(now time.Time) {
	if p.draining || now.Before(p.trouble.until) {
		return
	}
	if p.trouble.losses() && len(p.ready) > 0 && now.Sub(p.ready[0].since) >= youngFor {
		p.trouble.clear() // one has lived long enough
	}
	wanted := p.size + p.replacing(now) + len(p.waiters) - len(p.ready) - p.booting
	allowed := p.cfg.Refill - p.booting
	if p.cfg.Empty == EmptyCold {
		allowed = max(allowed, len(p.waiters)-p.booting)
	}
	if p.trouble.fails > 1 {
		allowed = min(allowed, 1-p.booting) // one at a time shows whether it works again
	}
	if p.trouble.fails > 1 && p.trouble.losses() {
		allowed = min(allowed, 1-p.booting-len(p.ready)) // and it has to live for a while, too
	}
	for n := min(wanted, allowed, p.cfg.Max-len(p.slots)); n > 0; n-- {
		p.last++
		s := &slot{id: p.last, state: Booting, since: now}
		s.forCall = len(p.waiters) > p.booting && (p.cfg.Empty == EmptyCold || p.size == 0)
		p.slots[s.id] = s
		p.count(Booting, +1)
		p.counts.Boots++
		p.do(Boot{Slot: s.id})
	}
}

// tookBoot keeps the smoothed boot time that Stats and Auto use.
func (p *Pool) tookBoot(d time.Duration) {
	if p.bootTook == 0 {
		p.bootTook = d
	}
	p.bootTook += (d - p.bootTook) / 4
}
