// Package config reads definitions of upstream MCP servers from the files that people already have: one server or many a
// file, JSON with comments, or the TOML and JSON of known MCP clients. It never writes them. A bad file or a bad entry
// becomes a Problem and harms nothing else.
//
// It knows nothing of connections, tools or policy.
package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// Transport says how a server is reached.
type Transport string

// The transports that thawpool speaks.
const (
	Stdio Transport = "stdio"
	HTTP  Transport = "http" // streamable HTTP
	SSE   Transport = "sse"  // the older HTTP with server-sent events
)

// Server is one upstream server as configured, every variable expanded. It is immutable. Args, Env, URL and Headers may
// hold secrets: print a Server only by its String method.
type Server struct {
	Name        string // as configured, exact; never part of a path
	Description string // as configured, not yet cleaned
	Transport   Transport

	Command string            // Stdio: a name to look up on PATH, or an absolute path
	Args    []string          // Stdio
	Env     map[string]string // Stdio: added to the safe base environment, and wins over it
	Dir     string            // Stdio: absolute working directory; empty means thawpool's own

	URL     string            // HTTP and SSE
	Headers map[string]string // HTTP and SSE

	StartTimeout time.Duration // until initialize and the tool list are there; zero means the default
	CallTimeout  time.Duration // one tool call; zero means the default

	// OnlyTools, when not nil, and HideTools are the entry's own choice of tools, by exact name.
	OnlyTools []string
	HideTools []string

	// Off says why this server must not be started: turned off by its entry, or lacking a variable. Empty means usable.
	Off string
	// Broken tells that Off is a fault and not the user's wish.
	Broken bool

	Source Position
	Origin string // what kind of file it came from: "mcps", "file", or a client's name such as "cursor"
	Hash   string // of all that decides what is started or reached; see HashOf

	fields map[string]any // the entry as it stands in its file, variables not expanded; nil when made otherwise
}

// Position is a place in a config file. Line and Column count from 1; zero means the whole file.
type Position struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"` // in bytes
}

// String is file:line:column, as compilers print it.
func (p Position) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Problem is one thing wrong with a file or an entry. It never holds the value of a variable, header or argument.
type Problem struct {
	Server  string   `json:"server,omitempty"` // empty when it is about the whole file
	Where   Position `json:"where"`
	Message string   `json:"message"`
	// Fatal tells that the server, or the file when Server is empty, is not usable because of it.
	Fatal bool `json:"fatal"`
}

// String is one line for people.
func (p Problem) String() string {
	if p.Server == "" {
		return p.Where.String() + ": " + p.Message
	}
	return fmt.Sprintf("%s: server %q: %s", p.Where, p.Server, p.Message)
}

// String shows what is no secret: name, transport and place.
func (s Server) String() string {
	return fmt.Sprintf("%s (%s, %s)", s.Name, s.Transport, s.Source)
}

// GoString is String, so that %#v shows no secrets either.
func (s Server) GoString() string { return s.String() }

// MarshalJSON is there so that no log or dump shows secrets; it is not a format to read back.
func (s Server) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// HashOf is a hex digest of what decides which server is started or reached, and of its name: while it stays the same, so do
// connections and cached tools. It is safe to show: secrets go into it, but it is one-way and of the whole.
func HashOf(s Server) string {
	// Nothing given and nothing in it is the same, but for OnlyTools.
	raw, _ := json.Marshal([]any{ // cannot fail; maps go in key order
		s.Name, s.Transport, s.Command, append([]string{}, s.Args...), given(s.Env), s.Dir,
		s.URL, given(s.Headers), s.OnlyTools, append([]string{}, s.HideTools...),
	})
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16])
}

func given(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}
