package catalog

import (
	"fmt"

	"github.com/thawpool/thawpool/actors/catalog/schema"
	"github.com/thawpool/thawpool/actors/catalog/text"
)

// Bounds of shown text, in bytes.
const (
	maxShort    = 300     // a description in a list
	maxFull     = 4 << 10 // a tool's description with detail full
	maxSearched = 2 << 10 // a description in the search index
	maxFullDocs = 50      // tools in one answer with detail full; more are given as summaries
)

// MaxSearch bounds the tools that one search gives.
const MaxSearch = 50

// Describe tells of one server. The error is that of Resolve.
func (s *Snapshot) Describe(name string, show Filter) (ServerDescription, error) {
	e := s.find(name)
	if e == nil {
		return ServerDescription{}, s.unknownServer(name)
	}
	d := ServerDescription{ServerInfo: e.info(), CWD: e.def.Dir, Tools: -1}
	if e.tools != nil {
		d.Version = text.Line(e.tools.listing.Version, maxVersion)
		if d.Instructions = text.Clean(e.tools.listing.Instructions, maxInstructions); d.Instructions != "" {
			d.SuppliedBy = e.def.Name
		}
		d.Tools = 0
		for _, t := range e.tools.tools {
			if show == nil || show(e.def, t.Tool) {
				d.Tools++
			}
		}
	}
	return d, nil
}

// Tools lists the tools of one server, in the server's order. The error is that of Resolve, or ErrUnlisted.
func (s *Snapshot) Tools(name string, show Filter) ([]ToolInfo, error) {
	e, err := s.listed(name)
	if err != nil {
		return nil, err
	}
	list := []ToolInfo{}
	for _, t := range e.tools.tools {
		if show == nil || show(e.def, t.Tool) {
			list = append(list, ToolInfo{Name: t.Name, Alias: t.alias, Description: text.Line(t.Description, maxShort), Problem: t.odd})
		}
	}
	return list, nil
}

// ToolProblems lists the tools of one server that could not be taken in, and why.
func (s *Snapshot) ToolProblems(name string) []string {
	if e := s.find(name); e != nil && e.tools != nil {
		return e.tools.problems
	}
	return nil
}

func (s *Snapshot) listed(name string) (*server, error) {
	e, err := s.resolve(name)
	if err != nil {
		return nil, err
	}
	if e.tools == nil {
		return nil, fmt.Errorf("server %q: %w", e.def.Name, ErrUnlisted)
	}
	return e, nil
}

// Docs documents one tool, or with an empty toolName all tools of a server. The error is that of ResolveTool.
func (s *Snapshot) Docs(serverName, toolName string, detail Detail, show Filter) ([]ToolDoc, error) {
	e, err := s.listed(serverName)
	if err != nil {
		return nil, err
	}
	tools := e.tools.tools
	if toolName != "" {
		_, t, err := s.tool(serverName, toolName, show)
		if err != nil {
			return nil, err
		}
		tools = []*tool{t}
	}
	docs := []ToolDoc{}
	for _, t := range tools {
		if show != nil && !show(e.def, t.Tool) {
			continue
		}
		if len(docs) >= maxFullDocs {
			detail = DetailSummary
		}
		docs = append(docs, e.document(t, detail))
	}
	return docs, nil
}

// Search finds tools of all servers whose tools are known, best first, at most limit and MaxSearch.
func (s *Snapshot) Search(words string, limit int, detail Detail, show Filter) ([]ToolDoc, error) {
	accept := func(serverName, toolName string) bool {
		e := s.byName[serverName]
		if e == nil || e.tools == nil || e.def.Off != "" {
			return false
		}
		t := e.tools.byName[toolName]
		return t != nil && (show == nil || show(e.def, t.Tool))
	}
	hits, err := s.index.Search(words, min(limit, MaxSearch), accept)
	if err != nil {
		return nil, err
	}
	docs := []ToolDoc{}
	for _, h := range hits {
		e := s.byName[h.Server]
		d := e.document(e.tools.byName[h.Tool], detail)
		d.Score = h.Score
		docs = append(docs, d)
	}
	return docs, nil
}

// document writes one tool for the model.
func (e *server) document(t *tool, detail Detail) ToolDoc {
	written := t.describe(e.def.Name)
	d := ToolDoc{
		Server: e.def.Name, ServerAlias: e.alias,
		Tool: t.Name, ToolAlias: t.alias, Alias: t.alias,
		Description: text.Line(t.Description, maxShort),
		Signature:   written.Line,
		Problem:     written.Problem,
		SuppliedBy:  e.def.Name,
	}
	if detail != DetailFull {
		return d
	}
	d.Description = text.Clean(t.Description, maxFull)
	d.Title = text.Line(t.Title, maxShort)
	if d.Title == "" {
		d.Title = text.Line(t.Annotations.Title, maxShort)
	}
	d.Doc = written.Stub
	annotations := t.Annotations
	annotations.Title = ""
	if annotations != (Annotations{}) {
		d.Annotations = &annotations
	}
	var odd string
	d.InputSchema, odd = schema.Readable(t.InputSchema)
	if d.Problem == "" {
		d.Problem = odd
	}
	d.OutputSchema, odd = schema.Readable(t.OutputSchema)
	if d.Problem == "" {
		d.Problem = odd
	}
	return d
}
