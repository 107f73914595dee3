package actors

import "time"

// watchHearts asks every Client for a sign of life, and replaces those that hang.
func (h *Hub) watchHearts() {
	tick := time.NewTicker(pulseEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-h.life.Done():
			return
		}
		h.pulse()
	}
}

func (h *Hub) pulse() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ref := range h.clients {
		switch {
		case ref.srv.heart.hung():
			h.replace(ref)
		case ref.srv.heart.due():
			ref.tell(h.out, pulse{})
		}
	}
}

// replace starts a new Client on the state of one that hangs, which does nothing any more should it ever go on. The new one
// ends the connections there are; calls in them fail. mu is held.
func (h *Hub) replace(ref *clientRef) {
	h.log.Error().Str(keyEvent, "hangs").Str("part", "client").Str(keyServer, ref.srv.def.Name).Msg("it is replaced")
	observed(h.cfg.Observer, ActorHung{Part: "client"})
	ref.srv.incarnation()
	old := ref.pid.Load()
	ref.srv.heart.beat()
	ref.pid.Store(h.out.root.SpawnPrefix(ref.props, "client-"))
	h.out.root.Stop(old)
}
