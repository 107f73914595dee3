// Package index finds tools by words: BM25 over names, descriptions and argument names, with word forms and typing errors
// forgiven. It is one index for all servers, in memory, changed a server at a time.
package index

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/analysis/lang/en"
	"github.com/blevesearch/bleve/v2/index/scorch"
	"github.com/blevesearch/bleve/v2/mapping"
	"github.com/blevesearch/bleve/v2/search/query"
	bleveindex "github.com/blevesearch/bleve_index_api"
)

// Doc is one tool as it is to be found.
type Doc struct {
	Tool        string // exact name
	Title       string
	Description string
	Server      string   // words that find all tools of a server: its name and description
	Arguments   []string // names and descriptions
}

// Hit is one tool found.
type Hit struct {
	Server, Tool string
	Score        float64 // comparable within one search only
}

// Index is safe for concurrent use. Changes are taken in at the next search, or by Flush.
type Index struct {
	mu      sync.Mutex // guards the fields; searches hold it only until they have their snapshot
	bleve   bleve.Index
	pending map[string]func() []Doc // by server
	ids     map[string][]string     // what is indexed of each server
	closed  bool
}

// The fields that are searched, and how much a word in each of them counts.
var boosts = map[string]float64{"tool": 4, "title": 2, "description": 1.5, "arguments": 0.7, "server": 1}

// MaxQuery bounds a query in bytes: it is a model's few words.
const MaxQuery = 1 << 10

// maxWords bounds the words of a query that are searched for.
const maxWords = 24

// New makes an empty index.
func New() (*Index, error) {
	b, err := bleve.NewUsing("", mappings(), scorch.Name, bleve.Config.DefaultMemKVStore, nil) // no path: in memory; BM25 needs scorch
	if err != nil {
		return nil, fmt.Errorf("make search index: %w", err)
	}
	return &Index{bleve: b, pending: map[string]func() []Doc{}, ids: map[string][]string{}}, nil
}

func mappings() *mapping.IndexMappingImpl {
	m := bleve.NewIndexMapping()
	m.ScoringModel = bleveindex.BM25Scoring
	m.DefaultAnalyzer = en.AnalyzerName
	doc := bleve.NewDocumentStaticMapping()
	for name := range boosts {
		field := bleve.NewTextFieldMapping()
		field.Analyzer = en.AnalyzerName
		field.Store, field.IncludeInAll, field.IncludeTermVectors, field.DocValues = false, false, false, false
		doc.AddFieldMappingsAt(name, field)
	}
	m.DefaultMapping = doc
	return m
}

// Set replaces all tools of server by what docs gives, which is asked when it is needed, at most once; none removes it.
func (x *Index) Set(server string, docs func() []Doc) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.pending[server] = docs
}

// Flush takes in what was Set.
func (x *Index) Flush() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.flush()
}

func (x *Index) flush() error {
	if x.closed {
		return errors.New("search index is closed")
	}
	if len(x.pending) == 0 {
		return nil
	}
	batch := x.bleve.NewBatch()
	ids := map[string][]string{}
	for server, docs := range x.pending {
		for _, id := range x.ids[server] {
			batch.Delete(id)
		}
		for _, d := range docs() {
			id := server + "\x00" + d.Tool
			if err := batch.Index(id, fields(d)); err != nil {
				return fmt.Errorf("index tool %q of server %q: %w", d.Tool, server, err)
			}
			ids[server] = append(ids[server], id)
		}
	}
	if err := x.bleve.Batch(batch); err != nil {
		return fmt.Errorf("index tools: %w", err)
	}
	for server := range x.pending {
		x.ids[server] = ids[server]
	}
	clear(x.pending)
	return nil
}

func fields(d Doc) map[string]any {
	return map[string]any{
		"tool":        Words(d.Tool),
		"title":       d.Title,
		"description": d.Description,
		"server":      Words(d.Server),
		"arguments":   Words(strings.Join(d.Arguments, " ")),
	}
}

// Words splits names as people read them: createIssue_v2 is "create Issue v2", and keeps them whole beside that.
func Words(s string) string {
	var b strings.Builder
	var before rune
	for _, r := range s {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			r = ' '
		case unicode.IsUpper(r) && unicode.IsLower(before):
			b.WriteByte(' ')
		}
		b.WriteRune(r)
		before = r
	}
	return b.String()
}

// Search gives the best limit tools for words, best first, of those that accept takes. Words are looked for exactly, by
// their stem, as a beginning, and with a typing error or two.
func (x *Index) Search(words string, limit int, accept func(server, tool string) bool) ([]Hit, error) {
	x.mu.Lock()
	err := x.flush()
	x.mu.Unlock()
	if err != nil {
		return nil, err
	}
	q := build(words)
	if q == nil || limit <= 0 {
		return nil, nil
	}
	var hits []Hit
	for from, size := 0, max(2*limit, 50); ; from += size {
		req := bleve.NewSearchRequestOptions(q, size, from, false)
		req.SortBy([]string{"-_score", "_id"})
		res, err := x.bleve.Search(req)
		if err != nil {
			return nil, fmt.Errorf("search tools: %w", err)
		}
		for _, h := range res.Hits {
			server, tool, _ := strings.Cut(h.ID, "\x00")
			if !accept(server, tool) {
				continue
			}
			if hits = append(hits, Hit{server, tool, h.Score}); len(hits) == limit {
				return hits, nil
			}
		}
		if len(res.Hits) < size {
			return hits, nil
		}
	}
}

// build makes a query of which every word may match any field in any of its forms, the plainer form counting more.
func build(words string) query.Query {
	words = Words(words[:min(len(words), MaxQuery)])
	list := strings.Fields(strings.ToLower(strings.ToValidUTF8(words, " ")))
	var parts []query.Query
	for _, w := range list[:min(len(list), maxWords)] {
		for field, boost := range boosts {
			match := bleve.NewMatchQuery(w)
			match.SetField(field)
			match.SetBoost(boost)
			parts = append(parts, match)
			parts = append(parts, loose(w, field, boost)...)
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return bleve.NewDisjunctionQuery(parts...)
}

// loose are the forms of a word that count less: with errors in it, and as the beginning of a longer word.
func loose(w, field string, boost float64) []query.Query {
	var parts []query.Query
	if n := len([]rune(w)); n >= 4 {
		fuzzy := bleve.NewMatchQuery(w)
		fuzzy.SetField(field)
		fuzzy.SetFuzziness(min(2, n/4))
		fuzzy.Prefix = 1
		fuzzy.SetBoost(boost * 0.3)
		parts = append(parts, fuzzy)
	}
	if len(w) >= 3 {
		prefix := bleve.NewPrefixQuery(w)
		prefix.SetField(field)
		prefix.SetBoost(boost * 0.3)
		parts = append(parts, prefix)
	}
	return parts
}

// Close frees the index. Searches after it fail.
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return nil
	}
	x.closed = true
	return x.bleve.Close()
}
