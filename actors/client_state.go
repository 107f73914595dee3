package actors

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/thawpool/thawpool/actors/catalog"
	"github.com/thawpool/thawpool/actors/catalog/config"
	"github.com/thawpool/thawpool/actors/upstream"
)

// serverState is what is really there of one server's connections: it outlives the Client actor, so that no child is lost
// with one. The mutex is held for a few instructions only.
type serverState struct {
	def    config.Server
	dial   func(ctx context.Context) (*upstream.Conn, error)
	listed func(config.Server, catalog.Listing) // takes a list of tools in
	ended  chan struct{}                        // closed when the Client has stopped for good

	heart heart

	mu     sync.Mutex // guards what follows
	gen    uint64     // of the actor's incarnation
	conns  map[*upstream.Conn]struct{}
	over   bool // no connection may be added
	status ClientStatus
	spent  time.Duration // in all calls
	stderr string        // of the last connection that was lost
}

func newServerState(def config.Server, dial func(context.Context) (*upstream.Conn, error), listed func(config.Server, catalog.Listing)) *serverState {
	return &serverState{
		def: def, dial: dial, listed: listed, ended: make(chan struct{}),
		conns: map[*upstream.Conn]struct{}{}, status: ClientStatus{Name: def.Name, State: ClientIdle},
	}
}

// incarnation is a number for each actor that works on this state.
func (s *serverState) incarnation() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gen++
	return s.gen
}

// current is the number of the last one.
func (s *serverState) current() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gen
}

// add notes a connection. When it returns false the caller must close it.
func (s *serverState) add(c *upstream.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return false
	}
	s.conns[c] = struct{}{}
	s.status.Starts++
	return true
}

// close ends one connection and returns when nothing of it is left.
func (s *serverState) close(ctx context.Context, c *upstream.Conn) error {
	err := c.Close(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if words := c.Stderr(); words != "" {
		s.stderr = words
	}
	delete(s.conns, c)
	return err
}

// all lists the connections; with last, none is added any more.
func (s *serverState) all(last bool) []*upstream.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = s.over || last
	list := make([]*upstream.Conn, 0, len(s.conns))
	for c := range s.conns {
		list = append(list, c)
	}
	return list
}

// closeAll ends every connection for good, all at once.
func (s *serverState) closeAll(ctx context.Context) error {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		errs []error
	)
	for _, c := range s.all(true) {
		wg.Go(func() {
			if err := s.close(ctx, c); err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// kill ends every connection at once, without waiting.
func (s *serverState) kill() {
	for _, c := range s.all(false) {
		c.Kill()
	}
}

// called counts one call.
func (s *serverState) called(took time.Duration, failed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.status.Calls++
	s.status.LastUsed = &now
	s.spent += took
	if failed {
		s.status.Failures++
	}
}

// publish sets what the actor knows.
func (s *serverState) publish(set func(*ClientStatus)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set(&s.status)
}

// snapshot is the status now.
func (s *serverState) snapshot() ClientStatus {
	s.mu.Lock()
	st := s.status
	if st.Calls > 0 {
		st.MeanMS = ms(s.spent) / float64(st.Calls)
	}
	st.Stderr = s.stderr
	s.mu.Unlock()
	if s.heart.silent() {
		st.State = ClientHanging
	}
	for _, c := range s.all(false) {
		if pid := c.PID(); pid != 0 {
			st.PIDs = append(st.PIDs, pid)
		}
		if words := c.Stderr(); words != "" {
			st.Stderr = words
		}
	}
	return st
}
