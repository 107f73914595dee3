package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/thawpool/thawpool/actors/catalog/text"
	"github.com/thawpool/thawpool/runtime/guest"
)

const (
	// maxPaths bounds how many subschemas may apply to one value, counted through references: allOf of two references
	// to allOf of two references … doubles the work at each level.
	maxPaths = 5000
	// maxCyclic bounds how deep arguments nest that are checked by a schema that contains itself: such a schema can
	// make work that is exponential in that depth.
	maxCyclic = 8
	// maxChecked bounds the size in bytes of arguments that are checked by the whole schema.
	maxChecked = 256 << 10
	// maxFaults bounds how many faults one message tells.
	maxFaults = 5
)

// ErrArguments is the kind of every fault that Check finds.
var ErrArguments = errors.New("wrong arguments")

// Checker checks arguments of one tool. It is safe for concurrent use.
type Checker struct {
	names    []string // declared arguments, in the server's order
	required []string
	closed   bool // no other names are meant
	schema   *jsonschema.Schema
	cyclic   bool
}

// NewChecker prepares input, a tool's input schema. From a schema that cannot be understood comes a Checker that lets
// everything pass that it cannot judge.
func NewChecker(input json.RawMessage) *Checker {
	in, err := parse(input)
	if err != nil || !in.isObject() {
		return &Checker{}
	}
	c := &Checker{closed: closed(in)}
	for _, m := range in.get("properties").members() {
		c.names = append(c.names, m.name)
	}
	c.required = in.get("required").texts()
	work := &counter{root: in, known: map[string]int{}}
	c.schema = compile(work, input)
	c.cyclic = work.cyclic
	return c
}

// closed tells that in lists every argument there is. By the letter an object without additionalProperties is open, but
// servers do not mean that: they ignore or refuse what they do not list.
func closed(in node) bool {
	for _, word := range []string{"patternProperties", "$ref", "anyOf", "oneOf", "allOf", "if", "dependentSchemas", "propertyNames"} {
		if in.has(word) {
			return false
		}
	}
	switch more := in.get("additionalProperties"); more.kind() {
	case 't', '{':
		return false
	case 'f':
		return true
	}
	return len(in.get("properties").members()) > 0
}

// compile prepares the whole schema, nil when it is not valid, refers outside itself, or would be too dear to apply.
func compile(n *counter, raw json.RawMessage) *jsonschema.Schema {
	if n.paths(n.root, 0) > maxPaths {
		return nil
	}
	if types := n.root.get("type").texts(); len(types) > 0 && !slices.Contains(types, "object") {
		return nil // arguments always are an object: this schema cannot be meant
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil
	}
	allowNull(doc)
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{}) // loads nothing: no file and no network is ever touched
	if c.AddResource("tool.json", doc) != nil {
		return nil
	}
	s, err := c.Compile("tool.json")
	if err != nil {
		return nil
	}
	return s
}

// allowNull writes OpenAPI's "nullable": true, which many servers send, as JSON Schema does.
func allowNull(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			allowNull(e)
		}
	case map[string]any:
		for _, e := range v {
			allowNull(e)
		}
		if v["nullable"] != true {
			return
		}
		if t, ok := v["type"].(string); ok {
			v["type"] = []any{t, "null"}
		}
		if list, ok := v["enum"].([]any); ok {
			v["enum"] = append(list, nil)
		}
	}
}

// Check looks at args, a JSON object. The error, of kind ErrArguments, names each fault, with the nearest names for one
// that is not known. What only the server can judge (patterns, ranges, formats) is left to the server.
func (c *Checker) Check(args json.RawMessage) error {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(args, &given); err != nil || given == nil {
		return fmt.Errorf("%w: arguments must be one object", ErrArguments)
	}
	faults := c.unknown(given)
	for _, name := range c.required {
		if _, ok := given[name]; !ok {
			faults = append(faults, fmt.Sprintf("missing argument %s", show(name)))
		}
	}
	if len(faults) == 0 && c.schema != nil && len(args) <= maxChecked && (!c.cyclic || guest.Depth(args) <= maxCyclic) {
		faults = c.invalid(args)
	}
	if len(faults) == 0 {
		return nil
	}
	if more := len(faults) - maxFaults; more > 0 {
		faults = append(faults[:maxFaults], fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("%w: %s", ErrArguments, strings.Join(faults, "; "))
}

func (c *Checker) unknown(given map[string]json.RawMessage) []string {
	if !c.closed {
		return nil
	}
	var faults []string
	for name := range given {
		if slices.Contains(c.names, name) {
			continue
		}
		fault := fmt.Sprintf("unknown argument %s", show(name))
		if near := Nearest(name, c.names); len(near) > 0 {
			fault += ", did you mean " + strings.Join(quoteAll(near), " or ") + "?"
			if !plain(near[0]) {
				fault += " Python takes it as **{" + show(near[0]) + ": ...}"
			}
		}
		faults = append(faults, fault)
	}
	slices.Sort(faults)
	return faults
}

// invalid lists what the schema itself refuses.
func (c *Checker) invalid(args json.RawMessage) []string {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(args))
	if err != nil {
		return nil
	}
	var broken *jsonschema.ValidationError
	if !errors.As(c.schema.Validate(value), &broken) || !plainFault(broken) {
		return nil
	}
	var faults []string
	collect(broken, &faults)
	return distinct(faults)
}

// plainFault tells that e is about types, listed values or missing names, which no server takes in another way.
func plainFault(e *jsonschema.ValidationError) bool {
	switch e.ErrorKind.(type) {
	case *kind.Type, *kind.Enum, *kind.Const, *kind.Required, *kind.AdditionalProperties:
		return true
	case *kind.AnyOf, *kind.OneOf:
		return len(e.Causes) > 0 && !slices.ContainsFunc(e.Causes, func(c *jsonschema.ValidationError) bool { return !plainFault(c) })
	}
	return slices.ContainsFunc(e.Causes, plainFault)
}

var english = message.NewPrinter(language.English)

// collect adds the plain faults below e, each with the place in the arguments.
func collect(e *jsonschema.ValidationError, faults *[]string) {
	if len(*faults) > maxFaults || !plainFault(e) {
		return
	}
	if len(e.Causes) == 0 {
		at := "arguments"
		if len(e.InstanceLocation) > 0 {
			at = "argument " + show(strings.Join(e.InstanceLocation, "."))
		}
		*faults = append(*faults, at+": "+text.Line(e.ErrorKind.LocalizedString(english), 200))
		return
	}
	for _, c := range e.Causes {
		collect(c, faults)
	}
}

func show(name string) string { return Quote(text.Line(name, maxNote)) }

func quoteAll(names []string) []string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = show(n)
	}
	return quoted
}
