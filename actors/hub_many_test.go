package actors

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/thawpool/thawpool/actors/catalog"
	"github.com/thawpool/thawpool/actors/upstream/fakeup"
	"github.com/thawpool/thawpool/runtime/guest"
)

// TestHubHundredServers has 100 servers with 10 tools each, a third of them out of reach.
func TestHubHundredServers(t *testing.T) {
	t.Parallel()
	servers := map[string]entry{}
	reachable := 0
	for i := range 100 {
		name := fmt.Sprintf("server%02d", i)
		if i%3 == 2 {
			servers[name] = entry{"command": "/nonexistent/" + name}
			continue
		}
		reachable++
		var tools []json.RawMessage
		for j := range 10 {
			tools = append(tools, json.RawMessage(fmt.Sprintf(
				`{"name":"do_%d","description":"Handles subject%dx%d for the warehouse","inputSchema":{"type":"object","properties":{"amount":{"type":"integer"}}}}`, j, i, j)))
		}
		servers[name] = fakeEntry(fakeup.Script{Tools: tools})
	}
	b := newHubBed(t, servers, func(c *HubConfig) { c.CacheDir = t.TempDir() })
	r := b.open()
	if list, _ := r.Scope(); len(list) != 100 {
		t.Errorf("%d servers in scope", len(list))
	}
	r.mustCall("server00", "do_3", `{"amount":1}`) // nothing waits for the others
	if st := b.statusOf("server01"); st.Starts != 0 {
		t.Error("a server was started that nobody asked for")
	}
	search := func(words string) (docs []catalog.ToolDoc) {
		t.Helper()
		if err := json.Unmarshal([]byte(b.open().must(guest.VerbSearch, map[string]any{"query": words, "limit": 50})), &docs); err != nil {
			t.Fatal(err)
		}
		return docs
	}
	eventually(t, "every server that can be reached is known", func() bool {
		search("warehouse")
		known := 0
		for _, d := range b.Snapshot().Definitions() {
			if b.Snapshot().Known(d.Name) {
				known++
			}
		}
		return known == reachable
	})
	for _, want := range [][2]int{{99, 7}, {48, 0}, {0, 9}} {
		docs := search(fmt.Sprintf("subject%dx%d", want[0], want[1]))
		if len(docs) == 0 || docs[0].Server != fmt.Sprintf("server%02d", want[0]) || docs[0].Tool != fmt.Sprintf("do_%d", want[1]) {
			t.Errorf("%v: %+v", want, docs)
		}
	}
	b.open().mustCall("server99", "do_0", `{"amount":2}`)
}
