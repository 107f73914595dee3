package ctrd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/host"
)

// sandbox implements runtime.Sandbox.
type sandbox struct {
	s     *session
	id    string
	shim  *shim
	io    *stdio
	group host.Group
	info  runtime.BootInfo // complete when Boot returns

	joined func() // the task is made, or will not be

	// How far boot came: what has to be taken away. Written by boot, read by destroy after it.
	recorded, tasked, watched bool

	thawed bool          // or tried to; used by the session that has leased it alone
	done   chan struct{} // closed once the first process has gone
	status atomic.Uint32 // its exit status as shells have it; valid after done if not lost
	lost   atomic.Bool   // the daemon went, and the process with it

	mu      sync.Mutex // guards what follows
	removal *removal   // the last try to remove it
	gone    bool
	usage   *runtime.Usage // the last, once the group is being removed
}

var _ runtime.Sandbox = (*sandbox)(nil)

// ID implements runtime.Sandbox.
func (b *sandbox) ID() string { return b.id }

// Boot implements runtime.Sandbox.
func (b *sandbox) Boot() runtime.BootInfo { return b.info }

// Done implements runtime.Sandbox.
func (b *sandbox) Done() <-chan struct{} { return b.done }

// Stream implements runtime.Sandbox. It also has SetReadDeadline and SetWriteDeadline.
func (b *sandbox) Stream() io.ReadWriter { return stream{b.io} }

// Withdraw implements runtime.Sandbox.
func (b *sandbox) Withdraw() bool { return b.io.withdraw() }

// Thaw implements runtime.Sandbox.
func (b *sandbox) Thaw(ctx context.Context) error {
	if err := b.alive(); err != nil {
		return fmt.Errorf("thaw sandbox %s: %w", b.id, err)
	}
	if b.direct() {
		if b.thawed {
			return fmt.Errorf("thaw sandbox %s: it was thawed before", b.id)
		}
		b.thawed = true
		if err := b.group.SetFrozen(false); err != nil {
			return fmt.Errorf("thaw sandbox %s: %w: %w", b.id, runtime.ErrLost, err)
		}
		return nil
	}
	ctx, cancel := b.s.bound(ctx)
	defer cancel()
	err := b.ask(ctx, func(ctx context.Context) error {
		_, err := b.s.tasks.Resume(ctx, &tasks.ResumeTaskRequest{ContainerID: b.id})
		return err
	})
	if err == nil {
		return nil
	}
	if dead := b.alive(); dead != nil || absent(err) || b.s.ctx.Err() != nil {
		return fmt.Errorf("thaw sandbox %s: %w: %w", b.id, runtime.ErrLost, kind(err))
	}
	if err = expired(ctx, kind(err)); errors.Is(err, runtime.ErrUnavailable) {
		b.s.shims.condemn(b.shim) // it may hang
	}
	return fmt.Errorf("thaw sandbox %s: %w", b.id, err)
}

// alive says whether the first process still runs.
func (b *sandbox) alive() error {
	select {
	case <-b.done:
	default:
		return nil
	}
	if b.lost.Load() {
		return fmt.Errorf("%w with the daemon", runtime.ErrLost)
	}
	return fmt.Errorf("%w: its first process ended with status %d", runtime.ErrLost, b.status.Load())
}

// Usage implements runtime.Sandbox.
func (b *sandbox) Usage() (runtime.Usage, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.usage != nil {
		return *b.usage, nil
	}
	u, err := b.group.Usage()
	if err != nil {
		return u, fmt.Errorf("usage of sandbox %s: %w", b.id, err)
	}
	return u, nil
}

// rewatch is how long watch waits before it asks a daemon again that was not there.
const rewatch = 100 * time.Millisecond

// watch closes done when the first process has gone. That the daemon does not answer is no exit: a daemon that is
// restarted finds its tasks again, and one that is gone for good ends the session.
func (b *sandbox) watch() {
	defer close(b.done)
	for {
		r, err := b.s.tasks.Wait(b.s.ctx, &tasks.WaitRequest{ContainerID: b.id})
		switch {
		case err == nil:
			b.status.Store(r.GetExitStatus())
			return
		case absent(err): // deleted, by us or by someone else
			b.status.Store(killed)
			return
		case b.s.ctx.Err() != nil:
			b.lost.Store(true)
			return
		}
		if pids, err := b.group.Procs(); err == nil && len(pids) == 0 {
			b.status.Store(killed)
			return
		}
		select {
		case <-b.s.ctx.Done():
		case <-time.After(rewatch):
		}
	}
}

// killed is the status of a process that SIGKILL ended.
const killed = 128 + 9

// bound gives a request the session's end as well as its own.
func (s *session) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}
