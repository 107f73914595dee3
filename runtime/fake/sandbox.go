package fake

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/thawpool/thawpool/runtime"
)

// Sandbox is a sandbox in memory.
type Sandbox struct {
	rt   *Runtime
	id   string
	boot runtime.BootInfo

	toGuest, toHost pipe
	done            chan struct{}
	die             sync.Once
	thaws, kills    atomic.Int32

	read atomic.Int64 // bytes that the guest has read

	mu    sync.Mutex
	early []byte // written before the thaw
	usage runtime.Usage
	gone  bool
}

var _ runtime.Sandbox = (*Sandbox)(nil)

// pipe is one direction of a sandbox's stream. A write waits until all of it was read, as on a pipe that is full.
type pipe struct {
	r *io.PipeReader
	w *io.PipeWriter
}

func newPipe() pipe {
	r, w := io.Pipe()
	return pipe{r, w}
}

func newSandbox(rt *Runtime, id string) *Sandbox {
	return &Sandbox{rt: rt, id: id, toGuest: newPipe(), toHost: newPipe(), done: make(chan struct{})}
}

// ID implements runtime.Sandbox.
func (s *Sandbox) ID() string { return s.id }

// Boot implements runtime.Sandbox.
func (s *Sandbox) Boot() runtime.BootInfo { return s.boot }

// Thaw implements runtime.Sandbox: it starts what plays the runner.
func (s *Sandbox) Thaw(ctx context.Context) error {
	if s.rt.ThawFunc != nil {
		if err := s.rt.ThawFunc(ctx, s); err != nil {
			return err
		}
	}
	select {
	case <-s.done:
		return fmt.Errorf("thaw %s: %w", s.id, runtime.ErrLost)
	default:
	}
	s.mu.Lock()
	again := s.thaws.Add(1) > 1
	s.mu.Unlock()
	if again {
		return fmt.Errorf("thaw %s: it was thawed before", s.id)
	}
	go s.play()
	return nil
}

// play is the runner's process.
func (s *Sandbox) play() {
	defer s.exit()
	if s.rt.UnreadFunc != nil && s.rt.UnreadFunc(s) {
		return
	}
	g := &Guest{box: s, Ctx: guestContext{s.done}}
	if s.rt.Run == nil {
		if g.readRun() == nil {
			_ = g.Raw(doneAndExit)
		}
		return
	}
	if g.readRun() == nil {
		s.rt.Run(g)
	}
}

// Stream implements runtime.Sandbox.
func (s *Sandbox) Stream() io.ReadWriter {
	return struct {
		io.Reader
		io.Writer
	}{s.toHost.r, toGuest{s}}
}

// toGuest takes what fits a pipe while nobody reads, and then waits for the reader. It counts what the guest has read.
type toGuest struct{ s *Sandbox }

func (g toGuest) Write(p []byte) (int, error) {
	if g.s.keep(p) {
		return len(p), nil
	}
	n, err := g.s.toGuest.w.Write(p)
	g.s.read.Add(int64(n))
	return n, err
}

func (s *Sandbox) keep(p []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Thawed() || len(s.early)+len(p) > runtime.EarlyMax {
		return false
	}
	s.early = append(s.early, p...)
	return true
}

// Withdraw implements runtime.Sandbox. A write that has ended was read, or met the guest's end.
func (s *Sandbox) Withdraw() bool { return s.read.Load() == 0 }

// Done implements runtime.Sandbox.
func (s *Sandbox) Done() <-chan struct{} { return s.done }

// exit ends the first process: what it wrote can still be read up to the end.
func (s *Sandbox) exit() {
	s.die.Do(func() {
		close(s.done)
		_ = s.toHost.w.Close()
		_ = s.toGuest.r.Close()
	})
}

// Kill ends the first process from outside, as kill -9 would.
func (s *Sandbox) Kill() { s.exit() }

// Usage implements runtime.Sandbox.
func (s *Sandbox) Usage() (runtime.Usage, error) {
	if s.rt.UsageFunc != nil {
		return s.rt.UsageFunc(s)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return runtime.Usage{}, fmt.Errorf("usage of %s: %w", s.id, runtime.ErrLost)
	}
	return s.usage, nil
}

// Count changes what the kernel has counted for the sandbox.
func (s *Sandbox) Count(change func(*runtime.Usage)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.usage)
}

// Destroy implements runtime.Sandbox.
func (s *Sandbox) Destroy(ctx context.Context) error {
	s.kills.Add(1)
	s.exit()
	_ = s.toHost.r.CloseWithError(io.EOF)
	_ = s.toGuest.w.Close()
	if s.rt.DestroyFunc != nil {
		if err := s.rt.DestroyFunc(ctx, s); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.gone = true
	s.mu.Unlock()
	s.rt.remove(s)
	return nil
}

// Thawed tells that the sandbox was thawed.
func (s *Sandbox) Thawed() bool { return s.thaws.Load() > 0 }

// Destroys is how often Destroy was called.
func (s *Sandbox) Destroys() int { return int(s.kills.Load()) }
