package actors

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/thawpool/thawpool/pool"
)

// sessionActor sees one call through: it asks the pool for a sandbox, has the conversation with it done, and asks again
// when the sandbox was dead. It lives until everything that it started has ended.
type sessionActor struct {
	out     outside
	talk    terms
	profile *profile
	call    *call
	self    address

	talking   bool // a conversation was begun and, for all we know, goes on
	slot      pool.Slot
	end       context.CancelCauseFunc // of the conversation; nil before the first one
	cancelled error                   // why the call was ended from outside
}

// Receive implements actor.Actor.
func (s *sessionActor) Receive(c actor.Context) {
	defer received(&s.call.log, c.Message(), time.Now())
	switch m := c.Message().(type) {
	case *actor.Started:
		s.self = c.Self()
		s.ask()
	case leased:
		s.onLeased(c, m)
	case refused:
		s.onRefused(c, m)
	case boxDead:
		s.onBoxDead(c, m)
	case cancel:
		s.onCancel(c, m)
	case pulse:
		s.call.heart.beat()
	case poolReplaced:
		if !s.talking && !s.call.answered.Load() { // what it asked for may be lost with the old one
			s.ask()
		}
	case settled:
		s.end(nil)
		c.Stop(s.self)
	case broken:
		s.onBroken(c, m)
	case *actor.Stopping:
		s.onStopping()
	}
}

func (s *sessionActor) send(m any) { s.profile.tell(s.out, m) }

func (s *sessionActor) ask() { s.send(lease{key: s.call.key, request: s.call.req.ID, to: s.self}) }

// onLeased starts the conversation, unless the call was given up meanwhile.
func (s *sessionActor) onLeased(c actor.Context, m leased) {
	if s.talking { // it asked twice, because of a pool that hung
		s.profile.letGo(s.out, release{slot: m.slot})
		return
	}
	if s.call.answered.Load() {
		s.profile.letGo(s.out, release{slot: m.slot})
		c.Stop(s.self)
		return
	}
	s.call.log.Debug().Str(keyEvent, "lease").Str(keySandbox, m.sandbox.ID()).Str(keyPool, string(m.how)).
		Float64(keyQueueMS, ms(time.Since(s.call.req.Queued))).Send()
	if f := s.call.req.Follow; f != nil {
		f.Leased(m.sandbox.ID(), m.how)
	}
	s.talking, s.slot = true, m.slot
	var ctx context.Context
	ctx, s.end = context.WithCancelCause(context.Background())
	v := newConversation(s.talk, s.out, s.call, s.profile, m)
	slot := m.slot
	s.out.pipe(ctx, s.self, v.run, func(err error) any { return broken{slot: slot, cause: err} })
}

func (s *sessionActor) onRefused(c actor.Context, m refused) {
	if m.why.Reason == "" { // the pool failed while it took the call in, and may hold something for it
		s.send(forgo{key: s.call.key})
	}
	s.call.finish(rejection(m.why, s.profile.cfg))
	c.Stop(s.self)
}

// onBoxDead asks for another sandbox. The call does not notice.
func (s *sessionActor) onBoxDead(c actor.Context, m boxDead) {
	s.talking = false
	s.end(nil)
	if s.cancelled != nil {
		s.call.finish(ended(s.cancelled))
		c.Stop(s.self)
		return
	}
	s.send(handFailed{slot: m.slot, cause: m.cause})
}

// onCancel ends the call now. A conversation answers it with what there was; the sandbox is killed here already, so that
// nothing the conversation may still be waiting for keeps it alive.
func (s *sessionActor) onCancel(c actor.Context, m cancel) {
	s.cancelled = m.cause
	if s.talking {
		s.end(m.cause)
		s.profile.letGo(s.out, release{slot: s.slot, running: true})
		return
	}
	s.send(forgo{key: s.call.key})
	s.call.finish(ended(m.cause))
	c.Stop(s.self)
}

func (s *sessionActor) onBroken(c actor.Context, m broken) {
	s.end(nil)
	s.profile.letGo(s.out, release{slot: m.slot, running: true})
	logBug(s.call.log, m.cause)
	s.call.finish(ended(m.cause))
	s.talking = false
	c.Stop(s.self)
}

// onStopping ends what is left when the session is stopped from above. It must not panic: that would undo the stop.
func (s *sessionActor) onStopping() {
	switch {
	case s.talking:
		s.end(errStopped)
	case !s.call.answered.Load():
		s.send(forgo{key: s.call.key})
		s.call.finish(ended(errStopped))
	}
}
