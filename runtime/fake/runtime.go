// Package fake is a Runtime in memory, for tests and for measuring what the rest costs without containers. Its sandboxes
// speak the frame protocol of package guest, played by a Go function; every operation can be made to fail.
package fake

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/thawpool/thawpool/runtime"
)

// Runtime boots sandboxes in memory. Its zero value boots at once sandboxes whose every run ends well with no output. The
// fields may be set before the first use only; the functions are called from any goroutine.
type Runtime struct {
	// Run plays the runner from the run frame on. When it returns the process has gone, as when a runner exits. nil sends
	// done and exit 0.
	Run func(g *Guest)
	// BootFunc is called before a boot; its error fails it. It may block until ctx ends.
	BootFunc func(ctx context.Context, id string) error
	// ThawFunc is called before a thaw; its error fails it.
	ThawFunc func(ctx context.Context, s *Sandbox) error
	// UnreadFunc, when set, tells that the runner ends without having read its run.
	UnreadFunc func(s *Sandbox) bool
	// UsageFunc, when set, answers Usage in place of what the sandbox was told with its setters.
	UsageFunc func(s *Sandbox) (runtime.Usage, error)
	// DestroyFunc is called before a removal; its error keeps the sandbox there, though its processes are killed.
	DestroyFunc func(ctx context.Context, s *Sandbox) error

	mu     sync.Mutex
	live   map[string]*Sandbox
	booted []string
	most   int
	closed bool
}

var _ runtime.Runtime = (*Runtime)(nil)

// Boot implements runtime.Runtime.
func (r *Runtime) Boot(ctx context.Context, id string) (runtime.Sandbox, error) {
	start := time.Now()
	if r.BootFunc != nil {
		if err := r.BootFunc(ctx, id); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, fmt.Errorf("boot %s: %w", id, runtime.ErrUnavailable)
	}
	s := newSandbox(r, id)
	s.boot = runtime.BootInfo{At: time.Now(), Took: time.Since(start), Python: "3.14.6"}
	if r.live == nil {
		r.live = map[string]*Sandbox{}
	}
	r.live[id] = s
	r.most = max(r.most, len(r.live))
	r.remember(id)
	return s, nil
}

// rememberMost bounds the list of booted ids, for benchmarks that boot without end.
const rememberMost = 4096

func (r *Runtime) remember(id string) {
	if len(r.booted) < rememberMost {
		r.booted = append(r.booted, id)
	}
}

// Close implements runtime.Runtime.
func (r *Runtime) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return nil
}

// Live gives the sandboxes that exist, by id: booted and not yet destroyed.
func (r *Runtime) Live() []*Sandbox {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*Sandbox
	for _, s := range r.live {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *Sandbox) int { return cmp.Compare(a.id, b.id) })
	return all
}

// Booted is the ids of the sandboxes booted so far (the first 4096), in order.
func (r *Runtime) Booted() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.booted)
}

// Most is the highest number of sandboxes that existed at once.
func (r *Runtime) Most() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most
}

func (r *Runtime) remove(s *Sandbox) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.live, s.id)
}
