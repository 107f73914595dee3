package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/thawpool/thawpool/actors/catalog/text"
)

// maxToolName bounds tool names in bytes. The protocol recommends at most 128 characters; servers exceed it.
const maxToolName = 512

// Tool is one tool of one server. Schemas are kept as the server sent them, so that integers stay exact. It is immutable.
type Tool struct {
	Name         string          `json:"name"` // exact, what the server is sent
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description,omitempty"`  // as sent, not cleaned
	InputSchema  json.RawMessage `json:"inputSchema,omitempty"`  // nil when the server gave none
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"` // nil when the server gave none
	Annotations  Annotations     `json:"annotations,omitzero"`
}

// Annotations are a server's own claims about a tool. A nil hint was not given; the protocol's defaults are not filled in.
type Annotations struct {
	Title       string `json:"title,omitempty"`
	ReadOnly    *bool  `json:"readOnlyHint,omitempty"`
	Destructive *bool  `json:"destructiveHint,omitempty"`
	Idempotent  *bool  `json:"idempotentHint,omitempty"`
	OpenWorld   *bool  `json:"openWorldHint,omitempty"`
}

// Listing is what one connection to a server has told of it.
type Listing struct {
	Version      string            // serverInfo name and version, "everything 2.0.0"
	Instructions string            // of its initialize result
	Tools        []json.RawMessage // every page, in order, each as received
}

// ParseTool reads one entry of a tools/list result. Only a tool that cannot be named is refused; parts of a wrong type
// are left out and told in odd, so that one odd tool never hides a server.
func ParseTool(raw json.RawMessage) (tool Tool, odd []string, err error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return Tool{}, nil, errors.New("is not a JSON object")
	}
	take := func(name string, into any) {
		v, ok := fields[name]
		if !ok || isNull(v) {
			return
		}
		if json.Unmarshal(v, into) != nil {
			odd = append(odd, name+" has the wrong JSON type and is left out")
		}
	}
	take("name", &tool.Name)
	if err := CheckToolName(tool.Name); err != nil {
		return Tool{}, odd, err
	}
	take("title", &tool.Title)
	take("description", &tool.Description)
	take("annotations", &tool.Annotations)
	tool.InputSchema = keep(fields["inputSchema"])
	tool.OutputSchema = keep(fields["outputSchema"])
	return tool, odd, nil
}

func isNull(v json.RawMessage) bool { return bytes.Equal(bytes.TrimSpace(v), []byte("null")) }

// keep returns a compact copy of v that shares no memory with a whole response, nil when there is nothing.
func keep(v json.RawMessage) json.RawMessage {
	if len(v) == 0 || isNull(v) {
		return nil
	}
	var b bytes.Buffer
	if json.Compact(&b, v) != nil {
		return nil
	}
	return b.Bytes()
}

// CheckToolName refuses names that cannot be shown or sent safely.
func CheckToolName(name string) error {
	if err := text.CheckName(name, maxToolName); err != nil {
		return fmt.Errorf("tool name %w", err)
	}
	return nil
}
