// Package policy says which upstream servers and tools the sandboxed code may call, and how much of it one run may do.
// It is pure: no clocks, no goroutines, no I/O, and it knows nothing of how servers are reached.
//
// # Patterns
//
// A pattern names a server, some of a server's tools, or a class of tools. Matching is exact, byte for byte: no case
// folding and no Unicode normalisation, so a look-alike of an allowed name is another name.
//
//	github              the server and all its tools
//	github.*            the same tools, said as tools
//	github.get_*        its tools whose names begin with get_
//	git{hub,lab}.*      glob syntax of doublestar: * ? [class] {a,b}; * also matches dots and slashes
//	my\.server.read     a dot that belongs to a server's name is written \.
//	readonly            every tool that its server marks read-only
//	destructive         every tool that is neither marked read-only nor marked not destructive
//	github:readonly     the read-only tools of one server
//
// The two class words stand alone or after a colon; a server that really has such a name is written [r]eadonly. A deny
// pattern wins over every allow pattern. With no allow pattern, everything that is not denied is allowed. A tool without
// annotations counts as destructive, which is the default of the MCP specification; annotations are the server's own
// word, so patterns on them protect from mistakes, not from a hostile server.
//
// Patterns for servers that may be added are globs over the whole name that a catalog or registry has for the server.
package policy
