package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
)

// Bounds of one tools/list, over all its pages. A server that goes beyond one is cut there, and what was read is used.
const (
	maxPages     = 500
	maxTools     = 5000
	maxListBytes = 64 << 20
)

// ListTools reads every page of the server's tools, each tool as it was received. note says why the list is not whole;
// it is empty when it is.
func (c *Conn) ListTools(ctx context.Context) (tools []json.RawMessage, note string, err error) {
	var cursor json.RawMessage
	seen := map[string]bool{}
	size := 0
	for range maxPages {
		var set map[string]json.RawMessage
		if cursor != nil {
			set = map[string]json.RawMessage{"cursor": cursor}
		}
		raw, err := c.exchange(ctx, set, func(ctx context.Context, cl *client.Client) error {
			_, err := cl.ListToolsByPage(ctx, mcp.ListToolsRequest{})
			return err
		})
		var rpc *RPCError
		if errors.As(err, &rpc) && rpc.Code == mcp.METHOD_NOT_FOUND && cursor == nil {
			return nil, "", nil // a server without tools need not know the question
		}
		if err != nil {
			return nil, "", err
		}
		var page struct {
			Tools []json.RawMessage `json:"tools"`
			Next  json.RawMessage   `json:"nextCursor"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return nil, "", c.cfg.fail(ErrProtocol, errors.New("its answer to tools/list is not a list of tools"))
		}
		tools = append(tools, page.Tools...)
		size += len(raw)
		cursor = bytes.TrimSpace(page.Next)
		switch {
		case len(cursor) == 0 || string(cursor) == "null": // an empty string is a cursor like any other
			return tools, "", nil
		case seen[string(cursor)]:
			return tools, "the server's list of tools goes in a circle; what came before is used", nil
		case len(tools) > maxTools:
			return tools[:maxTools], "the server has too many tools; the first ones are used", nil
		case size > maxListBytes:
			return tools, "the server's list of tools is too large; the first part is used", nil
		}
		seen[string(cursor)] = true
	}
	return tools, "the server's list of tools does not end; the first pages are used", nil
}
