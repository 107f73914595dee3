package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/thawpool/thawpool/actors/catalog/config"
)

// cache keeps toolsets on disk, one file a definition, named by its hash. It is only ever a saving of time: no fault of
// it is anyone's error. A nil cache keeps nothing.
type cache struct {
	dir string
	log zerolog.Logger

	mu     sync.Mutex
	dirty  map[string]unsaved // by hash
	closed bool
	wake   chan struct{} // capacity 1
	done   sync.WaitGroup
}

// unsaved is a toolset that has to be written.
type unsaved struct {
	server string
	set    *toolset
}

const (
	cacheFormat  = 1   // of a cache file; others are ignored
	maxCacheSets = 500 // files kept, newest first
)

// cacheFile is one file's content.
type cacheFile struct {
	Format       int                        `json:"format"`
	Server       string                     `json:"server"` // for people who look
	Version      string                     `json:"version"`
	Instructions string                     `json:"instructions,omitempty"`
	Saved        time.Time                  `json:"saved"`
	Tools        []json.RawMessage          `json:"tools"`
	Shapes       map[string]json.RawMessage `json:"shapes,omitempty"`
}

func openCache(dir string, log zerolog.Logger) (*cache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make directory of tool cache: %w", err)
	}
	c := &cache{dir: dir, log: log, dirty: map[string]unsaved{}, wake: make(chan struct{}, 1)}
	c.done.Go(c.write)
	return c, nil
}

func (c *cache) path(hash string) string { return filepath.Join(c.dir, hash+".json") }

// load reads what is kept for def, nil when there is nothing. A damaged file is set aside.
func (c *cache) load(def config.Server) *toolset {
	if c == nil {
		return nil
	}
	raw, err := readBounded(c.path(def.Hash), 2*maxListingBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var f cacheFile
	if err == nil {
		err = json.Unmarshal(raw, &f)
	}
	if err != nil {
		c.log.Warn().Err(err).Str("server", def.Name).Msg("tool cache is damaged and set aside")
		if err := os.Rename(c.path(def.Hash), c.path(def.Hash)+".damaged"); err != nil {
			c.log.Warn().Err(err).Msg("damaged tool cache stays")
		}
		return nil
	}
	if f.Format != cacheFormat {
		return nil
	}
	set := newToolset(def, Listing{Version: f.Version, Instructions: f.Instructions, Tools: f.Tools})
	for name, shape := range f.Shapes {
		if t := set.byName[name]; t != nil {
			t.shape.Store(&shape)
		}
	}
	return set
}

func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(raw)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", path, limit)
	}
	return raw, err
}

// save has set written soon.
func (c *cache) save(def config.Server, set *toolset) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.dirty[def.Hash] = unsaved{def.Name, set}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// write is the one goroutine that writes files.
func (c *cache) write() {
	for range c.wake {
		c.mu.Lock()
		batch := c.dirty
		c.dirty = map[string]unsaved{}
		c.mu.Unlock()
		for hash, u := range batch {
			if err := c.put(hash, u); err != nil {
				c.log.Warn().Err(err).Msg("tool list is not cached")
			}
		}
		c.prune()
	}
}

func (c *cache) put(hash string, u unsaved) error {
	set := u.set
	f := cacheFile{
		Format: cacheFormat, Server: u.server, Version: set.listing.Version, Instructions: set.listing.Instructions,
		Saved: time.Now().UTC(), Tools: set.listing.Tools, Shapes: map[string]json.RawMessage{},
	}
	for _, t := range set.tools {
		if shape := t.shape.Load(); shape != nil {
			f.Shapes[t.Name] = *shape
		}
	}
	raw, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("encode tool cache: %w", err)
	}
	return config.Replace(c.path(hash), raw)
}

// prune removes the files written longest ago beyond maxCacheSets.
func (c *cache) prune() {
	entries, err := os.ReadDir(c.dir)
	if err != nil || len(entries) <= maxCacheSets {
		return
	}
	age := func(e os.DirEntry) int64 {
		if info, err := e.Info(); err == nil {
			return info.ModTime().UnixNano()
		}
		return 0
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return int(min(1, max(-1, age(b)-age(a)))) })
	for _, e := range entries[maxCacheSets:] {
		if err := os.Remove(filepath.Join(c.dir, e.Name())); err != nil {
			c.log.Debug().Err(err).Msg("old tool cache stays")
		}
	}
}

// close writes what is left and ends the writer.
func (c *cache) close() {
	if c == nil {
		return
	}
	c.mu.Lock()
	closed := c.closed
	c.closed = true
	c.mu.Unlock()
	if !closed {
		close(c.wake)
	}
	c.done.Wait()
}

// same tells whether l is what s was made from.
func (s *toolset) same(l Listing) bool {
	return s.listing.Version == l.Version && s.listing.Instructions == l.Instructions &&
		slices.EqualFunc(s.listing.Tools, l.Tools, func(a, b json.RawMessage) bool { return string(a) == string(b) })
}

// inherit keeps the shapes of tools that are still the same, when the server's version is.
func (s *toolset) inherit(old *toolset) {
	if s.listing.Version != old.listing.Version {
		return
	}
	for _, t := range s.tools {
		if before := old.byName[t.Name]; before != nil && string(before.InputSchema) == string(t.InputSchema) {
			t.shape.Store(before.shape.Load())
		}
	}
}
