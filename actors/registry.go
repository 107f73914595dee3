package actors

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/thawpool/thawpool/pool"
	"github.com/thawpool/thawpool/runtime"
)

// box is one sandbox from the start of its boot until nothing is left of it. Its fields are guarded by its registry's mu,
// but for those that never change.
type box struct {
	slot pool.Slot
	id   string

	state    pool.State
	since    time.Time // the boot's start while it boots, then when it became ready
	sandbox  runtime.Sandbox
	before   runtime.Usage // counted when the boot had ended: what is counted later is the run's
	holder   waiting       // with pool.Leased
	released bool          // its holder is through with it
	running  bool          // with released: code may still run in it
	attempts int           // to destroy it, that failed
	watched  bool          // somebody waits for its first process to go
}

// waiting is a call that waits for a sandbox, or holds one.
type waiting struct {
	key     pool.Waiter
	request string // its id, for the log
	since   time.Time
	how     pool.How
	to      address
}

// registry is what is really there of one pool: it outlives the pool's actor, and a new one goes on from it. The mutex is
// held for a few instructions only, so taking it in a Receive blocks nothing.
type registry struct {
	ctx context.Context // of boots; ends when the pool drains
	end context.CancelFunc

	mu       sync.Mutex
	owner    address // the pool's actor: news of boxes is for whoever it is when there is some
	boxes    map[pool.Slot]*box
	waiters  []waiting // first come first
	last     pool.Slot
	resized  *int
	draining bool
	empty    chan struct{} // closed when it drains and nothing is left
	stats    pool.Stats    // as the policy last saw itself
}

func newRegistry() *registry {
	ctx, end := context.WithCancel(context.Background())
	return &registry{ctx: ctx, end: end, boxes: map[pool.Slot]*box{}, empty: make(chan struct{})}
}

// add notes a boot that is about to start.
func (r *registry) add(slot pool.Slot, id string, now time.Time) *box {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := &box{slot: slot, id: id, state: pool.Booting, since: now}
	r.boxes[slot] = b
	r.last = max(r.last, slot)
	return b
}

// booted notes what a boot brought, from the goroutine that booted, so that it is never lost. A boot that failed leaves
// nothing.
func (r *registry) booted(b *box, sb runtime.Sandbox, before runtime.Usage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if sb == nil {
		r.drop(b.slot)
		return
	}
	b.sandbox, b.before = sb, before
}

// gone notes that nothing is left of a sandbox.
func (r *registry) gone(slot pool.Slot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(slot)
}

func (r *registry) drop(slot pool.Slot) {
	delete(r.boxes, slot)
	r.settle()
}

// settle tells those who wait for the end that it has come; mu is held.
func (r *registry) settle() {
	if !r.draining || len(r.boxes) > 0 {
		return
	}
	select {
	case <-r.empty:
	default:
		close(r.empty)
	}
}

// drain begins the end: no boot starts or goes on any more.
func (r *registry) drain() {
	r.end()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.draining = true
	r.settle()
}

func (r *registry) isDraining() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.draining
}

// box is one box as it is now.
func (r *registry) box(slot pool.Slot) (b box, ok bool) {
	r.update(slot, func(now *box) { b, ok = *now, true })
	return b, ok
}

func (r *registry) update(slot pool.Slot, change func(*box)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b := r.boxes[slot]; b != nil {
		change(b)
	}
}

// enqueue notes a call that asks for a sandbox. It is false for one that asks again.
func (r *registry) enqueue(w waiting) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.ContainsFunc(r.waiters, func(o waiting) bool { return o.key == w.key }) {
		return false
	}
	r.waiters = append(r.waiters, w)
	return true
}

// dequeue takes a call out of those that wait.
func (r *registry) dequeue(key pool.Waiter) (waiting, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.waiters, func(w waiting) bool { return w.key == key })
	if i < 0 {
		return waiting{}, false
	}
	w := r.waiters[i]
	r.waiters = slices.Delete(r.waiters, i, i+1)
	return w, true
}

// lease notes that the slot was handed to the call, and returns what the call needs of it.
func (r *registry) lease(slot pool.Slot, w waiting) *box {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.boxes[slot]
	if b != nil {
		b.state, b.holder = pool.Leased, w
	}
	return b
}

// unlease takes a leased sandbox from its holder, who gets another one.
func (r *registry) unlease(slot pool.Slot) (waiting, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.boxes[slot]
	if b == nil || b.state != pool.Leased {
		return waiting{}, false
	}
	w := b.holder
	b.holder = waiting{}
	return w, true
}

// release marks what a call holds as no longer needed.
func (r *registry) release(slot pool.Slot, running bool) {
	r.update(slot, func(b *box) {
		if b.state == pool.Leased {
			b.released, b.running = true, running
		}
	})
}

// heldBy finds the sandbox that a call holds; zero when it holds none.
func (r *registry) heldBy(key pool.Waiter) pool.Slot {
	r.mu.Lock()
	defer r.mu.Unlock()
	for slot, b := range r.boxes {
		if b.state == pool.Leased && b.holder.key == key {
			return slot
		}
	}
	return 0
}

// orphan marks every leased sandbox as released and forgets who waits: their sessions are gone.
func (r *registry) orphan() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.boxes {
		if b.state == pool.Leased {
			b.released, b.running = true, true
		}
	}
	r.waiters = nil
}

// disown is orphan for the calls that have no session any more.
func (r *registry) disown(sessions map[pool.Waiter]address) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.boxes {
		if b.state == pool.Leased && sessions[b.holder.key] == nil {
			b.released, b.running = true, true
		}
	}
	r.waiters = slices.DeleteFunc(r.waiters, func(w waiting) bool { return sessions[w.key] == nil })
}

// all is every box as it is now, in no order.
func (r *registry) all() []box {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]box, 0, len(r.boxes))
	for _, b := range r.boxes {
		all = append(all, *b)
	}
	return all
}

// actor is who is told of boxes now.
func (r *registry) actor() address {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.owner
}

// memory makes owner the one who is told, and returns what a new policy goes on from: what happened before is in the
// registry, of what happens from now on the owner is told. It decides first what became of those whose actor was lost on the way: a boot
// that has ended is ready, what died or was released is to be destroyed.
func (r *registry) memory(owner address) (m pool.Memory, destroy []pool.Slot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.owner = owner
	m.Last, m.Resized, m.Counts = r.last, r.resized, r.stats.Counts
	for slot, b := range r.boxes {
		if b.state == pool.Booting && b.sandbox != nil {
			b.state, b.since = pool.Ready, time.Now()
		}
		if b.state == pool.Ready && isClosed(b.sandbox.Done()) || b.state == pool.Leased && b.released {
			b.state = pool.Destroying
		}
		if b.state == pool.Destroying {
			destroy = append(destroy, slot)
		}
		m.Slots = append(m.Slots, pool.KeptSlot{Slot: slot, State: b.state, Since: b.since, Holder: kept(b.holder)})
	}
	for _, w := range r.waiters {
		m.Waiters = append(m.Waiters, kept(w))
	}
	return m, destroy
}

func kept(w waiting) pool.KeptWaiter {
	return pool.KeptWaiter{Waiter: w.key, Arrived: w.since, How: w.how}
}

func (r *registry) publish(st pool.Stats) {
	r.mu.Lock()
	r.stats = st
	r.mu.Unlock()
}

func (r *registry) snapshot() pool.Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stats
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// resize remembers a Resize for the policies to come.
func (r *registry) resize(size int) {
	r.mu.Lock()
	r.resized = &size
	r.mu.Unlock()
}
