package config

import (
	"maps"
	"path/filepath"
	"slices"
	"time"
)

// dialect is how one kind of file writes its servers.
type dialect struct {
	origin  string
	roots   func(Sources) [][]string // paths of names to the objects of servers
	bare    bool                     // the file itself may be such an object
	timeout time.Duration            // unit of "timeout"; zero guesses
	url     Transport                // of "url" without a type; empty goes by the address
	braces  bool                     // {env:NAME} is a variable
	own     bool                     // written by Save
	base    func(file string) string // what relative paths in the file start from
}

func roots(paths ...[]string) func(Sources) [][]string {
	return func(Sources) [][]string { return paths }
}

// anyRoots are taken wherever the file is the user's own choice: the reference's, VS Code's, OpenCode's.
var anyRoots = roots([]string{"mcpServers"}, []string{"servers"}, []string{"mcp", "servers"}, []string{"mcp", "mcpServers"})

var (
	mcps = dialect{origin: "mcps", roots: anyRoots, bare: true, base: filepath.Dir}
	file = dialect{origin: "file", roots: anyRoots, bare: true, base: filepath.Dir}
	own  = dialect{origin: "added", roots: roots([]string{"mcpServers"}), base: filepath.Dir, own: true}
)

// client is one MCP client whose own files can be read.
type client struct {
	dialect dialect
	files   func(Sources) []string
}

// Clients lists the names that Sources.Discover takes.
func Clients() []string { return slices.Sorted(maps.Keys(clients)) }

// setting is $variable, else a path below home.
func (s Sources) setting(variable string, below ...string) string {
	if s.Lookup != nil {
		if v, _ := s.Lookup(variable); filepath.IsAbs(v) {
			return v
		}
	}
	return filepath.Join(append([]string{s.Home}, below...)...)
}

// configHome is $XDG_CONFIG_HOME.
func (s Sources) configHome(below ...string) string {
	return filepath.Join(append([]string{s.setting("XDG_CONFIG_HOME", ".config")}, below...)...)
}

// project is a file of the project directory, none when no project is given.
func (s Sources) project(below ...string) []string {
	if s.Project == "" {
		return nil
	}
	return []string{filepath.Join(append([]string{s.Project}, below...)...)}
}

// clients are the MCP clients by name, with their files on Linux in the order of their own precedence.
var clients = map[string]client{
	"claude": {
		dialect: plainDialect("claude", roots([]string{"mcpServers"})),
		files: func(s Sources) []string {
			return []string{s.configHome("Claude", "claude_desktop_config.json")}
		},
	},
	"claude-code": {
		dialect: dialect{
			origin: "claude-code", timeout: time.Millisecond, base: projectBase,
			roots: func(s Sources) [][]string {
				paths := [][]string{{"mcpServers"}}
				if s.Project != "" { // what the user added for this project alone comes first
					paths = slices.Insert(paths, 0, []string{"projects", s.Project, "mcpServers"})
				}
				return paths
			},
		},
		files: func(s Sources) []string {
			own := filepath.Join(s.setting("CLAUDE_CONFIG_DIR"), ".claude.json")
			return append(append([]string{own}, s.project(".mcp.json")...), "/etc/claude-code/managed-mcp.json")
		},
	},
	"cursor": {
		dialect: plainDialect("cursor", roots([]string{"mcpServers"})),
		files: func(s Sources) []string {
			return append(s.project(".cursor", "mcp.json"), filepath.Join(s.Home, ".cursor", "mcp.json"))
		},
	},
	"vscode": {
		dialect: plainDialect("vscode", roots([]string{"servers"}, []string{"mcp", "servers"})),
		files: func(s Sources) []string {
			list := s.project(".vscode", "mcp.json")
			for _, edition := range []string{"Code", "Code - Insiders", "VSCodium"} {
				user := s.configHome(edition, "User")
				list = append(list, filepath.Join(user, "mcp.json"), filepath.Join(user, "settings.json"))
			}
			return list
		},
	},
	"windsurf": {
		dialect: plainDialect("windsurf", roots([]string{"mcpServers"})),
		files: func(s Sources) []string {
			return []string{filepath.Join(s.Home, ".codeium", "windsurf", "mcp_config.json")}
		},
	},
	"gemini": {
		dialect: dialect{origin: "gemini", roots: roots([]string{"mcpServers"}), timeout: time.Millisecond, url: SSE, base: projectBase},
		files: func(s Sources) []string {
			return append(s.project(".gemini", "settings.json"),
				filepath.Join(s.Home, ".gemini", "settings.json"), "/etc/gemini-cli/settings.json")
		},
	},
	"codex": {
		dialect: dialect{origin: "codex", roots: roots([]string{"mcp_servers"}), url: HTTP, base: projectBase},
		files: func(s Sources) []string {
			return append(s.project(".codex", "config.toml"), filepath.Join(s.setting("CODEX_HOME", ".codex"), "config.toml"))
		},
	},
	"opencode": {
		dialect: dialect{origin: "opencode", roots: roots([]string{"mcp"}, []string{"mcpServers"}), timeout: time.Millisecond, braces: true, base: projectBase},
		files: func(s Sources) []string {
			list := append(s.project("opencode.json"), s.project("opencode.jsonc")...)
			if own := s.setting("OPENCODE_CONFIG"); own != s.Home {
				list = append(list, own)
			}
			return append(list, s.configHome("opencode", "opencode.json"), s.configHome("opencode", "opencode.jsonc"),
				filepath.Join(s.Home, ".opencode.json"))
		},
	},
}

func plainDialect(origin string, r func(Sources) [][]string) dialect {
	return dialect{origin: origin, roots: r, base: projectBase}
}

// projectBase is where relative paths start in a client's file: the project's root when the file is in one of its
// settings directories, else the file's own directory.
func projectBase(path string) string {
	dir := filepath.Dir(path)
	if slices.Contains([]string{".cursor", ".vscode", ".gemini", ".codex"}, filepath.Base(dir)) {
		return filepath.Dir(dir)
	}
	return dir
}
