package schema

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Bounds of a remembered shape.
const (
	maxShapeDepth = 6
	maxShapeKeys  = 40
	maxShapeItems = 20 // elements of an array that are looked at
	maxShapeInput = 1 << 20
)

// Shape infers a schema from a tool's result, an MCP CallToolResult: of its structured content, else of its text. It
// holds names and types only, no values. nil when the result is an error or says nothing.
func Shape(result json.RawMessage) json.RawMessage {
	var r struct {
		IsError    bool            `json:"isError"`
		Structured json.RawMessage `json:"structuredContent"`
		Meta       struct {
			FastMCP struct {
				Wrap bool `json:"wrap_result"`
			} `json:"fastmcp"`
		} `json:"_meta"`
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
	}
	if len(result) > maxShapeInput || json.Unmarshal(result, &r) != nil || r.IsError {
		return nil
	}
	if len(r.Structured) > 0 && !bytes.Equal(r.Structured, []byte("null")) {
		return shapeOf(r.Structured, r.Meta.FastMCP.Wrap)
	}
	switch {
	case len(r.Content) > 1 || (len(r.Content) == 1 && r.Content[0].Type != "text"):
		return json.RawMessage(`{"type":"array","description":"content blocks"}`)
	case len(r.Content) == 0:
		return nil
	}
	shape := map[string]any{"type": "string"}
	if t := strings.TrimSpace(r.Content[0].Text); strings.HasPrefix(t, "{") || strings.HasPrefix(t, "[") {
		if inner := shapeOf(json.RawMessage(t), false); inner != nil {
			shape["description"] = "JSON text"
			shape["contentMediaType"] = "application/json"
			shape["contentSchema"] = inner
		}
	}
	return encode(shape)
}

// shapeOf infers the schema of raw, or when it is wrapped, of its "result", which is what the code gets.
func shapeOf(raw json.RawMessage, wrapped bool) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	if m, ok := v.(map[string]any); ok && wrapped && len(m) == 1 {
		v = m["result"]
	}
	return encode(infer(v, 0))
}

func encode(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil || len(raw) > MaxSchema/4 {
		return nil
	}
	return raw
}

func infer(v any, depth int) map[string]any {
	switch v := v.(type) {
	case nil:
		return map[string]any{"type": "null"}
	case bool:
		return map[string]any{"type": "boolean"}
	case string:
		return map[string]any{"type": "string"}
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return map[string]any{"type": "number"}
		}
		return map[string]any{"type": "integer"}
	case []any:
		return inferArray(v, depth)
	case map[string]any:
		return inferObject(v, depth)
	}
	return map[string]any{}
}

func inferArray(v []any, depth int) map[string]any {
	shape := map[string]any{"type": "array"}
	if depth >= maxShapeDepth {
		return shape
	}
	var kinds []any
	var seen []string
	for _, e := range v[:min(len(v), maxShapeItems)] {
		s := infer(e, depth+1)
		if raw := string(encode(s)); !slices.Contains(seen, raw) {
			seen = append(seen, raw)
			kinds = append(kinds, s)
		}
	}
	switch {
	case len(kinds) == 1:
		shape["items"] = kinds[0]
	case len(kinds) > 1 && len(kinds) <= 3:
		shape["items"] = map[string]any{"anyOf": kinds}
	}
	return shape
}

// inferObject keeps the keys when they look like names of fields; one that is a table of data has none of its keys kept.
func inferObject(v map[string]any, depth int) map[string]any {
	shape := map[string]any{"type": "object"}
	if depth >= maxShapeDepth || len(v) > maxShapeKeys {
		return shape
	}
	properties, required := map[string]any{}, []string{}
	for name, e := range v {
		if !plain(name) && len(name) > 40 {
			return shape
		}
		properties[name] = infer(e, depth+1)
		required = append(required, name)
	}
	slices.Sort(required)
	shape["properties"], shape["required"] = properties, required
	return shape
}
