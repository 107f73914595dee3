package actors

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Close ends every connection, the watching of files and the catalog. Servers get a moment to leave by themselves; when
// ctx ends they are killed. It returns when nothing is left, or with what is.
func (h *Hub) Close(ctx context.Context) error {
	h.mu.Lock()
	if h.closing {
		h.mu.Unlock()
		return nil
	}
	h.closing = true
	refs := slices.Collect(maps.Values(h.clients))
	h.mu.Unlock()
	h.end()
	h.follow()
	for _, ref := range refs {
		ref.tell(h.out, stopClient{})
	}
	err := h.awaitEnd(ctx, refs)
	h.guard.Close()
	return errors.Join(err, h.catalog.Close())
}

func (h *Hub) awaitEnd(ctx context.Context, refs []*clientRef) error {
	gone := make(chan struct{})
	h.tasks.Go(func() {
		for _, ref := range refs {
			<-ref.srv.ended
		}
	})
	go func() { h.tasks.Wait(); close(gone) }()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
	}
	for _, ref := range refs {
		ref.srv.kill()
	}
	last := time.NewTimer(serverKillWait)
	defer last.Stop()
	select {
	case <-gone:
		return nil
	case <-last.C:
		return fmt.Errorf("upstream servers did not end in time: %w", context.Cause(ctx))
	}
}

// serverKillWait is how long Close waits for what it has killed.
const serverKillWait = 3 * time.Second
