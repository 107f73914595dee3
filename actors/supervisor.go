package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/thawpool/thawpool/pool"
)

// supervisor is the parent of every pool and session. It starts them, restarts a pool that fails and answers the call of a
// session that does. What it needs to remember for that, others hold: it may itself be restarted, which stops all its
// children.
type supervisor struct {
	sys  *System
	self address

	pools    map[string]address      // by profile
	profiles map[string]string       // profile by the pool's id
	sessions map[string]*call        // by the session's id
	bySeq    map[pool.Waiter]address // session by call
	restarts map[string]*restarts
	ending   bool // this incarnation: its children are being stopped
}

// Receive implements actor.Actor.
func (s *supervisor) Receive(c actor.Context) {
	defer received(&s.sys.log, c.Message(), time.Now())
	switch m := c.Message().(type) {
	case *actor.Started:
		s.start(c)
	case *actor.Restarting, *actor.Stopping:
		s.ending = true
	case runCall:
		s.onRunCall(c, m)
	case cancelCall:
		if to := s.bySeq[m.call.key]; to != nil {
			c.Send(to, cancel{cause: m.cause})
		}
	case toPool:
		if to := s.pools[m.profile]; to != nil {
			c.Send(to, m.message)
		}
	case pulse:
		s.onPulse(c)
	case *actor.Terminated:
		s.onTerminated(c, m)
	}
}

// start starts the pools. After a failure of this actor they go on from their registries: the sessions that held sandboxes
// were stopped with it.
func (s *supervisor) start(c actor.Context) {
	s.self = c.Self()
	s.pools, s.profiles, s.restarts = map[string]address{}, map[string]string{}, map[string]*restarts{}
	s.sessions, s.bySeq = map[string]*call{}, map[pool.Waiter]address{}
	for _, k := range s.sys.ledger.calls() {
		if k.spawned.Load() {
			k.finish(ended(errStopped)) // unless its session has done so
		}
	}
	for name, p := range s.sys.profiles {
		p.reg.orphan()
		s.spawnPool(c, name, p)
	}
}

func (s *supervisor) spawnPool(c actor.Context, name string, p *profile) {
	out, log := s.sys.out, p.log
	pid := c.SpawnPrefix(actor.PropsFromProducer(func() actor.Actor {
		return &poolActor{profile: p, out: out, log: log}
	}, actor.WithDispatcher(out.crew)), "pool-")
	s.pools[name], s.profiles[pid.Id] = pid, name
	p.actor.Store(pid)
	p.heart.beat() // what was asked of the one before is not answered any more
}

// onRunCall starts a call's session. A failure here must not leave the call without an answer.
func (s *supervisor) onRunCall(c actor.Context, m runCall) {
	defer func() {
		if r := recover(); r != nil {
			m.call.finish(ended(errStopped))
			panic(r)
		}
	}()
	if m.call.answered.Load() {
		return
	}
	m.call.spawned.Store(true)
	name := m.call.req.Profile
	session := &sessionActor{
		out: s.sys.out, talk: s.sys.terms, profile: s.sys.profiles[name], call: m.call,
	}
	pid := c.SpawnPrefix(actor.PropsFromProducer(func() actor.Actor { return session },
		actor.WithDispatcher(s.sys.out.crew)), "session-")
	s.sessions[pid.Id], s.bySeq[m.call.key] = m.call, pid
}

// onTerminated is told of every child's end, of a child that is also watched twice.
func (s *supervisor) onTerminated(c actor.Context, m *actor.Terminated) {
	if k := s.sessions[m.Who.Id]; k != nil {
		delete(s.sessions, m.Who.Id)
		delete(s.bySeq, k.key)
		if !k.answered.Load() {
			k.finish(ended(errStopped))
			c.Send(s.pools[k.req.Profile], forgo{key: k.key})
		}
		return
	}
	name, ok := s.profiles[m.Who.Id]
	if ok && s.pools[name] != nil && s.pools[name].Id == m.Who.Id && !s.ending {
		// Nothing stops a pool alone, and its failure restarts it; should it be gone all the same, start anew. Not so while
		// this actor ends: protoactor restarts it only once it has no child.
		delete(s.profiles, m.Who.Id)
		s.spawnPool(c, name, s.sys.profiles[name])
	}
}

// HandleFailure implements actor.SupervisorStrategy for the children: a session that fails ends, and its call with it; a
// pool that fails is restarted, with growing delays, for ever.
func (s *supervisor) HandleFailure(_ *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	if k := s.sessions[child.Id]; k != nil {
		if err, ok := reason.(error); ok {
			logBug(k.log, err)
		}
		k.finish(ended(errStopped))
		sup.StopChildren(child)
		if to := s.pools[k.req.Profile]; to != nil {
			s.sys.out.root.Send(to, forgo{key: k.key})
		}
		return
	}
	name := s.profiles[child.Id]
	r := s.restarts[name]
	if r == nil {
		r = &restarts{}
		s.restarts[name] = r
	}
	delay, n := r.next(time.Now())
	observed(s.sys.cfg.Observer, ActorRestarted{Part: "pool"})
	s.sys.log.Error().Str(keyEvent, "pool failed").Str(keyProfile, name).Int("times", n).Dur("restart_in", delay).
		Send()
	if err, ok := reason.(error); ok {
		logBug(s.sys.log, err)
	}
	restartAfter(delay, sup, child)
}
