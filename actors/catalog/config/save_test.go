package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestSavedServersReadBack(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.src.Added = filepath.Join(h.dir, "state", "servers.json")
	h.write("catalog.json", `{"mcpServers":{"fromFile":{"command":"./x","env":{"K":"${TOK}"},"cwd":"sub","disabled":true}}}`)
	catalog := h.src
	catalog.Files, catalog.Dirs = []string{filepath.Join(h.dir, "catalog.json")}, nil
	fromFile := Load(catalog).Servers[0]
	stdio := Server{Name: "made", Transport: Stdio, Command: "npx", Args: []string{"-y", "p@1", "${TOK}"}, Env: map[string]string{"A": "${HOST}"},
		Dir: "/srv", CallTimeout: time.Minute, Description: "d"}
	remote := Server{Name: "far", Transport: SSE, URL: "https://h/${TOK}", Headers: map[string]string{"X": "y"}, StartTimeout: time.Second}
	var wg sync.WaitGroup
	for _, s := range []Server{fromFile, stdio, remote} {
		wg.Go(func() {
			if err := Save(t.Context(), h.src.Added, s); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	raw, err := os.ReadFile(h.src.Added)
	if err != nil || strings.Contains(string(raw), "secret-token") {
		t.Errorf("a secret is written: %s, %v", raw, err)
	}
	if info, err := os.Stat(h.src.Added); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	servers, problems := h.load()
	if len(servers) != 3 || len(problems) > 0 {
		t.Fatalf("%v, %q", servers, problems)
	}
	if s := servers["fromFile"]; s.Env["K"] != "secret-token" || s.Origin != "added" || s.Off != "" || s.Command != filepath.Join(h.dir, "sub/x") || s.Dir != filepath.Join(h.dir, "sub") {
		t.Errorf("variables of a config file are kept as such, and it starts from the same place: %q %q %q", s.Env, s.Command, s.Dir)
	}
	for _, want := range []Server{stdio, remote} {
		got := servers[want.Name]
		if got.Command != want.Command || fmt.Sprint(got.Args) != fmt.Sprint(want.Args) || got.URL != want.URL || got.Dir != want.Dir ||
			got.StartTimeout != want.StartTimeout || got.CallTimeout != want.CallTimeout || got.Description != want.Description ||
			got.Transport != want.Transport || (len(want.Env) > 0 && !reflect.DeepEqual(got.Env, want.Env)) {
			t.Errorf("%s reads back as %q %q %q", want.Name, got.Command, got.Args, got.URL)
		}
	}
	for _, want := range []Server{stdio, remote} { // else adding one would start it twice
		if servers[want.Name].Hash != HashOf(want) {
			t.Errorf("%s has another hash when read back", want.Name)
		}
	}
	kept := `{"own": [9007199254740993, 1.50], "mcpServers": {"old": {"url": "http://x", "retries": 9007199254740993}}}`
	if err := os.WriteFile(h.src.Added, []byte(kept), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Save(t.Context(), h.src.Added, stdio); err != nil {
		t.Error(err)
	}
	raw, err = os.ReadFile(h.src.Added)
	if s := strings.Join(strings.Fields(string(raw)), ""); err != nil || !strings.Contains(s, `"own":[9007199254740993,1.50]`) ||
		!strings.Contains(s, `"retries":9007199254740993`) || !strings.Contains(s, `"made":`) {
		t.Errorf("what stood in the file has changed: %s, %v", raw, err)
	}
	if err := os.WriteFile(h.src.Added, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Save(t.Context(), h.src.Added, stdio); err == nil {
		t.Error("a file that cannot be read is overwritten")
	}
	if err := Save(t.Context(), h.src.Added, Server{Name: "../x"}); err == nil {
		t.Error("a bad name is saved")
	}
}
