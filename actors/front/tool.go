package front

import (
	"context"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
)

// toolName is short, since clients put their own prefix before it and cut at 60 characters.
const toolName = "run_python"

// MaxSummary bounds the line that names the servers, bytes: with it the whole tools/list stays below 250 tokens.
const MaxSummary = 100

// tool is the tool as it is without servers; currentTools completes it for each client that asks.
func (f *Front) tool() mcp.Tool {
	timeout := fmt.Sprintf("Seconds; default %v, most %v", f.cfg.Timeout.Seconds(), f.cfg.MaxTimeout.Seconds())
	options := []mcp.ToolOption{
		mcp.WithString("code", mcp.Required()),
		mcp.WithArray("servers", mcp.WithStringItems(), mcp.Description("Allow only these MCP servers")),
		mcp.WithNumber("timeout", mcp.Description(timeout)),
	}
	if len(f.cfg.Profiles) > 1 {
		options = append(options, mcp.WithString("profile", mcp.Enum(f.cfg.Profiles...)))
	}
	t := mcp.NewTool(toolName, options...)
	f.complete(&t)
	return t
}

// currentTools is mcp-go's filter for tools/list: it describes the tool with the servers there are now.
func (f *Front) currentTools(_ context.Context, tools []mcp.Tool) []mcp.Tool {
	for i := range tools {
		if tools[i].Name == toolName {
			f.complete(&tools[i])
		}
	}
	return tools
}

// complete sets what depends on the servers: without any, code cannot do a thing that outlives its sandbox.
func (f *Front) complete(t *mcp.Tool) {
	servers := f.summary()
	t.Description = describe(servers)
	t.Annotations = mcp.ToolAnnotation{
		Title:           "Run Python",
		ReadOnlyHint:    mcp.ToBoolPtr(false),
		DestructiveHint: mcp.ToBoolPtr(servers != ""),
		IdempotentHint:  mcp.ToBoolPtr(false),
		OpenWorldHint:   mcp.ToBoolPtr(servers != ""),
	}
}

func describe(servers string) string {
	const base = "Run Python 3 in a fresh sandbox: no network, only /tmp and /workspace writable, nothing kept. " +
		"Top-level await works. Returns stdout, stderr and the value of a last expression."
	if servers == "" {
		return base
	}
	return base + " MCP tools: await mcp_SERVER.TOOL(arg=…). To find them: from mcp import runtime; " +
		"runtime.search_tool_docs(\"words\"), runtime.query_tool_docs(\"server\"). Servers: " + servers
}

func (f *Front) summary() string {
	if f.cfg.Servers == nil {
		return ""
	}
	s := strings.TrimSpace(f.cfg.Servers())
	if len(s) > MaxSummary {
		s = strings.ToValidUTF8(s[:MaxSummary], "")
		s = s[:max(strings.LastIndexByte(s, ' '), MaxSummary/2)] + " …"
	}
	return s
}

// instructions is what clients show the model of the server as a whole.
func (f *Front) instructions() string {
	return fmt.Sprintf("%s runs Python 3 in a sandbox that is made for the call and destroyed after it: no network, uid 65534, "+
		"a read-only system, /tmp and /workspace in memory. Print what you want to see; the value of a last expression comes "+
		"back too. A call may run %v seconds, or up to %v with timeout. Prefer one script that loops, filters and sums up over "+
		"many calls. Output that was cut is kept for a while as the resource named in the answer. The resource %s says what "+
		"else code can do here.", toolName, f.cfg.Timeout.Seconds(), f.cfg.MaxTimeout.Seconds(), capabilitiesURI)
}
