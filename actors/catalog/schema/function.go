package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/thawpool/thawpool/actors/catalog/pyname"
	"github.com/thawpool/thawpool/actors/catalog/text"
)

// Bounds of the text written for one tool, in bytes.
const (
	maxLine  = 800      // the signature in a summary
	maxStub  = 24 << 10 // the whole stub
	maxWords = 4 << 10  // the tool's description in its docstring
)

// Function is a tool as it is to be shown.
type Function struct {
	Name        string // its alias
	Server      string // whose words the descriptions are
	Description string
	Input       json.RawMessage // nil when the server gives none
	Output      json.RawMessage // nil when the server gives none
	Seen        json.RawMessage // the schema of a result seen earlier, used when Output is nil
}

// Doc is a function written as Python.
type Doc struct {
	Line    string // one line: async def name(*, a: str, b: int = 3) -> Result
	Stub    string // classes, then the function with its docstring; valid Python 3.12 or later
	Problem string // why it could not be described fully; empty if it was
}

// Describe writes f as Python. It always returns a usable signature.
func Describe(f Function) Doc {
	in, inErr := parse(f.Input)
	w := newWriter(in)
	params, problem := w.params(in, inErr, Camel(f.Name))
	returns, defs, seen := result(f, w)
	line := fmt.Sprintf("async def %s(%s) -> %s", f.Name, signature(f.Name, params), returns)
	if len(line) > maxLine {
		line = shortLine(f.Name, params, returns)
	}
	if problem == "" && w.dropped {
		problem = "parts of the schema are not shown in the signature"
	}
	return Doc{Line: line, Stub: stub(f, w, params, returns, defs, seen), Problem: problem}
}

// params lists the arguments. A problem says why they cannot be told; then the function takes anything.
func (w *writer) params(in node, err error, hint string) ([]field, string) {
	if err != nil {
		return nil, err.Error() + "; any argument is passed on"
	}
	if !in.isObject() {
		return nil, "the input schema is no object; any argument is passed on"
	}
	in = w.resolve(in)
	nodes := []node{in}
	for _, word := range []string{"allOf", "anyOf", "oneOf"} {
		nodes = append(nodes, in.get(word).items()...)
	}
	list := w.fields(hint, nodes, 0)
	switch {
	case len(list) > 0 && !in.has("properties"):
		return list, "the arguments are alternatives or references at the root of the schema; see inputSchema"
	case len(list) > 0 || in.has("properties"):
		return list, ""
	case len(in.members()) == 0 || (len(in.members()) == 1 && in.has("type")):
		return list, "the server does not describe the arguments; any argument is passed on"
	}
	if types := in.get("type").texts(); len(types) > 0 && types[0] != "object" {
		return nil, "the input schema is no object; any argument is passed on"
	}
	return list, "the arguments are described in a way that has no Python form; see inputSchema"
}

// result writes the return type, with the classes that it needs.
func result(f Function, in *writer) (typ string, defs []definition, seen bool) {
	schema := f.Output
	if len(schema) == 0 && len(f.Seen) > 0 {
		schema, seen = f.Seen, true
	}
	out, err := parse(schema)
	if err != nil {
		return "Any", nil, false
	}
	w := newWriter(out)
	for name := range in.taken {
		w.taken[name] = true
	}
	typ = w.typ(out, f.Name+"_result", 0)
	in.dropped = in.dropped || w.dropped
	return typ, w.defs, seen
}

// signature joins the parameters. Those that are no Python names go through a TypedDict: **more: Unpack[NameMore].
func signature(name string, params []field) string {
	var parts []string
	odd := false
	for _, p := range params {
		if !plain(p.name) {
			odd = true
			continue
		}
		part := p.name + ": " + p.typ
		if !p.required {
			part += " = " + literal(p.value.get("default"))
		}
		parts = append(parts, part)
	}
	if len(parts) > 0 {
		parts = append([]string{"*"}, parts...)
	}
	switch {
	case odd:
		parts = append(parts, "**"+unused("more", params)+": Unpack["+moreName(name)+"]")
	case params == nil:
		parts = append(parts, "**arguments: Any")
	}
	return strings.Join(parts, ", ")
}

// unused is name, with underscores until no parameter is called so.
func unused(name string, params []field) string {
	for slices.ContainsFunc(params, func(p field) bool { return p.name == name }) {
		name += "_"
	}
	return name
}

// plain tells that an argument's name can be written as a keyword argument.
func plain(name string) bool { return pyname.Identifier(name) }

func moreName(function string) string { return Camel(function) + "More" }

// shortLine gives the required arguments, and says how many others there are.
func shortLine(name string, params []field, returns string) string {
	if len(returns) > maxLine/4 {
		returns = "Any"
	}
	var parts []string
	size, rest := 0, 0
	for _, p := range params {
		part := p.name + ": " + p.typ
		if size += len(part) + 2; !p.required || !plain(p.name) || size > maxLine/2 {
			rest++
			continue
		}
		parts = append(parts, part)
	}
	if len(parts) > 0 {
		parts = append([]string{"*"}, parts...)
	}
	return fmt.Sprintf("async def %s(%s) -> %s  # and %d more arguments: see detail=\"full\"",
		name, strings.Join(append(parts, "**"+unused("more", params)+": Any"), ", "), returns, rest)
}

// stub writes the whole: classes, function, docstring. It stays below maxStub by leaving classes and lines out.
func stub(f Function, w *writer, params []field, returns string, defs []definition, seen bool) string {
	var head, doc strings.Builder
	room := maxStub
	write := func(b *strings.Builder, s string) bool {
		if room < len(s) {
			return false
		}
		room -= len(s)
		b.WriteString(s)
		return true
	}
	all := append(append([]definition{}, w.defs...), defs...)
	if more := oddOnes(f.Name, params); more != nil {
		all = append(all, *more)
	}
	line := fmt.Sprintf("async def %s(%s) -> %s:\n", f.Name, signature(f.Name, params), returns)
	if len(line) > maxStub/2 {
		line = fmt.Sprintf("async def %s(**arguments: Any) -> Any:  # too long to be shown\n", f.Name)
	}
	room -= len(line)
	write(&doc, docstring(text.Clean(f.Description, maxWords)))
	for i, p := range params {
		if p.note == "" {
			continue
		}
		if i == 0 || !strings.Contains(doc.String(), "\n\n    Args:\n") {
			write(&doc, "\n\n    Args:\n")
		}
		write(&doc, "        "+docstring(text.Line(p.name, maxNote))+": "+docstring(p.note)+"\n")
	}
	for _, d := range all {
		if !write(&head, d.String()+"\n\n") && !write(&head, "type "+d.name+" = Any  # too long to be shown\n\n") {
			break
		}
	}
	notes := "\n\n    (words supplied by server " + docstring(Quote(text.Line(f.Server, maxNote))) + ")"
	if seen {
		notes += "\n    The return type is what an earlier call gave; the server promises none."
	}
	return head.String() + line + `    """` + strings.TrimSpace(doc.String()) + notes + "\n    \"\"\"\n"
}

// oddOnes is the class of the arguments whose names are no Python names, nil when there are none.
func oddOnes(function string, params []field) *definition {
	d := definition{name: moreName(function)}
	for _, p := range params {
		if !plain(p.name) {
			d.fields = append(d.fields, p)
		}
	}
	if d.fields == nil {
		return nil
	}
	return &d
}

// docstring makes s safe within triple quotes, its lines indented.
func docstring(s string) string {
	s = strings.ReplaceAll(s, `\`, `\\`)
	s = strings.ReplaceAll(s, `"""`, `\"\"\"`)
	if strings.HasSuffix(s, `"`) {
		s = s[:len(s)-1] + `\"`
	}
	return strings.ReplaceAll(s, "\n", "\n    ")
}
