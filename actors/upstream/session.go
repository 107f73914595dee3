package upstream

import (
	"context"

	"github.com/mark3labs/mcp-go/client"
)

// session is one initialised client. HTTP servers may forget one, and another takes its place.
type session struct {
	cl   *client.Client
	end  context.CancelFunc
	uses int // requests in flight; guarded by Conn.mu
}

func (s *session) close() {
	_ = s.cl.Close() // an error tells of a server that is gone, which is what was wanted
	s.end()
}

// acquire is the current session, counted as in use; nil when the connection has ended.
func (c *Conn) acquire() *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost != nil {
		return nil
	}
	c.sess.uses++
	return c.sess
}

func (c *Conn) release(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.uses--
	c.tidy(s)
}

// adopt makes s the current session. When the connection has ended meanwhile, s is closed.
func (c *Conn) adopt(s *session) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost != nil {
		s.close()
		return c.lost
	}
	old := c.sess
	c.sess = s
	if c.sessions == nil {
		c.sessions = map[*session]struct{}{}
	}
	c.sessions[s] = struct{}{}
	if old != nil {
		c.tidy(old)
	}
	return nil
}

// tidy closes a session that is no longer the current one once nobody uses it. It is called with mu held.
func (c *Conn) tidy(s *session) {
	if s == c.sess || s.uses > 0 || c.lost != nil {
		return
	}
	delete(c.sessions, s)
	c.tidying.Go(s.close)
}

// renew replaces session old, unless somebody else already has.
func (c *Conn) renew(ctx context.Context, old *session) error {
	select {
	case c.renewal <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c.renewal }()
	c.mu.Lock()
	current := c.sess
	c.mu.Unlock()
	if current != old {
		return nil
	}
	s, _, err := c.dialHTTP(ctx)
	if err != nil {
		return err
	}
	if err := c.adopt(s); err != nil {
		return err
	}
	c.noteChanged() // a server that forgot us has most likely been replaced
	return nil
}

// noteChanged says that the tools may have changed. It never waits.
func (c *Conn) noteChanged() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}
