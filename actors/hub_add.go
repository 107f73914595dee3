package actors

import (
	"context"
	"fmt"

	"github.com/thawpool/thawpool/actors/catalog"
	"github.com/thawpool/thawpool/actors/catalog/config"
	"github.com/thawpool/thawpool/runtime/guest"
)

// Finder knows servers that are not configured and could be added. It is safe for concurrent use.
type Finder interface {
	// Find lists what fits the words, best first, at most limit.
	Find(ctx context.Context, words string, limit int) ([]catalog.Found, error)
	// Definition makes the definition of the server that Find called name.
	Definition(ctx context.Context, name string) (config.Server, error)
	// Persist keeps a definition for later processes.
	Persist(ctx context.Context, def config.Server) error
}

// maxFind bounds the servers that one search gives.
const maxFind = 50

func findServers(ctx context.Context, r *hubRun, a struct {
	Query string `json:"query"`
	Limit *int   `json:"limit"`
}) (any, error) {
	limit := 10
	if a.Limit != nil {
		limit = *a.Limit
	}
	if limit < 1 || limit > maxFind || len(a.Query) > maxQuery {
		return nil, &guest.CallError{Type: guest.ErrValue, Message: fmt.Sprintf(
			"limit must be from 1 to %d, and query at most %d bytes long", maxFind, maxQuery)}
	}
	return r.hub.Find(ctx, a.Query, limit)
}

// Find lists servers that could be added.
func (h *Hub) Find(ctx context.Context, words string, limit int) ([]catalog.Found, error) {
	if h.cfg.Finder == nil {
		return []catalog.Found{}, nil
	}
	found, err := h.cfg.Finder.Find(ctx, words, limit)
	if err != nil {
		return nil, err
	}
	snap := h.catalog.Snapshot()
	for i := range found {
		_, err := snap.Resolve(found[i].Name)
		found[i].Installed = err == nil
	}
	return found, nil
}

func addServer(ctx context.Context, r *hubRun, a struct {
	Name    string `json:"name"`
	Persist bool   `json:"persist"`
}) (any, error) {
	added, err := r.hub.Add(ctx, a.Name, a.Persist)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.snap = r.snap.Including(r.hub.catalog.Snapshot(), added.Name)
	return struct {
		Name  string `json:"name"`
		Alias string `json:"alias"`
	}{added.Name, added.Alias}, nil
}

// Add makes one of the servers that Find tells callable until the process ends, or with persist for later ones too. Policy
// must allow it by name.
func (h *Hub) Add(ctx context.Context, name string, persist bool) (guest.Server, error) {
	if err := h.cfg.Policy.Add(name); err != nil {
		return guest.Server{}, &guest.CallError{Type: guest.ErrDenied, Message: err.Error()}
	}
	if h.cfg.Finder == nil {
		return guest.Server{}, &guest.CallError{Type: guest.ErrUnknownServer, Message: "there is no catalog to add servers from"}
	}
	def, err := h.cfg.Finder.Definition(ctx, name)
	if err != nil {
		return guest.Server{}, callError(err)
	}
	// What comes from a catalog could carry a name of its own: the one that policy allowed counts.
	if err := h.cfg.Policy.Add(def.Name); err != nil {
		return guest.Server{}, &guest.CallError{Type: guest.ErrDenied, Message: err.Error()}
	}
	if err := h.catalog.Add(def); err != nil {
		return guest.Server{}, &guest.CallError{Type: guest.ErrValue, Message: err.Error()}
	}
	h.log.Info().Str(keyServer, def.Name).Bool("persist", persist).Str(keyEvent, "server added").Send()
	if persist {
		if err := h.cfg.Finder.Persist(ctx, def); err != nil {
			return guest.Server{}, fmt.Errorf("server %q was added for this process only: %w", def.Name, err)
		}
	}
	return h.catalog.Snapshot().Guest(def.Name), nil
}
