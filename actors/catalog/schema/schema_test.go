package schema

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// tools are schemas of the kinds that servers really send, odd ones included.
var tools = map[string]string{
	"plain":        `{"type":"object","properties":{"path":{"type":"string","description":"Where to \"look\"\nfor it"},"limit":{"type":"integer","default":10,"minimum":1},"follow":{"type":"boolean"},"mode":{"enum":["r","w"],"default":"r"}},"required":["path"],"additionalProperties":false}`,
	"nested":       `{"type":"object","properties":{"filter":{"type":"object","properties":{"tags":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}},"since":{"type":"string","format":"date-time"}}},"sort":{"type":["string","null"]}},"required":["filter"]}`,
	"unions":       `{"type":"object","properties":{"id":{"anyOf":[{"type":"integer"},{"type":"string"},{"type":"null"}]},"v":{"oneOf":[{"const":1},{"const":"x"}]},"n":{"type":"number","nullable":true},"any":true,"none":false,"meta":{"type":"object","additionalProperties":{"type":"number"}},"pair":{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}]},"bag":{"type":"object"}}}`,
	"refs":         `{"type":"object","properties":{"node":{"$ref":"#/$defs/Node"},"color":{"$ref":"#/$defs/Color"},"json":{"$ref":"#/$defs/Json"}},"required":["node"],"$defs":{"Color":{"enum":["red","green"],"type":"string"},"Node":{"type":"object","properties":{"value":{"type":"integer"},"children":{"type":"array","items":{"$ref":"#/$defs/Node"}}},"required":["value"]},"Json":{"anyOf":[{"type":"string"},{"type":"array","items":{"$ref":"#/$defs/Json"}},{"type":"object","additionalProperties":{"$ref":"#/$defs/Json"}}]}}}`,
	"root cycle":   `{"type":"object","properties":{"self":{"$ref":"#"},"name":{"type":"string"}}}`,
	"empty cycle":  `{"$ref":"#"}`,
	"root anyOf":   `{"anyOf":[{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]},{"type":"object","properties":{"b":{"type":"integer"}},"required":["b"]}]}`,
	"either":       `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"anyOf":[{"required":["a"]},{"required":["b"]}]}`,
	"allOf":        `{"allOf":[{"$ref":"#/definitions/Base"},{"properties":{"extra":{"type":"boolean"}},"required":["extra"]}],"definitions":{"Base":{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}}}`,
	"odd names":    `{"type":"object","properties":{"from":{"type":"integer"},"reply-to":{"type":"string","description":"who"},"class":{"type":"string"},"größe":{"type":"number"},"more":{"type":"string"},"self":{"type":"string"},"__x":{"type":"object","properties":{"__y":{"type":"string"},"a b":{"type":"string"}}}},"required":["from"]}`,
	"no schema":    ``,
	"empty":        `{}`,
	"true":         `true`,
	"string":       `"object"`,
	"array root":   `{"type":"array","items":{"type":"string"}}`,
	"type object":  `{"type":"object"}`,
	"no arguments": `{"type":"object","properties":{}}`,
	"foreign ref":  `{"type":"object","properties":{"x":{"$ref":"https://example.com/x.json"},"y":{"$ref":"#/nowhere"}}}`,
	"bad members":  `{"type":7,"properties":{"a":7,"b":"x","c":null,"d":{"type":"decimal"},"e":{"enum":[]},"f":{"enum":[1.5,{"a":1},[1]]}},"required":"a"}`,
	"hostile":      `{"type":"object","properties":{"a\u202eb":{"type":"string","description":"x\"\"\"\\\nimport os"},"q":{"enum":["a\"]","\u202e","\\"]},"\"); import os; (\"":{"type":"string"}}}`,
	"deep default": `{"type":"object","properties":{"o":{"type":"object","default":{"a":1}},"e":{"type":"array","default":[]},"s":{"type":"string","default":"a\"\n\\b"},"b":{"type":"integer","default":9007199254740993}}}`,
	"doubling":     doubling(24),
}

// doubling is a schema whose text would be 2^n long if every reference were written out.
func doubling(n int) string {
	var b strings.Builder
	b.WriteString(`{"type":"object","properties":{"x":{"$ref":"#/$defs/d0"}},"$defs":{`)
	for i := range n {
		next := "d" + string(rune('a'+i))
		if i == 0 {
			b.WriteString(`"d0":`)
		} else {
			b.WriteString(`"d` + string(rune('a'+i-1)) + `":`)
		}
		b.WriteString(`{"anyOf":[{"type":"array","items":{"$ref":"#/$defs/` + next + `"}},{"type":"object","additionalProperties":{"$ref":"#/$defs/` + next + `"}}]},`)
	}
	b.WriteString(`"d` + string(rune('a'+n-1)) + `":{"type":"string"}}}`)
	return b.String()
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, tool, args, want string }{
		{"right", "plain", `{"path":"x","limit":3}`, ""},
		{"missing", "plain", `{}`, `missing argument "path"`},
		{"misspelt", "plain", `{"path":"x","limt":3}`, `unknown argument "limt", did you mean "limit"?`},
		{"a keyword of Python", "odd names", `{"from":1,"class_":"x"}`, `did you mean "class"? Python takes it as **{"class": ...}`},
		{"no identifier", "odd names", `{"from":1,"reply_to":"x"}`, `Python takes it as **{"reply-to": ...}`},
		{"wrong type", "plain", `{"path":3}`, `argument "path": got number, want string`},
		{"not listed", "plain", `{"path":"x","mode":"a"}`, `argument "mode": value must be one of 'r', 'w'`},
		{"range is the server's to judge", "plain", `{"path":"x","limit":0}`, ""},
		{"nested missing", "nested", `{"filter":{"tags":[{}]}}`, `argument "filter.tags.0": missing property 'name'`},
		{"big integers pass", "plain", `{"path":"x","limit":1915883588174806058}`, ""},
		{"union", "unions", `{"id":[]}`, `argument "id": got array, want integer`},
		{"union fits", "unions", `{"id":null,"v":"x","n":null}`, ""},
		{"cycle", "root cycle", `{"self":{"self":{"name":1}}}`, `got number, want string`},
		{"cycle too deep to judge", "root cycle", strings.Repeat(`{"self":`, 30) + `{"name":1}` + strings.Repeat("}", 30), ""},
		{"no schema takes all", "no schema", `{"x":1}`, ""},
		{"odd schema takes all", "array root", `{"x":1}`, ""},
		{"root anyOf", "root anyOf", `{"c":1}`, `missing property`},
		{"not an object", "plain", `[1]`, `one object`},
		{"foreign reference", "foreign ref", `{"x":1,"y":2}`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := NewChecker(json.RawMessage(tools[tc.tool])).Check(json.RawMessage(tc.args))
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("got %v", err)
			case tc.want != "" && (!errors.Is(err, ErrArguments) || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
