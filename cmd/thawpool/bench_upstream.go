package main

import (
	"context"
	"io"
	"log"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/spf13/cobra"
)

// Names of commands that bench starts and nobody else needs.
const (
	benchUpstreamName = "bench-tool"
	benchFrontName    = "bench-front"
)

// newBenchUpstreamCommand is the small MCP server that benched code calls: it echoes.
func newBenchUpstreamCommand() *cobra.Command {
	return &cobra.Command{
		Use:         benchUpstreamName,
		Hidden:      true,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{unconfigured: "true"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			s := server.NewMCPServer("bench", version)
			s.AddTool(mcp.NewTool("echo", mcp.WithDescription("Give back text."), mcp.WithReadOnlyHintAnnotation(true),
				mcp.WithString("text", mcp.Required())), func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return mcp.NewToolResultText(req.GetString("text", "")), nil
			})
			stdio := server.NewStdioServer(s)
			stdio.SetErrorLogger(log.New(io.Discard, "", 0)) // the end of input is no news
			return stdio.Listen(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}
