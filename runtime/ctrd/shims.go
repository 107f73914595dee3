package ctrd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/oci"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/host"
)

// groupAnnotation in a spec makes the stock runc shim serve all containers of a group in one process.
const groupAnnotation = "io.containerd.runc.v2.group"

// shimCount makes names of shims unique within the process.
var shimCount atomic.Int64

// shim is one shim process, or for runtimes that cannot share any, the place for one sandbox.
type shim struct {
	id    string
	ready chan struct{} // closed when sandboxes can be put in, or err is set
	err   error
	// Of containerd's Sandbox API: containers name it as theirs. Written before ready is closed.
	joined bool
	end    context.CancelFunc // of the watch

	// joins is held for reading from take until the sandbox's task is made, and for writing when one is deleted: the
	// stock shim ends with its last task, and must not do so while another is on its way into it.
	joins sync.RWMutex

	// Guarded by shims.mu.
	live   int    // sandboxes in it, those that are being made included
	dead   bool   // takes no more
	broken bool   // the making of a task in it was broken off
	leader string // the id that its process was started for
}

// shims hands out places in shims, at most cfg.ShimTasks in each.
type shims struct {
	s  *session
	mu sync.Mutex
	// all that can be joined or still have sandboxes
	all []*shim
	// patience with what takes a shim milliseconds, its own start and those of tasks
	patience time.Duration
}

func newShims(s *session) *shims { return &shims{s: s, patience: shimPatience} }

// take finds a place for one sandbox, in a new shim when all are full. The caller calls joined when the task is made, or
// will not be, and give when the sandbox is gone.
func (p *shims) take(ctx context.Context) (*shim, error) {
	p.mu.Lock()
	i := slices.IndexFunc(p.all, func(h *shim) bool { return !h.dead && h.live < p.s.cfg.ShimTasks })
	if i >= 0 {
		h := p.all[i]
		h.live++
		h.joins.RLock() // free: nobody holds it for writing before h is dead
		p.mu.Unlock()
		return h, p.await(ctx, h)
	}
	owner := p.s.cfg.Owner
	h := &shim{
		id:   fmt.Sprintf("shim-%d-%d-%d", owner.PID, owner.Start, shimCount.Add(1)),
		live: 1, ready: make(chan struct{}), end: func() {},
	}
	h.leader = h.id
	h.joins.RLock()
	p.all = append(p.all, h)
	p.mu.Unlock()
	// A boot that gives up must not spoil it for others, so the start has the session's time.
	p.s.work.Go(func() {
		defer close(h.ready)
		h.err = p.startInTime(p.s.ctx, h)
		if h.err != nil {
			p.condemn(h)
		}
	})
	return h, p.await(ctx, h)
}

// await waits until a shim can be joined. On an error the place is given back.
func (p *shims) await(ctx context.Context, h *shim) error {
	var err error
	select {
	case <-h.ready:
		err = h.err
	case <-ctx.Done():
		err = fmt.Errorf("%w: its shim has not started yet: %w", runtime.ErrUnavailable, ctx.Err())
	}
	if err != nil {
		h.joins.RUnlock()
		p.give(h)
	}
	return err
}

// startInTime gives up a start that hangs: boots would wait for it, and for nothing else.
func (p *shims) startInTime(ctx context.Context, h *shim) error {
	patience := p.patient()
	late := errors.New("it takes longer than " + patience.String())
	began := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	t := time.AfterFunc(patience, func() { cancel(late) })
	err := p.start(ctx, h)
	t.Stop()
	p.learn(min(time.Since(began), patience)) // what comes after is the clearing up
	if err != nil && errors.Is(context.Cause(ctx), late) {
		err = fmt.Errorf("%w: %w: %w", runtime.ErrUnavailable, late, err)
	}
	if err != nil {
		cancel(nil)
		return err
	}
	end := h.end
	h.end = func() { end(); cancel(nil) } // the context is its watch's
	return nil
}

// start makes a shim that can be joined. On an error nothing of it is left, as far as the daemon can be reached.
func (p *shims) start(ctx context.Context, h *shim) (err error) {
	if p.s.cfg.Runtime != RuntimeThawpool {
		return nil // the first task's creation starts it
	}
	defer func() {
		if err != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closePatience)
			defer cancel()
			p.ref(h).kill() // one that was started and is not known to containerd, above all one that hangs
			err = errors.Join(fmt.Errorf("start a shim: %w", err), removeShim(ctx, p.s.client, p.ref(h)))
		}
	}()
	sb, err := p.s.client.NewSandbox(ctx, h.id,
		// By its path: the daemon may be another version's, and would find that version's shim by name.
		containerd.WithSandboxRuntime(filepath.Join(p.s.cfg.BinDir, "containerd-shim-thawpool-v1"), nil),
		containerd.WithSandboxSpec(&oci.Spec{}),
		containerd.WithSandboxLabels(map[string]string{host.LabelOwner: p.s.cfg.Owner.String(), labelRuntime: p.s.label}))
	if err != nil {
		return err
	}
	if err := sb.Start(ctx); err != nil {
		return err
	}
	watch, end := context.WithCancel(ctx)
	exited, err := sb.Wait(watch)
	if err != nil {
		end()
		return err
	}
	h.joined, h.end = true, end
	p.s.work.Go(func() {
		<-exited // also when the watch ends
		if watch.Err() == nil {
			p.s.cfg.Log.Warn().Str("shim", h.id).Msg("a shim was lost with its sandboxes")
		}
		p.condemn(h)
	})
	return nil
}

// leave deletes a task out of its shim. A stock shim takes nothing more after the first: it may be about to end.
func (p *shims) leave(h *shim, deleteTask func() error) error {
	if p.s.cfg.Runtime == RuntimeThawpool {
		return deleteTask()
	}
	p.condemn(h)
	h.joins.Lock()
	defer h.joins.Unlock()
	return deleteTask()
}

// leads notes that a task is about to be made, the first of which starts a stock shim.
func (p *shims) leads(h *shim, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !h.joined && h.leader == h.id {
		h.leader = id
	}
}

// condemn lets no more sandboxes into a shim.
func (p *shims) condemn(h *shim) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h.dead = true
}

// breaks notes that a boot has failed in a shim: it may be what hangs or fails, so the next boot tries another.
func (p *shims) breaks(h *shim) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h.dead, h.broken = true, true
}

// give takes a sandbox out of the count. An empty shim ends unless it is the only one with room: that one is kept for
// the next boot. A shared stock shim ends by itself with its last container, so its name is not used again.
func (p *shims) give(h *shim) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h.live--
	spare := p.s.cfg.Runtime == RuntimeThawpool && !h.dead && !slices.ContainsFunc(p.all, func(o *shim) bool {
		return o != h && !o.dead && o.live < p.s.cfg.ShimTasks
	})
	i := slices.Index(p.all, h)
	if h.live > 0 || spare || i < 0 { // i < 0: close has it
		return
	}
	h.dead = true
	p.all = slices.Delete(p.all, i, i+1)
	p.s.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closePatience)
		defer cancel()
		if err := p.stop(ctx, h); err != nil {
			p.s.cfg.Log.Warn().Err(err).Msg("an empty shim is left to the sweep")
		}
	})
}

// stop ends a shim that nobody uses.
func (p *shims) stop(ctx context.Context, h *shim) error {
	select {
	case <-h.ready:
	case <-ctx.Done():
		return fmt.Errorf("shim %s has not started yet: %w", h.id, ctx.Err())
	}
	h.end()
	if p.s.lost() {
		return nil
	}
	if !h.joined {
		p.endBroken(ctx, h)
		return nil
	}
	return removeShim(ctx, p.s.client, p.ref(h))
}

// stockPatience is how long a stock shim may stay after its last task. It ends at once.
const stockPatience = 2 * time.Second

// endBroken ends a stock shim that containerd lost sight of, since a task's making was broken off while it started: it has
// no task whose end would end it.
func (p *shims) endBroken(ctx context.Context, h *shim) {
	p.mu.Lock()
	broken := h.broken
	p.mu.Unlock()
	if !broken {
		return
	}
	ref := p.ref(h)
	for began := time.Now(); len(ref.processes()) > 0; {
		if time.Since(began) > stockPatience {
			p.s.cfg.Log.Warn().Str("shim", ref.id).Int("processes", ref.kill()).Msg("a shim without a task is killed")
			return
		}
		if p.s.pause(ctx, stockPatience/10) != nil {
			return
		}
	}
}

// close ends all shims.
func (p *shims) close(ctx context.Context) error {
	p.mu.Lock()
	all := p.all
	p.all = nil
	for _, h := range all {
		h.dead = true
	}
	p.mu.Unlock()
	var errs []error
	for _, h := range all {
		errs = append(errs, p.stop(ctx, h))
	}
	return errors.Join(errs...)
}

// removeShim ends a shim of the Sandbox API and forgets it. One that is not there is no error.
func removeShim(ctx context.Context, c *containerd.Client, ref shimRef) error {
	id := ref.id
	sb, err := c.LoadSandbox(ctx, id)
	if absent(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find shim %s: %w", id, err)
	}
	killed := false
	for wait := deletePoll; ; wait *= 2 {
		// A shim that has died gives an error here, and so may one that is just ending. What counts is Shutdown, which
		// forgets one that has gone.
		err := ref.ask(ctx, func(ctx context.Context) error {
			_ = sb.Stop(ctx)
			return sb.Shutdown(ctx)
		})
		if err == nil || absent(err) {
			return nil
		}
		if killed && wait > removeMost || unavailable(err) {
			return fmt.Errorf("end shim %s: %w", id, err)
		}
		if wait > removeMost { // it does not end by being asked
			ref.kill()
			killed, wait = true, deletePoll
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fmt.Errorf("end shim %s: %w", id, err)
		}
	}
}

// removeMost is the longest wait before a shim is asked again to end: the answer is lost when it ends faster than it
// answers, and then containerd needs a moment to see that it has gone.
const removeMost = time.Second
