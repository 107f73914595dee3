package config

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/tailscale/hujson"
)

// entry is one server as it stands in a file.
type entry struct {
	name        string
	pos         Position
	description string         // of the file, used when the entry has none
	fields      map[string]any // decoded with json.Number
}

// parsed is what one file holds.
type parsed struct {
	entries  []entry
	problems []Problem
}

// parseJSON reads JSON with comments and trailing commas.
func parseJSON(path string, raw []byte, d *dialect, src Sources) parsed {
	p := &jsonFile{path: path, lines: newLines(raw)}
	if len(bytes.TrimSpace(raw)) == 0 {
		p.problem("", 0, true, "the file is empty")
		return p.parsed
	}
	if at := nests(raw, maxNesting); at >= 0 {
		p.problem("", at, true, "objects and arrays nest too deep")
		return p.parsed
	}
	root, err := hujson.Parse(raw)
	if err != nil {
		p.syntax(err)
		return p.parsed
	}
	object, ok := root.Value.(*hujson.Object)
	if !ok {
		p.problem("", root.StartOffset, true, "the file holds no object; it should look like {\"mcpServers\": {\"name\": {\"command\": …}}}")
		return p.parsed
	}
	p.object(object, "the file")
	p.description = p.textOf(object, "description")
	found := false
	for _, keys := range d.roots(src) {
		for _, servers := range p.find(object, keys) {
			found = true
			p.servers(servers)
		}
	}
	if !found && d.bare && !p.bare(object) {
		p.problem("", root.StartOffset, false, "no \"mcpServers\" in it")
	}
	return p.parsed
}

// jsonFile walks one file.
type jsonFile struct {
	parsed
	path        string
	lines       lines
	description string
}

func (p *jsonFile) position(offset int) Position {
	at := p.lines.at(offset)
	at.File = p.path
	return at
}

func (p *jsonFile) problem(server string, offset int, fatal bool, format string, args ...any) {
	p.problems = append(p.problems, Problem{Server: server, Where: p.position(offset), Message: fmt.Sprintf(format, args...), Fatal: fatal})
}

// syntax tells a syntax error at its place. hujson has the place only in the error's text.
func (p *jsonFile) syntax(err error) {
	at := Position{File: p.path}
	if _, scanErr := fmt.Sscanf(err.Error(), "hujson: line %d, column %d:", &at.Line, &at.Column); scanErr != nil {
		at.Line, at.Column = 0, 0
	}
	p.problems = append(p.problems, Problem{Where: at, Message: err.Error(), Fatal: true})
}

func key(m hujson.ObjectMember) string { return m.Name.Value.(hujson.Literal).String() }

// object tells names that stand twice in o. The first one counts.
func (p *jsonFile) object(o *hujson.Object, what string) {
	first := map[string]int{}
	for _, m := range o.Members {
		name := key(m)
		at, twice := first[name]
		if !twice {
			first[name] = m.Name.StartOffset
			continue
		}
		p.problem("", m.Name.StartOffset, false, "%s has %q again at %s; it stands at %s already",
			what, name, p.position(m.Name.StartOffset), p.position(at))
	}
}

// find lists the objects below a path of names, from every one of names that stand more than once.
func (p *jsonFile) find(o *hujson.Object, path []string) []*hujson.Object {
	if len(path) == 0 {
		return []*hujson.Object{o}
	}
	var list []*hujson.Object
	for _, m := range o.Members {
		if key(m) != path[0] {
			continue
		}
		inner, ok := m.Value.Value.(*hujson.Object)
		if !ok {
			p.problem("", m.Value.StartOffset, true, "%q is not an object", path[0])
			continue
		}
		list = append(list, p.find(inner, path[1:])...)
	}
	return list
}

func (p *jsonFile) textOf(o *hujson.Object, name string) string {
	for _, m := range o.Members {
		if l, ok := m.Value.Value.(hujson.Literal); ok && key(m) == name && l.Kind() == '"' {
			return l.String()
		}
	}
	return ""
}

// servers reads an object of servers. Names that stand twice are told by the loader, which sees all files.
func (p *jsonFile) servers(o *hujson.Object) {
	for _, m := range o.Members {
		name := key(m)
		inner, ok := m.Value.Value.(*hujson.Object)
		if !ok {
			p.problem(name, m.Value.StartOffset, true, "its definition is not an object")
			continue
		}
		p.object(inner, fmt.Sprintf("server %q", name))
		p.entries = append(p.entries, entry{
			name: name, pos: p.position(m.Name.StartOffset), description: p.description, fields: p.fields(inner),
		})
	}
}

// fields decodes an entry; of names that stand twice the first counts.
func (p *jsonFile) fields(o *hujson.Object) map[string]any {
	fields := make(map[string]any, len(o.Members))
	for _, m := range o.Members {
		if _, twice := fields[key(m)]; twice {
			continue
		}
		v := m.Value.Clone()
		v.Standardize()
		d := json.NewDecoder(bytes.NewReader(v.Pack()))
		d.UseNumber()
		var value any
		if d.Decode(&value) == nil {
			fields[key(m)] = value
		}
	}
	return fields
}

// bare reads a file that is itself an object of servers. It tells whether it was one.
func (p *jsonFile) bare(o *hujson.Object) bool {
	for _, m := range o.Members {
		inner, ok := m.Value.Value.(*hujson.Object)
		if !ok {
			return false
		}
		f := p.fields(inner)
		if f["command"] == nil && f["url"] == nil && f["httpUrl"] == nil && f["serverUrl"] == nil {
			return false
		}
	}
	p.servers(o)
	return len(o.Members) > 0
}
