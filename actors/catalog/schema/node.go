// Package schema turns JSON Schemas of upstream tools into Python that a model reads, and checks arguments against them.
// Schemas come from strangers: they may be odd, huge, cyclic or hostile. Nothing in here fails because of that; what
// cannot be understood is told as such and stays callable.
package schema

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/tailscale/hujson"
)

// MaxSchema bounds a schema in bytes that is looked into at all; real ones stay below some tens of KiB.
const MaxSchema = 256 << 10

var (
	errNone  = errors.New("the server gives no schema")
	errLarge = errors.New("the schema is too large to be read")
	errJSON  = errors.New("the schema is not JSON")
)

// node is one JSON value of a schema, its object members in the server's order.
type node struct{ v *hujson.Value }

func parse(raw json.RawMessage) (node, error) {
	switch {
	case len(raw) == 0:
		return node{}, errNone
	case len(raw) > MaxSchema:
		return node{}, errLarge
	case !json.Valid(raw): // also bounds the nesting, which hujson does not
		return node{}, errJSON
	}
	v, err := hujson.Parse(raw)
	if err != nil {
		return node{}, errJSON
	}
	return node{&v}, nil
}

func (n node) kind() hujson.Kind {
	if n.v == nil {
		return 0
	}
	return n.v.Value.Kind()
}

func (n node) isObject() bool { return n.kind() == '{' }

// members are an object's; nil for anything else. Of equal names the last counts, as in every JSON library.
func (n node) members() []member {
	o, ok := n.object()
	if !ok {
		return nil
	}
	list := make([]member, 0, len(o.Members))
	at := make(map[string]int, len(o.Members))
	for i := range o.Members {
		name := o.Members[i].Name.Value.(hujson.Literal).String()
		if j, twice := at[name]; twice {
			list[j].value = node{&o.Members[i].Value}
			continue
		}
		at[name] = len(list)
		list = append(list, member{name, node{&o.Members[i].Value}})
	}
	return list
}

type member struct {
	name  string
	value node
}

func (n node) object() (*hujson.Object, bool) {
	if n.v == nil {
		return nil, false
	}
	o, ok := n.v.Value.(*hujson.Object)
	return o, ok
}

// get returns the member of that name; a node that is nothing when there is none.
func (n node) get(name string) node {
	o, ok := n.object()
	if !ok {
		return node{}
	}
	for i := len(o.Members) - 1; i >= 0; i-- {
		if o.Members[i].Name.Value.(hujson.Literal).String() == name {
			return node{&o.Members[i].Value}
		}
	}
	return node{}
}

func (n node) has(name string) bool { return n.get(name).v != nil }

// items are an array's elements; nil for anything else.
func (n node) items() []node {
	if n.v == nil {
		return nil
	}
	a, ok := n.v.Value.(*hujson.Array)
	if !ok {
		return nil
	}
	list := make([]node, len(a.Elements))
	for i := range a.Elements {
		list[i] = node{&a.Elements[i]}
	}
	return list
}

// text is a string's value, empty for anything else.
func (n node) text() string {
	if n.kind() != '"' {
		return ""
	}
	return n.v.Value.(hujson.Literal).String()
}

// texts are the strings of an array, or one string by itself.
func (n node) texts() []string {
	if n.kind() == '"' {
		return []string{n.text()}
	}
	var list []string
	for _, e := range n.items() {
		if e.kind() == '"' {
			list = append(list, e.text())
		}
	}
	return list
}

// raw is the value as compact JSON.
func (n node) raw() string {
	if n.v == nil {
		return ""
	}
	c := n.v.Clone()
	c.Minimize()
	return string(c.Pack())
}

// find resolves a reference within the same document.
func (n node) find(ref string) node {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok || n.v == nil {
		return node{}
	}
	return node{n.v.Find(pointer)}
}
