package config

import (
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestClientsOwnFiles: each client's file in that client's own words, as its documentation gives them.
func TestClientsOwnFiles(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		client, path, content string
		want                  Server
	}{
		{"claude", ".config/Claude/claude_desktop_config.json", `{"mcpServers":{"s":{"command":"npx","args":["-y","p"],"env":{"K":"v"}}}}`,
			Server{Transport: Stdio, Command: "npx", Args: []string{"-y", "p"}, Env: map[string]string{"K": "v"}}},
		{"claude-code", ".claude.json", `{"numStartups":3,"mcpServers":{"s":{"type":"http","url":"https://h/mcp","headers":{"A":"${TOK}"},"timeout":2000}},"projects":{}}`,
			Server{Transport: HTTP, URL: "https://h/mcp", Headers: map[string]string{"A": "secret-token"}, CallTimeout: 2 * time.Second}},
		{"cursor", ".cursor/mcp.json", `{"mcpServers":{"s":{"command":"node","args":["${userHome}/x.js"],"env":{"K":"${env:TOK}"}}}}`,
			Server{Transport: Stdio, Command: "node", Args: []string{"HOME/x.js"}, Env: map[string]string{"K": "secret-token"}}},
		{"vscode", ".config/Code/User/mcp.json", `{"inputs":[],"servers":{"s":{"type":"sse","url":"http://h/sse"}}}`,
			Server{Transport: SSE, URL: "http://h/sse"}},
		{"vscode", ".config/Code/User/settings.json", `{"editor.fontSize":12,"mcp":{"servers":{"s":{"command":"c"}}}}`,
			Server{Transport: Stdio, Command: "c"}},
		{"windsurf", ".codeium/windsurf/mcp_config.json", `{"mcpServers":{"s":{"serverUrl":"https://h/mcp"}}}`,
			Server{Transport: HTTP, URL: "https://h/mcp"}},
		{"gemini", ".gemini/settings.json", `{"theme":"x","mcpServers":{"s":{"url":"http://h/x","timeout":500}}}`,
			Server{Transport: SSE, URL: "http://h/x", CallTimeout: 500 * time.Millisecond}},
		{"gemini", ".gemini/settings.json", `{"mcpServers":{"s":{"httpUrl":"http://h/x"}}}`,
			Server{Transport: HTTP, URL: "http://h/x"}},
		{"codex", ".codex/config.toml", "model = \"m\"\n[mcp_servers.s]\ncommand = \"npx\"\nargs = [\"-y\", \"p\"]\nstartup_timeout_sec = 20\ntool_timeout_sec = 5.5\nenv_vars = [\"HOST\"]\n[mcp_servers.s.env]\nK = \"v\"\n",
			Server{Transport: Stdio, Command: "npx", Args: []string{"-y", "p"}, Env: map[string]string{"K": "v", "HOST": "example.com"}, StartTimeout: 20 * time.Second, CallTimeout: 5500 * time.Millisecond}},
		{"codex", ".codex/config.toml", "[mcp_servers.s]\nurl = \"https://h/mcp\"\nbearer_token_env_var = \"TOK\"\nhttp_headers = { X = \"y\" }\nenv_http_headers = { Z = \"HOST\" }\n",
			Server{Transport: HTTP, URL: "https://h/mcp", Headers: map[string]string{"Authorization": "Bearer secret-token", "X": "y", "Z": "example.com"}}},
		{"opencode", ".config/opencode/opencode.json", `{"$schema":"x","mcp":{"s":{"type":"local","command":["bun","x","p"],"environment":{"K":"{env:TOK}"},"enabled":true,"timeout":9000}}}`,
			Server{Transport: Stdio, Command: "bun", Args: []string{"x", "p"}, Env: map[string]string{"K": "secret-token"}, CallTimeout: 9 * time.Second}},
		{"opencode", ".config/opencode/opencode.jsonc", `{"mcp":{"s":{"type":"remote","url":"https://h/mcp"}}}`,
			Server{Transport: HTTP, URL: "https://h/mcp"}},
	} {
		t.Run(tc.client+" "+filepath.Base(tc.path)+" "+string(tc.want.Transport), func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			h.write(tc.path, tc.content)
			if servers, problems := h.load(); len(servers)+len(problems) > 0 {
				t.Errorf("read without being asked: %v, %q", servers, problems)
			}
			h.src.Discover = []string{tc.client}
			servers, problems := h.load()
			s := servers["s"]
			for i, a := range tc.want.Args {
				if a == "HOME/x.js" {
					tc.want.Args[i] = h.dir + "/x.js"
				}
			}
			if s.Transport != tc.want.Transport || s.Command != tc.want.Command || !slices.Equal(s.Args, tc.want.Args) || s.URL != tc.want.URL ||
				s.StartTimeout != tc.want.StartTimeout || s.CallTimeout != tc.want.CallTimeout || s.Origin != tc.client || s.Off != "" || s.Source.Line == 0 {
				t.Errorf("got %s %q %q %s %s %s %q %q\nproblems %q", s, s.Command, s.Args, s.URL, s.StartTimeout, s.CallTimeout, s.Origin, s.Off, problems)
			}
			for k, v := range tc.want.Env {
				if s.Env[k] != v {
					t.Errorf("env %s: %q", k, s.Env[k])
				}
			}
			for k, v := range tc.want.Headers {
				if s.Headers[k] != v {
					t.Errorf("header %s: %q", k, s.Headers[k])
				}
			}
		})
	}
}

// TestProjectFilesAreOnlyReadWhenAsked: a repository that was just cloned must not start anything.
func TestProjectFilesAreOnlyReadWhenAsked(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for _, path := range []string{".mcp.json", ".cursor/mcp.json", ".gemini/settings.json"} {
		h.write("repo/"+path, `{"mcpServers":{"`+filepath.Dir(path)+`x":{"command":"./run"}}}`)
	}
	h.write("repo/.vscode/mcp.json", `{"servers":{"v":{"command":"./run","cwd":"${workspaceFolder}"}}}`)
	h.write("repo/.codex/config.toml", "[mcp_servers.c]\ncommand = \"./run\"\n")
	h.write("repo/opencode.json", `{"mcp":{"o":{"type":"local","command":["./run"]}}}`)
	h.write(".claude.json", `{"projects":{"`+h.dir+`/repo":{"mcpServers":{"own":{"command":"o"}}}}}`)
	h.src.Discover = Clients()
	if servers, problems := h.load(); len(servers)+len(problems) > 0 {
		t.Errorf("got %v, %q", servers, problems)
	}
	h.src.Project = filepath.Join(h.dir, "repo")
	servers, problems := h.load()
	if len(servers) != 7 || len(problems) > 0 {
		t.Errorf("got %v, %q", servers, problems)
	}
	for name, s := range servers {
		if name != "own" && s.Command != filepath.Join(h.dir, "repo", "run") {
			t.Errorf("%s: %s", name, s.Command)
		}
	}
}

func TestBadTOML(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(".codex/config.toml", "[mcp_servers.s]\ncommand = \"x\"\n[mcp_servers.s]\ncommand = \"y\"\n")
	h.src.Discover = []string{"codex"}
	servers, problems := h.load()
	if len(servers) > 0 || !contains(problems, ".codex/config.toml:3:") {
		t.Errorf("%v, %q", servers, problems)
	}
}
