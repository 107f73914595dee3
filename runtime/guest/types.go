package guest

// Server is one upstream server as the code of a run sees it.
type Server struct {
	Name        string `json:"name"`                  // as configured
	Alias       string `json:"alias"`                 // a valid Python name: mcp_<alias>, mcp.servers.<alias>
	Description string `json:"description,omitempty"` // cleaned and bounded
}

// CallError is an error that answers a call frame: Type is the class that the mcp package raises (MCPError when empty or
// not one of its own).
type CallError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

func (e *CallError) Error() string { return e.Message }

// The verbs of call frames: all that sandboxed code can ask of the host. None takes a path.
const (
	VerbCall         = "tools.call"       // {server, tool, args} → the whole MCP result, see WrappedMark; a tool error is a CallError
	VerbServers      = "servers.list"     // {} → [{name, alias, description, state, error}]
	VerbDescribe     = "servers.describe" // {server} → {name, alias, description, state, error, instructions, tools: n}
	VerbTools        = "tools.list"       // {server} → [{name, alias, description}]
	VerbDocs         = "tools.docs"       // {server, tool?, detail} → [{server, tool, alias, description, signature, …}]
	VerbSearch       = "tools.search"     // {query, limit, detail} → the same, best first, with score
	VerbCapability   = "capability"       // {} → text
	VerbMemorySave   = "memory.save"      // {key, value, metadata?, version?} → info; a stale version is VersionConflict; 0 is "not there"
	VerbMemoryLoad   = "memory.load"      // {key} → {value, version, …info} or KeyError
	VerbMemoryDelete = "memory.delete"    // {key} → bool
	VerbMemoryList   = "memory.list"      // {} → [info]
	VerbMemoryInfo   = "memory.info"      // {key} → info or null
	VerbToolSave     = "saved.save"       // {name, code, description} → null
	VerbToolLoad     = "saved.load"       // {name} → {name, code, description}
	VerbToolDelete   = "saved.delete"     // {name} → bool
	VerbToolList     = "saved.list"       // {} → [{name, description}]
	VerbFind         = "servers.find"     // {query, limit} → [{name, description, source, installed}]
	VerbAdd          = "servers.add"      // {name, persist} → {name, alias}
)

// The classes a CallError may name besides MCPError; the mcp package defines or maps each.
const (
	ErrUnknownServer   = "UnknownServerError"
	ErrUnknownTool     = "UnknownToolError"
	ErrArguments       = "ToolArgumentError" // missing, misspelt or wrong argument, found before the upstream is called
	ErrDenied          = "PolicyError"
	ErrTimeout         = "TimeoutError"
	ErrKey             = "KeyError"
	ErrValue           = "ValueError"
	ErrVersionConflict = "VersionConflict" // used by the mcp package itself to try an update again
)

// WrappedMark in the _meta of a result, set to true, tells the mcp package that structuredContent is a bare value which
// the server had to put into an object with the one member "result": the code gets the bare value.
const WrappedMark = "thawpool/wrapped"
