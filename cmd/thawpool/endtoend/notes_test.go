//go:build integration

package endtoend

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
)

// notesEnv names the directory in which the test's MCP server leaves notes, and waits for the one that lets it go on.
const notesEnv = "THAWPOOL_TEST_NOTES"

// goNote is the note that every hold waits for.
const goNote = "go"

// addNotes adds two tools by which code tells the test how far it is: note, and hold, which then waits.
func addNotes(s *mcpserver.MCPServer, dir string) {
	note := func(req mcp.CallToolRequest) error {
		return os.WriteFile(filepath.Join(dir, req.GetString("name", "")), nil, 0o600)
	}
	s.AddTool(mcp.NewTool("note", mcp.WithString("name", mcp.Required())),
		func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText("noted"), note(req)
		})
	s.AddTool(mcp.NewTool("hold", mcp.WithString("name", mcp.Required())),
		func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if err := note(req); err != nil {
				return nil, err
			}
			for !exists(filepath.Join(dir, goNote)) {
				select {
				case <-time.After(10 * time.Millisecond):
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			return mcp.NewToolResultText("held"), nil
		})
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
