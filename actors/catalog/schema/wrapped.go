package schema

import (
	"bytes"
	"encoding/json"
)

// Wrapped looks at the output schema of the tool called name. Servers in Python put a bare value, which MCP does not allow
// as structured content, into an object {"result": value}; code should get the value itself. The schema then says so: by
// FastMCP's mark, or by the title that the official Python SDK gives it. inner is the value's schema.
func Wrapped(name string, output json.RawMessage) (inner json.RawMessage, ok bool) {
	if !bytes.Contains(output, []byte(`"result"`)) {
		return nil, false
	}
	var s struct {
		Title      string                     `json:"title"`
		Mark       bool                       `json:"x-fastmcp-wrap-result"`
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
		Defs       json.RawMessage            `json:"$defs"`
	}
	if json.Unmarshal(output, &s) != nil || len(s.Properties) != 1 || len(s.Required) != 1 || s.Required[0] != "result" {
		return nil, false
	}
	inner = s.Properties["result"]
	if inner == nil || !s.Mark && s.Title != name+"Output" {
		return nil, false
	}
	return withDefs(inner, s.Defs), true
}

// withDefs gives a part of a schema what its references point to.
func withDefs(part, defs json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if defs == nil || json.Unmarshal(part, &fields) != nil || fields == nil || fields["$defs"] != nil {
		return part
	}
	fields["$defs"] = defs
	whole, err := json.Marshal(fields)
	if err != nil {
		return part
	}
	return whole
}
