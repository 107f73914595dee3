// Package front is the MCP face of thawpool: it reads JSON-RPC lines, answers them, and turns one call of the tool
// run_python into one actors.Request. mcp-go's MCPServer handles the protocol and holds the tool's schema; the reader,
// the writer and the table of running calls are ours, because mcp-go's own stdio server drops calls at end of input,
// orders progress behind results, and forgets to cancel what is queued.
//
// # What it decides
//
// Cancelled calls are not answered: a notifications/cancelled that finds its call running ends the run and takes the
// answer away, as MCP asks of a receiver. One that comes after the answer was queued changes nothing.
//
// At end of input what was read is still answered: running calls get DrainTime to end by themselves, then their context
// ends and what they answer is written while the client still reads.
//
// Batches belong to revision 2025-03-26 alone; elsewhere one is refused whole.
//
// Wrong arguments are results with isError, so that the model reads them; wrong protocol is a JSON-RPC error.
//
// It knows nothing of sandboxes: all it has of them is a Runner.
package front
