package pool

import (
	"slices"
	"time"
)

// autoHold is how long Auto keeps a size after the demand for it was last seen; from then on it at most halves in each
// further autoHold. Frozen sandboxes are cheap and a miss is not, so it goes up at once and down slowly.
const autoHold = 5 * time.Minute

// autoBoot stands for the boot time until the first boot has shown it.
const autoBoot = time.Second

// Sizer is the policy behind Config.Auto, pure like Pool: from arrivals and boot time it finds the least size at which
// each call would have been a hit.
//
// It replays the arrivals against a pool without end: each arrival orders one boot, and Refill boots run side by side. The
// orders outstanding at the moment of an arrival, its own included, are exactly the sandboxes that had to be ready to
// serve it at once; their highest number of late, and one to spare, is the size. This follows rate, bursts and boot time
// with no tuning: the number does not depend on the size that the real pool had.
type Sizer struct {
	min, max int
	lanes    []time.Time // when each of the boots side by side is through with its orders
	orders   []time.Time // when each outstanding order is fulfilled, soonest first
	peak     int         // the most outstanding in this hold
	before   int         // what earlier holds ask for
	turn     time.Time   // when this hold ends; zero before the first use
}

// NewSizer returns a Sizer between lo and hi for a pool that boots refill sandboxes side by side. It begins with start, as
// if demand for that had just been seen.
func NewSizer(start, lo, hi, refill int) *Sizer {
	return &Sizer{min: lo, max: hi, lanes: make([]time.Time, refill), before: start}
}

// Arrive notes one call. boot is what a boot takes at present; zero when that is not known yet.
func (s *Sizer) Arrive(now time.Time, boot time.Duration) {
	s.rotate(now)
	if boot <= 0 {
		boot = autoBoot
	}
	s.orders = slices.DeleteFunc(s.orders, func(t time.Time) bool { return !t.After(now) })
	if len(s.orders) < s.max { // at the upper bound more orders say nothing new
		lane := 0
		for i, t := range s.lanes {
			if t.Before(s.lanes[lane]) {
				lane = i
			}
		}
		from := s.lanes[lane]
		if from.Before(now) {
			from = now
		}
		s.lanes[lane] = from.Add(boot)
		s.orders = append(s.orders, s.lanes[lane])
	}
	s.peak = max(s.peak, len(s.orders)+1) // one to spare
}

// Size is the size wanted now.
func (s *Sizer) Size(now time.Time) int {
	s.rotate(now)
	return min(max(s.peak, s.before, s.min), s.max)
}

// Due is when Size may next fall by itself; zero when it cannot.
func (s *Sizer) Due() time.Time {
	if s.turn.IsZero() || max(s.peak, s.before) <= s.min {
		return time.Time{}
	}
	return s.turn
}

// rotate ends holds that are over.
func (s *Sizer) rotate(now time.Time) {
	if s.turn.IsZero() {
		s.turn = now.Add(autoHold)
	}
	for !now.Before(s.turn) {
		s.before, s.peak = max(s.peak, s.before/2), 0
		s.turn = s.turn.Add(autoHold)
		if s.before <= s.min && now.After(s.turn) {
			s.turn = now.Add(autoHold) // a long silence, and nothing left to fall
		}
	}
}
