// Package endtoend has only tests: they drive the built thawpool as its users do, by MCP lines, by a real MCP client and
// from a shell, on a private containerd of their own.
package endtoend
