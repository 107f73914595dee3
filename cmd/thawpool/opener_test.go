package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/actors/front"
)

// brought is sandboxes that answer at once.
type brought struct{ closed bool }

func (b *brought) Run(context.Context, actors.Request) actors.Result {
	return actors.Result{Status: actors.StatusSuccess}
}
func (b *brought) Close(context.Context) error { b.closed = true; return nil }

// Calls wait while sandboxes are brought up, and no longer than they may.
func TestOpenerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &brought{}
		o := newOpener(t.Context(), 10*time.Second, func(ctx context.Context) (sandboxes, error) {
			time.Sleep(15 * time.Second) // the bubble's clock
			return b, ctx.Err()
		})
		res := o.Run(t.Context(), actors.Request{ID: "1"})
		if res.Status != actors.StatusRejected || !strings.Contains(res.Error.Message, "still being brought up after 10s") {
			t.Errorf("%+v", res)
		}
		if res := o.Run(t.Context(), actors.Request{ID: "2"}); res.Status != actors.StatusSuccess {
			t.Errorf("%+v", res)
		}
		if err := o.Close(t.Context()); err != nil || !b.closed {
			t.Errorf("closed %v, %v", b.closed, err)
		}
	})
}

// A call gets the cause of a failure, of a new attempt if the last one was a while ago, and a mended host needs no restart.
func TestOpenerTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		attempts, broken := 0, true
		o := newOpener(t.Context(), 10*time.Second, func(context.Context) (sandboxes, error) {
			mu.Lock()
			defer mu.Unlock()
			attempts++
			if broken {
				return nil, errors.New("no subuids (to mend it: thawpool setup)")
			}
			return &brought{}, nil
		})
		defer func() { _ = o.Close(t.Context()) }()
		ask := func() actors.Result { return o.Run(t.Context(), actors.Request{}) }
		if res := ask(); res.Status != actors.StatusRejected || !strings.Contains(res.Error.Message, "thawpool setup") {
			t.Errorf("%+v", res)
		}
		time.Sleep(5 * time.Second)
		mu.Lock()
		before := attempts
		broken = false
		mu.Unlock()
		if res := ask(); res.Status != actors.StatusSuccess {
			t.Errorf("after mending: %+v", res)
		}
		mu.Lock()
		defer mu.Unlock()
		if attempts != before+1 || before > 3 {
			t.Errorf("%d attempts before, %d after", before, attempts)
		}
	})
}

// Nobody asking, it tries now and then.
func TestOpenerTriesByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		o := newOpener(t.Context(), time.Second, func(context.Context) (sandboxes, error) {
			attempts++
			return nil, errors.New("broken")
		})
		time.Sleep(10*time.Minute + time.Second)
		if err := o.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if attempts != 21 {
			t.Errorf("%d attempts in ten minutes", attempts)
		}
	})
}

// A cancelled call does not wait, and closing ends an attempt that is under way.
func TestOpenerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOpener(t.Context(), time.Hour, func(ctx context.Context) (sandboxes, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(front.ErrCancelled) })
		if res := o.Run(ctx, actors.Request{}); res.Status != actors.StatusCancelled {
			t.Errorf("%+v", res)
		}
		if err := o.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
