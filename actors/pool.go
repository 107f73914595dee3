package actors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"github.com/thawpool/thawpool/pool"
	"github.com/thawpool/thawpool/runtime"
)

const (
	// bootMax ends a boot that hangs. A boot takes a fraction of a second; an image unpacked for the first time, minutes.
	bootMax = 2 * time.Minute
	// destroyMax ends one attempt to destroy a sandbox.
	destroyMax = 30 * time.Second
	// destroyAtOnce bounds the destroying of sandboxes in which nothing runs any more, so that it leaves the machine to
	// boots and runs.
	destroyAtOnce = 4
	// destroyRetryFirst and destroyRetryCap bound the time between two attempts, which doubles.
	destroyRetryFirst = 250 * time.Millisecond
	destroyRetryCap   = 10 * time.Second
)

// poolActor carries out what its policy decides, for one profile. All that must not be lost with it is in its registry.
type poolActor struct {
	profile *profile
	out     outside
	log     zerolog.Logger

	policy *pool.Pool
	gen    uint64 // of this incarnation: news of an earlier one's timers is dropped
	self   address
	timer  *time.Timer

	removing int         // attempts to destroy under way, begun by this incarnation
	queue    []pool.Slot // to be destroyed when there is room
}

// Receive implements actor.Actor.
func (a *poolActor) Receive(c actor.Context) {
	defer received(&a.log, c.Message(), time.Now())
	if a.replaced() {
		return
	}
	switch m := c.Message().(type) {
	case *actor.Started:
		a.start(c)
	case *actor.Restarting, *actor.Stopping:
		a.stopTimer()
	case lease:
		a.onLease(m)
	case forgo:
		a.onForgo(m)
	case handFailed:
		a.onHandFailed(m)
	case release:
		a.apply(pool.Released{Slot: m.slot}) // the registry knows already
	case bootEnded:
		a.onBootEnded(m)
	case died:
		a.onDied(m)
	case destroyed:
		a.onDestroyed(m)
	case destroyAgain:
		if m.gen == a.gen {
			a.remove(m.slot)
		}
	case pulse:
		a.profile.heart.beat()
	case tick:
		if m.gen == a.gen {
			a.apply(pool.Tick{})
		}
	case resize:
		a.apply(pool.Resize{Size: m.size})
	case drain:
		a.apply(pool.Drain{})
	}
}

// start goes on from what the registry knows: nothing at first, and after a failure all that is really there.
func (a *poolActor) start(c actor.Context) {
	a.self = c.Self()
	a.gen = a.profile.incarnations.Add(1)
	a.profile.heart.alive()
	m, destroy := a.profile.reg.memory(a.self)
	policy, err := pool.Restore(a.profile.cfg, m)
	if err != nil {
		panic(err) // cannot be: Start has validated the configuration
	}
	a.policy = policy
	for _, slot := range destroy {
		a.remove(slot)
	}
	for _, b := range a.profile.reg.all() {
		if b.state == pool.Ready {
			a.watch(b)
		}
	}
	if a.gen > 1 {
		a.log.Warn().Str(keyEvent, "pool restarted").Int("sandboxes", len(m.Slots)).Int("waiting", len(m.Waiters)).Send()
	}
	if a.profile.reg.isDraining() {
		a.apply(pool.Drain{})
		return
	}
	a.apply(pool.Tick{})
}

// replaced tells that this incarnation hung, and that another one has taken over: nothing that it did not do yet is its to do.
func (a *poolActor) replaced() bool {
	return a.gen != 0 && a.gen != a.profile.incarnations.Load()
}

// apply tells the policy an event and does what it decides, and what follows from that.
func (a *poolActor) apply(ev pool.Event) {
	for next := []pool.Event{ev}; len(next) > 0; next = next[1:] {
		for _, act := range a.policy.Handle(time.Now(), next[0]) {
			if a.replaced() {
				return
			}
			if more := a.do(act); more != nil {
				next = append(next, more)
			}
		}
	}
	a.profile.reg.publish(a.policy.Stats())
}

func (a *poolActor) do(act pool.Action) pool.Event {
	switch act := act.(type) {
	case pool.Boot:
		a.boot(act.Slot)
	case pool.Hand:
		return a.hand(act)
	case pool.Reject:
		if w, ok := a.profile.reg.dequeue(act.Waiter); ok {
			a.out.root.Send(w.to, refused{why: act})
		}
	case pool.Destroy:
		a.profile.reg.update(act.Slot, func(b *box) { b.state = pool.Destroying })
		a.remove(act.Slot)
	case pool.Timer:
		a.stopTimer()
		root, self, gen := a.out.root, a.self, a.gen
		a.timer = time.AfterFunc(time.Until(act.At), func() { root.Send(self, tick{gen: gen}) })
	}
	return nil
}

func (a *poolActor) stopTimer() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

// onLease takes a call in. Should that fail, the call must not wait for ever in the registry, where each new incarnation
// would meet it again.
func (a *poolActor) onLease(m lease) {
	defer func() {
		if r := recover(); r != nil {
			a.profile.reg.dequeue(m.key)
			a.out.root.Send(m.to, refused{why: pool.Reject{Waiter: m.key, Cause: bug(r)}})
			panic(r)
		}
	}()
	if a.gen > 1 {
		if slot := a.profile.reg.heldBy(m.key); slot != 0 { // it asks again, so it never got it, or it was dead
			a.apply(a.unhand(slot, runtime.ErrLost))
			return
		}
	}
	if a.profile.reg.enqueue(waiting{key: m.key, request: m.request, since: time.Now(), to: m.to}) {
		a.apply(pool.LeaseWanted{Waiter: m.key})
	}
}

func (a *poolActor) onForgo(m forgo) {
	if _, ok := a.profile.reg.dequeue(m.key); ok {
		a.apply(pool.LeaseCancelled{Waiter: m.key})
		return
	}
	if slot := a.profile.reg.heldBy(m.key); slot != 0 {
		a.profile.reg.release(slot, true)
		a.apply(pool.Released{Slot: slot})
	}
}

// hand gives a sandbox to a call. One that has died meanwhile is no use to it: the policy finds another.
func (a *poolActor) hand(h pool.Hand) pool.Event {
	w, ok := a.profile.reg.dequeue(h.Waiter)
	if !ok {
		a.profile.reg.update(h.Slot, func(b *box) { b.state = pool.Leased })
		return pool.Released{Slot: h.Slot}
	}
	w.how = h.How
	b := a.profile.reg.lease(h.Slot, w)
	dead := isClosed(b.sandbox.Done())
	if a.replaced() {
		return nil
	}
	if dead {
		return a.unhand(h.Slot, runtime.ErrLost)
	}
	a.out.root.Send(w.to, leased{slot: h.Slot, sandbox: b.sandbox, before: b.before, how: h.How})
	return nil
}

func (a *poolActor) onHandFailed(m handFailed) {
	a.apply(a.unhand(m.slot, m.cause))
}

// unhand takes a dead sandbox from its call, which waits again.
func (a *poolActor) unhand(slot pool.Slot, cause error) pool.Event {
	w, ok := a.profile.reg.unlease(slot)
	if !ok {
		return pool.Tick{}
	}
	a.log.Warn().Str(keyEvent, "lost").Str(keySandbox, a.profile.id(slot)).Str(keyRequest, w.request).Err(cause).
		Msg("a ready sandbox was dead at hand-out")
	observed(a.profile.obs, SandboxLost{Profile: a.profile.name, Sandbox: a.profile.id(slot)})
	a.profile.reg.enqueue(w)
	return pool.HandFailed{Slot: slot, Waiter: w.key, Cause: cause}
}

// boot starts a boot. Its context ends when the pool drains, not when this incarnation does: the next one adopts it.
func (a *poolActor) boot(slot pool.Slot) {
	p, b := a.profile, a.profile.reg.add(slot, a.profile.id(slot), time.Now())
	a.out.pipeTo(p.reg.ctx, p.reg.actor, func(ctx context.Context) any {
		start := time.Now()
		sb, before, err := p.boot(ctx, b.id)
		p.reg.booted(b, sb, before)
		took := time.Since(start)
		if err == nil {
			p.times.add(took)
		}
		return bootEnded{slot: slot, took: took, err: err}
	}, func(err error) any {
		p.reg.booted(b, nil, runtime.Usage{})
		return bootEnded{slot: slot, err: err}
	})
}

// boot boots one sandbox and counts what it has used so far, while it is frozen and nobody waits for it.
func (p *profile) boot(ctx context.Context, id string) (runtime.Sandbox, runtime.Usage, error) {
	ctx, end := context.WithTimeout(ctx, bootMax)
	defer end()
	sb, err := p.rt.Boot(ctx, id)
	if err != nil {
		if ctx.Err() != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			err = fmt.Errorf("boot took longer than %s: %w", bootMax, err)
		}
		return nil, runtime.Usage{}, err
	}
	before, err := sb.Usage()
	if err != nil {
		before = runtime.Usage{} // then the receipt's CPU time includes the boot's; no reason to throw the sandbox away
	}
	return sb, before, nil
}

func (a *poolActor) onBootEnded(m bootEnded) {
	id := a.profile.id(m.slot)
	if m.err != nil {
		if !a.profile.reg.isDraining() {
			observed(a.profile.obs, SandboxBooted{Profile: a.profile.name, Sandbox: id, Took: m.took, Err: m.err})
			a.log.Warn().Str(keyEvent, "boot").Str(keySandbox, id).Err(m.err).Send()
		}
		final := errors.Is(m.err, runtime.ErrUnsupported) || errors.Is(m.err, runtime.ErrImage)
		a.apply(pool.BootFailed{Slot: m.slot, Cause: m.err, Final: final})
		return
	}
	b, ok := a.profile.reg.box(m.slot)
	if !ok || b.state != pool.Booting {
		return
	}
	a.log.Debug().Str(keyEvent, "boot").Str(keySandbox, id).Float64(keyTookMS, ms(m.took)).Send()
	observed(a.profile.obs, SandboxBooted{Profile: a.profile.name, Sandbox: id, Took: m.took})
	a.profile.reg.update(m.slot, func(b *box) { b.state, b.since = pool.Ready, time.Now() })
	a.watch(b)
	a.apply(pool.BootDone{Slot: m.slot})
}

// watch tells when the sandbox's first process has gone, so that one that dies in the pool is replaced before a call
// meets it. It ends with that process, at the latest when the sandbox is destroyed.
func (a *poolActor) watch(b box) {
	twice := false
	a.profile.reg.update(b.slot, func(b *box) { twice, b.watched = b.watched, true })
	if twice {
		return
	}
	slot, done := b.slot, b.sandbox.Done()
	a.out.pipeTo(context.Background(), a.profile.reg.actor, func(context.Context) any {
		<-done
		return died{slot: slot}
	}, func(error) any { return nil })
}

func (a *poolActor) onDied(m died) {
	if b, ok := a.profile.reg.box(m.slot); ok && b.state == pool.Ready {
		a.log.Warn().Str(keyEvent, "lost").Str(keySandbox, b.id).Msg("a frozen sandbox died")
		observed(a.profile.obs, SandboxLost{Profile: a.profile.name, Sandbox: b.id})
		a.apply(pool.Lost{Slot: m.slot, Cause: runtime.ErrLost})
	}
}
