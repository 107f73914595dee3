package front

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"
)

// envelope is the outside of one JSON-RPC message. ID keeps its bytes: a number above 2^53 comes back as it came.
type envelope struct {
	JSONRPC string
	ID      json.RawMessage
	Method  *string
	Params  json.RawMessage
	Result  json.RawMessage
	Error   json.RawMessage
}

// rpcError is a JSON-RPC error on its way out.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

// open reads the envelope of a message. With an error, id is what to answer to, which may be nil.
func open(raw []byte) (env envelope, id json.RawMessage, rerr *rpcError) {
	if !utf8.Valid(raw) {
		var f idFinder
		f.write(raw)
		return env, f.id(), &rpcError{Code: mcp.PARSE_ERROR, Message: "Parse error: the message is not valid UTF-8"}
	}
	if c := raw[0]; c != '{' && json.Valid(raw) {
		return env, nil, &rpcError{Code: mcp.INVALID_REQUEST, Message: "Invalid request: a message is one JSON object"}
	}
	var fields map[string]json.RawMessage // a struct would take names in any case
	err := json.Unmarshal(raw, &fields)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return env, nil, &rpcError{Code: mcp.PARSE_ERROR,
			Message: fmt.Sprintf("Parse error: %v at byte %d", syntax, syntax.Offset)}
	}
	env = envelope{ID: fields["id"], Params: fields["params"], Result: fields["result"], Error: fields["error"]}
	if len(env.ID) > 0 && !validID(env.ID) {
		return env, nil, &rpcError{Code: mcp.INVALID_REQUEST, Message: "Invalid request: id must be a string or an integer"}
	}
	if wrong, right := misspelt(fields); wrong != "" {
		return env, env.ID, &rpcError{Code: mcp.INVALID_REQUEST,
			Message: fmt.Sprintf("Invalid request: %s must be written %s", quote(wrong), right)}
	}
	for name, into := range map[string]any{"jsonrpc": &env.JSONRPC, "method": &env.Method} {
		if v := fields[name]; v != nil && json.Unmarshal(v, into) != nil {
			return env, env.ID, &rpcError{Code: mcp.INVALID_REQUEST, Message: "Invalid request: " + name + " must be a string"}
		}
	}
	if env.JSONRPC != mcp.JSONRPC_VERSION {
		return env, env.ID, &rpcError{Code: mcp.INVALID_REQUEST, Message: `Invalid request: jsonrpc must be "2.0"`}
	}
	if env.Method == nil && env.Result == nil && env.Error == nil {
		return env, env.ID, &rpcError{Code: mcp.INVALID_REQUEST, Message: "Invalid request: method is missing"}
	}
	if len(env.ID) > 0 && len(env.Params) > 0 && env.Params[0] != '{' && !bytes.Equal(env.Params, nullID) {
		return env, env.ID, &rpcError{Code: mcp.INVALID_PARAMS, Message: "Invalid params: params must be an object"}
	}
	return env, env.ID, nil
}

// misspelt finds a name of the envelope that is written with other letter cases. Ours would be another message than that
// of whoever takes such names, as mcp-go does.
func misspelt(fields map[string]json.RawMessage) (wrong, right string) {
	for name := range fields {
		for _, known := range []string{"jsonrpc", "id", "method", "params", "result", "error"} {
			if name != known && strings.EqualFold(name, known) {
				return name, known
			}
		}
	}
	return "", ""
}

// validID tells whether raw is a JSON string or integer. MCP forbids null.
func validID(raw []byte) bool {
	if len(raw) == 0 {
		return false
	}
	c := raw[0]
	return json.Valid(raw) && (c == '"' || (c == '-' || '0' <= c && c <= '9') && !bytes.ContainsAny(raw, ".eE"))
}

// idKey makes equal ids equal as map keys: two spellings of one string are the same, "7" and 7 are not.
func idKey(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return `"` + s
	}
	return string(raw)
}

// response is the outside of an answer.
type response struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

var nullID = json.RawMessage("null")

// encode gives the line, with its newline, that answers id.
func encode(id json.RawMessage, result any, rerr *rpcError) []byte {
	if len(id) == 0 {
		id = nullID
	}
	line, err := marshal(response{JSONRPC: mcp.JSONRPC_VERSION, ID: id, Result: result, Error: rerr})
	if err != nil {
		line, _ = marshal(response{JSONRPC: mcp.JSONRPC_VERSION, ID: id,
			Error: &rpcError{Code: mcp.INTERNAL_ERROR, Message: "Internal error: the answer cannot be encoded"}})
	}
	return line
}

// marshal is json.Marshal with a newline and without escapes for HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// encodeRequest gives a request again whose parts were taken from one.
func encodeRequest(id json.RawMessage, method string, params map[string]json.RawMessage) []byte {
	line, _ := marshal(struct { // of valid JSON
		JSONRPC string                     `json:"jsonrpc"`
		ID      json.RawMessage            `json:"id"`
		Method  string                     `json:"method"`
		Params  map[string]json.RawMessage `json:"params"`
	}{mcp.JSONRPC_VERSION, id, method, params})
	return line
}

// notification is a message that asks for no answer.
type notification struct {
	JSONRPC string `json:"jsonrpc"`
	Method  string `json:"method"`
	Params  any    `json:"params,omitempty"`
}
