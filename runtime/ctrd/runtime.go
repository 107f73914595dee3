package ctrd

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"sync/atomic"

	"github.com/thawpool/thawpool/runtime"
)

// validID is what the contract allows; it is also a valid container id and path element.
var validID = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)

// runtimes tells several Runtimes of one process apart.
var runtimes atomic.Int64

// Runtime boots sandboxes on whatever backend Connect gives. When one is lost, so are its sandboxes, and the next Boot
// asks for another.
type Runtime struct {
	cfg   Config
	label string // names this Runtime on what it makes

	turn chan struct{} // holds one token: whoever has it may connect, or close

	mu      sync.Mutex // guards what follows
	current *session
	closed  bool
}

var _ runtime.Runtime = (*Runtime)(nil)

// errClosed is what a closed Runtime answers.
var errClosed = errors.New("sandbox runtime is closed")

// New makes a Runtime. It connects at the first Boot.
func New(c Config) (*Runtime, error) {
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	r := &Runtime{cfg: c, turn: make(chan struct{}, 1), label: fmt.Sprintf("%d", runtimes.Add(1))}
	r.turn <- struct{}{}
	return r, nil
}

// Boot implements runtime.Runtime.
func (r *Runtime) Boot(ctx context.Context, id string) (runtime.Sandbox, error) {
	if !validID.MatchString(id) {
		return nil, fmt.Errorf("boot sandbox: id %q is not at most 64 of a-z, 0-9 and -", id)
	}
	s, err := r.connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("boot sandbox %s: %w", id, err)
	}
	b, err := s.boot(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("boot sandbox %s: %w", id, kind(err))
	}
	return b, nil
}

// Connect makes sure of a backend, so that the first Boot need not: it is where a missing requirement shows.
func (r *Runtime) Connect(ctx context.Context) error {
	_, err := r.connect(ctx)
	return err
}

// Close implements runtime.Runtime.
func (r *Runtime) Close() error {
	<-r.turn
	defer func() { r.turn <- struct{}{} }()
	r.mu.Lock()
	s := r.current
	r.current, r.closed = nil, true
	r.mu.Unlock()
	if s == nil {
		return nil
	}
	return s.close()
}

// session is the current one if it is alive.
func (r *Runtime) session() (*session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return nil, errClosed
	case r.current != nil && r.current.ctx.Err() == nil:
		return r.current, nil
	default:
		return nil, nil
	}
}

func (r *Runtime) connect(ctx context.Context) (*session, error) {
	if s, err := r.session(); s != nil || err != nil {
		return s, err
	}
	select {
	case <-r.turn:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: still connecting: %w", runtime.ErrUnavailable, ctx.Err())
	}
	defer func() { r.turn <- struct{}{} }()
	if s, err := r.session(); s != nil || err != nil {
		return s, err // another one's work
	}
	r.mu.Lock()
	old := r.current
	r.current = nil
	r.mu.Unlock()
	if old != nil {
		if err := old.close(); err != nil {
			r.cfg.Log.Debug().Err(err).Msg("lost backend left something to the sweep")
		}
	}
	backend, err := r.cfg.Connect(ctx)
	if err != nil {
		return nil, err
	}
	s, err := newSession(ctx, r.cfg, r.label, backend)
	if err != nil {
		backend.Close()
		return nil, kind(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current = s
	return s, nil
}
