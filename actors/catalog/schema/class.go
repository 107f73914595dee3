package schema

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/thawpool/thawpool/actors/catalog/pyname"
	"github.com/thawpool/thawpool/actors/catalog/text"
)

const (
	maxFields  = 80  // of one class or one signature
	maxNote    = 160 // bytes of a description beside a field or argument
	maxDefault = 60  // bytes of a default that is written out
)

// name makes a class name of hint, unused so far: CamelCase, ASCII.
func (w *writer) name(hint string) string {
	base := Camel(hint)
	name := base
	for i := 2; w.taken[name]; i++ {
		name = base + strconv.Itoa(i)
	}
	w.taken[name] = true
	return name
}

// Camel writes words as a class name: "create_issue" is CreateIssue.
func Camel(words string) string {
	var b strings.Builder
	ascii := pyname.Arguments.Aliases([]string{words})[words]
	for part := range strings.SplitSeq(ascii, "_") {
		if part != "" {
			b.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return b.String()
}

// class adds a TypedDict with the properties of all of nodes and returns how to write it. A field is required when the
// first node requires it, or all that describe it do.
func (w *writer) class(name string, nodes []node, depth int) string {
	if len(w.defs) >= maxClasses {
		w.dropped = true
		return "dict[str, Any]"
	}
	at := len(w.defs)
	w.defs = append(w.defs, definition{name: name}) // before its parts, so that the outer class is read first
	w.defs[at].fields = w.fields(name, nodes, depth)
	return name
}

// alias adds a name for the type t.
func (w *writer) alias(name, t string) string {
	if len(w.defs) >= maxClasses {
		w.dropped = true
		return "Any"
	}
	w.defs = append(w.defs, definition{name: name, alias: t})
	return name
}

// fields lists the properties of nodes, the required ones first, else in the server's order.
func (w *writer) fields(hint string, nodes []node, depth int) []field {
	var list []field
	met := map[string]bool{}
	required := w.required(nodes)
	for _, n := range nodes {
		for _, m := range w.resolve(n).get("properties").members() {
			if met[m.name] {
				continue
			}
			if len(list) >= maxFields {
				w.dropped = true
				break
			}
			met[m.name] = true
			list = append(list, field{
				name:     m.name,
				typ:      w.typ(m.value, hint+"_"+m.name, depth+1),
				required: required[m.name],
				note:     text.Line(describe(w.resolveNote(m.value)), maxNote),
				value:    m.value,
			})
		}
	}
	slices.SortStableFunc(list, func(a, b field) int {
		switch {
		case a.required == b.required:
			return 0
		case a.required:
			return -1
		}
		return 1
	})
	return list
}

// required are the names that nodes ask for together: what the first one does, and of the others what any of them does,
// or where they are alternatives what all of them do.
func (w *writer) required(nodes []node) map[string]bool {
	need := 1
	if alternative(nodes[0]) {
		need = len(nodes) - 1
	}
	count := map[string]int{}
	names := map[string]bool{}
	for i, n := range nodes {
		for _, name := range distinct(w.resolve(n).get("required").texts()) {
			count[name]++
			names[name] = names[name] || i == 0 || count[name] >= need
		}
	}
	return names
}

// alternative tells that the parts beside n are choices, so that what only they require is not required.
func alternative(n node) bool { return n.has("anyOf") || n.has("oneOf") }

// resolveNote is n when it describes itself, else what it refers to.
func (w *writer) resolveNote(n node) node {
	if n.get("description").text() != "" {
		return n
	}
	return w.resolve(n)
}

// describe is a property's own words with its format and bounds, as far as they help to fill it in.
func describe(n node) string {
	words := []string{}
	for _, key := range []string{"description", "title"} {
		if s := n.get(key).text(); s != "" {
			words = append(words, s)
			break
		}
	}
	for _, key := range []string{"format", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"} {
		if v := n.get(key); v.v != nil {
			value := v.text()
			if value == "" {
				value = v.raw()
			}
			words = append(words, "("+key+" "+value+")")
		}
	}
	return strings.Join(words, " ")
}

// Quote writes s as a Python string literal, everything invisible as an escape.
func Quote(s string) string { return strconv.Quote(strings.ToValidUTF8(s, "\uFFFD")) }

// literal writes a default as Python; "..." where it is long or no scalar worth writing.
func literal(n node) string {
	switch n.kind() {
	case '"', 't', 'f', 'n', '0':
		if lit, _ := scalar(n); len(lit) <= maxDefault {
			return lit
		}
	case '[':
		if len(n.items()) == 0 {
			return "[]"
		}
	case '{':
		if len(n.members()) == 0 {
			return "{}"
		}
	}
	return "..."
}

// ArgumentWords are the names of the top-level arguments, each with the beginning of its description, for a search index.
func ArgumentWords(input json.RawMessage) []string {
	in, err := parse(input)
	if err != nil {
		return nil
	}
	var words []string
	for _, m := range in.get("properties").members() {
		if len(words) == maxFields {
			break
		}
		words = append(words, m.name+" "+text.Line(m.value.get("description").text(), maxNote))
	}
	return words
}
