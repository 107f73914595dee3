package actors

import (
	"errors"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// How actors are restarted: at once after the first failure, then with growing delays. restartWindow is how long a failure
// counts. A pool is tried for ever, as its state may heal; the supervisor, which has next to none, is given up after
// supervisorFailures, and the whole System with it.
const (
	restartFirst       = 100 * time.Millisecond
	restartCap         = 5 * time.Second
	restartWindow      = time.Minute
	supervisorFailures = 10
)

var errGone = errors.New("the supervisor has failed too often and was stopped; restart thawpool")

// restarts decides about the failures of one actor. protoactor's own back-off grows without a cap and its other strategies
// have no delay.
type restarts struct {
	mu   sync.Mutex // guards times
	fail []time.Time
}

// next notes a failure and tells how long to wait before the restart, and how many there were of late.
func (r *restarts) next(now time.Time) (delay time.Duration, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := r.fail[:0]
	for _, t := range r.fail {
		if now.Sub(t) < restartWindow {
			kept = append(kept, t)
		}
	}
	r.fail = append(kept, now)
	n = len(r.fail)
	if n == 1 {
		return 0, n
	}
	return min(restartFirst<<min(n-2, 10), restartCap), n
}

// restartAfter restarts a child after the delay. The child is suspended meanwhile: what is sent to it waits.
func restartAfter(d time.Duration, s actor.Supervisor, child address) {
	if d <= 0 {
		s.RestartChildren(child)
		return
	}
	time.AfterFunc(d, func() { s.RestartChildren(child) }) // only sends a system message, which any goroutine may
}

// guardian is the strategy for the supervisor itself, which has no parent.
type guardian struct {
	restarts restarts
	failed   func(reason any, stopping bool)
}

// HandleFailure implements actor.SupervisorStrategy. It must never escalate: above a guardian there is nothing, and
// protoactor panics.
func (g *guardian) HandleFailure(_ *actor.ActorSystem, s actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	delay, n := g.restarts.next(time.Now())
	g.failed(reason, n > supervisorFailures)
	if n > supervisorFailures {
		s.StopChildren(child)
		return
	}
	restartAfter(delay, s, child)
}

// watcher is a root actor that tells when another root actor has ended, by whatever way: protoactor stops a root that
// fails too often without a word.
type watcher struct {
	who   address
	ended func()
}

func (w *watcher) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		c.Watch(w.who)
	case *actor.Terminated:
		if m.Who.Id == w.who.Id {
			w.ended()
		}
	}
}
