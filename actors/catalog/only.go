package catalog

import (
	"maps"
	"slices"
	"strings"

	"github.com/thawpool/thawpool/actors/catalog/config"
)

// Only is s with just the servers that keep, which goes by their names, wants, and the problems of these and of whole
// files. Aliases stay what they are.
func (s *Snapshot) Only(keep func(config.Server) bool) *Snapshot {
	next := *s
	next.servers = nil
	next.byName, next.byAlias = map[string]*server{}, map[string]*server{}
	for _, e := range s.servers {
		if keep(e.def) {
			next.servers = append(next.servers, e)
			next.byName[e.def.Name], next.byAlias[e.alias] = e, e
		}
	}
	next.problems = slices.DeleteFunc(slices.Clone(s.problems), func(p config.Problem) bool {
		return p.Server != "" && !keep(config.Server{Name: p.Server})
	})
	return &next
}

// Including is s with one more server, taken from latest: one that was added after s was taken.
func (s *Snapshot) Including(latest *Snapshot, name string) *Snapshot {
	e := latest.byName[name]
	if e == nil || s.byName[name] != nil {
		return s
	}
	next := *s
	next.servers = append(slices.Clone(s.servers), e)
	slices.SortFunc(next.servers, func(a, b *server) int { return strings.Compare(a.def.Name, b.def.Name) })
	next.byName, next.byAlias = maps.Clone(s.byName), maps.Clone(s.byAlias)
	next.byName[name] = e
	if next.byAlias[e.alias] == nil {
		next.byAlias[e.alias] = e
	}
	return &next
}

// Renewed is With also where s knows tools already: they may be of an earlier process, from the cache.
func (s *Snapshot) Renewed(latest *Snapshot, name string) *Snapshot {
	mine := s.find(name)
	if mine == nil || mine.tools == nil {
		return s.With(latest, name)
	}
	now := latest.byName[mine.def.Name]
	if now == nil || now.tools == nil || now.tools == mine.tools || now.def.Hash != mine.def.Hash {
		return s
	}
	blank := *mine
	blank.tools = nil
	next := *s
	next.servers = slices.Clone(s.servers)
	next.servers[slices.Index(next.servers, mine)] = &blank
	next.byName, next.byAlias = maps.Clone(s.byName), maps.Clone(s.byAlias)
	next.byName[blank.def.Name], next.byAlias[blank.alias] = &blank, &blank
	return next.With(latest, name)
}
