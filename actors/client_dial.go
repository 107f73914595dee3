package actors

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/thawpool/thawpool/actors/upstream"
)

// dial starts as many tries to connect as those that wait can use. The first one goes alone: it finds out whether the
// server works, and what its tools are.
func (a *clientActor) dial() {
	for a.dialing < len(a.waiting) && len(a.links)+a.dialing < a.terms.instances {
		first := len(a.links) == 0
		if first && a.dialing > 0 {
			return
		}
		a.dialing++
		own, srv, try := a.own(), a.srv, a.try
		a.out.pipe(a.life, a.self, func(ctx context.Context) any {
			conn, err := connect(ctx, srv, a.terms.startMax, first)
			return dialedConn{ofIncarnation: own, try: try, conn: conn, err: err}
		}, func(err error) any { return dialedConn{ofIncarnation: own, try: try, err: err} })
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

func (a *clientActor) onDialed(m dialedConn) {
	if m.try != a.try { // called off
		if m.conn != nil {
			a.close([]*upstream.Conn{m.conn})
		}
		return
	}
	a.dialing--
	wanted := a.wanted
	a.wanted = false
	if m.err != nil {
		a.failed(m.err, a.fails+1)
		if len(a.links) == 0 && a.dialing == 0 {
			a.refuse(m.err)
		}
		return
	}
	l := &link{conn: m.conn, since: time.Now(), used: wanted}
	a.links = append(a.links, l)
	a.lastErr = nil
	observed(a.obs, ServerConnected{Server: a.srv.def.Name})
	a.log.Info().Str(keyServer, a.srv.def.Name).Str(keyEvent, "server connected").Int("pid", m.conn.PID()).Send()
	a.watch(m.conn)
	a.turn++
	a.serve()
	a.dial()
	a.watchIdle()
}

// failed notes a failure and how long to stay away.
func (a *clientActor) failed(err error, step int) {
	observed(a.obs, ServerFailed{Server: a.srv.def.Name})
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
	own := a.own()
	a.out.pipe(a.life, a.self, func(context.Context) any {
		select {
		case <-conn.Done():
			return connEvent{ofIncarnation: own, conn: conn, lost: true}
		case <-conn.Changed():
			return connEvent{ofIncarnation: own, conn: conn}
		}
	}, func(error) any { return connEvent{ofIncarnation: own, conn: conn, lost: true} })
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
