package actors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/thawpool/thawpool/actors/catalog/config"
	"github.com/thawpool/thawpool/actors/upstream"
	"github.com/thawpool/thawpool/runtime/guest"
)

// connLease is the right to use a connection until release.
type connLease struct {
	conn    *upstream.Conn
	srv     *serverState
	release func()
}

// borrow gets a connection to a server, which starts it if need be. It waits as long as the server's start timeout; the
// server goes on starting after that. index is for those who only want its tools to be known.
func (h *Hub) borrow(ctx context.Context, def config.Server, index bool) (*connLease, error) {
	ref, err := h.use(def)
	if err != nil {
		return nil, err
	}
	ticket := h.tickets.Add(1)
	release := func() {
		ref.tell(h.out, releaseConn{ticket: ticket})
		h.unuse(ref)
	}
	reply := make(chan grantedConn, 1)
	ref.tell(h.out, acquireConn{ticket: ticket, reply: reply, index: index})
	limit := h.startTimeout(def)
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case g := <-reply:
		if g.err != nil {
			release()
			return nil, g.err
		}
		return &connLease{conn: g.conn, srv: ref.srv, release: release}, nil
	case <-late.C:
		err = h.lateError(ref, limit)
	case <-ctx.Done():
		err = ctx.Err()
	case <-ref.srv.ended:
		err = errHubClosed
	}
	release()
	return nil, err
}

// lateError says what a call has waited for in vain.
func (h *Hub) lateError(ref *clientRef, limit time.Duration) error {
	st := ref.srv.snapshot()
	if st.Instances > 0 {
		return &guest.CallError{Type: guest.ErrTimeout, Message: fmt.Sprintf(
			"server %q was busy with %d other calls for %s; make fewer at once, or have more of it with --upstream-instances",
			st.Name, st.InFlight, limit)}
	}
	return &guest.CallError{Type: guest.ErrTimeout, Message: fmt.Sprintf(
		"server %q did not finish starting within its start timeout of %s; it goes on starting, so a later call may find it ready "+
			"(startTimeout in its definition, or --upstream-start, gives it longer)", st.Name, limit)}
}

// callError is an error of a connection as the code sees it. The texts of package upstream are fit to be shown.
func callError(err error) error {
	var ready *guest.CallError
	if errors.As(err, &ready) || errors.Is(err, context.Canceled) {
		return err
	}
	return &guest.CallError{Message: err.Error()}
}
