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
	Output      json.RawMessage // of what the code gets, see Wrapped; nil when the server gives none
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
	args, problem := w.params(in, inErr, Camel(f.Name))
	returns := result(f, w)
	line := fmt.Sprintf("async def %s(%s) -> %s", f.Name, signature(f.Name, args), returns.typ)
	if len(line) > maxLine {
		line = shortLine(f.Name, args, returns.typ)
	}
	if problem == "" && w.dropped {
		problem = "parts of the schema are not shown in the signature"
	}
	return Doc{Line: line, Stub: stub(f, w, args, returns), Problem: problem}
}

// params are the arguments of a function.
type params struct {
	fields []field
	open   bool // any other is passed on
}

// params lists the arguments. A problem says why they cannot be told; then the function takes anything.
func (w *writer) params(in node, err error, hint string) (p params, problem string) {
	anything := params{open: true}
	if err != nil {
		return anything, err.Error() + "; any argument is passed on"
	}
	if !in.isObject() {
		return anything, "the input schema is no object; any argument is passed on"
	}
	in = w.resolve(in)
	nodes := []node{in}
	for _, word := range []string{"allOf", "anyOf", "oneOf"} {
		nodes = append(nodes, in.get(word).items()...)
	}
	p.fields = w.fields(hint, nodes, 0)
	more := in.get("additionalProperties").kind()
	p.open = more == 't' || more == '{'
	switch {
	case len(p.fields) > 0 && !in.has("properties"):
		return p, "the arguments are alternatives or references at the root of the schema; see inputSchema"
	case len(p.fields) > 0 || in.has("properties"):
		return p, ""
	case more == 'f':
		return p, ""
	case len(in.members()) == 0 || (len(in.members()) == 1 && in.has("type")):
		return anything, "the server does not describe the arguments; any argument is passed on"
	}
	if types := in.get("type").texts(); len(types) > 0 && types[0] != "object" {
		return anything, "the input schema is no object; any argument is passed on"
	}
	return anything, "the arguments are described in a way that has no Python form; see inputSchema"
}

// returned is what a function gives back.
type returned struct {
	typ  string
	defs []definition // classes that it needs
	note string       // what the docstring says of it
}

// result writes the return type.
func result(f Function, in *writer) returned {
	schema, seen := f.Output, false
	if len(schema) == 0 && len(f.Seen) > 0 {
		schema, seen = f.Seen, true
	}
	out, err := parse(schema)
	if err != nil {
		return returned{typ: "Any"}
	}
	w := newWriter(out)
	for name := range in.taken {
		w.taken[name] = true
	}
	r := returned{typ: w.typ(out, f.Name+"_result", 0)}
	if seen {
		r.note = "The return type is what an earlier call gave; the server promises none."
		if inner := out.get("contentSchema"); inner.isObject() {
			r.note += " The text was JSON: json.loads gives " + w.typ(inner, f.Name+"_json", 0) + "."
		}
	}
	r.defs = w.defs
	in.dropped = in.dropped || w.dropped
	return r
}

// signature joins the parameters. Those that are no Python names go through a TypedDict: **more: Unpack[NameMore].
func signature(name string, all params) string {
	var parts []string
	odd := false
	for _, p := range all.fields {
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
		parts = append(parts, "**"+unused("more", all)+": Unpack["+moreName(name)+"]")
	case all.open:
		parts = append(parts, "**"+unused("arguments", all)+": Any")
	}
	return strings.Join(parts, ", ")
}

// unused is name, with underscores until no parameter is called so.
func unused(name string, all params) string {
	for slices.ContainsFunc(all.fields, func(p field) bool { return p.name == name }) {
		name += "_"
	}
	return name
}

// plain tells that an argument's name can be written as a keyword argument.
func plain(name string) bool { return pyname.Identifier(name) }

func moreName(function string) string { return Camel(function) + "More" }

// shortLine gives the required arguments, and says how many others there are.
func shortLine(name string, all params, returns string) string {
	if len(returns) > maxLine/4 {
		returns = "Any"
	}
	var parts []string
	size, rest := 0, 0
	for _, p := range all.fields {
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
		name, strings.Join(append(parts, "**"+unused("more", all)+": Any"), ", "), returns, rest)
}

// stub writes the whole: classes, function, docstring. It stays below maxStub by leaving classes and lines out.
func stub(f Function, w *writer, args params, returns returned) string {
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
	all := slices.Concat(w.defs, returns.defs)
	if more := oddOnes(f.Name, args); more != nil {
		all = append(all, *more)
	}
	line := fmt.Sprintf("async def %s(%s) -> %s:\n", f.Name, signature(f.Name, args), returns.typ)
	if len(line) > maxStub/2 {
		line = fmt.Sprintf("async def %s(**arguments: Any) -> Any:  # too long to be shown\n", f.Name)
	}
	room -= len(line)
	write(&doc, docstring(text.Clean(f.Description, maxWords)))
	heading := "\n\n    Args:\n"
	for _, p := range args.fields {
		if p.note == "" {
			continue
		}
		write(&doc, heading)
		heading = ""
		write(&doc, "        "+docstring(text.Line(p.name, maxNote))+": "+docstring(p.note)+"\n")
	}
	for _, d := range all {
		if !write(&head, d.String()+"\n\n") && !write(&head, "type "+d.name+" = Any  # too long to be shown\n\n") {
			break
		}
	}
	notes := "\n\n    (words supplied by server " + docstring(Quote(text.Line(f.Server, maxNote))) + ")"
	if returns.note != "" {
		notes += "\n    " + docstring(returns.note)
	}
	return head.String() + line + `    """` + strings.TrimSpace(doc.String()) + notes + "\n    \"\"\"\n"
}

// oddOnes is the class of the arguments whose names are no Python names, nil when there are none.
func oddOnes(function string, all params) *definition {
	d := definition{name: moreName(function)}
	for _, p := range all.fields {
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
	s = strings.ReplaceAll(s, "\n", "\n    ")
	return strings.ReplaceAll(s, "\n    \n", "\n\n") // no white space on empty lines
}
