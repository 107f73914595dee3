package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"golang.org/x/sys/unix"
)

// home is a home directory with MCPs in it.
type home struct {
	t   testing.TB
	dir string
	src Sources
}

func newHome(t testing.TB) *home {
	dir := t.TempDir()
	h := &home{t: t, dir: dir}
	vars := map[string]string{"TOK": "secret-token", "HOST": "example.com", "BIN": "/bin/prog", "EMPTY": ""}
	h.src = Sources{
		Dirs: []string{filepath.Join(dir, "MCPs")},
		Home: dir,
		Lookup: func(name string) (string, bool) {
			v, ok := vars[name]
			return v, ok
		},
		Self: filepath.Join(dir, "bin", "thawpool"),
	}
	h.write("bin/thawpool", "#!/bin/sh\n")
	return h
}

func (h *home) write(path, content string) string {
	h.t.Helper()
	full := filepath.Join(h.dir, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o700); err != nil {
		h.t.Fatal(err)
	}
	return full
}

func (h *home) load() (map[string]Server, []string) {
	h.t.Helper()
	r := Load(h.src)
	servers := map[string]Server{}
	for _, s := range r.Servers {
		servers[s.Name] = s
	}
	var problems []string
	for _, p := range r.Problems {
		problems = append(problems, strings.ReplaceAll(p.String(), h.dir+"/", ""))
	}
	return servers, problems
}

func contains(problems []string, parts ...string) bool {
	return slices.ContainsFunc(problems, func(p string) bool {
		for _, part := range parts {
			if !strings.Contains(p, part) {
				return false
			}
		}
		return true
	})
}

func TestFilesThatPeopleHave(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, config string }{
		{"comments", "{ \"mcpServers\": { // note\n \"a\": {\"command\": \"./fake_up\"} /* x */ } }"},
		{"byte order mark", "\ufeff{\"mcpServers\":{\"a\":{\"command\":\"./fake_up\"}}}"},
		{"trailing commas", `{"mcpServers":{"a":{"command":"./fake_up",},},}`},
		{"VS Code", `{"servers":{"a":{"type":"stdio","command":"./fake_up"}},"inputs":[]}`},
		{"VS Code settings", `{"mcp":{"servers":{"a":{"command":"./fake_up"}}}}`},
		{"no wrapper", `{"a":{"command":"./fake_up"}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			path := h.write("MCPs/x.json", tc.config)
			servers, problems := h.load()
			if s := servers["a"]; s.Command != filepath.Join(h.dir, "MCPs/fake_up") || s.Off != "" || s.Source.File != path || s.Source.Line == 0 {
				t.Errorf("got %+v, %q", s, problems)
			}
			if len(problems) > 0 {
				t.Errorf("problems: %q", problems)
			}
		})
	}
}

func TestBadFilesHarmNoOthers(t *testing.T) {
	t.Parallel()
	wide := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune(`{"mcpServers":{}}`)) {
		wide = append(wide, byte(u), byte(u>>8))
	}
	for _, tc := range []struct{ name, config, where, what string }{
		{"syntax", "{\n  \"mcpServers\": {\n    \"a\": {\"command\" \"x\"}\n}}", "MCPs/m.json:3:", "invalid character"},
		{"UTF-16", string(wide), "MCPs/m.json", "UTF-16"},
		{"UTF-16 without a mark", string(wide[2:]), "MCPs/m.json", "UTF-16"},
		{"not UTF-8", "{\n \"\xff\": 1}", "MCPs/m.json", "line 2, column 3"},
		{"empty", " \n", "MCPs/m.json", "empty"},
		{"not an object", `[1]`, "MCPs/m.json:1:1", "no object"},
		{"no servers", `{"theme":"dark"}`, "MCPs/m.json", "no \"mcpServers\""},
		{"servers are a list", `{"mcpServers":[]}`, "MCPs/m.json:1:15", "not an object"},
		{"entry is a text", `{"mcpServers":{"m":"npx"}}`, "MCPs/m.json:1:20", "not an object"},
		{"too deep", `{"mcpServers":` + strings.Repeat("[", 1<<20), "MCPs/m.json", "nest too deep"},
		{"no command", `{"mcpServers":{"m":{"args":["x"]}}}`, "MCPs/m.json:1:16", "neither"},
		{"command is a number", `{"mcpServers":{"m":{"command":7}}}`, "MCPs/m.json:1:16", "command"},
		{"args is a text", `{"mcpServers":{"m":{"command":"x","args":"-y"}}}`, "MCPs/m.json", "args"},
		{"args holds an object", `{"mcpServers":{"m":{"command":"x","args":[{}]}}}`, "MCPs/m.json", "args[0]"},
		{"env is a list", `{"mcpServers":{"m":{"command":"x","env":[]}}}`, "MCPs/m.json", "env"},
		{"env has no name", `{"mcpServers":{"m":{"command":"x","env":{"A=B":"c"}}}}`, "MCPs/m.json", "env.A=B"},
		{"unknown transport", `{"mcpServers":{"m":{"type":"ws","url":"ws://x"}}}`, "MCPs/m.json", "transport"},
		{"no address", `{"mcpServers":{"m":{"type":"http"}}}`, "MCPs/m.json", "url"},
		{"bad address", `{"mcpServers":{"m":{"url":"file:///etc/passwd"}}}`, "MCPs/m.json", "not an http"},
		{"bad header", `{"mcpServers":{"m":{"url":"http://x","headers":{"A":"b\r\nC: d"}}}}`, "MCPs/m.json", "headers.A"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			h.write("MCPs/a.json", `{"mcpServers":{"first":{"command":"one"}}}`)
			h.write("MCPs/m.json", tc.config)
			h.write("MCPs/z.json", `{"mcpServers":{"last":{"command":"two"}}}`)
			servers, problems := h.load()
			if servers["first"].Command != "one" || servers["last"].Command != "two" {
				t.Errorf("other files are lost: %v", servers)
			}
			if s, there := servers["m"]; there && (s.Off == "" || !s.Broken) {
				t.Errorf("the bad one counts as usable: %v", s)
			}
			if !contains(problems, tc.where, tc.what) {
				t.Errorf("got %q, want %q at %s", problems, tc.what, tc.where)
			}
		})
	}
}

// A directory that cannot be looked into is no empty one, and one that is named for its files has some.
func TestDirectoriesWithoutFiles(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	if _, problems := h.load(); len(problems) > 0 {
		t.Errorf("nobody needs ~/MCPs: %q", problems)
	}
	h.write("MCPs", "a file in the directory's place")
	h.write("defs/note.txt", "")
	h.src.Files = []string{filepath.Join(h.dir, "defs")}
	_, problems := h.load()
	if len(problems) != 2 || !contains(problems, "defs: no *.json") || !contains(problems, "MCPs: ", "not a directory") {
		t.Errorf("got %q", problems)
	}
}

// Where the state directory is ~/MCPs, what was added stays a stranger's word.
func TestAddedFileAmongTheUsersFiles(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.src.Added = h.write("MCPs/added.json", `{"mcpServers":{"a":{"literal":true,"command":"x","args":["${TOK}"]}}}`)
	servers, problems := h.load()
	if a := servers["a"]; a.Origin != "added" || !slices.Equal(a.Args, []string{"${TOK}"}) || len(problems) > 0 {
		t.Errorf("got %+v, %q", a.Args, problems)
	}
}

// A copy in memory goes by the name of its original in all that is told and resolved.
func TestCopyInMemory(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for name, text := range map[string]string{
		"MCPs/m.json": `{"mcpServers":{"m":{"command":"./fake_up","args":7}}}`,
		"t.toml":      "[mcpServers.t]\ncommand = './fake_up'\n",
	} {
		fd, err := unix.MemfdCreate(filepath.Join(h.dir, name), unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(fd), name)
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		h.src.Files = append(h.src.Files, fmt.Sprintf("/proc/self/fd/%d", fd))
	}
	servers, problems := h.load()
	if len(problems) != 1 || !contains(problems, "MCPs/m.json:1:16", "args") {
		t.Errorf("got %q", problems)
	}
	if m, at := servers["m"], servers["t"]; m.Command != filepath.Join(h.dir, "MCPs/fake_up") || at.Command != filepath.Join(h.dir, "fake_up") {
		t.Errorf("got %s and %s", m.Command, at.Command)
	}
}

// What is null is not there, as in every other field.
func TestNullIsAbsent(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write("MCPs/m.json", `{"mcpServers":{
	  "a": {"type": null, "transport": null, "transportType": null, "command": "x", "args": null, "env": null, "cwd": null},
	  "b": {"type": null, "transport": "sse", "url": "http://x", "headers": null, "timeout": null, "disabled": null}}}`)
	servers, problems := h.load()
	if a, b := servers["a"], servers["b"]; a.Transport != Stdio || a.Off != "" || b.Transport != SSE || b.Off != "" || len(problems) > 0 {
		t.Errorf("got %v, %q", servers, problems)
	}
}

func TestCommandAndAddress(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write("MCPs/m.json", `{"mcpServers":{"m":{"command":"./fake_up","url":"http://x"},"n":{"type":"http","command":"./fake_up","url":"http://x"}}}`)
	servers, problems := h.load()
	if m, n := servers["m"], servers["n"]; m.Transport != Stdio || m.Off != "" || n.Transport != HTTP || n.Off != "" {
		t.Errorf("got %v", servers)
	}
	if len(problems) != 1 || !contains(problems, "MCPs/m.json:1:16", `"url", which is ignored`) {
		t.Errorf("got %q", problems)
	}
}

func TestVariables(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write("MCPs/x.json", `{"mcpServers":{
	  "a": {"command": "${BIN}", "args": ["${A:-d}", "${EMPTY:-e}", "$NOT", "${1}", "${TOK", "x${HOST}y${EMPTY}"], "env": {"T": "${TOK}", "L": "$NOT"}, "cwd": "${HOME_IS_NOT_SET:-/tmp}"},
	  "b": {"command": "x", "args": ["--token=${TOK}"], "env": {"M": "${MISSING}"}},
	  "h": {"url": "https://${HOST}/mcp", "headers": {"Authorization": "Bearer ${TOK}", "X": "${env:HOST}"}},
	  "i": {"command": "x", "env": {"K": "${input:key}"}}}}`)
	servers, problems := h.load()
	a := servers["a"]
	if want := []string{"d", "e", "$NOT", "${1}", "${TOK", "xexample.comy"}; a.Command != "/bin/prog" || !slices.Equal(a.Args, want) {
		t.Errorf("command %q, args %q", a.Command, a.Args)
	}
	if a.Env["T"] != "secret-token" || a.Env["L"] != "$NOT" || a.Dir != "/tmp" || a.Off != "" {
		t.Errorf("env %q, dir %q, off %q", a.Env, a.Dir, a.Off)
	}
	if s := servers["h"]; s.URL != "https://example.com/mcp" || s.Headers["Authorization"] != "Bearer secret-token" || s.Headers["X"] != "example.com" {
		t.Errorf("url %q, headers %q", s.URL, s.Headers)
	}
	if s := servers["b"]; !s.Broken || !strings.Contains(s.Off, `"env.M"`) || !strings.Contains(s.Off, "MISSING") {
		t.Errorf("missing variable: %q", s.Off)
	}
	if s := servers["i"]; !s.Broken || !strings.Contains(s.Off, "env.K") {
		t.Errorf("editor's input: %q", s.Off)
	}
	for _, s := range servers {
		raw, err := json.Marshal(s)
		if shown := fmt.Sprintf("%v %+v %#v %s %s %v", s, s, s, s.Off, raw, err); strings.Contains(shown, "secret") {
			t.Errorf("a secret is shown: %s", shown)
		}
	}
	if strings.Contains(strings.Join(problems, "\n"), "secret") {
		t.Errorf("a secret is told: %q", problems)
	}
}

func TestEmptyEnvValueIsKept(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write("MCPs/x.json", `{"mcpServers":{"a":{"command":"fake_up","env":{"MY":"","N":1,"B":true}}}}`)
	servers, problems := h.load()
	env := servers["a"].Env
	if v, there := env["MY"]; v != "" || !there || env["N"] != "1" || env["B"] != "true" || len(problems) > 0 {
		t.Errorf("%q, %q", env, problems)
	}
}

func TestSelfIsSkipped(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	self := h.src.Self
	if err := os.Symlink(self, filepath.Join(h.dir, "bin", "link")); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"me":       map[string]any{"command": self},
		"link":     map[string]any{"command": filepath.Join(h.dir, "bin", "link"), "args": []string{"serve"}},
		"relative": map[string]any{"command": "../bin/thawpool"},
		"viash":    map[string]any{"command": "sh", "args": []string{"-c", "exec '" + self + "' serve"}},
		"by name":  map[string]any{"command": "thawpool", "args": []string{"serve"}},
		"module":   map[string]any{"command": "go", "args": []string{"run", "github.com/thawpool/thawpool/cmd/thawpool@latest"}},
		"bridge":   map[string]any{"command": "uvx", "args": []string{"--from", "git+https://github.com/elusznik/mcp-server-code-execution-mode", "mcp-server-code-execution-mode", "run"}},
		"ok":       map[string]any{"command": "./fake_up", "args": []string{"--data", "notes about thawpool"[:11]}},
		"remote":   map[string]any{"url": "https://thawpool.example/mcp"},
		"checkout": map[string]any{"command": "./fake_up", "args": []string{filepath.Dir(h.write("src/thawpool/go.mod", ""))}},
		"inside":   map[string]any{"command": "docker", "args": []string{"run", "image", "/opt/none/thawpool"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	h.write("MCPs/x.json", string(raw))
	servers, problems := h.load()
	if len(servers) != 3 || servers["ok"].Off+servers["remote"].Off+servers["checkout"].Off != "" || len(problems) != 8 {
		t.Errorf("got %v, %q", servers, problems)
	}
	if !contains(problems, `"viash"`, "itself", EnvAllowSelf) {
		t.Errorf("got %q", problems)
	}
	h.src.AllowSelf = true
	if servers, _ := h.load(); len(servers) != 11 {
		t.Errorf("allowed: %v", servers)
	}
	h.src.AllowSelf, h.src.Depth = false, 1
	if servers, problems := h.load(); len(servers) != 0 || !contains(problems, "started by a server of another thawpool") {
		t.Errorf("started by another one: %v, %q", servers, problems)
	}
	h.src.AllowSelf, h.src.Depth = true, maxDepth
	if servers, _ := h.load(); len(servers) != 0 {
		t.Errorf("deep loop: %v", servers)
	}
	if got := DepthMark(1); got != "THAWPOOL_DEPTH=2" {
		t.Error(got)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write("MCPs/x.json", `{"mcpServers":{"../evil":{"command":"x"},"a/b":{"command":"x"},"":{"command":"x"},"CON":{"command":"x"},
		"a\u0000b":{"command":"x"},"a\u202eb":{"command":"x"}," a":{"command":"x"},"..":{"command":"x"},"My Server":{"command":"x"}}}`)
	servers, problems := h.load()
	if len(servers) != 2 || servers["CON"].Off != "" || servers["My Server"].Off != "" {
		t.Errorf("got %v", servers)
	}
	if len(problems) != 7 || !contains(problems, "looks like a path") || !contains(problems, "empty") {
		t.Errorf("got %d: %q", len(problems), problems)
	}
}

func TestDuplicates(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write("MCPs/a.json", "{\"mcpServers\":{\"a\":{\"command\":\"./one\"},\n\"a\":{\"command\":\"./two\"}}}")
	h.write("MCPs/b.json", "{\"mcpServers\":{\"a\":{\"command\":\"./three\", \"command\":\"./four\"}, \"b\":{\"command\":\"five\",\"command\":\"six\"}}}")
	h.write("MCPs/c.json", "{\"mcpServers\":{\"c\":{\"command\":\"c\"}},\n\"mcpServers\":{\"d\":{\"command\":\"d\"}}}")
	servers, problems := h.load()
	if !strings.HasSuffix(servers["a"].Command, "/one") || servers["b"].Command != "five" || servers["c"].Command != "c" || servers["d"].Command != "d" {
		t.Errorf("the first one counts, nothing is lost: %v", servers)
	}
	for _, want := range [][]string{
		{"MCPs/a.json:2:1", `"a"`, "MCPs/a.json:1:16"},
		{"MCPs/b.json:1:16", `"a"`, "MCPs/a.json:1:16"},
		{"MCPs/b.json:1:", `"command"`},
		{"MCPs/c.json:2:1", `"mcpServers"`, "MCPs/c.json:1:2"},
	} {
		if !contains(problems, want...) {
			t.Errorf("nothing tells %q: %q", want, problems)
		}
	}
}

func TestOrderOfSources(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	one := func(path, command string) string {
		return h.write(path, `{"description":"of the file","mcpServers":{"x":{"command":"`+command+`"},"`+command+`":{"command":"y","description":"own"}}}`)
	}
	h.src.Files = []string{one("flag.json", "flag")}
	h.src.EnvFile = one("env.json", "env")
	one("MCPs/a.json", "a")
	one("MCPs/b.jsonc", "b")
	one("MCPs/.hidden.json", "hidden")
	one("MCPs/notes.txt", "text")
	one(".cursor/mcp.json", "cursor")
	h.src.Discover = []string{"cursor", "nobody"}
	r := Load(h.src)
	var names []string
	for _, s := range r.Servers {
		names = append(names, s.Name)
	}
	if want := []string{"x", "flag", "env", "a", "b", "cursor"}; !slices.Equal(names, want) || r.Servers[0].Command != "flag" {
		t.Errorf("got %v, want %v", names, want)
	}
	if r.Servers[0].Description != "of the file" || r.Servers[1].Description != "own" || r.Servers[5].Origin != "cursor" {
		t.Errorf("%q, %q, %q", r.Servers[0].Description, r.Servers[1].Description, r.Servers[5].Origin)
	}
	h.src.Files = []string{filepath.Join(h.dir, "not there.json")}
	if _, problems := h.load(); !contains(problems, "not there.json") || !contains(problems, `"nobody"`, "windsurf") {
		t.Errorf("got %q", problems)
	}
}

func TestTimeoutsAndSwitches(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write("MCPs/x.json", `{"mcpServers":{
		"a":{"command":"x","startTimeout":90,"callTimeout":"2m"},
		"b":{"command":"x","timeout":60},
		"c":{"command":"x","timeout":45000,"startup_timeout_sec":2.5},
		"d":{"command":"x","timeout":-1,"callTimeout":"soon"},
		"e":{"command":"${MISSING}","disabled":true},
		"f":{"command":"x","enabled":false,"includeTools":["p"],"excludeTools":["q"]},
		"g":{"command":"x","startup_timeout_ms":1500,"timeout":"30s"},
		"h":{"url":"http://x/sse"},"i":{"url":"http://x/mcp"},"j":{"type":"sse","url":"http://x"},"k":{"type":"streamableHttp","serverUrl":"http://x"}}}`)
	servers, problems := h.load()
	for name, want := range map[string][2]time.Duration{
		"a": {90 * time.Second, 2 * time.Minute}, "b": {0, time.Minute}, "c": {2500 * time.Millisecond, 45 * time.Second},
		"d": {0, 0}, "g": {1500 * time.Millisecond, 30 * time.Second},
	} {
		if s := servers[name]; s.StartTimeout != want[0] || s.CallTimeout != want[1] {
			t.Errorf("%s: start %s, call %s, want %s", name, s.StartTimeout, s.CallTimeout, want)
		}
	}
	if len(problems) != 1 || !contains(problems, `"d"`, "callTimeout") {
		t.Errorf("problems: %q", problems)
	}
	for _, name := range []string{"e", "f"} {
		if s := servers[name]; s.Off == "" || s.Broken || !strings.Contains(s.Off, "disabled in") {
			t.Errorf("%s: %q, broken %v", name, s.Off, s.Broken)
		}
	}
	for name, want := range map[string]Transport{"h": SSE, "i": HTTP, "j": SSE, "k": HTTP} {
		if s := servers[name]; s.Transport != want || s.Off != "" {
			t.Errorf("%s: %s %s", name, s.Transport, s.Off)
		}
	}
	if !slices.Equal(servers["f"].OnlyTools, []string{"p"}) || !slices.Equal(servers["f"].HideTools, []string{"q"}) {
		t.Errorf("tools: %q, %q", servers["f"].OnlyTools, servers["f"].HideTools)
	}
}

func TestHashFollowsWhatIsStarted(t *testing.T) {
	t.Parallel()
	base := Server{Name: "a", Transport: Stdio, Command: "x", Env: map[string]string{"A": "1", "B": "2"}}
	same := Server{Name: "a", Transport: Stdio, Command: "x", Env: map[string]string{"B": "2", "A": "1"}, Description: "other", CallTimeout: time.Second}
	other := Server{Name: "a", Transport: Stdio, Command: "x", Env: map[string]string{"A": "1", "B": "3"}}
	if HashOf(base) != HashOf(same) || HashOf(base) == HashOf(other) {
		t.Error(HashOf(base), HashOf(same), HashOf(other))
	}
}

func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"mcpServers":{"a":{"command":"x","args":["${A:-b}"],"env":{"K":"v"},"timeout":5}}}`))
	f.Add([]byte("\ufeff{ // c\n\"servers\":{\"a\":{\"url\":\"http://x\",},}}"))
	f.Add([]byte(`{"mcpServers":{"a":1,"a":{}},"mcpServers":[]}`))
	h := newHome(f)
	path := filepath.Join(h.dir, "f.json")
	f.Fuzz(func(t *testing.T, raw []byte) {
		decoded, err := decode(raw)
		if err != nil {
			return
		}
		l := &loader{src: h.src, self: newSelf(h.src), seen: map[string]Position{}}
		p := parseJSON(path, decoded, &file, h.src)
		for _, e := range p.entries {
			l.entry(e, &file)
		}
		for _, s := range l.result.Servers {
			if CheckServerName(s.Name) != nil || (s.Off == "" && s.Transport == "") || s.Hash == "" {
				t.Fatalf("%+v", s.Name)
			}
		}
		for _, problem := range append(p.problems, l.result.Problems...) {
			if problem.Message == "" || problem.Where.File == "" {
				t.Fatalf("%+v", problem)
			}
		}
	})
}

func FuzzTOML(f *testing.F) {
	f.Add([]byte("[mcp_servers.a]\ncommand = \"x\"\nargs = [\"y\", 1]\n[mcp_servers.a.env]\nK = \"v\"\n"))
	h := newHome(f)
	d := clients["codex"].dialect
	f.Fuzz(func(t *testing.T, raw []byte) {
		l := &loader{src: h.src, self: newSelf(h.src), seen: map[string]Position{}}
		for _, e := range parseTOML("c.toml", raw, &d, h.src).entries {
			l.entry(e, &d)
		}
	})
}
