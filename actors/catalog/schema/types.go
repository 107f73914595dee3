package schema

import (
	"slices"
	"strings"
)

// Bounds of what is written for one tool. They keep any schema's cost linear and its text readable.
const (
	maxDepth    = 12  // nested types without a name of their own
	maxClasses  = 64  // TypedDict classes and type aliases
	maxLiterals = 24  // values of a Literal; with more the plain type is given
	maxInline   = 320 // bytes of a type; longer ones behind a $ref get a name, so that text cannot grow exponentially
	maxUnion    = 24  // members of a union
)

// writer collects the classes that the types of one tool need.
type writer struct {
	root    node
	defs    []definition
	taken   map[string]bool
	refs    map[string]*reference
	dropped bool // something was left out because of a bound or an unknown reference
}

// definition is one class or alias, in the order in which it was first needed.
type definition struct {
	name   string
	fields []field // of a TypedDict
	alias  string  // of a type alias, when fields is nil
}

type field struct {
	name     string
	typ      string
	required bool
	note     string // one line, cleaned
	value    node   // the property's schema
}

type reference struct {
	name string // kept for it when it turns out to need one
	typ  string // what to write; empty while it is being worked on
	used bool   // met again while being worked on: it is a cycle
}

func newWriter(root node) *writer {
	w := &writer{root: root, refs: map[string]*reference{}, taken: map[string]bool{}}
	for _, name := range []string{"Any", "Literal", "Never", "NotRequired", "Required", "TypedDict", "Unpack", "None", "True", "False"} {
		w.taken[name] = true
	}
	return w
}

// typ writes n as a Python type. hint names a class if one is needed.
func (w *writer) typ(n node, hint string, depth int) string {
	switch n.kind() {
	case 't':
		return "Any"
	case 'f':
		return "Never"
	case '{':
	default:
		return "Any"
	}
	if depth > maxDepth {
		w.dropped = true
		return "Any"
	}
	t := w.bare(n, hint, depth)
	if v := n.get("nullable"); v.kind() == 't' {
		t = union([]string{t, "None"})
	}
	return t
}

// bare is typ without nullable.
func (w *writer) bare(n node, hint string, depth int) string {
	if ref := n.get("$ref").text(); ref != "" {
		return w.refer(ref, hint, depth)
	}
	if c := n.get("const"); c.v != nil {
		return literals([]node{c})
	}
	if e := n.get("enum"); e.kind() == '[' && len(e.items()) > 0 {
		return literals(e.items())
	}
	for _, word := range []string{"anyOf", "oneOf"} {
		if t, ok := w.either(n, word, hint, depth); ok {
			return t
		}
	}
	if all := n.get("allOf").items(); len(all) > 0 {
		return w.all(n, all, hint, depth)
	}
	types := n.get("type").texts()
	if len(types) == 0 {
		types = []string{guess(n)}
	}
	var parts []string
	for _, t := range types[:min(len(types), maxUnion)] {
		parts = append(parts, w.simple(n, t, hint, depth))
	}
	return union(parts)
}

// simple writes n taken as one of JSON Schema's seven types.
func (w *writer) simple(n node, typ, hint string, depth int) string {
	switch typ {
	case "string":
		return "str"
	case "integer":
		return "int"
	case "number":
		return "float"
	case "boolean":
		return "bool"
	case "null":
		return "None"
	case "array":
		return w.array(n, hint, depth)
	case "object":
		return w.object(n, hint, depth)
	}
	return "Any"
}

// guess infers a type that is left out from the keywords that are there.
func guess(n node) string {
	for _, g := range []struct {
		typ   string
		words []string
	}{
		{"object", []string{"properties", "additionalProperties", "patternProperties", "required", "propertyNames"}},
		{"array", []string{"items", "prefixItems", "minItems", "maxItems", "uniqueItems"}},
		{"string", []string{"pattern", "format", "minLength", "maxLength"}},
		{"number", []string{"minimum", "maximum", "multipleOf", "exclusiveMinimum", "exclusiveMaximum"}},
	} {
		if slices.ContainsFunc(g.words, n.has) {
			return g.typ
		}
	}
	return ""
}

func (w *writer) array(n node, hint string, depth int) string {
	var parts []string
	elements := append(n.get("prefixItems").items(), n.get("items").items()...) // draft-07 tuples are arrays in items
	for _, e := range elements[:min(len(elements), maxUnion)] {
		parts = append(parts, w.typ(e, hint+"Item", depth+1))
	}
	if items := n.get("items"); items.kind() == '{' || items.kind() == 't' {
		parts = append(parts, w.typ(items, hint+"Item", depth+1))
	}
	if len(parts) == 0 {
		return "list[Any]"
	}
	return "list[" + union(parts) + "]"
}

func (w *writer) object(n node, hint string, depth int) string {
	if len(n.get("properties").members()) > 0 {
		return w.class(w.name(hint), []node{n}, depth)
	}
	var parts []string
	for _, m := range n.get("patternProperties").members() {
		parts = append(parts, w.typ(m.value, hint+"Value", depth+1))
	}
	if more := n.get("additionalProperties"); more.kind() == '{' {
		parts = append(parts, w.typ(more, hint+"Value", depth+1))
	}
	if len(parts) == 0 {
		return "dict[str, Any]"
	}
	return "dict[str, " + union(parts) + "]"
}

// refer writes the target of a reference, by name if it is a cycle or long.
func (w *writer) refer(ref, hint string, depth int) string {
	target := w.root.find(ref)
	if target.v == nil {
		w.dropped = true
		return "Any"
	}
	r, met := w.refs[ref]
	if met {
		if r.typ != "" {
			return r.typ
		}
		r.used = true
		return r.name
	}
	last := ref[strings.LastIndexByte(ref, '/')+1:]
	if last == "" || last == "#" {
		last = hint
	}
	r = &reference{name: w.name(last)}
	w.refs[ref] = r
	if len(target.get("properties").members()) > 0 && plainObject(target) {
		r.typ = w.class(r.name, []node{target}, 0)
		return r.typ
	}
	t := w.typ(target, last, depth+1)
	switch {
	case r.used || len(t) > maxInline:
		r.typ = w.alias(r.name, t)
	default:
		delete(w.taken, r.name)
		r.typ = t
	}
	return r.typ
}

// plainObject tells that nothing but its own properties describes the object n.
func plainObject(n node) bool {
	for _, word := range []string{"$ref", "anyOf", "oneOf", "allOf", "enum", "const"} {
		if n.has(word) {
			return false
		}
	}
	types := n.get("type").texts()
	return len(types) == 0 || (len(types) == 1 && types[0] == "object")
}

// either writes the alternatives under word, false when they say nothing about types.
func (w *writer) either(n node, word, hint string, depth int) (string, bool) {
	branches := n.get(word).items()
	if len(branches) == 0 {
		return "", false
	}
	if n.has("properties") { // alternatives of one object: one class that has the fields of all
		return w.class(w.name(hint), append([]node{n}, branches...), depth), true
	}
	var parts []string
	for _, b := range branches[:min(len(branches), maxUnion)] {
		if b.kind() == '{' && saysNothing(b) {
			continue
		}
		parts = append(parts, w.typ(b, hint, depth+1))
	}
	if len(parts) == 0 {
		return "", false
	}
	w.dropped = w.dropped || len(branches) > maxUnion
	return union(parts), true
}

// saysNothing tells that b only restricts, as {"required": ["a"]} does, and describes no type of its own.
func saysNothing(b node) bool {
	for _, m := range b.members() {
		switch m.name {
		case "required", "not", "title", "description", "if", "then", "else", "dependentRequired":
		default:
			return false
		}
	}
	return true
}

// all writes a conjunction: one class when every part is an object, else the first part that says something.
func (w *writer) all(n node, parts []node, hint string, depth int) string {
	objects := []node{n}
	for _, p := range parts {
		objects = append(objects, w.resolve(p))
	}
	if slices.ContainsFunc(objects, func(o node) bool { return len(o.get("properties").members()) > 0 }) {
		return w.class(w.name(hint), objects, depth)
	}
	for _, p := range parts {
		if t := w.typ(p, hint, depth+1); t != "Any" {
			return t
		}
	}
	return w.simple(n, n.get("type").text(), hint, depth)
}

// resolve follows references, a bounded number of times.
func (w *writer) resolve(n node) node {
	for range maxDepth {
		ref := n.get("$ref").text()
		if ref == "" {
			break
		}
		n = w.root.find(ref)
	}
	return n
}
