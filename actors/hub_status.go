package actors

import (
	"maps"
	"slices"
	"strings"

	"github.com/thawpool/thawpool/actors/catalog/config"
)

// Status tells of every server's connections, by name; servers that were never used are idle.
func (h *Hub) Status() []ClientStatus {
	h.mu.Lock()
	refs := slices.Collect(maps.Values(h.clients))
	h.mu.Unlock()
	byName := map[string]ClientStatus{}
	for _, d := range h.catalog.Snapshot().Definitions() {
		if d.Off == "" {
			byName[d.Name] = ClientStatus{Name: d.Name, State: ClientIdle}
		}
	}
	for _, ref := range refs {
		byName[ref.srv.def.Name] = ref.srv.snapshot()
	}
	return slices.SortedFunc(maps.Values(byName), func(a, b ClientStatus) int { return strings.Compare(a.Name, b.Name) })
}

// status is where the Client of a definition stands; false when it has none.
func (h *Hub) status(def config.Server) (ClientStatus, bool) {
	h.mu.Lock()
	ref := h.clients[keyOf(def)]
	h.mu.Unlock()
	if ref == nil {
		return ClientStatus{}, false
	}
	return ref.srv.snapshot(), true
}

// Restart ends a server's connections, also those in use or being made, and forgets its failures. The next call connects
// anew, as do those that wait.
func (h *Hub) Restart(server string) error {
	def, err := h.catalog.Snapshot().Resolve(server)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if ref := h.clients[keyOf(def)]; ref != nil {
		ref.tell(h.out, restartClient{})
	}
	return nil
}
