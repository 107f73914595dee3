package catalog

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/thawpool/thawpool/actors/catalog/config"
	"github.com/thawpool/thawpool/actors/catalog/index"
	"github.com/thawpool/thawpool/actors/catalog/pyname"
	"github.com/thawpool/thawpool/actors/catalog/schema"
	"github.com/thawpool/thawpool/actors/catalog/text"
)

// Bounds of what is kept of one server.
const (
	maxTools        = 5000
	maxToolBytes    = 512 << 10 // one tool as received
	maxListingBytes = 16 << 20  // all tools as received; also of a cache file, a little more
	maxInstructions = 4 << 10   // shown of a server's instructions
	maxVersion      = 120       // shown of a server's name and version
	maxProblems     = 20        // kept of what is odd about tools
)

// toolset is what is known of one server's tools. It is immutable but for shapes.
type toolset struct {
	listing  Listing // as received, for the cache
	tools    []*tool
	byName   map[string]*tool
	byAlias  map[string]*tool
	problems []string // tools that could not be taken, and why
}

// tool is one tool with what is derived from it at first use.
type tool struct {
	Tool
	alias   string
	odd     string
	checker atomic.Pointer[schema.Checker]
	shape   atomic.Pointer[json.RawMessage] // schema of a result that was seen
	doc     atomic.Pointer[schema.Doc]      // cleared when shape is set
}

// newToolset takes a listing in. It never fails: what cannot be used is told in problems.
func newToolset(def config.Server, l Listing) *toolset {
	set := &toolset{listing: l, byName: map[string]*tool{}, byAlias: map[string]*tool{}}
	total := 0
	for i, raw := range l.Tools {
		if i >= maxTools || total+len(raw) > maxListingBytes {
			set.problem("%d more tools are left out: the list is too long", len(l.Tools)-i)
			set.listing.Tools = l.Tools[:i]
			break
		}
		total += len(raw)
		set.add(def, i, raw)
	}
	names := make([]string, len(set.tools))
	for i, t := range set.tools {
		names[i] = t.Name
	}
	aliases := pyname.Tools.Aliases(names)
	for _, t := range set.tools {
		t.alias = aliases[t.Name]
		set.byAlias[t.alias] = t
	}
	return set
}

func (s *toolset) add(def config.Server, i int, raw json.RawMessage) {
	if len(raw) > maxToolBytes {
		s.problem("tool %d is left out: it has %d bytes", i+1, len(raw))
		return
	}
	t, odd, err := ParseTool(raw)
	if err != nil {
		s.problem("tool %d is left out: %v", i+1, err)
		return
	}
	if slices.Contains(def.HideTools, t.Name) || (def.OnlyTools != nil && !slices.Contains(def.OnlyTools, t.Name)) {
		return
	}
	if _, twice := s.byName[t.Name]; twice {
		s.problem("tool %q is listed twice: the first one counts", text.Line(t.Name, maxToolName))
		return
	}
	entry := &tool{Tool: t}
	if len(odd) > 0 {
		entry.odd = odd[0]
	}
	s.tools = append(s.tools, entry)
	s.byName[t.Name] = entry
}

func (s *toolset) problem(format string, args ...any) {
	if len(s.problems) < maxProblems {
		s.problems = append(s.problems, fmt.Sprintf(format, args...))
	}
}

// find is by exact name first, then by alias: a name always reaches its own tool.
func (s *toolset) find(name string) *tool {
	if t := s.byName[name]; t != nil {
		return t
	}
	return s.byAlias[name]
}

// check prepares the checker at the first call.
func (t *tool) check(args json.RawMessage) error {
	c := t.checker.Load()
	if c == nil {
		c = schema.NewChecker(t.InputSchema)
		t.checker.Store(c)
	}
	return c.Check(args)
}

// describe writes the Python form at first use.
func (t *tool) describe(server string) *schema.Doc {
	if d := t.doc.Load(); d != nil {
		return d
	}
	f := schema.Function{Name: t.alias, Server: server, Description: t.Description, Input: t.InputSchema, Output: t.OutputSchema}
	if inner, wrapped := schema.Wrapped(t.Name, t.OutputSchema); wrapped {
		f.Output = inner // code gets the value itself
	}
	shape := t.shape.Load()
	if shape != nil {
		f.Seen = *shape
	}
	d := schema.Describe(f)
	if t.odd != "" && d.Problem == "" {
		d.Problem = t.odd
	}
	t.doc.Store(&d)
	if t.shape.Load() != shape { // one was seen meanwhile: the next reader writes it anew
		t.doc.Store(nil)
	}
	return &d
}

// remember keeps the shape of a result when it is the first one and the server promises none. It tells whether it did.
func (t *tool) remember(result json.RawMessage) bool {
	if len(t.OutputSchema) > 0 || t.shape.Load() != nil {
		return false
	}
	shape := schema.Shape(result)
	if shape == nil || !t.shape.CompareAndSwap(nil, &shape) {
		return false
	}
	t.doc.Store(nil)
	return true
}

// searchDocs are what the index gets of the server's tools.
func (e *server) searchDocs() []index.Doc {
	if e.tools == nil {
		return nil
	}
	docs := make([]index.Doc, len(e.tools.tools))
	for i, t := range e.tools.tools {
		docs[i] = index.Doc{
			Tool:        t.Name,
			Title:       text.Line(t.Title, maxShort),
			Description: text.Line(t.Description, maxSearched),
			Server:      e.def.Name + " " + e.description,
			Arguments:   schema.ArgumentWords(t.InputSchema),
		}
	}
	return docs
}
