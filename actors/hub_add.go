package actors

import (
	"context"
	"errors"
	"fmt"

	"github.com/thawpool/thawpool/actors/catalog"
	"github.com/thawpool/thawpool/actors/catalog/config"
	candidates "github.com/thawpool/thawpool/actors/catalog/registry"
	"github.com/thawpool/thawpool/actors/catalog/text"
	"github.com/thawpool/thawpool/runtime/guest"
)

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

// Find lists servers that could be added, best first. A source that fails hides nothing of the others.
func (h *Hub) Find(ctx context.Context, words string, limit int) ([]catalog.Found, error) {
	if h.cfg.Finder == nil {
		return []catalog.Found{}, nil
	}
	list, err := h.cfg.Finder.Find(ctx, words, limit)
	if err != nil {
		if len(list) == 0 {
			return nil, &guest.CallError{Message: text.Clean(err.Error(), maxToolError)}
		}
		h.log.Warn().Str(keyEvent, "a source of servers failed").Err(err).Send()
	}
	snap := h.catalog.Snapshot()
	return candidates.Mark(list, func(name string) bool { _, err := snap.Resolve(name); return err == nil }), nil
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

// Add makes one of the servers that Find tells callable, by the name that Find gave it, until the process ends, or with
// persist for later ones too. Policy must allow the adding by that name, and the calling by the name it gets here.
func (h *Hub) Add(ctx context.Context, name string, persist bool) (guest.Server, error) {
	def, err := h.candidate(ctx, name, persist)
	if err != nil {
		return guest.Server{}, err
	}
	if err := h.catalog.Add(def); err != nil {
		return guest.Server{}, &guest.CallError{Type: guest.ErrValue, Message: err.Error()}
	}
	h.log.Info().Str(keyServer, def.Name).Str("from", clipText(name, callNameBytes)).Bool("persist", persist).Str(keyEvent, "server added").Send()
	if persist {
		if err := config.Save(ctx, h.cfg.Sources.Added, def); err != nil {
			return guest.Server{}, fmt.Errorf("server %q was added for this process only: %w", def.Name, err)
		}
	}
	return h.catalog.Snapshot().Guest(def.Name), nil
}

// candidate finds what may be added, or says why it may not.
func (h *Hub) candidate(ctx context.Context, name string, persist bool) (config.Server, error) {
	deny := func(format string, args ...any) (config.Server, error) {
		return config.Server{}, &guest.CallError{Type: guest.ErrDenied, Message: fmt.Sprintf(format, args...)}
	}
	if err := h.cfg.Policy.Add(name); err != nil {
		return deny("%v", err)
	}
	if persist && h.cfg.Sources.Added == "" {
		return deny("added servers are not kept here; add it without persist")
	}
	if h.cfg.Finder == nil {
		return config.Server{}, &guest.CallError{Type: guest.ErrUnknownServer, Message: "there is no catalog or registry to add servers from"}
	}
	c, err := h.cfg.Finder.Get(ctx, name)
	switch {
	case errors.Is(err, candidates.ErrNotFound):
		return config.Server{}, &guest.CallError{Type: guest.ErrUnknownServer, Message: err.Error()}
	case err != nil:
		return config.Server{}, &guest.CallError{Message: text.Clean(err.Error(), maxToolError)}
	case c.Name != name:
		return deny("%q is not %q", c.Name, name) // the policy has spoken about the name that was asked for
	case c.Problem != "":
		return config.Server{}, &guest.CallError{Type: guest.ErrValue, Message: fmt.Sprintf("server %q cannot be added as it is: %s", name, c.Problem)}
	case !h.cfg.Policy.Server(c.Server.Name):
		return deny("server %q may be added, but its name here, %q, is not allowed to be called", name, c.Server.Name)
	}
	return c.Server, nil
}
