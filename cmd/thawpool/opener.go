package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/actors/front"
)

// sandboxes is all that serve and run need of the rooms below: calls, and an end.
type sandboxes interface {
	front.Runner
	// Close destroys every sandbox and lets go of the daemon. It returns when that is done or when ctx ends.
	Close(ctx context.Context) error
}

const (
	// retryLeast is between two attempts to get sandboxes when calls ask for one.
	retryLeast = time.Second
	// retryMost is between two attempts when nobody asks.
	retryMost = 30 * time.Second
)

// opener is a runner whose sandboxes are still being brought up. Calls wait for them, and get the cause when that
// failed; then each call makes it try again, so that mending the host needs no restart.
type opener struct {
	open func(context.Context) (sandboxes, error)
	wait time.Duration // how long a call waits

	end  context.CancelFunc
	gone chan struct{} // closed when the goroutine has ended
	kick chan struct{} // asks for another attempt

	mu      sync.Mutex
	there   sandboxes
	err     error         // of the last attempt; nil before the first has ended
	changed chan struct{} // closed when an attempt has ended, and replaced
}

// newOpener starts to open. Close must be called.
func newOpener(ctx context.Context, wait time.Duration, open func(context.Context) (sandboxes, error)) *opener {
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	o := &opener{open: open, wait: wait, end: end,
		gone: make(chan struct{}), kick: make(chan struct{}, 1), changed: make(chan struct{})}
	go o.keepTrying(ctx)
	return o
}

func (o *opener) keepTrying(ctx context.Context) {
	defer close(o.gone)
	for {
		there, err := o.open(ctx)
		o.mu.Lock()
		o.there, o.err = there, err
		close(o.changed)
		o.changed = make(chan struct{})
		o.mu.Unlock()
		if err == nil {
			return
		}
		if !pause(ctx, retryLeast, nil) || !pause(ctx, retryMost-retryLeast, o.kick) {
			return
		}
	}
}

// pause waits for d or until kicked; it is false when ctx has ended.
func pause(ctx context.Context, d time.Duration, kick <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-kick:
	case <-ctx.Done():
		return false
	}
	return true
}

// Run implements front.Runner.
func (o *opener) Run(ctx context.Context, req actors.Request) actors.Result {
	t := time.NewTimer(o.wait)
	defer t.Stop()
	for asked := false; ; {
		o.mu.Lock()
		there, err, changed := o.there, o.err, o.changed
		o.mu.Unlock()
		if there != nil {
			return there.Run(ctx, req)
		}
		if err != nil && asked {
			return unavailable(req, err)
		}
		if err != nil {
			asked = true
			select {
			case o.kick <- struct{}{}:
			default:
			}
		}
		select {
		case <-changed:
		case <-t.C:
			if err == nil {
				err = fmt.Errorf("sandboxes are still being brought up after %v (queue-wait); call again soon", o.wait)
			}
			return unavailable(req, err)
		case <-ctx.Done():
			return ended(ctx, req)
		}
	}
}

// Close stops opening, or closes what was opened.
func (o *opener) Close(ctx context.Context) error {
	o.end()
	select {
	case <-o.gone:
	case <-ctx.Done():
		return ctx.Err()
	}
	o.mu.Lock()
	there := o.there
	o.mu.Unlock()
	if there == nil {
		return nil
	}
	return there.Close(ctx)
}

// unavailable is the answer to a call for which there is no sandbox.
func unavailable(req actors.Request, err error) actors.Result {
	return actors.Result{Status: actors.StatusRejected, Error: &actors.RunError{Type: "Unavailable", Message: err.Error()},
		Receipt: actors.Receipt{RequestID: req.ID, QueueMS: sinceMS(req.Queued)}}
}

// ended is the answer to a call whose context ended before there was a sandbox.
func ended(ctx context.Context, req actors.Request) actors.Result {
	res := unavailable(req, context.Cause(ctx))
	res.Error.Type = "Cancelled"
	if errors.Is(context.Cause(ctx), front.ErrCancelled) {
		res.Status = actors.StatusCancelled
	}
	return res
}

func sinceMS(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(time.Since(t).Microseconds()) / 1000
}
