package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"github.com/thawpool/thawpool/actors/catalog/config"
	"github.com/thawpool/thawpool/actors/catalog/index"
	"github.com/thawpool/thawpool/actors/catalog/pyname"
	"github.com/thawpool/thawpool/actors/catalog/text"
)

// Options of a Catalog.
type Options struct {
	// CacheDir is where tool lists are kept between processes; empty keeps none. It is made when missing, mode 0700.
	CacheDir string
	// OnChange is called with each new Snapshot, in order and one at a time. It must not block, nor change the Catalog.
	OnChange func(*Snapshot)
	Log      zerolog.Logger
}

// Catalog is safe for concurrent use. Close ends it.
type Catalog struct {
	onChange func(*Snapshot)
	log      zerolog.Logger
	index    *index.Index
	cache    *cache // nil without a directory
	now      atomic.Pointer[Snapshot]

	mu         sync.Mutex // serialises writers; guards what follows
	configured []config.Server
	added      []config.Server
	problems   []config.Problem
	sets       map[string]*toolset // by config hash
}

// New makes a Catalog without servers. Follow or SetServers fills it.
func New(o Options) (*Catalog, error) {
	ix, err := index.New()
	if err != nil {
		return nil, err
	}
	c := &Catalog{onChange: o.OnChange, log: o.Log, index: ix, sets: map[string]*toolset{}}
	if o.CacheDir != "" {
		if c.cache, err = openCache(o.CacheDir, o.Log); err != nil {
			return nil, errors.Join(err, ix.Close())
		}
	}
	c.now.Store(&Snapshot{index: ix})
	return c, nil
}

// Snapshot is the catalog as it is now.
func (c *Catalog) Snapshot() *Snapshot { return c.now.Load() }

// Follow loads the servers of src, then keeps them up to date until ctx ends. It returns once the first load is done;
// wait ends when following has. Nothing in the files is an error: see Snapshot.Problems.
func (c *Catalog) Follow(ctx context.Context, src config.Sources) (wait func()) {
	return config.Watch(ctx, src, c.log, func(r config.Result) { c.SetServers(r.Servers, r.Problems) })
}

// SetServers replaces all configured servers. Added ones stay, except where a configured one has the name. Tools that are
// known of a definition stay known.
func (c *Catalog) SetServers(servers []config.Server, problems []config.Problem) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.configured = slices.Clone(servers)
	c.problems = slices.Clone(problems)
	c.rebuild()
}

// Add makes one more server known until the process ends. A name that is taken is an error.
func (c *Catalog) Add(s config.Server) error {
	if err := config.CheckServerName(s.Name); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now.Load().byName[s.Name] != nil {
		return fmt.Errorf("there is a server %q already", s.Name)
	}
	s.Hash = config.HashOf(s)
	c.added = append(c.added, s)
	c.rebuild()
	return nil
}

// SetTools takes in what a server has told, replacing what was known of it. def is the definition that the connection was
// made with: what is told under one that has changed meanwhile does not count for the new one.
func (c *Catalog) SetTools(def config.Server, l Listing) {
	set := newToolset(def, l)
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.sets[def.Hash]; old != nil {
		if old.same(l) {
			return
		}
		set.inherit(old)
	}
	c.sets[def.Hash] = set
	c.cache.save(def, set)
	c.rebuild()
}

// RememberShape learns from a tool's first successful result, a whole MCP result, what its results look like. It costs
// next to nothing once that is known.
func (c *Catalog) RememberShape(def config.Server, toolName string, result json.RawMessage) {
	c.mu.Lock()
	set := c.sets[def.Hash]
	c.mu.Unlock()
	if set == nil {
		return
	}
	if t := set.byName[toolName]; t != nil && t.remember(result) {
		c.cache.save(def, set)
	}
}

// rebuild makes the new Snapshot. The caller holds mu.
func (c *Catalog) rebuild() {
	before := c.now.Load()
	next := &Snapshot{
		byName: map[string]*server{}, byAlias: map[string]*server{},
		problems: c.problems, index: c.index,
	}
	names := []string{}
	for _, def := range slices.Concat(c.configured, c.added) {
		if next.byName[def.Name] != nil {
			continue
		}
		e := &server{def: def, tools: c.toolsOf(def)}
		if old := before.byName[def.Name]; old != nil && old.def.Description == def.Description {
			e.description = old.description
		} else {
			e.description = text.Line(def.Description, maxShort)
		}
		next.byName[def.Name] = e
		next.servers = append(next.servers, e)
		names = append(names, def.Name)
	}
	for name, alias := range pyname.Servers.Aliases(names) {
		next.byName[name].alias = alias
		next.byAlias[alias] = next.byName[name]
	}
	slices.SortFunc(next.servers, func(a, b *server) int { return strings.Compare(a.def.Name, b.def.Name) })
	c.forget(next)
	c.reindex(before, next)
	c.now.Store(next)
	if c.onChange != nil {
		c.onChange(next)
	}
}

// toolsOf gives the known tools of def, from the cache at its first use.
func (c *Catalog) toolsOf(def config.Server) *toolset {
	if def.Off != "" {
		return nil
	}
	set, met := c.sets[def.Hash]
	if !met {
		set = c.cache.load(def)
		c.sets[def.Hash] = set // also nil, so that the disk is asked once
	}
	return set
}

// forget drops toolsets of definitions that are gone.
func (c *Catalog) forget(next *Snapshot) {
	used := map[string]bool{}
	for _, e := range next.servers {
		used[e.def.Hash] = true
	}
	for hash := range c.sets {
		if !used[hash] {
			delete(c.sets, hash)
		}
	}
}

// reindex tells the index of the servers whose tools differ.
func (c *Catalog) reindex(before, next *Snapshot) {
	for _, e := range next.servers {
		old := before.byName[e.def.Name]
		if old == nil || old.tools != e.tools || old.description != e.description {
			c.index.Set(e.def.Name, e.searchDocs)
		}
	}
	for name := range before.byName {
		if next.byName[name] == nil {
			c.index.Set(name, func() []index.Doc { return nil })
		}
	}
}

// Warm builds what the first search would have to wait for.
func (c *Catalog) Warm() error { return c.index.Flush() }

// Close writes what the cache still has to, and frees the index. Follow must have ended.
func (c *Catalog) Close() error {
	c.cache.close()
	return c.index.Close()
}
