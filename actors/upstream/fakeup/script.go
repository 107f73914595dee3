// Package fakeup is a scripted MCP server for tests: it speaks raw JSON lines, so that it can break the protocol in every
// way that real servers were seen to. A test binary becomes it when it is started with the environment that Command gives:
//
//	func TestMain(m *testing.M) {
//		if fakeup.Active() {
//			fakeup.Main()
//		}
//		os.Exit(m.Run())
//	}
package fakeup

import (
	"encoding/json"
	"os"
	"time"
)

// Variable is the environment variable that holds the script.
const Variable = "FAKE_UPSTREAM"

// Script says how the server behaves.
type Script struct {
	Name         string            `json:",omitempty"` // serverInfo.name; "fake" when empty
	Version      string            `json:",omitempty"`
	Instructions string            `json:",omitempty"`
	Tools        []json.RawMessage `json:",omitempty"` // nil means Builtin
	PageSize     int               `json:",omitempty"`
	Cursors      string            `json:",omitempty"` // how pages are named: "" by number, "empty" the first one "", "circle", "endless"

	Lines      []string      `json:",omitempty"` // written to stdout before the first message and before every answer; "repeat N" is a line of N bytes
	Stderr     string        `json:",omitempty"` // written at the start
	Flood      int           `json:",omitempty"` // bytes written to stderr at the start and before every answer
	Exit       *int          `json:",omitempty"` // ends at once with this status
	InitDelay  time.Duration `json:",omitempty"` // before initialize is answered
	InitNever  bool          `json:",omitempty"`
	InitError  string        `json:",omitempty"`
	Deaf       bool          `json:",omitempty"` // reads nothing after tools/list
	IgnoreTerm bool          `json:",omitempty"` // neither SIGTERM nor the end of stdin ends it
	ListDelay  time.Duration `json:",omitempty"`
	Chatter    time.Duration `json:",omitempty"` // a notification each, all the time

	Journal string `json:",omitempty"` // file: one line for each start and each message received
}

// Active tells that this process is to be the fake server.
func Active() bool { return os.Getenv(Variable) != "" }

// Command is what starts the server: this test binary, with the script in its environment.
func Command(s Script) (command string, env map[string]string) {
	raw, err := json.Marshal(s)
	if err != nil {
		panic(err) // a Script is always JSON
	}
	return os.Args[0], map[string]string{
		Variable: string(raw),
		"GORACE": "atexit_sleep_ms=0", // a test binary with the race detector else takes a second to end
	}
}

// Builtin are the tools that every script has; Main's comment says what each does.
func Builtin() []json.RawMessage {
	var tools []json.RawMessage
	for _, t := range []string{
		`{"name":"echo","description":"Gives back its arguments.","inputSchema":{"type":"object","properties":{"text":{"type":"string"},"n":{"type":"integer"}}},"annotations":{"readOnlyHint":true}}`,
		`{"name":"get_id","description":"A large integer.","inputSchema":{"type":"object","properties":{}},"outputSchema":{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]},"annotations":{"readOnlyHint":true}}`,
		`{"name":"env","description":"Names and values of its environment.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`,
		`{"name":"sleep","description":"Answers after ms milliseconds.","inputSchema":{"type":"object","properties":{"ms":{"type":"integer"}},"required":["ms"]},"annotations":{"readOnlyHint":true}}`,
		`{"name":"never","description":"Never answers.","inputSchema":{"type":"object"}}`,
		`{"name":"crash","description":"Ends the server in the middle of the call.","inputSchema":{"type":"object","properties":{"code":{"type":"integer"},"words":{"type":"string"}}}}`,
		`{"name":"fail","description":"A tool error whose structured content is against its schema.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}},"outputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}`,
		`{"name":"blocks","description":"Every kind of content.","inputSchema":{"type":"object"}}`,
		`{"name":"big","description":"A text of that many bytes.","inputSchema":{"type":"object","properties":{"bytes":{"type":"integer"}},"required":["bytes"]}}`,
		`{"name":"raw","description":"Writes line to stdout in place of an answer.","inputSchema":{"type":"object","properties":{"line":{"type":"string"}}}}`,
		`{"name":"rpc_error","description":"A JSON-RPC error.","inputSchema":{"type":"object"}}`,
		`{"name":"spawn","description":"Starts a child that outlives it.","inputSchema":{"type":"object","properties":{"setsid":{"type":"boolean"}}}}`,
		`{"name":"close_stdout","description":"Closes its output and goes on.","inputSchema":{"type":"object"}}`,
		`{"name":"change","description":"Changes its tools: tools is the new list; says so times times.","inputSchema":{"type":"object","properties":{"tools":{"type":"array"},"times":{"type":"integer"}}}}`,
		`{"name":"busy","description":"How many calls of busy ran at once at most, after ms.","inputSchema":{"type":"object","properties":{"ms":{"type":"integer"}}}}`,
		`{"name":"write","description":"Counts a change.","inputSchema":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]},"annotations":{"destructiveHint":true}}`,
	} {
		tools = append(tools, json.RawMessage(t))
	}
	return tools
}
