package schema

import (
	"strings"

	"github.com/thawpool/thawpool/actors/catalog/text"
)

// String writes d as Python: a class, a TypedDict call when a key is no Python name, or a type alias.
func (d definition) String() string {
	if d.fields == nil {
		return "type " + d.name + " = " + d.alias
	}
	for _, f := range d.fields {
		if !plain(f.name) || strings.HasPrefix(f.name, "__") { // a class body would mangle the latter
			return d.call()
		}
	}
	var b strings.Builder
	b.WriteString("class " + d.name + "(TypedDict):")
	for _, f := range d.fields {
		b.WriteString("\n    " + f.name + ": " + f.annotation() + f.comment())
	}
	return b.String()
}

// call is the functional form, which takes any key. Its types are quoted where they are not evaluated lazily.
func (d definition) call() string {
	var b strings.Builder
	b.WriteString(d.name + " = TypedDict(" + Quote(d.name) + ", {")
	for _, f := range d.fields {
		b.WriteString("\n    " + Quote(text.Line(f.name, maxNote)) + ": " + Quote(f.annotation()) + "," + f.comment())
	}
	b.WriteString("\n})")
	return b.String()
}

func (f field) annotation() string {
	if f.required {
		return f.typ
	}
	return "NotRequired[" + f.typ + "]"
}

func (f field) comment() string {
	if f.note == "" {
		return ""
	}
	return "  # " + f.note
}
