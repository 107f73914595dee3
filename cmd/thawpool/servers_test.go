package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/thawpool/thawpool/actors/catalog"
	"github.com/thawpool/thawpool/actors/catalog/config"
)

// serversFixture is a catalog of three servers, of which one answers, one fails and one lacks a variable.
func serversFixture(t *testing.T) (openCatalog, checkServer) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "servers.json")
	if err := os.WriteFile(path, []byte(`{"mcpServers":{"good-one":{"command":"g"},"bad":{"command":"b"},"lacking":{"command":"${NOT_SET}"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(context.Context) (*catalog.Catalog, func() error, error) {
		c, err := catalog.New(catalog.Options{CacheDir: filepath.Join(dir, "cache"), Log: zerolog.Nop()})
		if err != nil {
			return nil, nil, err
		}
		r := config.Load(config.Sources{Files: []string{path}, Home: dir, Lookup: func(string) (string, bool) { return "", false }})
		c.SetServers(r.Servers, r.Problems)
		return c, c.Close, nil
	}
	check := func(_ context.Context, s config.Server) (catalog.Listing, error) {
		if s.Name == "bad" {
			return catalog.Listing{}, errors.New("it exits at once")
		}
		return catalog.Listing{Version: "good 1.0", Tools: []json.RawMessage{
			json.RawMessage(`{"name":"find-things","description":"Finds \u001b[2Jthings","inputSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}`),
		}}, nil
	}
	return open, check
}

func runServers(t *testing.T, open openCatalog, check checkServer, args ...string) (out, problems string, err error) {
	t.Helper()
	cmd := newServersCommand(open, check)
	var stdout, stderr bytes.Buffer
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

func TestServersCommand(t *testing.T) {
	t.Parallel()
	open, check := serversFixture(t)
	for _, step := range []struct { // in this order: what is checked is known afterwards
		args                   []string
		out, problems, failure string
	}{
		{[]string{"ls"}, "mcp_good_one", "NOT_SET", ""},
		{[]string{"search", "things"}, "", "the tools of 2 servers are not known yet", ""},
		{[]string{"tools", "good-one"}, "async def find_things(*, name: str) -> Any", "", ""},
		{[]string{"tools", "goodone"}, "", "", `did you mean "good-one"`},
		{[]string{"tools", "bad"}, "", "", "exits at once"},
		{[]string{"tools", "lacking"}, "", "", "NOT_SET"},
		{[]string{"tools", "good_one", "find-things"}, `"""Finds things`, "", ""},
		{[]string{"search", "finding", "thing"}, "mcp_good_one.find_things(", "the tools of 1 servers", ""},
		{[]string{"search", "x", "--limit", "0"}, "", "", "--limit"},
		{[]string{"check", "good-one"}, "✓ good-one: 1 tools", "", ""},
		{[]string{"check"}, "✗ bad: it exits at once", "NOT_SET", "1 of 2 servers"},
		{[]string{"ls", "--json"}, `"alias": "good_one"`, "", ""},
	} {
		out, problems, err := runServers(t, open, check, step.args...)
		if !strings.Contains(out, step.out) || !strings.Contains(problems, step.problems) || strings.Contains(out, "\x1b") {
			t.Errorf("%q: got %q, %q", step.args, out, problems)
		}
		if (err == nil) != (step.failure == "") || err != nil && !strings.Contains(err.Error(), step.failure) {
			t.Errorf("%q: %v, want %q", step.args, err, step.failure)
		}
	}
}
