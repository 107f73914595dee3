package shim

import (
	"context"

	"github.com/containerd/containerd/v2/core/runtime"
	"github.com/containerd/containerd/v2/pkg/shim"
	"github.com/containerd/containerd/v2/pkg/shutdown"
	"github.com/containerd/log"
)

// outbox publishes events one after another in the order they were sent.
type outbox struct {
	queue chan any
	done  <-chan struct{}
	log   *log.Entry
}

func newOutbox(ctx context.Context, pub shim.Publisher, sd shutdown.Service) *outbox {
	o := &outbox{queue: make(chan any, 256), done: sd.Done(), log: log.G(ctx)}
	ctx = context.WithoutCancel(ctx)
	go func() {
		defer pub.Close()
		for {
			select {
			case e := <-o.queue:
				if err := pub.Publish(ctx, runtime.GetTopic(e), e); err != nil {
					o.log.WithError(err).Warn("event not published")
				}
			case <-o.done:
				return
			}
		}
	}()
	return o
}

// send blocks while the queue is full, for an event that is dropped would break their order.
func (o *outbox) send(e any) {
	select {
	case o.queue <- e:
	case <-o.done:
	}
}
