package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/thawpool/thawpool/actors/catalog/config"
)

// servers are server.json documents as the official registry holds them.
var servers = []string{
	`{"name":"io.github.x/files","description":"Reads \u001b[2J files","version":"1.2.0","packages":[{"registryType":"oci","identifier":"x/files"},{"registryType":"npm","registryBaseUrl":"https://registry.npmjs.org","identifier":"@x/files","version":"1.2.0","transport":{"type":"stdio"},"packageArguments":[{"type":"positional","valueHint":"dir","default":"/tmp","isRequired":true},{"type":"named","name":"--mode","value":"ro"},{"type":"named","name":"--extra"}],"environmentVariables":[{"name":"LEVEL","default":"info"},{"name":"OPTIONAL_KEY","isSecret":true}]}]}`,
	`{"name":"io.github.x/weather-mcp","description":"Weather","version":"0.5.0","packages":[{"registryType":"pypi","identifier":"weather-mcp","version":"0.5.0","transport":{"type":"stdio"}}]}`,
	`{"name":"com.example/remote","description":"Far away","version":"2","remotes":[{"type":"sse","url":"https://h/sse"},{"type":"streamable-http","url":"https://h/{region}","variables":{"region":{"default":"eu"}},"headers":[{"name":"X-Plan","value":"free"}]}]}`,
	`{"name":"com.example/secret","description":"Needs a key","version":"1","packages":[{"registryType":"npm","identifier":"secret","version":"1.0.0","transport":{"type":"stdio"},"environmentVariables":[{"name":"API_KEY","isRequired":true,"isSecret":true}]}]}`,
	`{"name":"com.evil/option","version":"1","packages":[{"registryType":"npm","identifier":"--node-options=x","version":"1.0.0"}]}`,
	`{"name":"com.evil/url","version":"1","packages":[{"registryType":"npm","identifier":"x","version":"git+https://evil/x"}]}`,
	`{"name":"com.evil/index","version":"1","packages":[{"registryType":"pypi","registryBaseUrl":"https://evil.example","identifier":"x","version":"1"}]}`,
	`{"name":"com.evil/runner","version":"1","packages":[{"registryType":"npm","identifier":"x","version":"1","runtimeArguments":[{"type":"named","name":"--package","value":"evil"}]}]}`,
	`{"name":"com.evil/env","version":"1","packages":[{"registryType":"npm","identifier":"x","version":"1","environmentVariables":[{"name":"npm_config_registry","value":"https://evil"}]}]}`,
	`{"name":"com.evil/header","version":"1","remotes":[{"type":"sse","url":"https://h","headers":[{"name":"A","value":"b\r\nC: d"}]}]}`,
	`{"name":"com.evil/file","version":"1","remotes":[{"type":"streamable-http","url":"file:///etc/passwd"}]}`,
	`{"name":"com.evil/\u202ename","version":"1"}`,
}

// fake speaks GET /v0/servers: search by a part of the name, limit, an opaque cursor, the envelope of 2025-09.
func fake(t *testing.T, perPage int) (*Client, *[]string) {
	t.Helper()
	var asked []string
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v0/servers", func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		q := r.URL.Query()
		var found []string
		for _, s := range servers {
			if strings.Contains(strings.ToLower(strings.SplitN(s, ",", 2)[0]), strings.ToLower(q.Get("search"))) {
				found = append(found, s)
			}
		}
		from := 0
		if c, ok := strings.CutPrefix(q.Get("cursor"), "after:"); ok {
			from, _ = strconv.Atoi(c)
		}
		limit, _ := strconv.Atoi(q.Get("limit"))
		to := min(len(found), from+min(limit, perPage))
		out := map[string]any{"metadata": map[string]any{"count": to - from}}
		if to < len(found) {
			out["metadata"] = map[string]any{"count": to - from, "nextCursor": fmt.Sprint("after:", to)}
		}
		list := []any{"not an object", map[string]any{"server": json.RawMessage(`{"name":"old/version"}`), "_meta": json.RawMessage(`{"io.modelcontextprotocol.registry/official":{"isLatest":false}}`)}}
		for _, s := range found[from:to] {
			list = append(list, map[string]any{"server": json.RawMessage(s), "_meta": json.RawMessage(`{"io.modelcontextprotocol.registry/official":{"isLatest":true,"status":"active"}}`)})
		}
		out["servers"] = list
		if err := json.NewEncoder(w).Encode(out); err != nil {
			t.Error(err)
		}
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	c, err := NewClient(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	return c, &asked
}

func TestFindInRegistry(t *testing.T) {
	t.Parallel()
	c, asked := fake(t, 3)
	list, err := c.Find(t.Context(), "", 100)
	if err != nil || len(list) != 11 {
		t.Fatalf("%d, %v", len(list), err)
	}
	if len(*asked) != 4 || !strings.Contains((*asked)[3], "cursor=after%3A9") {
		t.Errorf("pages: %q", *asked)
	}
	byName := map[string]Candidate{}
	for _, x := range list {
		byName[x.Name] = x
	}
	files := byName["io.github.x/files"]
	if want := []string{"-y", "@x/files@1.2.0", "/tmp", "--mode", "ro"}; files.Server.Command != "npx" || !slices.Equal(files.Server.Args, want) {
		t.Errorf("npm: %s %q", files.Server.Command, files.Server.Args)
	}
	if len(files.Server.Env) != 1 || files.Server.Env["LEVEL"] != "info" || files.Server.Name != "files" || files.Kind != "npm" || files.Problem != "" {
		t.Errorf("npm: %+v %q", files.Found, files.Server.Env)
	}
	if strings.Contains(files.Description, "\x1b") {
		t.Errorf("description: %q", files.Description)
	}
	if w := byName["io.github.x/weather-mcp"]; w.Server.Command != "uvx" || !slices.Equal(w.Server.Args, []string{"weather-mcp==0.5.0"}) || w.Server.Name != "weather_mcp" {
		t.Errorf("pypi: %s %q %q", w.Server.Command, w.Server.Args, w.Server.Name)
	}
	if r := byName["com.example/remote"]; r.Server.Transport != config.HTTP || r.Server.URL != "https://h/eu" || r.Server.Headers["X-Plan"] != "free" {
		t.Errorf("remote: %s %s %q", r.Server.Transport, r.Server.URL, r.Problem)
	}
	if s := byName["com.example/secret"]; !strings.Contains(s.Problem, "API_KEY") {
		t.Errorf("secret: %q", s.Problem)
	}
	for name, x := range byName {
		if strings.HasPrefix(name, "com.evil/") && (x.Problem == "" || x.Server.Command != "" || x.Server.URL != "") {
			t.Errorf("%s: %q %q %q", name, x.Problem, x.Server.Command, x.Server.URL)
		}
	}
}

func TestFindByWordsAndName(t *testing.T) {
	t.Parallel()
	c, _ := fake(t, 2)
	list, err := c.Find(t.Context(), "weather remote", 5)
	if err != nil || len(list) != 2 || list[0].Name != "io.github.x/weather-mcp" {
		t.Errorf("%v, %v", list, err)
	}
	if list, err := c.Find(t.Context(), "com", 2); err != nil || len(list) != 2 {
		t.Errorf("limit: %d, %v", len(list), err)
	}
	if x, err := c.Get(t.Context(), "com.example/remote"); err != nil || x.Name != "com.example/remote" {
		t.Errorf("%v, %v", x.Found, err)
	}
	if _, err := c.Get(t.Context(), "com.example/remot"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a part of a name: %v", err)
	}
}

func TestFinder(t *testing.T) {
	t.Parallel()
	c, _ := fake(t, 50)
	path := filepath.Join(t.TempDir(), "catalog.json")
	if err := os.WriteFile(path, []byte(`{"mcpServers":{
		"files":{"command":"my-files","description":"Files of mine"},
		"mail":{"url":"https://mail/mcp","description":"Sends letters","disabled":true},
		"bad":{"command":"x","env":{"K":"${NOT_SET_ANYWHERE}"}}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &Finder{Catalog: path, Registry: c, Sources: config.Sources{Lookup: func(string) (string, bool) { return "", false }}}
	list, err := f.Find(t.Context(), "files", 10)
	if err != nil || len(list) != 2 || list[0].Source != "catalog" || list[1].Name != "io.github.x/files" {
		t.Errorf("%v, %v", list, err)
	}
	found := Mark(list, func(name string) bool { return name == "files" })
	if !found[0].Installed || !found[1].Installed {
		t.Errorf("%+v", found)
	}
	if list, err := f.Find(t.Context(), "letter", 10); err != nil || len(list) != 1 || list[0].Name != "mail" || list[0].Server.Off != "" {
		t.Errorf("%v, %v", list, err)
	}
	if x, err := f.Get(t.Context(), "bad"); err != nil || !strings.Contains(x.Problem, "NOT_SET_ANYWHERE") {
		t.Errorf("%+v, %v", x, err)
	}
	if x, err := f.Get(t.Context(), "com.example/remote"); err != nil || x.Server.URL == "" {
		t.Errorf("%+v, %v", x, err)
	}
	if list, err := (&Finder{}).Find(t.Context(), "x", 5); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := (&Finder{Catalog: filepath.Join(t.TempDir(), "none.json")}).Get(t.Context(), "x"); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v", err)
	}
}

func TestBadRegistries(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "ftp://x", "x", "http://"} {
		if _, err := NewClient(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	for _, tc := range []struct {
		name, want string
		handler    http.HandlerFunc
	}{
		{"error", "502", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }},
		{"no JSON", "not what the API gives", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }},
		{"too large", "more than", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, maxAnswer+2)) }},
		{"elsewhere", "another host", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://elsewhere.invalid/v0/servers", http.StatusFound)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(tc.handler)
			defer srv.Close()
			c, err := NewClient(srv.URL + "/v0.1/")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Find(t.Context(), "x", 5); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v", err)
			}
		})
	}
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, `{"servers":[],"metadata":{"nextCursor":"%s."}}`, r.URL.Query().Get("cursor"))
	}))
	defer endless.Close()
	c, err := NewClient(endless.URL)
	if err != nil {
		t.Fatal(err)
	}
	if list, err := c.Find(t.Context(), "", 5); err != nil || len(list) != 0 {
		t.Errorf("endless pages: %v, %v", list, err)
	}
}

func FuzzItem(f *testing.F) {
	for _, s := range servers {
		f.Add([]byte(s))
		f.Add([]byte(`{"server":` + s + `}`))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var i item
		if err := json.Unmarshal(raw, &i); err != nil {
			return
		}
		c, ok := i.candidate("host")
		if !ok || c.Problem != "" {
			return
		}
		if err := config.CheckServerName(c.Server.Name); err != nil {
			t.Fatal(err)
		}
		if c.Server.Transport == config.Stdio && c.Server.Command != "npx" && c.Server.Command != "uvx" {
			t.Fatalf("it starts %q", c.Server.Command)
		}
	})
}
