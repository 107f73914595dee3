package upstream

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/thawpool/thawpool/actors/catalog/text"
)

// The kinds of failure that callers tell apart. Every error of this package is an *Error that wraps one of them, except
// an *RPCError, which is the server's own answer, and the caller's context errors.
var (
	// ErrStart: the server could not be started or reached, or did not finish its handshake. Worth another try, later.
	ErrStart = errors.New("server could not be started")
	// ErrLost: the connection has ended; the call may or may not have taken effect. Dial again.
	ErrLost = errors.New("connection to the server was lost")
	// ErrRefused: the server does not accept us (401, 403, 407, a redirect elsewhere). Trying again does not help.
	ErrRefused = errors.New("server refused")
	// ErrBusy: the server wants fewer requests (429), or does not read what it is sent.
	ErrBusy = errors.New("server is too busy")
	// ErrTooLarge: a message is larger than the bound.
	ErrTooLarge = errors.New("message is too large")
	// ErrProtocol: the server's answer is not what MCP allows.
	ErrProtocol = errors.New("server does not speak MCP properly")
)

// maxErrorText bounds a server's words inside an error, in bytes.
const maxErrorText = 2000

// Error is a failure of one server. Its text is cleaned, bounded and free of the entry's secrets.
type Error struct {
	Server string
	Kind   error
	text   string
}

func (e *Error) Error() string { return fmt.Sprintf("server %q: %s", e.Server, e.text) }

// Unwrap gives the kind.
func (e *Error) Unwrap() error { return e.Kind }

// RPCError is the JSON-RPC error that a server answered with. Message is cleaned and bounded.
type RPCError struct {
	Server  string
	Code    int
	Message string
}

func (e *RPCError) Error() string { return fmt.Sprintf("%s (error %d)", e.Message, e.Code) }

// rpcError is the server's own error answer.
func (c *Config) rpcError(e *mcp.JSONRPCErrorDetails) error {
	return &RPCError{Server: c.Name, Code: e.Code, Message: text.Clean(c.redact(e.Message), maxErrorText)}
}

// fail makes an *Error of err, which is flattened into text: what lies below may hold addresses and tokens.
func (c *Config) fail(kind, err error) error {
	return &Error{Server: c.Name, Kind: kind, text: text.Clean(c.redact(err.Error()), maxErrorText)}
}

// fault is an error of ours that travels through mcp-go and net/http and is found again below their wrapping.
type fault struct {
	kind error
	text string
}

func (e *fault) Error() string { return e.text }
func (e *fault) Unwrap() error { return e.kind }

// cause digs out what net/http and mcp-go wrapped: their own texts hold the address, which may hold a secret.
func cause(err error) error {
	var ours *fault
	if errors.As(err, &ours) {
		return ours
	}
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
