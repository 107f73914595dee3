//go:build integration

package endtoend

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/thawpool/thawpool/actors"
)

// upstreamEnv makes this test binary an MCP server with two tools, and as a mortal one with two more, of which one ends it.
const (
	upstreamEnv = "THAWPOOL_TEST_UPSTREAM"
	mortal      = "mortal"
	// upstreamSecret is a variable that it tells in its last words, as servers do.
	upstreamSecret = "ABACUS_TOKEN"
)

// serveUpstream is that server.
func serveUpstream() error {
	s := mcpserver.NewMCPServer("abacus", "1")
	s.AddTool(mcp.NewTool("add", mcp.WithDescription("Add two numbers."), mcp.WithReadOnlyHintAnnotation(true),
		mcp.WithNumber("a", mcp.Required()), mcp.WithNumber("b", mcp.Required())),
		func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText(fmt.Sprint(req.GetInt("a", 0) + req.GetInt("b", 0))), nil
		})
	s.AddTool(mcp.NewTool("erase", mcp.WithDescription("Erase everything.")),
		func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText("erased"), nil
		})
	if os.Getenv(upstreamEnv) == mortal {
		addEcho(s)
		s.AddTool(mcp.NewTool("die"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			fmt.Fprintln(os.Stderr, "the last bead is gone", os.Getenv(upstreamSecret))
			os.Exit(3)
			return nil, nil
		})
	}
	if dir := os.Getenv(notesEnv); dir != "" {
		addNotes(s, dir)
	}
	return mcpserver.ServeStdio(s)
}

// addEcho adds a tool that answers with what it was given.
func addEcho(s *mcpserver.MCPServer) {
	s.AddTool(mcp.NewTool("echo", mcp.WithString("text", mcp.Required())),
		func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText(req.GetString("text", "")), nil
		})
}

// abacus defines the server in a file, with more variables in its environment.
func abacus(t *testing.T, more ...string) string {
	t.Helper()
	vars := map[string]string{upstreamEnv: "1"}
	for i := 0; i < len(more); i += 2 {
		vars[more[i]] = more[i+1]
	}
	return defineServer(t, t.TempDir(), vars)
}

// defineServer writes a file in dir that defines this test binary as the server abacus.
func defineServer(t testing.TB, dir string, env map[string]string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"abacus": map[string]any{"command": self, "env": env}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "servers.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Code calls the user's servers: it finds the tool, reads how to call it, calls it many times at once, and the receipt
// says so. What policy denies or plans is not called.
func TestServers(t *testing.T) {
	e, base := env(t)
	file := abacus(t)
	s := serve(t, e, "--pool-size", "1", "--servers-config", file, "--deny", "abacus.erase").open()
	s.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	if line := <-s.lines; !strings.Contains(line, "Servers: abacus") {
		t.Errorf("tools/list is %s", line)
	}
	res := s.do(2, `import asyncio
from mcp import runtime
print(list(runtime.discovered_servers()))
print([d["tool"] for d in await runtime.query_tool_docs("abacus")])
sums = await asyncio.gather(*(mcp_abacus.add(a=i, b=1) for i in range(20)))
print(sums == [str(i + 1) for i in range(20)] or sums)
try:
    await mcp_abacus.erase()
except Exception as e:
    print(type(e).__name__)`)
	want := "['abacus']\n['add']\nTrue\n"
	if !strings.HasPrefix(strings.ReplaceAll(res.Stdout, `"`, "'"), want) || strings.Contains(res.Stdout, "erased") {
		t.Errorf("%s: %q %+v", res.Status, res.Stdout, res.Error)
	}
	if res.Receipt.CallCount < 20 {
		t.Errorf("receipt %+v", res.Receipt)
	}
	if res := s.do(3, "await mcp_abacus.add(a=1, b=2)", `,"servers":["nope"]`); res.Status != actors.StatusRejected || !strings.Contains(res.Error.Message, "nope") {
		t.Errorf("%+v", res)
	}
	if res := s.do(4, "await runtime.list_servers()\nmcp_abacus", `,"servers":[]`); res.Status == actors.StatusSuccess {
		t.Errorf("code had a server that its call did not allow: %+v", res)
	}
	s.close()
	e.RequireNone(t, base)

	stdout, stderr, status := shell(t, e, "await mcp_abacus.erase()\nprint('went on')", "run", "--servers-config", file, "--dry-run-mutations", "--json", "-")
	if err := json.Unmarshal([]byte(stdout), &res); err != nil || status != 0 {
		t.Fatalf("status %d, %v, %s%s", status, err, stdout, stderr)
	}
	if p := res.Receipt.Plan; len(p) != 1 || p[0].Tool != "erase" || strings.Contains(res.Stdout, "erased") {
		t.Errorf("%+v", res)
	}
	e.RequireNone(t, base)
}

// From a shell the servers can be looked at and tried.
func TestServersCommand(t *testing.T) {
	e, _ := env(t)
	file := abacus(t)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"check"}, "abacus"}, {[]string{"ls"}, "abacus"}, {[]string{"tools", "abacus"}, "erase"}, {[]string{"search", "sum", "numbers"}, "add"},
	} {
		cmd := command(t, e.StateDir, "servers")
		cmd.Args = append([]string{cmd.Args[0], "servers", tt.args[0], "--state-dir", e.StateDir, "--servers-config", file}, tt.args[1:]...)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), tt.want) {
			t.Errorf("servers %v: %v\n%s", tt.args, err, out)
		}
	}
}

// Memories outlive their sandbox and the process.
func TestMemories(t *testing.T) {
	e, base := env(t)
	for _, tt := range []struct{ code, want string }{
		{"from mcp import runtime\nawait runtime.save_memory('k', {'n': 2**60})\nprint('saved')", "saved\n"},
		{"from mcp import runtime\nm = await runtime.load_memory('k')\nprint(m)\nawait runtime.delete_memory('k')", "1152921504606846976"},
	} {
		stdout, stderr, status := shell(t, e, tt.code, "run", "-")
		if status != 0 || !strings.Contains(stdout, tt.want) {
			t.Errorf("status %d, %q, %q", status, stdout, stderr)
		}
	}
	e.RequireNone(t, base)
}
