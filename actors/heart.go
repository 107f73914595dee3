package actors

import (
	"sync/atomic"
	"time"
)

// An actor that hangs in its Receive cannot fail, so no supervisor would hear of it. Therefore each is asked for a sign of
// life every pulseEvery. One that has not answered for pulsesTold such times is told in Stats, and after pulsesMost it is
// replaced. Ticks are counted and not time, so that a process that was stopped for a while condemns nobody.
const (
	pulseEvery = 2 * time.Second
	pulsesTold = 3
	pulsesMost = 5
)

// pulse asks for a sign of life.
type pulse struct{ late }

// heart is one actor's signs of life. It outlives its actor.
type heart struct {
	asked  atomic.Bool  // a pulse was sent and has no answer yet
	missed atomic.Int32 // times that one was due since
}

// due tells whether to send a pulse. It is called every pulseEvery, and counts when the last one has no answer yet.
func (h *heart) due() bool {
	if h.asked.CompareAndSwap(false, true) {
		return true
	}
	h.missed.Add(1)
	return false
}

// beat is the actor's answer.
func (h *heart) beat() {
	h.missed.Store(0)
	h.asked.Store(false)
}

// alive is a sign of life that answers nothing: a restart, after which a pulse may still wait behind what fails again.
func (h *heart) alive() { h.missed.Store(0) }

// silent tells that the actor has not answered for so long that somebody should know; hung, that it never will.
func (h *heart) silent() bool { return h.missed.Load() >= pulsesTold }
func (h *heart) hung() bool   { return h.missed.Load() >= pulsesMost }

// watchHearts asks the supervisor, which asks its children, until quit is closed. The supervisor itself has nobody to
// replace it; that it hangs is told all the same.
func (s *System) watchHearts() {
	tick := time.NewTicker(pulseEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.quit:
			return
		}
		if s.heart.due() {
			s.out.root.Send(s.supervisor, pulse{})
		} else if s.heart.missed.Load() == pulsesMost {
			s.log.Error().Str(keyEvent, "hangs").Str("part", "supervisor").Msg("restart thawpool")
			observed(s.cfg.Observer, ActorHung{Part: "supervisor"})
		}
	}
}

// hanging names the actors that do not answer.
func (s *System) hanging() (parts []string) {
	if s.heart.silent() {
		parts = append(parts, "the supervisor")
	}
	for name, p := range s.profiles {
		if p.heart.silent() {
			parts = append(parts, "the pool "+name)
		}
	}
	for _, c := range s.ledger.calls() {
		if c.heart.silent() {
			parts = append(parts, "the session of call "+c.req.ID)
		}
	}
	return parts
}
