package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"github.com/thawpool/thawpool/actors/catalog"
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

	self address
	gen  uint64
	life context.Context // of the tries to connect
	end  context.CancelFunc

	links   []*link
	held    map[uint64]*link
	waiting []acquireConn
	dialing int

	fails     int
	notBefore time.Time
	lastErr   error

	turn       uint64 // changes with every acquire and release
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
	switch m := c.Message().(type) {
	case *actor.Started:
		a.start(c)
	case acquireConn:
		a.onAcquire(m)
	case releaseConn:
		a.onRelease(m.ticket)
	case dialedConn:
		if m.gen == a.gen {
			a.onDialed(m)
		}
	case connEvent:
		if m.gen == a.gen {
			a.onEvent(m)
		}
	case idleConns:
		if m.gen == a.gen && m.turn == a.turn && len(a.held)+len(a.waiting) == 0 {
			a.closeLinks()
		}
	case refreshTools:
		if m.gen == a.gen {
			a.onRefresh()
		}
	case toolsRefreshed:
		if m.gen == a.gen {
			a.onRefreshed()
		}
	case restartClient:
		a.onRestart()
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

func (a *clientActor) start(c actor.Context) {
	a.self, a.gen = c.Self(), a.srv.incarnation()
	a.life, a.end = context.WithCancel(context.Background())
	a.held = map[uint64]*link{}
	a.close(a.srv.all(false)) // what an incarnation before this one has left, killed already
}

// abandon leaves nothing running that nobody watches any more. It runs while the actor is being stopped or restarted, so
// it must not fail.
func (a *clientActor) abandon() {
	a.end()
	a.srv.kill()
	a.refuse(fmt.Errorf("server %q: its connections are being restarted; try again", a.srv.def.Name))
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
	a.dial()
}

// bury takes out connections that are lost already and whose news is still on its way.
func (a *clientActor) bury() {
	for _, l := range slices.Clone(a.links) {
		if isClosed(l.conn.Done()) {
			a.onEvent(connEvent{gen: a.gen, conn: l.conn, lost: true})
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

// refuse answers all that wait.
func (a *clientActor) refuse(err error) {
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
	d := indexIdle
	for _, l := range a.links {
		if l.used {
			d = a.terms.idle
		}
	}
	a.after(d, idleConns{gen: a.gen, turn: a.turn})
}

// after sends a message to the actor later. One that comes too late is dropped by its generation.
func (a *clientActor) after(d time.Duration, m any) {
	root, self := a.out.root, a.self
	time.AfterFunc(d, func() { root.Send(self, m) })
}

// dial starts as many tries to connect as those that wait can use. The first one goes alone: it finds out whether the
// server works, and what its tools are.
func (a *clientActor) dial() {
	for a.dialing < len(a.waiting) && len(a.links)+a.dialing < a.terms.instances {
		first := len(a.links) == 0
		if first && a.dialing > 0 {
			return
		}
		a.dialing++
		gen, srv := a.gen, a.srv
		a.out.pipe(a.life, a.self, func(ctx context.Context) any {
			conn, err := connect(ctx, srv, a.terms.startMax, first)
			return dialedConn{gen: gen, conn: conn, err: err}
		}, func(err error) any { return dialedConn{gen: gen, err: err} })
	}
}

// connect makes one connection and, with the first one, takes the server's tools in.
func connect(ctx context.Context, srv *serverState, limit time.Duration, first bool) (*upstream.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := srv.dial(ctx)
	if err != nil {
		return nil, err
	}
	if !srv.add(conn) {
		_ = conn.Close(ctx) // what cannot be ended is in the log of those who wait for the end
		return nil, fmt.Errorf("server %q is being stopped", srv.def.Name)
	}
	if first {
		if err := takeTools(ctx, srv, conn); err != nil {
			_ = srv.close(ctx, conn)
			return nil, err
		}
	}
	return conn, nil
}

func takeTools(ctx context.Context, srv *serverState, conn *upstream.Conn) error {
	tools, note, err := conn.ListTools(ctx)
	if err != nil {
		return err
	}
	srv.listed(srv.def, listingOf(conn, tools))
	srv.publish(func(s *ClientStatus) { s.Error = note })
	return nil
}

func listingOf(conn *upstream.Conn, tools []json.RawMessage) catalog.Listing {
	info := conn.Info()
	return catalog.Listing{
		Version: strings.TrimSpace(info.Name + " " + info.Version), Instructions: info.Instructions, Tools: tools,
	}
}

func (a *clientActor) onDialed(m dialedConn) {
	a.dialing--
	if m.err != nil {
		a.failed(m.err, a.fails+1)
		if len(a.links) == 0 && a.dialing == 0 {
			a.refuse(m.err)
		}
		return
	}
	l := &link{conn: m.conn, since: time.Now()}
	a.links = append(a.links, l)
	a.lastErr = nil
	a.log.Info().Str(keyServer, a.srv.def.Name).Str(keyEvent, "server connected").Int("pid", m.conn.PID()).Send()
	a.watch(m.conn)
	a.turn++
	a.serve()
	a.dial()
	a.watchIdle()
}

// failed notes a failure and how long to stay away.
func (a *clientActor) failed(err error, step int) {
	a.fails++
	a.lastErr = err
	a.notBefore = time.Now().Add(clientPause(step))
	a.log.Warn().Str(keyServer, a.srv.def.Name).Str(keyEvent, "server failed").Int("times", a.fails).Err(err).Send()
}

// clientPause is how long to stay away after so many failures in a row, with up to a tenth more so that servers which
// failed together are not tried together.
func clientPause(step int) time.Duration {
	if step <= 0 {
		return 0
	}
	d := min(clientFirstPause<<min(step-1, 10), clientPauseCap)
	return d + rand.N(d/10)
}

// watch waits for the next thing to happen to a connection.
func (a *clientActor) watch(conn *upstream.Conn) {
	gen := a.gen
	a.out.pipe(a.life, a.self, func(context.Context) any {
		select {
		case <-conn.Done():
			return connEvent{gen: gen, conn: conn, lost: true}
		case <-conn.Changed():
			return connEvent{gen: gen, conn: conn}
		}
	}, func(error) any { return connEvent{gen: gen, conn: conn, lost: true} })
}

func (a *clientActor) onEvent(m connEvent) {
	i := a.indexOf(m.conn)
	if i < 0 {
		return // closed meanwhile
	}
	if !m.lost {
		a.watch(m.conn)
		a.changed()
		return
	}
	l := a.links[i]
	a.forget(i)
	a.close([]*upstream.Conn{m.conn})
	if time.Since(l.since) >= clientStable {
		a.fails = 0
	}
	a.failed(m.conn.Err(), a.fails)
	if len(a.links) == 0 && a.dialing == 0 {
		if time.Now().Before(a.notBefore) {
			a.refuse(a.lastErr)
		}
		a.dial()
	}
}

func (a *clientActor) indexOf(conn *upstream.Conn) int {
	for i, l := range a.links {
		if l.conn == conn {
			return i
		}
	}
	return -1
}

// forget takes a link out. Those who hold it find out by their calls.
func (a *clientActor) forget(i int) {
	l := a.links[i]
	a.links = append(a.links[:i:i], a.links[i+1:]...)
	for ticket, h := range a.held {
		if h == l {
			delete(a.held, ticket)
		}
	}
}

// changed has the tools read again soon.
func (a *clientActor) changed() {
	if a.refreshing {
		a.again = true
		return
	}
	a.refreshing = true
	a.after(refreshDelay, refreshTools{gen: a.gen})
}

func (a *clientActor) onRefresh() {
	a.again = false
	if len(a.links) == 0 {
		a.refreshing = false
		return
	}
	gen, srv, conn, log := a.gen, a.srv, a.links[0].conn, a.log
	limit := a.terms.listMax
	a.out.pipe(a.life, a.self, func(ctx context.Context) any {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		if err := takeTools(ctx, srv, conn); err != nil {
			log.Warn().Str(keyServer, srv.def.Name).Str(keyEvent, "changed tools are not known").Err(err).Send()
		}
		return toolsRefreshed{gen: gen}
	}, func(error) any { return toolsRefreshed{gen: gen} })
}

func (a *clientActor) onRefreshed() {
	a.refreshing = false
	if a.again {
		a.changed()
	}
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

// onRestart is an operator's wish.
func (a *clientActor) onRestart() {
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
			s.State = ClientIdle
		}
		if a.lastErr != nil && len(a.links) == 0 {
			s.Error = a.lastErr.Error()
		}
	})
}
