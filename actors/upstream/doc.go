// Package upstream is one connection to one MCP server: a child process on pipes, streamable HTTP, or the older HTTP
// with server-sent events, all spoken by mcp-go's client. It owns the details that make such connections safe to keep:
// the child's environment and process group, what it writes to stdout and stderr, sizes, sessions, redirects, and errors
// that name the server and the next step and never a secret.
//
// It knows nothing of actors, policy or the catalog: Dial gives a Conn, and the Conn lists tools and calls them until it
// is closed or lost. When to dial again is for the caller to decide.
package upstream
