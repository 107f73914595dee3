package shim

import (
	"context"
	"sync"

	"github.com/containerd/containerd/v2/core/runtime"
	"github.com/containerd/containerd/v2/pkg/shim"
	"github.com/containerd/containerd/v2/pkg/shutdown"
	"github.com/containerd/log"
)

// outbox publishes events one after another in the order they were sent. What was sent before the shim shuts down is
// published before it ends.
type outbox struct {
	queue   chan any
	stop    chan struct{} // closed by the first drain
	once    sync.Once     // closes stop
	drained chan struct{} // closed when nothing more is published
	log     *log.Entry
}

func newOutbox(ctx context.Context, pub shim.Publisher, sd shutdown.Service) *outbox {
	o := &outbox{queue: make(chan any, 256), stop: make(chan struct{}), drained: make(chan struct{}), log: log.G(ctx)}
	sd.RegisterCallback(o.drain)
	go o.publish(context.WithoutCancel(ctx), pub)
	return o
}

// drain publishes what was sent so far, and ends the outbox.
func (o *outbox) drain(ctx context.Context) error {
	o.once.Do(func() { close(o.stop) })
	select {
	case <-o.drained:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (o *outbox) publish(ctx context.Context, pub shim.Publisher) {
	defer close(o.drained)
	defer pub.Close()
	one := func(e any) {
		if err := pub.Publish(ctx, runtime.GetTopic(e), e); err != nil {
			o.log.WithError(err).Warn("event not published")
		}
	}
	for {
		select {
		case e := <-o.queue:
			one(e)
		case <-o.stop:
			for {
				select {
				case e := <-o.queue:
					one(e)
				default:
					return
				}
			}
		}
	}
}

// send blocks while the queue is full, for an event that is dropped would break their order.
func (o *outbox) send(e any) {
	select {
	case o.queue <- e:
	case <-o.drained:
	}
}
