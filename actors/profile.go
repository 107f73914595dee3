package actors

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"github.com/thawpool/thawpool/pool"
	"github.com/thawpool/thawpool/runtime"
)

// profile is one pool as all its actors share it. Its fields never change but for those that guard themselves.
type profile struct {
	runtime.Limits
	name string
	obs  Observer
	rt   runtime.Runtime
	cfg  pool.Config
	reg  *registry
	log  zerolog.Logger
	tag  string // begins the ids of its sandboxes

	actor        atomic.Pointer[actor.PID]
	heart        heart         // of its actor
	incarnations atomic.Uint64 // of its actor
	times        times
}

// tell sends to the pool's actor, whichever it is now.
func (p *profile) tell(out outside, m any) { out.root.Send(p.actor.Load(), m) }

// letGo notes that a call is through with its sandbox, and tells the pool. Should the pool hang, the next one knows.
func (p *profile) letGo(out outside, m release) {
	p.reg.release(m.slot, m.running)
	p.tell(out, m)
}

// id names a sandbox for ever: the tag is random for each System.
func (p *profile) id(slot pool.Slot) string { return fmt.Sprintf("%s-%d", p.tag, slot) }

// timesKept is how many boot times Stats shows.
const timesKept = 128

// times is a ring of the last boot times.
type times struct {
	mu   sync.Mutex
	ring []time.Duration
	at   int
}

func (t *times) add(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.ring) < timesKept {
		t.ring = append(t.ring, d)
		return
	}
	t.ring[t.at] = d
	t.at = (t.at + 1) % timesKept
}

// list is the times, oldest first.
func (t *times) list() []time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append(slices.Clone(t.ring[t.at:]), t.ring[:t.at]...)
}

// Stats is a System at one moment, by profile.
type Stats struct {
	Profiles map[string]ProfileStats
	Hanging  []string // parts that do not answer, in words
}

// ProfileStats is one pool: its counts, what it holds, and why boots fail if they do.
type ProfileStats struct {
	pool.Stats
	BootTimes []time.Duration // of the last boots, at most 128, oldest first
}
