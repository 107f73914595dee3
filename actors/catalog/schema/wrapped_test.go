package schema

import (
	"encoding/json"
	"testing"
)

func TestWrapped(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ output, want string }{
		"python sdk": {`{"title":"addOutput","type":"object","properties":{"result":{"type":"integer"}},"required":["result"]}`, `{"type":"integer"}`},
		"fastmcp":    {`{"x-fastmcp-wrap-result":true,"type":"object","properties":{"result":{"type":"string"}},"required":["result"]}`, `{"type":"string"}`},
		"references": {`{"title":"addOutput","properties":{"result":{"items":{"$ref":"#/$defs/P"}}},"required":["result"],"$defs":{"P":{}}}`, `{"$defs":{"P":{}},"items":{"$ref":"#/$defs/P"}}`},
		"by chance":  {`{"title":"Sum","properties":{"result":{"type":"integer"}},"required":["result"]}`, ``},
		"more":       {`{"title":"addOutput","properties":{"result":{},"x":{}},"required":["result"]}`, ``},
		"optional":   {`{"title":"addOutput","properties":{"result":{}}}`, ``},
		"none":       {``, ``},
		"no object":  {`["result"]`, ``},
	} {
		inner, ok := Wrapped("add", json.RawMessage(tc.output))
		if ok != (tc.want != "") || string(inner) != tc.want {
			t.Errorf("%s: %s, %t", name, inner, ok)
		}
	}
}
