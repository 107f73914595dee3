package actors

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/thawpool/thawpool/pool"
)

// remove destroys a sandbox as soon as there is room for it among those being destroyed: at once when code may still run in
// it.
func (a *poolActor) remove(slot pool.Slot) {
	b, ok := a.profile.reg.box(slot)
	if !ok || b.sandbox == nil {
		return
	}
	urgent := b.running || a.profile.reg.isDraining()
	if a.removing >= destroyAtOnce && !urgent {
		a.queue = append(a.queue, slot)
		return
	}
	a.removing++
	gen, reg, sb, request := a.gen, a.profile.reg, b.sandbox, b.holder.request
	a.out.pipeTo(context.Background(), reg.actor, func(ctx context.Context) any {
		start := time.Now()
		ctx, end := context.WithTimeout(ctx, destroyMax)
		defer end()
		err := sb.Destroy(ctx)
		if err == nil {
			reg.gone(slot)
		}
		return destroyed{slot: slot, gen: gen, request: request, took: time.Since(start), err: err}
	}, func(err error) any { return destroyed{slot: slot, gen: gen, request: request, err: err} })
}

func (a *poolActor) onDestroyed(m destroyed) {
	if m.gen == a.gen {
		a.removing--
	}
	observed(a.profile.obs, SandboxDestroyed{Profile: a.profile.name, Sandbox: a.profile.id(m.slot), Took: m.took, Err: m.err})
	if m.err == nil {
		a.line(zerolog.DebugLevel, m).Float64(keyTookMS, ms(m.took)).Send()
		a.apply(pool.Destroyed{Slot: m.slot})
	} else if m.gen == a.gen { // an earlier incarnation's attempt was begun anew by this one
		a.retry(m)
	}
	for len(a.queue) > 0 && a.removing < destroyAtOnce {
		slot := a.queue[0]
		a.queue = a.queue[1:]
		a.remove(slot)
	}
}

// retry tries again later, for ever: until it is gone the sandbox counts towards the pool's Max.
func (a *poolActor) retry(m destroyed) {
	n := 0
	a.profile.reg.update(m.slot, func(b *box) { b.attempts++; n = b.attempts })
	delay := min(destroyRetryFirst<<min(n, 10)/2, destroyRetryCap)
	a.line(zerolog.WarnLevel, m).Int("attempt", n).Dur("again_in", delay).Err(m.err).Send()
	root, self, gen, slot := a.out.root, a.self, a.gen, m.slot
	time.AfterFunc(delay, func() { root.Send(self, destroyAgain{slot: slot, gen: gen}) })
}

// line begins a log line about the destroying of a sandbox, with the request that it served.
func (a *poolActor) line(level zerolog.Level, m destroyed) *zerolog.Event {
	e := a.log.WithLevel(level).Str(keyEvent, "destroy").Str(keySandbox, a.profile.id(m.slot))
	if m.request != "" {
		e = e.Str(keyRequest, m.request)
	}
	return e
}
