package actors

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/thawpool/thawpool/actors/catalog"
	"github.com/thawpool/thawpool/actors/catalog/config"
	"github.com/thawpool/thawpool/actors/catalog/text"
	"github.com/thawpool/thawpool/runtime/guest"
)

// How long searches wait for servers whose tools were never read: the first search for all of them, so that it finds what
// fits best; a later one only when it would find nothing, so that one server that hangs does not slow every search.
const (
	searchPatience = 15 * time.Second
	searchMore     = 10 * time.Second
)

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

// search finds tools. Servers whose tools were never read are read for it, as many as can be in a while; that it finds
// nothing is an error as long as some of them are missing.
func (r *hubRun) search(ctx context.Context, words string, limit int, detail catalog.Detail) (docs []catalog.ToolDoc, err error) {
	unknown := r.unknown()
	reads := r.hub.readAllSoon(unknown)
	if r.hub.firstAsked(unknown) {
		reads = await(ctx, reads, r.hub.patience)
	}
	for again := false; ; again = true {
		docs, err = r.learn(unknown).Search(words, limit, detail, r.hub.show)
		if err != nil || len(docs) > 0 {
			return docs, err
		}
		if len(reads) == 0 || again {
			break
		}
		reads = await(ctx, reads, r.hub.more)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	missing := r.unknown()
	if len(missing) == 0 {
		return docs, nil
	}
	fault := &guest.CallError{Message: "nothing was found, but the tools of some servers are not known: " + r.hub.causes(missing)}
	if len(reads) > 0 {
		fault.Type = guest.ErrTimeout
		fault.Message += "; search again in a moment"
	}
	return nil, fault
}

// maxCauses bounds the servers that one error names, and maxCause what it says of each, in bytes.
const (
	maxCauses = 10
	maxCause  = 300
)

// causes says of each server why its tools are not known.
func (h *Hub) causes(defs []config.Server) string {
	var words []string
	for _, def := range defs[:min(len(defs), maxCauses)] {
		cause := "it is still starting"
		if st, ok := h.status(def); ok && st.Error != "" {
			cause = text.Line(st.Error, maxCause)
		}
		words = append(words, fmt.Sprintf("%q: %s", def.Name, cause))
	}
	if more := len(defs) - maxCauses; more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(words, "; ")
}

// firstAsked tells whether a search has not waited for one of these before.
func (h *Hub) firstAsked(defs []config.Server) (first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range defs {
		first = first || !h.asked[keyOf(d)]
		h.asked[keyOf(d)] = true
	}
	return first
}

// unknown lists the servers of the run whose tools are not known.
func (r *hubRun) unknown() (defs []config.Server) {
	snap := r.snapshot()
	for _, def := range snap.Definitions() {
		if def.Off == "" && !snap.Known(def.Name) {
			defs = append(defs, def)
		}
	}
	return defs
}

// await waits for all of these, but not longer than patience, and returns those that have not come.
func await(ctx context.Context, all []<-chan struct{}, patience time.Duration) []<-chan struct{} {
	late := time.NewTimer(patience)
	defer late.Stop()
	for len(all) > 0 {
		select {
		case <-all[0]:
			all = all[1:]
			continue
		case <-late.C:
		case <-ctx.Done():
		}
		break
	}
	return slices.DeleteFunc(all, func(c <-chan struct{}) bool { return isClosed(c) })
}

// learn takes what has become known of servers into the run's catalog.
func (r *hubRun) learn(defs []config.Server) *catalog.Snapshot {
	latest := r.hub.catalog.Snapshot()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, def := range defs {
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
