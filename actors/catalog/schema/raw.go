package schema

import (
	"encoding/json"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/thawpool/thawpool/actors/catalog/text"
)

// maxRaw bounds a schema in bytes that is shown as it is.
const maxRaw = 64 << 10

// Readable is raw for showing: compact, members in order, numbers exact, every string and name cleaned as package text
// does. The problem says why it is nil, or what is odd.
func Readable(raw json.RawMessage) (shown json.RawMessage, problem string) {
	if len(raw) == 0 {
		return nil, ""
	}
	if len(raw) > maxRaw {
		return nil, "the schema is too large to be shown"
	}
	n, err := parse(raw)
	if err != nil {
		return nil, err.Error()
	}
	n.v.Minimize()
	for v := range n.v.All() {
		switch t := v.Value.(type) {
		case hujson.Literal:
			if cleaned, changed := clean(t); changed {
				v.Value = cleaned
			}
		case *hujson.Object:
			for i := range t.Members {
				if cleaned, changed := clean(t.Members[i].Name.Value.(hujson.Literal)); changed {
					t.Members[i].Name.Value = cleaned
					problem = "a name in the schema has characters that cannot be seen"
				}
			}
		}
	}
	return json.RawMessage(n.v.Pack()), problem
}

func clean(l hujson.Literal) (hujson.Literal, bool) {
	if l.Kind() != '"' {
		return l, false
	}
	before := l.String()
	if !strings.ContainsFunc(before, text.Hidden) {
		return l, false
	}
	return hujson.String(text.Clean(before, maxRaw)), true
}
