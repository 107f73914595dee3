package actors

import (
	"fmt"
	"time"

	"github.com/thawpool/thawpool/actors/upstream"
)

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

// replaced tells that this incarnation hung, and that another one has taken over.
func (a *clientActor) replaced() bool { return a.gen != 0 && a.gen != a.srv.current() }

// stale tells that a message is not for this incarnation, and does what must be done about it all the same.
func (a *clientActor) stale(m any) bool {
	if a.replaced() {
		if q, ok := m.(acquireConn); ok {
			q.reply <- grantedConn{err: a.restarting()}
		}
		return true
	}
	news, ok := m.(interface{ incarnation() uint64 })
	if !ok || news.incarnation() == a.gen {
		return false
	}
	if d, ok := m.(dialedConn); ok && d.conn != nil {
		a.close([]*upstream.Conn{d.conn})
	}
	return true
}

func (a *clientActor) restarting() error {
	return fmt.Errorf("server %q: its connections are being restarted; try again", a.srv.def.Name)
}
