package actors

import (
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// crewIdle is how many goroutines a crew keeps for the next work while there is none.
const crewIdle = 64

// crew runs work on goroutines that it keeps: a new one begins with a small stack, and growing it anew for each message of
// each call takes a sixth of the CPU time of a call that does nothing.
type crew struct {
	work chan func()
	quit chan struct{}
	idle atomic.Int32
}

var _ actor.Dispatcher = (*crew)(nil)

func newCrew() *crew { return &crew{work: make(chan func()), quit: make(chan struct{})} }

// Go runs f on a goroutine of its own. Who needs to know when it has ended counts it.
func (c *crew) Go(f func()) {
	select {
	case c.work <- f:
	default:
		go c.serve(f)
	}
}

// Schedule implements actor.Dispatcher: protoactor's own starts a goroutine for each message that meets an idle actor.
func (c *crew) Schedule(f func()) { c.Go(f) }

// Throughput implements actor.Dispatcher: how many messages an actor handles before others get a turn; protoactor's default.
func (c *crew) Throughput() int { return 300 }

func (c *crew) serve(f func()) {
	for {
		f()
		if c.idle.Add(1) > crewIdle {
			c.idle.Add(-1)
			return
		}
		select {
		case f = <-c.work:
			c.idle.Add(-1)
		case <-c.quit:
			return
		}
	}
}

// dismiss ends the goroutines that wait for work, once. Work that still comes is done all the same.
func (c *crew) dismiss() { close(c.quit) }
