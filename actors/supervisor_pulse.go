package actors

import (
	"github.com/asynkron/protoactor-go/actor"
)

// onPulse asks every child for a sign of life, and replaces those that hang.
func (s *supervisor) onPulse(c actor.Context) {
	s.sys.heart.beat()
	for name, p := range s.sys.profiles {
		switch {
		case p.heart.hung():
			s.replacePool(c, name, p)
		case p.heart.due():
			c.Send(s.pools[name], pulse{})
		}
	}
	for id, k := range s.sessions {
		to := s.bySeq[k.key]
		switch {
		case k.heart.hung():
			s.endSession(c, id, to, k)
		case k.heart.due():
			c.Send(to, pulse{})
		}
	}
}

// replacePool starts a new pool on the registry of one that hangs. The old one does nothing any more should it ever go on:
// its incarnation is over, and what was sent to it is lost. So what the registry cannot know is told to the new one: calls
// that have no session any more want nothing, and those that wait ask again.
func (s *supervisor) replacePool(c actor.Context, name string, p *profile) {
	old := s.pools[name]
	s.sys.log.Error().Str(keyEvent, "hangs").Str("part", "pool").Str(keyProfile, name).Msg("it is replaced")
	observed(s.sys.cfg.Observer, ActorHung{Part: "pool"})
	delete(s.profiles, old.Id)
	p.incarnations.Add(1)
	c.Stop(old)
	p.reg.disown(s.bySeq)
	s.spawnPool(c, name, p)
	for _, k := range s.sessions {
		if k.req.Profile == name {
			c.Send(s.bySeq[k.key], poolReplaced{})
		}
	}
}

// endSession ends the call of a session that hangs, as if the session had failed.
func (s *supervisor) endSession(c actor.Context, id string, session address, k *call) {
	k.log.Error().Str(keyEvent, "hangs").Str("part", "session").Msg("its call is ended")
	observed(s.sys.cfg.Observer, ActorHung{Part: "session"})
	delete(s.sessions, id)
	delete(s.bySeq, k.key)
	k.finish(ended(errStopped))
	c.Stop(session)
	c.Send(s.pools[k.req.Profile], forgo{key: k.key})
}
