package actors

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
)

// address is an actor as others know it. It stays the same when the actor is restarted.
type address = *actor.PID

// outside is where work beside the actors is done: every goroutine of this package but those inside a conversation is
// started here, and Close waits for them.
type outside struct {
	root *actor.RootContext
	wg   *sync.WaitGroup
	crew *crew // keeps the goroutines; nil makes a new one each time
}

// run does f on a goroutine of its own, which wg counts.
func (o outside) run(wg *sync.WaitGroup, f func()) {
	if o.crew == nil {
		wg.Go(f)
		return
	}
	wg.Add(1)
	o.crew.Go(func() {
		defer wg.Done()
		f()
	})
}

// pipe does work that may block on its own goroutine and sends its one result to the actor; nil sends nothing, for work
// whose end is no news. A panic becomes the message that failed makes of it.
func (o outside) pipe(ctx context.Context, to address, work func(context.Context) any, failed func(error) any) {
	o.pipeTo(ctx, func() address { return to }, work, failed)
}

// pipeTo is pipe for work that may outlive its actor: whom the result is for is asked when it is there.
func (o outside) pipeTo(ctx context.Context, to func() address, work func(context.Context) any, failed func(error) any) {
	o.run(o.wg, func() {
		if m := shielded(ctx, work, failed); m != nil {
			o.root.Send(to(), m)
		}
	})
}

func shielded(ctx context.Context, work func(context.Context) any, failed func(error) any) (m any) {
	defer func() {
		if r := recover(); r != nil {
			m = failed(bug(r))
		}
	}()
	return work(ctx)
}

// bug is the error that a panic is to those who have to answer for it. It must be called where the panic was recovered, for
// the stack.
func bug(r any) error {
	if b, ok := r.(*bugError); ok {
		return b
	}
	return &bugError{reason: r, stack: debug.Stack()}
}

type bugError struct {
	reason any
	stack  []byte // for the log; not part of the text
}

func (e *bugError) Error() string { return fmt.Sprintf("internal error: %v", e.reason) }

// keepStack makes a panic carry its stack to whoever supervises the actor. It is deferred in a Receive.
func keepStack() {
	if r := recover(); r != nil {
		panic(bug(r))
	}
}

// slowReceive is how long a Receive may take before it is told: nothing in one should wait.
const slowReceive = 20 * time.Millisecond

// received is keepStack that is deferred with the time the Receive began, and also tells of one that took too long.
func received(log *zerolog.Logger, m any, began time.Time) {
	if took := time.Since(began); took > slowReceive {
		log.Warn().Str(keyEvent, "slow message").Type("message", m).Float64(keyTookMS, ms(took)).Send()
	}
	if r := recover(); r != nil {
		panic(bug(r))
	}
}

// logBug writes a failure that only a mistake in the program can cause, with the stack that tells where.
func logBug(l zerolog.Logger, err error) {
	e := l.Error().Str(keyEvent, "bug").Err(err)
	var b *bugError
	if errors.As(err, &b) {
		e = e.Bytes("stack", b.stack)
	}
	e.Send()
}

// late is embedded in every message. News that comes after its receiver has gone is part of how calls end, so it is no
// reason for protoactor to log (and to keep a goroutine for the log's throttle).
type late struct{}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging.
func (late) IgnoreDeadLetterLogging() {}
