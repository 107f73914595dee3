package actors

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"github.com/thawpool/thawpool/actors/upstream"
)

// How a server that fails is tried again: after a first pause that doubles up to a cap. A connection that has lived for
// clientStable clears the record, and its loss costs no pause.
const (
	clientFirstPause = time.Second
	clientPauseCap   = time.Minute
	clientStable     = 30 * time.Second
)

// refreshDelay gathers the notices of changed tools that come in a burst.
const refreshDelay = 250 * time.Millisecond

// indexIdle is when a connection that only served to read the list of tools ends.
const indexIdle = 3 * time.Second

// clientTerms are what all Clients of a Hub have in common.
type clientTerms struct {
	instances int           // connections; more than one means that each is given one call at a time
	idle      time.Duration // after which unused connections end
	index     time.Duration // the same where they only served to read the list of tools
	startMax  time.Duration // a try to connect is given up
	listMax   time.Duration // reading the tools of a server that runs
}

// clientActor keeps the connections of one server: made at the first call, shared by all, made anew when lost. It hands
// them out and takes them back; the calls themselves are made by those who hold them.
type clientActor struct {
	srv   *serverState
	out   outside
	terms clientTerms
	log   zerolog.Logger
	obs   Observer

	self address
	gen  uint64
	life context.Context // of the tries to connect
	end  context.CancelFunc

	links   []*link
	held    map[uint64]*link
	waiting []acquireConn
	dialing int
	wanted  bool   // a connection that is being made, by more than the reading of tools
	try     uint64 // changes when tries are called off

	fails     int
	notBefore time.Time
	lastErr   error

	turn       uint64 // changes with every acquire and release
	idle       *time.Timer
	refreshing bool
	again      bool // the tools changed while they were being read
	stopping   bool
}

// link is one connection in the actor's hands.
type link struct {
	conn  *upstream.Conn
	since time.Time
	uses  int
	used  bool // by more than the reading of tools
}

// Receive implements actor.Actor.
func (a *clientActor) Receive(c actor.Context) {
	defer keepStack()
	if a.stale(c.Message()) {
		return
	}
	switch m := c.Message().(type) {
	case *actor.Started:
		a.start(c)
	case acquireConn:
		a.onAcquire(m)
	case releaseConn:
		a.onRelease(m.ticket)
	case dialedConn:
		a.onDialed(m)
	case connEvent:
		a.onEvent(m)
	case idleConns:
		a.onIdle(m)
	case refreshTools:
		a.onRefresh()
	case toolsRefreshed:
		a.onRefreshed()
	case restartClient:
		a.onRestart()
	case pulse:
		a.srv.heart.beat()
	case stopClient:
		a.onStop()
	case clientStopped:
		c.Stop(a.self)
	case *actor.Restarting, *actor.Stopping:
		a.abandon()
	case *actor.Stopped:
		close(a.srv.ended)
	}
	a.publish()
}

// own marks what this incarnation sends itself.
func (a *clientActor) own() ofIncarnation { return ofIncarnation{gen: a.gen} }

func (a *clientActor) start(c actor.Context) {
	a.self, a.gen = c.Self(), a.srv.incarnation()
	a.srv.heart.alive()
	a.live()
	a.held = map[uint64]*link{}
	a.close(a.srv.all(false)) // what an incarnation before this one has left, killed already
}

// live begins a time for tries to connect.
func (a *clientActor) live() { a.life, a.end = context.WithCancel(context.Background()) }

// abandon leaves nothing running that nobody watches any more. It runs while the actor is being stopped or restarted, so
// it must not fail.
func (a *clientActor) abandon() {
	a.end()
	a.srv.kill()
	a.refuse(a.restarting())
}

func (a *clientActor) onAcquire(m acquireConn) {
	a.turn++
	a.bury()
	switch {
	case a.stopping:
		m.reply <- grantedConn{err: fmt.Errorf("server %q is being stopped", a.srv.def.Name)}
		return
	case a.grant(m):
		return
	}
	if len(a.links) == 0 && a.dialing == 0 {
		if pause := time.Until(a.notBefore); pause > 0 {
			m.reply <- grantedConn{err: a.pausing(pause)}
			return
		}
	}
	a.waiting = append(a.waiting, m)
	a.wanted = a.wanted || !m.index
	a.dial()
}

// bury takes out connections that are lost already and whose news is still on its way.
func (a *clientActor) bury() {
	for _, l := range slices.Clone(a.links) {
		if isClosed(l.conn.Done()) {
			a.onEvent(connEvent{ofIncarnation: a.own(), conn: l.conn, lost: true})
		}
	}
}

// pausing is the answer to calls that come before the next try.
func (a *clientActor) pausing(pause time.Duration) error {
	return &pauseError{err: a.lastErr, pause: pause}
}

// pauseError tells of a failure that came before, and when there will be another try.
type pauseError struct {
	err   error
	pause time.Duration
}

func (e *pauseError) Error() string {
	return fmt.Sprintf("%v\n(it is tried again %s from now at the earliest)", e.err, max(e.pause, time.Second).Round(time.Second))
}
func (e *pauseError) Unwrap() error { return e.err }

// grant hands a connection out, if there is one to hand out now.
func (a *clientActor) grant(m acquireConn) bool {
	var best *link
	for _, l := range a.links {
		if best == nil || l.uses < best.uses {
			best = l
		}
	}
	if best == nil || a.terms.instances > 1 && best.uses > 0 {
		return false
	}
	best.uses++
	best.used = best.used || !m.index
	a.held[m.ticket] = best
	m.reply <- grantedConn{conn: best.conn}
	return true
}

func (a *clientActor) onRelease(ticket uint64) {
	a.turn++
	if l := a.held[ticket]; l != nil {
		delete(a.held, ticket)
		l.uses--
	}
	for i, w := range a.waiting {
		if w.ticket == ticket {
			a.waiting = append(a.waiting[:i:i], a.waiting[i+1:]...)
			break
		}
	}
	a.serve()
	a.watchIdle()
}

// serve hands out what has become free.
func (a *clientActor) serve() {
	for len(a.waiting) > 0 && a.grant(a.waiting[0]) {
		a.waiting = a.waiting[1:]
	}
}

// refuse answers all that wait. The status has the reason by then.
func (a *clientActor) refuse(err error) {
	a.publish()
	for _, w := range a.waiting {
		w.reply <- grantedConn{err: err}
	}
	a.waiting = nil
}

// watchIdle ends unused connections when nothing happens until then.
func (a *clientActor) watchIdle() {
	if len(a.links) == 0 || len(a.held)+len(a.waiting) > 0 || a.stopping {
		return
	}
	d := a.terms.index
	for _, l := range a.links {
		if l.used {
			d = a.terms.idle
		}
	}
	if a.idle != nil {
		a.idle.Stop() // else a timer for every call would wait in memory
	}
	a.idle = a.after(d, idleConns{ofIncarnation: a.own(), turn: a.turn})
}

func (a *clientActor) onIdle(m idleConns) {
	if m.turn == a.turn && len(a.held)+len(a.waiting) == 0 {
		a.closeLinks()
	}
}

// after sends a message to the actor later. One that comes too late is dropped by its generation.
func (a *clientActor) after(d time.Duration, m any) *time.Timer {
	root, self := a.out.root, a.self
	return time.AfterFunc(d, func() { root.Send(self, m) })
}

// closeLinks ends all connections, gently.
func (a *clientActor) closeLinks() {
	conns := make([]*upstream.Conn, 0, len(a.links))
	for _, l := range a.links {
		conns = append(conns, l.conn)
	}
	a.links = nil
	clear(a.held)
	a.close(conns)
}

// close ends connections beside the actor. They stay in the serverState until they are gone.
func (a *clientActor) close(conns []*upstream.Conn) {
	for _, conn := range conns {
		srv, log := a.srv, a.log
		a.out.pipe(context.WithoutCancel(a.life), a.self, func(ctx context.Context) any {
			if err := srv.close(ctx, conn); err != nil {
				log.Error().Str(keyServer, srv.def.Name).Str(keyEvent, "server not ended").Err(err).Send()
			}
			return nil
		}, func(error) any { return nil })
	}
}

// onRestart is an operator's wish. A server that hangs while it starts begins anew too.
func (a *clientActor) onRestart() {
	if a.stopping {
		return
	}
	a.end()
	a.live()
	a.try++
	a.dialing = 0
	a.closeLinks()
	a.fails, a.notBefore, a.lastErr = 0, time.Time{}, nil
	a.dial()
}

func (a *clientActor) onStop() {
	if a.stopping {
		return
	}
	a.stopping = true
	a.end()
	a.refuse(fmt.Errorf("server %q is being stopped", a.srv.def.Name))
	a.links = nil
	clear(a.held)
	srv, log := a.srv, a.log
	a.out.pipe(context.WithoutCancel(a.life), a.self, func(ctx context.Context) any {
		if err := srv.closeAll(ctx); err != nil {
			log.Error().Str(keyServer, srv.def.Name).Str(keyEvent, "server not ended").Err(err).Send()
		}
		return clientStopped{}
	}, func(error) any { return clientStopped{} })
}

// publish tells operators where the Client stands.
func (a *clientActor) publish() {
	now := time.Now()
	a.srv.publish(func(s *ClientStatus) {
		s.Instances, s.InFlight, s.Waiting, s.RetryAt = len(a.links), len(a.held), len(a.waiting), nil
		switch {
		case a.stopping:
			s.State = ClientStopping
		case len(a.links) > 0:
			s.State = ClientRunning
		case a.dialing > 0:
			s.State = ClientStarting
		case a.lastErr != nil && a.notBefore.After(now):
			at := a.notBefore
			s.State, s.RetryAt = ClientFailed, &at
		case a.lastErr != nil:
			s.State = ClientFailed
		default:
			s.State, s.Error = ClientIdle, ""
		}
		if a.lastErr != nil && len(a.links) == 0 {
			s.Error = a.lastErr.Error()
		}
	})
}
