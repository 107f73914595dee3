package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thawpool/thawpool/actors/catalog"
	"github.com/thawpool/thawpool/actors/upstream/fakeup"
	"github.com/thawpool/thawpool/runtime/guest"
)

func TestHubC11ChangedTools(t *testing.T) {
	t.Parallel()
	b := newHubBed(t, map[string]entry{"up": fakeEntry(fakeup.Script{Tools: []json.RawMessage{
		json.RawMessage(`{"name":"a","inputSchema":{"type":"object"}}`),
		json.RawMessage(`{"name":"c","inputSchema":{"type":"object","properties":{"x":{"type":"integer"}}}}`),
		json.RawMessage(`{"name":"change","inputSchema":{"type":"object"}}`),
	}})}, nil)
	old := b.open()
	old.mustCall("up", "c", `{"x":1}`)
	old.mustCall("up", "change", `{"times":10,"tools":[{"name":"b","inputSchema":{"type":"object"}},`+
		`{"name":"c","inputSchema":{"type":"object","properties":{"y":{"type":"string"}},"required":["y"]}}]}`)
	eventually(t, "the new list is known", func() bool {
		return strings.Contains(b.open().must(guest.VerbTools, map[string]any{"server": "up"}), `"b"`)
	})
	r := b.open()
	_, _, err := r.call("up", "a", `{}`)
	wantFault(t, err, guest.ErrUnknownTool, "a")
	_, _, err = r.call("up", "c", `{"x":1}`)
	wantFault(t, err, guest.ErrArguments, "y")
	r.mustCall("up", "b", `{}`)
	if docs := old.must(guest.VerbTools, map[string]any{"server": "up"}); !strings.Contains(docs, `"a"`) {
		t.Errorf("the view of a run has changed: %s", docs)
	}
}

func TestHubC29OddSchemasHideNothing(t *testing.T) {
	t.Parallel()
	tools := []json.RawMessage{
		json.RawMessage(`{"name":"any","inputSchema":{"anyOf":[{"type":"object"},{"type":"string"}]}}`),
		json.RawMessage(`{"name":"none"}`),
		json.RawMessage(`{"name":"cycle","inputSchema":{"type":"object","properties":{"n":{"$ref":"#/properties/n"}}}}`),
		json.RawMessage(`{"name":7}`),
		json.RawMessage(`"text"`),
	}
	for _, n := range []string{"one", "two", "three"} {
		tools = append(tools, json.RawMessage(`{"name":"`+n+`","inputSchema":{"type":"object"}}`))
	}
	b := newHubBed(t, map[string]entry{"up": fakeEntry(fakeup.Script{Tools: tools})}, nil)
	r := b.open()
	for _, n := range []string{"one", "two", "three", "any", "none", "cycle"} {
		if raw := r.mustCall("up", n, `{}`); !strings.Contains(raw, n) {
			t.Error(raw)
		}
	}
	check, err := b.Check(context.Background(), "up")
	if err != nil || !check.OK || check.Tools != 6 || len(check.Problems) < 2 {
		t.Errorf("%+v, %v", check, err)
	}
}

func TestHubDocsComeFromTheCacheAtOnce(t *testing.T) {
	t.Parallel()
	cache, journal := t.TempDir(), filepath.Join(t.TempDir(), "journal")
	servers := map[string]entry{"up": fakeEntry(fakeup.Script{Journal: journal})}
	withCache := func(c *HubConfig) { c.CacheDir = cache }
	first := newHubBed(t, servers, withCache)
	first.open().mustCall("up", "echo", `{}`)
	first.close()
	starts := func() int { return strings.Count(journalOf(journal), "start ") }
	n := starts()
	b := newHubBed(t, servers, withCache)
	r := b.open()
	if found := r.must(guest.VerbSearch, map[string]any{"query": "large integer"}); !strings.Contains(found, `"get_id"`) {
		t.Error(found)
	}
	if starts() != n {
		t.Error("a search of what is known started the server")
	}
	if docs := r.must(guest.VerbDocs, map[string]any{"server": "up", "tool": "sleep", "detail": "full"}); !strings.Contains(docs, "ms: int") {
		t.Error(docs)
	}
	eventually(t, "the docs are read again behind the answer", func() bool { return starts() == n+1 })
	eventually(t, "what only served that ends", func() bool { return b.statusOf("up").Instances == 0 })
}

func TestHubSearchCoversServersThatNeverRan(t *testing.T) {
	t.Parallel()
	servers := map[string]entry{}
	for i := range 12 {
		servers[fmt.Sprintf("s%d", i)] = fakeEntry(fakeup.Script{Tools: []json.RawMessage{json.RawMessage(
			fmt.Sprintf(`{"name":"tool_%d","description":"about topic%d zebra","inputSchema":{"type":"object"}}`, i, i))}})
	}
	for i := range 6 {
		servers[fmt.Sprintf("dead%d", i)] = entry{"command": "/nonexistent/server"}
	}
	b := newHubBed(t, servers, nil)
	eventually(t, "all are found", func() bool {
		var docs []catalog.ToolDoc
		if err := json.Unmarshal([]byte(b.open().must(guest.VerbSearch, map[string]any{"query": "zebra", "limit": 50})), &docs); err != nil {
			t.Fatal(err)
		}
		return len(docs) == 12
	})
	var list []catalog.ServerInfo
	if err := json.Unmarshal([]byte(b.open().must(guest.VerbServers, nil)), &list); err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if strings.HasPrefix(s.Name, "dead") && (s.State != string(ClientFailed) || !strings.Contains(s.Error, "does not exist")) {
			t.Errorf("%+v", s)
		}
	}
	d := b.open().must(guest.VerbDescribe, map[string]any{"server": "dead0"})
	wantWords(t, d, `"state":"failed"`, "does not exist")
}

func TestHubMemoriesAndSavedTools(t *testing.T) {
	t.Parallel()
	b := newHubBed(t, nil, nil)
	r := b.open()
	r.must(guest.VerbMemorySave, json.RawMessage(`{"key":"k/../x","value":{"id":9007199254740993},"metadata":{"a":1}}`))
	var m struct {
		Value   json.RawMessage
		Version int64
	}
	if err := json.Unmarshal([]byte(r.must(guest.VerbMemoryLoad, map[string]any{"key": "k/../x"})), &m); err != nil || string(m.Value) != `{"id":9007199254740993}` {
		t.Fatalf("%s, %v", m.Value, err)
	}
	_, _, err := r.ask(guest.VerbMemorySave, map[string]any{"key": "k/../x", "value": 1, "version": m.Version - 1})
	wantFault(t, err, guest.ErrVersionConflict)
	_, _, err = r.ask(guest.VerbMemoryLoad, map[string]any{"key": "none"})
	wantFault(t, err, guest.ErrKey)
	_, _, err = r.ask(guest.VerbMemorySave, map[string]any{"key": strings.Repeat("k", 10000), "value": 1})
	wantFault(t, err, guest.ErrValue)
	if got := r.must(guest.VerbMemoryInfo, map[string]any{"key": "none"}); got != "null" {
		t.Error(got)
	}
	r.must(guest.VerbMemorySave, json.RawMessage(`{"key":"nil","value":null}`))
	if got := r.must(guest.VerbMemoryList, nil); strings.Count(got, `"key"`) != 2 {
		t.Error(got)
	}
	want(t, "deleted", r.must(guest.VerbMemoryDelete, map[string]any{"key": "nil"}), "true")
	want(t, "deleted again", r.must(guest.VerbMemoryDelete, map[string]any{"key": "nil"}), "false")
	r.must(guest.VerbToolSave, map[string]any{"name": "double", "code": "def double(x): return 2*x", "description": "doubles"})
	if got := r.must(guest.VerbToolLoad, map[string]any{"name": "double"}); !strings.Contains(got, "2*x") {
		t.Error(got)
	}
	want(t, "list", r.must(guest.VerbToolList, nil), `[{"name":"double","description":"doubles"}]`)
	if _, saved := b.open().Scope(); len(saved) != 1 || saved[0] != "double" {
		t.Errorf("scope %v", saved)
	}
	want(t, "deleted", r.must(guest.VerbToolDelete, map[string]any{"name": "double"}), "true")
	_, _, err = r.ask(guest.VerbToolLoad, map[string]any{"name": "double"})
	wantFault(t, err, guest.ErrKey)
}

func TestHubSearchSaysThatServersAreStillStarting(t *testing.T) {
	t.Parallel()
	b := newHubBed(t, map[string]entry{"slow": fakeEntry(fakeup.Script{InitNever: true})}, nil)
	b.patience, b.more = 50*time.Millisecond, 50*time.Millisecond
	r := b.open()
	_, _, err := r.ask(guest.VerbSearch, map[string]any{"query": "anything"})
	wantFault(t, err, guest.ErrTimeout, `"slow": it is still starting`, "search again")
}

func TestHubSearchThatFindsNothingNamesServersItCouldNotReach(t *testing.T) {
	t.Parallel()
	b := newHubBed(t, map[string]entry{"up": fakeEntry(fakeup.Script{}), "dead": {"command": "/nonexistent/server"}}, nil)
	r := b.open()
	_, _, err := r.ask(guest.VerbSearch, map[string]any{"query": "zebra"})
	wantFault(t, err, "", "nothing was found", `"dead"`, "does not exist")
	if found := r.must(guest.VerbSearch, map[string]any{"query": "echo"}); !strings.Contains(found, `"echo"`) {
		t.Error(found)
	}
	want(t, "nothing to find where all is known", b.open("up").must(guest.VerbSearch, map[string]any{"query": "zebra"}), "[]")
}
