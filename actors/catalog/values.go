package catalog

import "encoding/json"

// The values in this file are what sandboxed code receives for its questions (the verbs of package guest). All text in them
// that came from a server or from the network is cleaned and bounded.

// ServerInfo answers guest.VerbServers, one a server.
type ServerInfo struct {
	Name        string `json:"name"`
	Alias       string `json:"alias"`
	Description string `json:"description,omitempty"`
	// State is for the one who knows the connections to overwrite: known (its tools are known, maybe from the cache),
	// unknown (never reached so far) or off.
	State string `json:"state"`
	Error string `json:"error,omitempty"`
}

// The states that the catalog itself can tell.
const (
	StateKnown   = "known"
	StateUnknown = "unknown"
	StateOff     = "off"
)

// ServerDescription answers guest.VerbDescribe.
type ServerDescription struct {
	ServerInfo
	CWD          string `json:"cwd,omitempty"`
	Version      string `json:"version,omitempty"`      // as the server gave it
	Instructions string `json:"instructions,omitempty"` // as the server gave them, cleaned and bounded
	SuppliedBy   string `json:"suppliedBy,omitempty"`   // the server that Instructions come from
	Tools        int    `json:"tools"`                  // how many; -1 while they are not known
}

// ToolInfo answers guest.VerbTools, one a tool.
type ToolInfo struct {
	Name        string `json:"name"`
	Alias       string `json:"alias"`
	Description string `json:"description,omitempty"` // first lines, bounded
	Problem     string `json:"problem,omitempty"`     // why it is odd or cannot be called
}

// ToolDoc answers guest.VerbDocs and guest.VerbSearch. The fields after Score are there with detail "full" only.
type ToolDoc struct {
	Server      string  `json:"server"`
	ServerAlias string  `json:"serverAlias"`
	Tool        string  `json:"tool"`
	ToolAlias   string  `json:"toolAlias"`
	Alias       string  `json:"alias"` // the same as ToolAlias
	Description string  `json:"description,omitempty"`
	Signature   string  `json:"signature"`         // one line: async def alias(name: type, …) -> type
	Problem     string  `json:"problem,omitempty"` // what is odd about its schema
	SuppliedBy  string  `json:"suppliedBy"`        // the server whose words Description and Doc are
	Score       float64 `json:"score,omitempty"`   // of a search, comparable within one answer only

	Title        string          `json:"title,omitempty"`
	Doc          string          `json:"doc,omitempty"` // Python stub: TypedDict classes, signature, docstring
	InputSchema  json.RawMessage `json:"inputSchema,omitempty"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Annotations  *Annotations    `json:"annotations,omitempty"`
}

// Detail says how much of a ToolDoc is wanted.
type Detail string

// The details. Anything else counts as DetailSummary.
const (
	DetailSummary Detail = "summary"
	DetailFull    Detail = "full"
)

// Found answers guest.VerbFind, one a server that could be added.
type Found struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Source      string `json:"source"` // "catalog" or the registry's host name
	Installed   bool   `json:"installed"`
	Version     string `json:"version,omitempty"`
	Kind        string `json:"kind,omitempty"` // how it would run: npm, pypi, http, sse, stdio
}
