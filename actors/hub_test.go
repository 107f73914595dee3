package actors

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thawpool/thawpool/actors/policy"
	"github.com/thawpool/thawpool/actors/upstream/fakeup"
	"github.com/thawpool/thawpool/runtime/guest"
)

func TestHubCallsATool(t *testing.T) {
	t.Parallel()
	b := newHubBed(t, map[string]entry{"up": fakeEntry(fakeup.Script{})}, nil)
	r := b.open()
	value, call, err := r.call("up", "get_id", `{}`)
	if err != nil || !strings.Contains(value, `"structuredContent":{"id":1915883588174806058}`) {
		t.Fatalf("%s, %v", value, err)
	}
	if call.Server != "up" || call.Tool != "get_id" || call.Outcome != "ok" || call.BytesOut != len(value) || call.MS <= 0 || call.BytesIn == 0 {
		t.Errorf("receipt %+v", call)
	}
	servers, saved := r.Scope()
	if len(servers) != 1 || servers[0].Name != "up" || servers[0].Alias != "up" || len(saved) != 0 {
		t.Errorf("scope %v %v", servers, saved)
	}
	if raw := r.mustCall("up", "blocks", `{}`); strings.Count(raw, `"type"`) != 6 {
		t.Errorf("%s", raw)
	}
}

func TestHubMarksWrappedResults(t *testing.T) {
	t.Parallel()
	tools := []json.RawMessage{
		json.RawMessage(`{"name":"echo","inputSchema":{"type":"object","properties":{"result":{"type":"integer"}}},` +
			`"outputSchema":{"title":"echoOutput","type":"object","properties":{"result":{"type":"integer"}},"required":["result"]}}`),
	}
	b := newHubBed(t, map[string]entry{"py": fakeEntry(fakeup.Script{Tools: tools})}, nil)
	r := b.open()
	if raw := r.mustCall("py", "echo", `{"result":9007199254740993}`); !strings.Contains(raw, `"thawpool/wrapped":true`) || !strings.Contains(raw, `{"result":9007199254740993}`) {
		t.Error(raw)
	}
	if docs := r.must(guest.VerbDocs, map[string]any{"server": "py"}); !strings.Contains(docs, "-\\u003e int") {
		t.Error(docs)
	}
}

func TestHubErrorsNameWhatIsNear(t *testing.T) {
	t.Parallel()
	b := newHubBed(t, map[string]entry{"files": fakeEntry(fakeup.Script{}), "Files": fakeEntry(fakeup.Script{})}, nil)
	r := b.open("files")
	_, _, err := r.call("fils", "echo", `{}`)
	wantFault(t, err, guest.ErrUnknownServer, "files")
	_, _, err = r.call("files", "ecko", `{}`)
	wantFault(t, err, guest.ErrUnknownTool, "echo")
	_, _, err = r.call("files", "sleep", `{"msx":1}`)
	wantFault(t, err, guest.ErrArguments, "ms", "signature")
	for _, name := range []string{"FILES", "Files", "files%20", "ｆｉｌｅｓ", "files\u0000", " files"} {
		_, _, err := r.call(name, "echo", `{}`)
		wantFault(t, err, guest.ErrUnknownServer)
	}
	if _, err := b.Open(context.Background(), Request{Servers: []string{"fils", "nope"}}); err == nil {
		t.Error("unknown servers were opened")
	} else {
		wantFault(t, err, guest.ErrUnknownServer, "files", "nope")
	}
}

func TestHubRefusesWhatVerbsDoNotKnow(t *testing.T) {
	t.Parallel()
	b := newHubBed(t, nil, nil)
	r := b.open()
	for verb, args := range map[string]string{
		guest.VerbCall:       `{"server":"x","tool":"y","args":{},"path":"/etc/passwd"}`,
		guest.VerbTools:      `[]`,
		guest.VerbDocs:       `{"server":3}`,
		guest.VerbSearch:     `{"query":"x"} {}`,
		guest.VerbMemoryLoad: `"key"`,
		guest.VerbMemorySave: `{"key":"k","value":1,"file":"../../x"}`,
	} {
		_, _, err := r.ask(verb, json.RawMessage(args))
		wantFault(t, err, guest.ErrArguments)
	}
	for _, verb := range []string{"file.read", "", "tools.call ", strings.Repeat("x", 1<<20)} {
		_, call, err := r.ask(verb, json.RawMessage(`{}`))
		wantFault(t, err, guest.ErrValue, "no verb")
		if len(call.Tool) > 2*callNameBytes {
			t.Error("the receipt takes names of any length")
		}
	}
	_, _, err := r.ask(guest.VerbSearch, map[string]any{"query": "x", "limit": 100000})
	wantFault(t, err, guest.ErrValue, "limit")
}

func TestHubToolErrors(t *testing.T) {
	t.Parallel()
	b := newHubBed(t, map[string]entry{"up": fakeEntry(fakeup.Script{})}, nil)
	r := b.open()
	_, call, err := r.call("up", "fail", `{"text":"quota \u001b[31mused"}`)
	wantFault(t, err, "", "quota used")
	if call.Outcome != "error" {
		t.Errorf("outcome %s", call.Outcome)
	}
	_, _, err = r.call("up", "rpc_error", `{}`)
	wantFault(t, err, "", "quota exceeded")
	_, _, err = r.call("up", "crash", `{"code":4,"words":"out of memory\n"}`)
	wantFault(t, err, "", `"up"`, "status 4", "out of memory")
	if raw := r.mustCall("up", "echo", `{"text":"back"}`); !strings.Contains(raw, "back") { // the first crash costs no pause
		t.Error(raw)
	}
}

func TestHubC21CallTimeoutOfAServer(t *testing.T) {
	t.Parallel()
	b := newHubBed(t, map[string]entry{"short": fakeEntry(fakeup.Script{}).with("callTimeout", "100ms")}, nil)
	_, call, err := b.open().call("short", "never", `{}`)
	wantFault(t, err, guest.ErrTimeout, `"short"`, "call timeout", "100ms")
	if call.Outcome != "timeout" {
		t.Errorf("outcome %s", call.Outcome)
	}
}

func TestHubC22CallsEndWithTheirRun(t *testing.T) {
	t.Parallel()
	journal := filepath.Join(t.TempDir(), "journal")
	b := newHubBed(t, map[string]entry{"up": fakeEntry(fakeup.Script{Journal: journal})}, nil)
	r := b.open()
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, _, err := r.Call(ctx, guest.VerbCall, json.RawMessage(`{"server":"up","tool":"sleep","args":{"ms":3600000}}`))
		done <- err
	}()
	eventually(t, "the call arrives", func() bool { return strings.Contains(journalOf(journal), `"sleep"`) })
	end()
	if err := <-done; outcomeOf(err) != "cancelled" {
		t.Errorf("got %v", err)
	}
	eventually(t, "the server gives up", func() bool { return strings.Contains(journalOf(journal), "gave up") })
	pid := b.statusOf("up").PIDs
	r.mustCall("up", "echo", `{}`)
	if now := b.statusOf("up").PIDs; len(now) != 1 || now[0] != pid[0] {
		t.Errorf("%v became %v", pid, now)
	}
}

func TestHubTellsWhatIsWrongInDefinitions(t *testing.T) {
	t.Parallel()
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte("{\"mcpServers\":\n  {\"x\": oops}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := entry{"url": "https://example.com/mcp", "headers": map[string]string{"Authorization": "Bearer ${MISSING}"}}
	b := newHubBed(t, map[string]entry{"h": broken, "hidden": broken, "up": fakeEntry(fakeup.Script{})}, func(c *HubConfig) {
		withPolicy(t, func(c *policy.Config) { c.Deny = []string{"hidden"} })(c)
		c.Sources.Files = append(c.Sources.Files, bad)
	})
	warned := func(words string) (n int) {
		for _, l := range b.log.lines(t) {
			if m, _ := l["message"].(string); l["level"] == "warn" && strings.Contains(m, words) {
				n++
			}
		}
		return n
	}
	if warned(bad+":2:9: ") != 1 || warned(`server "h": field "headers.Authorization" needs the variable MISSING`) != 1 {
		t.Errorf("log: %v", b.log.lines(t))
	}
	r := b.open()
	told := r.must(guest.VerbCapability, nil)
	wantWords(t, told, "1 MCP servers can be called: up.", bad+":2:9: ", `server \"h\": field \"headers.Authorization\" needs the variable MISSING`)
	if strings.Contains(told, "hidden") {
		t.Error(told)
	}
	want(t, "description", b.Snapshot().Description(100), "up; 2 faults, see runtime.capability_summary()")
	_, _, err := r.ask(guest.VerbDescribe, map[string]any{"server": "h"})
	wantFault(t, err, guest.ErrUnknownServer, "turned off", "MISSING")

	b.define(map[string]entry{"h": broken, "new": {"command": 3}})
	eventually(t, "the change is seen", func() bool { return warned(`server "new"`) == 1 })
	if warned(bad) != 1 {
		t.Error("what is known is told again")
	}
	want(t, "description", b.Snapshot().Description(100), "none; 3 faults, see runtime.capability_summary()")
}
