package actors

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	candidates "github.com/thawpool/thawpool/actors/catalog/registry"
	"github.com/thawpool/thawpool/actors/policy"
	"github.com/thawpool/thawpool/actors/upstream/fakeup"
	"github.com/thawpool/thawpool/runtime/guest"
)

// withCatalog offers servers in a catalog file.
func withCatalog(t *testing.T, pc policy.Config, persist string, servers map[string]entry) func(*HubConfig) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "catalog.json")
	raw, err := json.Marshal(map[string]any{"mcpServers": servers})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := policy.New(pc)
	if err != nil {
		t.Fatal(err)
	}
	return func(c *HubConfig) {
		c.Policy = p
		c.Sources.Added = persist
		c.Finder = &candidates.Finder{Catalog: file, Sources: c.Sources}
	}
}

func TestHubFindAndAdd(t *testing.T) {
	t.Parallel()
	kept := filepath.Join(t.TempDir(), "added.json")
	pc := policy.DefaultConfig()
	pc.AllowAdd = []string{"weather*", "secret"}
	pc.Deny = []string{"secret"}
	offer := withCatalog(t, pc, kept, map[string]entry{
		"weather":       fakeEntry(fakeup.Script{}).with("description", "Forecasts for any town"),
		"other":         fakeEntry(fakeup.Script{}).with("description", "Something else"),
		"secret":        fakeEntry(fakeup.Script{}),
		"weather-keyed": {"command": "x", "env": map[string]string{"K": "${NOT_SET_ANYWHERE}"}},
	})
	b := newHubBed(t, map[string]entry{"mine": fakeEntry(fakeup.Script{})}, offer)
	r := b.open()
	if found := r.must(guest.VerbFind, map[string]any{"query": "forecast town", "limit": 5}); !strings.Contains(found, `"weather"`) || !strings.Contains(found, `"installed":false`) {
		t.Error(found)
	}
	for name, words := range map[string]string{"other": "allow-add", "Weather": "allow-add", "secret": "not allowed to be called"} {
		_, _, err := r.ask(guest.VerbAdd, map[string]any{"name": name})
		wantFault(t, err, guest.ErrDenied, words)
	}
	_, _, err := r.ask(guest.VerbAdd, map[string]any{"name": "weathers"})
	wantFault(t, err, guest.ErrUnknownServer)
	_, _, err = r.ask(guest.VerbAdd, map[string]any{"name": "weather-keyed"})
	wantFault(t, err, guest.ErrValue, "NOT_SET_ANYWHERE")
	want(t, "added", r.must(guest.VerbAdd, map[string]any{"name": "weather", "persist": true}), `{"name":"weather","alias":"weather"}`)
	r.mustCall("weather", "echo", `{}`)
	r.mustCall("mine", "echo", `{}`)
	_, _, err = r.ask(guest.VerbAdd, map[string]any{"name": "weather"})
	wantFault(t, err, guest.ErrValue, "already")
	if found := r.must(guest.VerbFind, map[string]any{"query": "forecast"}); !strings.Contains(found, `"installed":true`) {
		t.Error(found)
	}
	if servers, _ := b.open().Scope(); len(servers) != 2 {
		t.Errorf("later runs see %v", servers)
	}
	later := newHubBed(t, nil, offer) // another process
	later.open().mustCall("weather", "echo", `{}`)
}

func TestHubAddIsOffByDefault(t *testing.T) {
	t.Parallel()
	b := newHubBed(t, nil, withCatalog(t, policy.DefaultConfig(), "", map[string]entry{"weather": fakeEntry(fakeup.Script{})}))
	_, _, err := b.open().ask(guest.VerbAdd, map[string]any{"name": "weather"})
	wantFault(t, err, guest.ErrDenied, "--allow-add")
	if _, err := b.Add(context.Background(), "weather", false); err == nil {
		t.Error("added")
	}
	bare := newHubBed(t, nil, nil)
	want(t, "found", bare.open().must(guest.VerbFind, map[string]any{"query": "x"}), "[]")
}

func TestHubPersistNeedsAPlace(t *testing.T) {
	t.Parallel()
	pc := policy.DefaultConfig()
	pc.AllowAdd = []string{"*"}
	b := newHubBed(t, nil, withCatalog(t, pc, "", map[string]entry{"weather": fakeEntry(fakeup.Script{})}))
	_, _, err := b.open().ask(guest.VerbAdd, map[string]any{"name": "weather", "persist": true})
	wantFault(t, err, guest.ErrDenied, "persist")
	b.open().must(guest.VerbAdd, map[string]any{"name": "weather"})
}
