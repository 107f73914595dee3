package ctrd

import (
	"context"
	"fmt"
	"time"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"golang.org/x/sys/unix"

	"github.com/thawpool/thawpool/runtime"
)

const (
	// removePatience bounds one try to remove a sandbox, whatever hangs. It takes 20 ms when all is well.
	removePatience = time.Minute
	// exitPatience is how long the daemon may take to see the end of a killed sandbox before it is asked to kill it too.
	exitPatience = 3 * time.Second
	// shimPatience is how long a shim may take to delete a task whose processes have gone. It takes milliseconds, and
	// seconds on a machine that is very busy; what is broken off there may leave the task's directory behind. It is half
	// of the 15 s in which a call must work again, since boots and other calls come after it.
	shimPatience = 7 * time.Second
	// deletePoll is how soon a task that cannot be deleted yet is tried again.
	deletePoll = 5 * time.Millisecond
)

// removal is one try to remove a sandbox, shared by all who wait for it.
type removal struct {
	done chan struct{}
	err  error
}

// Destroy implements runtime.Sandbox. The work goes on when ctx ends first.
func (b *sandbox) Destroy(ctx context.Context) error {
	r := b.remove()
	if r == nil {
		return nil
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return fmt.Errorf("%w: sandbox %s is still being destroyed: %w", runtime.ErrUnavailable, b.id, ctx.Err())
	}
}

// remove joins the try that goes on, or begins one; nil when the sandbox is gone.
func (b *sandbox) remove() *removal {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone {
		return nil
	}
	if r := b.removal; r != nil {
		select {
		case <-r.done: // failed: try again
		default:
			return r
		}
	}
	r := &removal{done: make(chan struct{})}
	b.removal = r
	if b.usage == nil {
		u, err := b.group.Usage()
		if err != nil {
			u = runtime.Usage{} // never created, or taken away by someone
		}
		b.usage = &u
	}
	b.s.work.Go(func() {
		defer close(r.done)
		ctx, cancel := context.WithTimeout(context.Background(), removePatience)
		defer cancel()
		err := b.takeAway(ctx)
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.gone = err == nil; err != nil {
			r.err = fmt.Errorf("destroy sandbox %s: %w", b.id, kind(err))
		}
	})
	return r
}

// takeAway removes everything, the container record last. What the daemon cannot be asked any more has ended with it,
// and its records are cleared by whoever starts the next one.
func (b *sandbox) takeAway(ctx context.Context) error {
	began := time.Now()
	if !b.recorded { // then nothing else was made
		b.s.shims.give(b.shim)
		return nil
	}
	if b.io != nil {
		if b.s.cfg.Runtime != RuntimeThawpool {
			b.io.drain()
		}
		b.io.close()
	}
	if err := b.kill(ctx); err != nil {
		return err
	}
	if err := b.s.shims.leave(b.shim, func() error { return b.deleteTask(ctx) }); err != nil {
		return fmt.Errorf("task: %w", err)
	}
	if err := b.group.Remove(); err != nil {
		return err
	}
	if b.io != nil {
		if err := b.io.remove(); err != nil {
			return err
		}
	}
	if err := b.deleteRecord(ctx); err != nil {
		return fmt.Errorf("container: %w", err)
	}
	b.s.shims.give(b.shim)
	b.s.cfg.Log.Debug().Str("sandbox", b.id).Dur("took", time.Since(began)).Msg("destroyed")
	return nil
}

// kill ends every process and waits until the daemon has seen it. It goes by the control group, which needs no daemon
// and reaches frozen processes too.
func (b *sandbox) kill(ctx context.Context) error {
	if err := b.group.Kill(ctx); err != nil {
		return fmt.Errorf("kill: %w", err)
	}
	if !b.watched {
		return nil
	}
	t := time.NewTimer(exitPatience)
	defer t.Stop()
	select {
	case <-b.done:
	case <-t.C: // deleteTask goes on with it
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// deleteTask also deals with a task that was made and whose answer was lost, or whose end was not seen.
func (b *sandbox) deleteTask(ctx context.Context) error {
	if !b.tasked || b.s.lost() {
		return nil
	}
	for wait := deletePoll; ; wait = min(2*wait, rewatch) {
		err := b.ask(ctx, func(ctx context.Context) error { return deleteTask(ctx, b.s.tasks, b.s.backend.PID, b.id) })
		if err == nil || absent(err) || b.s.lost() {
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		killErr := b.ask(ctx, func(ctx context.Context) error {
			_, err := b.s.tasks.Kill(ctx, &tasks.KillRequest{ContainerID: b.id, Signal: uint32(unix.SIGKILL), All: true})
			return err
		})
		b.s.cfg.Log.Debug().AnErr("delete", err).AnErr("kill", killErr).Str("sandbox", b.id).Msg("task does not go yet")
		if err := b.s.pause(ctx, wait); err != nil {
			return fmt.Errorf("%w: %w", err, kind(killErr))
		}
	}
}

// ask gives the shim a limited time to answer.
func (b *sandbox) ask(ctx context.Context, request func(context.Context) error) error {
	return b.s.shims.ask(ctx, b.shim, shimPatience, request)
}

func (b *sandbox) deleteRecord(ctx context.Context) error {
	for !b.s.lost() {
		err := b.s.records.Delete(ctx, b.id)
		switch {
		case err == nil, absent(err):
			return nil
		case !unavailable(err):
			return err
		}
		if err := b.s.pause(ctx, rewatch); err != nil {
			return err
		}
	}
	return nil
}

// pause waits, and no longer than ctx or the backend last.
func (s *session) pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-s.backend.Lost:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
