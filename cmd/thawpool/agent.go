package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/thawpool/thawpool/actors"
)

// agent is a real MCP client with a `thawpool serve` of its own behind it: what demo and bench measure is what a user
// gets.
type agent struct {
	client *client.Client
	cmd    *exec.Cmd
}

// startAgent runs this binary's serve with args. Its log goes to log.
func startAgent(ctx context.Context, log io.Writer, args ...string) (*agent, error) {
	return startAgentOf(ctx, log, append([]string{"serve"}, args...)...)
}

// startAgentOf runs this binary with args, which make it an MCP server.
func startAgentOf(ctx context.Context, log io.Writer, args ...string) (*agent, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	a := &agent{cmd: exec.Command(self, args...)}
	tr := transport.NewStdioWithOptions(self, nil, args, transport.WithCommandStderrWriter(log),
		transport.WithCommandFunc(func(context.Context, string, []string, []string) (*exec.Cmd, error) { return a.cmd, nil }))
	a.client = client.NewClient(tr)
	if err := a.client.Start(ctx); err != nil {
		return nil, fmt.Errorf("start thawpool %s: %w", args[0], err)
	}
	req := mcp.InitializeRequest{}
	req.Params.ClientInfo = mcp.Implementation{Name: "thawpool", Version: version}
	if _, err := a.client.Initialize(ctx, req); err != nil {
		_ = a.client.Close()
		return nil, fmt.Errorf("initialize: %w", err)
	}
	return a, nil
}

// pid is the server's.
func (a *agent) pid() int { return a.cmd.Process.Pid }

// run calls run_python. text is what a model would read.
func (a *agent) run(ctx context.Context, args map[string]any) (res actors.Result, text string, err error) {
	req := mcp.CallToolRequest{}
	req.Params.Name = "run_python"
	req.Params.Arguments = args
	out, err := a.client.CallTool(ctx, req)
	if err != nil {
		return res, "", err
	}
	for _, c := range out.Content {
		if t, ok := c.(mcp.TextContent); ok {
			text += t.Text
		}
	}
	raw, err := json.Marshal(out.StructuredContent)
	if err != nil {
		return res, text, err
	}
	return res, text, json.Unmarshal(raw, &res)
}

// close ends the server by the end of its input and waits for it.
func (a *agent) close() error { return a.client.Close() }
