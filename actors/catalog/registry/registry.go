// Package registry finds servers that could be added: in a catalog file of the user, which has the form of any config
// file, and in a registry that speaks the official MCP registry's HTTP API. What a registry says is a stranger's word:
// only npm and PyPI packages from the public indexes and remote addresses become definitions, started by npx and uvx
// alone, and nothing of the user's environment ever goes into them.
//
// Whether one may be added is not decided here.
package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/thawpool/thawpool/actors/catalog"
	"github.com/thawpool/thawpool/actors/catalog/config"
	"github.com/thawpool/thawpool/actors/catalog/index"
	"github.com/thawpool/thawpool/actors/catalog/text"
)

// ErrNotFound tells that no source has a server of that name.
var ErrNotFound = errors.New("no such server in catalog or registry")

// Candidate is a server that could be added.
type Candidate struct {
	catalog.Found
	// Server is its definition, to be used when Problem is empty. Its name is one that configs take: the last part of a
	// registry's name.
	Server config.Server
	// Problem says why it cannot be added as it is, for example because it needs a key that only the user has.
	Problem string
}

// Finder looks in all sources. A zero Finder finds nothing.
type Finder struct {
	Catalog  string         // path of the catalog file; empty means none
	Sources  config.Sources // for the variables in the catalog file
	Registry *Client        // nil means none
}

// Find gives the best limit candidates for words, those of the catalog file first. With results it may also return the
// error of a source that failed.
func (f *Finder) Find(ctx context.Context, words string, limit int) ([]Candidate, error) {
	list, err := f.inCatalog(words, limit)
	if f.Registry != nil && len(list) < limit {
		more, regErr := f.Registry.Find(ctx, words, limit-len(list))
		err = errors.Join(err, regErr)
		list = append(list, more...)
	}
	return list, err
}

// Get finds one candidate by its exact name as Find gave it, in the catalog file first.
func (f *Finder) Get(ctx context.Context, name string) (Candidate, error) {
	all, err := f.load()
	for _, s := range all {
		if s.Name == name {
			return fromCatalog(s), nil
		}
	}
	if f.Registry == nil {
		return Candidate{}, errors.Join(fmt.Errorf("%q: %w", text.Line(name, 200), ErrNotFound), err)
	}
	c, regErr := f.Registry.Get(ctx, name)
	if regErr != nil {
		return Candidate{}, errors.Join(regErr, err)
	}
	return c, nil
}

// load reads the catalog file.
func (f *Finder) load() ([]config.Server, error) {
	if f.Catalog == "" {
		return nil, nil
	}
	src := config.Sources{
		Files: []string{f.Catalog}, Home: f.Sources.Home, Lookup: f.Sources.Lookup, Self: f.Sources.Self, AllowSelf: f.Sources.AllowSelf,
	}
	r := config.Load(src)
	if len(r.Servers) > 0 {
		return r.Servers, nil // faults of single entries are their own Problem
	}
	for _, p := range r.Problems {
		if p.Fatal {
			return nil, fmt.Errorf("catalog file: %s", p)
		}
	}
	return nil, nil
}

func (f *Finder) inCatalog(words string, limit int) (found []Candidate, err error) {
	servers, err := f.load()
	if err != nil || len(servers) == 0 {
		return nil, err
	}
	x, err := index.New()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	byName := map[string]config.Server{}
	var docs []index.Doc
	for _, s := range servers {
		byName[s.Name] = s
		docs = append(docs, index.Doc{Tool: s.Name, Description: s.Description})
	}
	if strings.TrimSpace(words) == "" { // everything, in the file's order
		for _, s := range servers[:min(limit, len(servers))] {
			found = append(found, fromCatalog(s))
		}
		return found, nil
	}
	x.Set("", func() []index.Doc { return docs })
	hits, err := x.Search(words, limit, func(string, string) bool { return true })
	for _, h := range hits {
		found = append(found, fromCatalog(byName[h.Tool]))
	}
	return found, err
}

func fromCatalog(s config.Server) Candidate {
	c := Candidate{
		Found: catalog.Found{
			Name: s.Name, Description: text.Line(s.Description, maxDescription), Source: "catalog", Kind: string(s.Transport),
		},
		Server: s,
	}
	if s.Broken {
		c.Problem = s.Off
	}
	c.Server.Off, c.Server.Broken = "", false // turned off in a catalog only says that it is not added yet
	return c
}

// Mark sets Installed on those whose name, or the name they would get, is taken.
func Mark(list []Candidate, taken func(name string) bool) []catalog.Found {
	found := make([]catalog.Found, len(list))
	for i, c := range list {
		found[i] = c.Found
		found[i].Installed = slices.ContainsFunc([]string{c.Name, c.Server.Name}, taken)
	}
	return found
}
