package actors

import (
	"context"
	"time"

	"github.com/thawpool/thawpool/actors/catalog"
	"github.com/thawpool/thawpool/actors/catalog/config"
)

// searchPatience is how long a search waits for servers whose tools were never read. Those that take longer are found by
// a later search.
const searchPatience = 4 * time.Second

// know returns a catalog that knows the tools of a server. What is known already is used as it is, and read again in the
// background if that was another process's knowledge; else the server is connected to.
func (r *hubRun) know(ctx context.Context, def config.Server) (*catalog.Snapshot, error) {
	if snap := r.snapshot(); snap.Known(def.Name) {
		if !r.hub.areFresh([]config.Server{def})[def.Name] {
			r.hub.readSoon(def)
		}
		return snap, nil
	}
	l, err := r.hub.borrow(ctx, def, true)
	if err != nil {
		return r.snapshot(), callError(err)
	}
	l.release()
	return r.renew(def), nil
}

// knowAll returns a catalog that knows the tools of as many servers of the run as could be read in a short while.
func (r *hubRun) knowAll(ctx context.Context) *catalog.Snapshot {
	snap := r.snapshot()
	var unknown []config.Server
	for _, def := range snap.Definitions() {
		if def.Off == "" && !snap.Known(def.Name) {
			unknown = append(unknown, def)
		}
	}
	if len(unknown) == 0 {
		return snap
	}
	patience := time.NewTimer(searchPatience)
	defer patience.Stop()
	for _, done := range r.hub.readAllSoon(unknown) {
		select {
		case <-done:
			continue
		case <-patience.C:
		case <-ctx.Done():
		}
		break
	}
	latest := r.hub.catalog.Snapshot()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, def := range unknown {
		r.snap = r.snap.With(latest, def.Name)
	}
	return r.snap
}

func (h *Hub) readAllSoon(defs []config.Server) []<-chan struct{} {
	var all []<-chan struct{}
	for _, def := range defs {
		if done := h.readSoon(def); done != nil {
			all = append(all, done)
		}
	}
	return all
}

// readSoon has the tools of a server read in the background, a few servers at a time. The channel closes when it is done;
// it is nil when thawpool is ending.
func (h *Hub) readSoon(def config.Server) <-chan struct{} {
	key := keyOf(def)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing {
		return nil
	}
	if done := h.reads[key]; done != nil {
		return done
	}
	done := make(chan struct{})
	h.reads[key] = done
	h.tasks.Go(func() {
		defer func() {
			h.mu.Lock()
			delete(h.reads, key)
			h.mu.Unlock()
			close(done)
		}()
		if h.reading.Acquire(h.life, 1) != nil {
			return
		}
		defer h.reading.Release(1)
		if l, err := h.borrow(h.life, def, true); err == nil { // an error stands in the server's status
			l.release()
		}
	})
	return done
}
