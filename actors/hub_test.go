package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/thawpool/thawpool/actors/catalog"
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
		t.Fatalf("C28: %s, %v", value, err)
	}
	if call.Server != "up" || call.Tool != "get_id" || call.Outcome != "ok" || call.BytesOut != len(value) || call.MS <= 0 || call.BytesIn == 0 {
		t.Errorf("receipt %+v", call)
	}
	servers, saved := r.Scope()
	if len(servers) != 1 || servers[0].Name != "up" || servers[0].Alias != "up" || len(saved) != 0 {
		t.Errorf("scope %v %v", servers, saved)
	}
	if raw := r.mustCall("up", "blocks", `{}`); strings.Count(raw, `"type"`) != 6 {
		t.Errorf("C18: %s", raw)
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
		wantFault(t, err, guest.ErrUnknownServer) // F03
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
	for _, verb := range []string{"file.read", "", "tools.call ", strings.Repeat("x", 1<<20)} { // F11
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
	_, call, err := r.call("up", "fail", `{"text":"quota \u001b[31mused"}`) // C17
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

func TestHubC21SmallerLimitWinsAndIsNamed(t *testing.T) {
	t.Parallel()
	b := newHubBed(t, map[string]entry{
		"short": fakeEntry(fakeup.Script{}).with("callTimeout", "100ms"),
		"long":  fakeEntry(fakeup.Script{}).with("callTimeout", "1h"),
	}, nil)
	r := b.open()
	_, call, err := r.call("short", "never", `{}`)
	wantFault(t, err, guest.ErrTimeout, `"short"`, "call timeout", "100ms")
	if call.Outcome != "timeout" {
		t.Errorf("outcome %s", call.Outcome)
	}
	r.mustCall("long", "echo", `{}`)
	ctx, end := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer end()
	_, call, err = r.Call(ctx, guest.VerbCall, json.RawMessage(`{"server":"long","tool":"never","args":{}}`))
	wantFault(t, err, guest.ErrTimeout, `"long"`, "run's time limit")
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

func TestHubC25ServerThatExitsAtOnce(t *testing.T) {
	t.Parallel()
	code, journal := 1, filepath.Join(t.TempDir(), "journal")
	b := newHubBed(t, map[string]entry{
		"bad": fakeEntry(fakeup.Script{Exit: &code, Stderr: "licence missing\n", Journal: journal}),
		"ok":  fakeEntry(fakeup.Script{}),
	}, nil)
	var wg sync.WaitGroup
	for range 9 {
		wg.Go(func() {
			for range 12 {
				r := b.open("bad", "ok")
				_, _, err := r.call("bad", "echo", `{}`)
				wantFault(t, err, "", "status 1", "licence missing")
			}
		})
	}
	wg.Wait()
	// The pause doubles from a second: what 108 calls may have started is a handful.
	if n := strings.Count(journalOf(journal), "start "); n > 10 {
		t.Errorf("%d starts", n)
	}
	st := b.statusOf("bad")
	if st.State != ClientFailed || !strings.Contains(st.Error, "status 1") {
		t.Errorf("status %+v", st)
	}
	b.open().mustCall("ok", "echo", `{}`)
}

func TestHubC26OneSharedProcess(t *testing.T) {
	t.Parallel()
	journal := filepath.Join(t.TempDir(), "journal")
	b := newHubBed(t, map[string]entry{"up": fakeEntry(fakeup.Script{Journal: journal})}, nil)
	var wg sync.WaitGroup
	for i := range 50 { // 50 runs at once get their own answers
		wg.Go(func() {
			r := b.open()
			for j := range 4 {
				want := fmt.Sprintf(`"structuredContent":{"n":%d}`, 100*i+j)
				if raw := r.mustCall("up", "echo", fmt.Sprintf(`{"n":%d}`, 100*i+j)); !strings.Contains(raw, want) {
					t.Errorf("no %s in %s", want, raw)
				}
			}
			r.Close()
		})
	}
	wg.Wait()
	if n := strings.Count(journalOf(journal), "start "); n != 1 {
		t.Errorf("%d starts", n)
	}
	eventually(t, "nothing is in flight", func() bool { return b.statusOf("up").InFlight == 0 })
	if st := b.statusOf("up"); st.Calls != 200 || st.Failures != 0 || st.State != ClientRunning {
		t.Errorf("status %+v", st)
	}
}

func TestHubInstancesGetOneCallAtATime(t *testing.T) {
	t.Parallel()
	b := newHubBed(t, map[string]entry{"up": fakeEntry(fakeup.Script{})}, func(c *HubConfig) { c.Instances = 3 })
	r := b.open()
	var wg sync.WaitGroup
	var mu sync.Mutex
	pids := map[int]bool{}
	for range 12 {
		wg.Go(func() {
			var v struct {
				StructuredContent struct{ Peak, PID int }
			}
			if err := json.Unmarshal([]byte(r.mustCall("up", "busy", `{"ms":40}`)), &v); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			pids[v.StructuredContent.PID] = true
			if v.StructuredContent.Peak != 1 {
				t.Errorf("%d calls at once in one instance", v.StructuredContent.Peak)
			}
		})
	}
	wg.Wait()
	if len(pids) < 2 || len(pids) > 3 {
		t.Errorf("%d instances were used", len(pids))
	}
}

func TestHubC06LateServerBecomesUsable(t *testing.T) {
	t.Parallel()
	b := newHubBed(t, map[string]entry{
		"slow": fakeEntry(fakeup.Script{InitDelay: 500 * time.Millisecond}).with("startTimeout", "50ms"),
	}, nil)
	r := b.open()
	_, _, err := r.call("slow", "echo", `{}`)
	wantFault(t, err, guest.ErrTimeout, `"slow"`, "50ms", "start") // C05
	eventually(t, "it runs", func() bool { return b.statusOf("slow").State == ClientRunning })
	r.mustCall("slow", "echo", `{}`)
	if st := b.statusOf("slow"); st.Starts != 1 {
		t.Errorf("started %d times", st.Starts)
	}
}

func TestHubC24ClosesWhileAServerStarts(t *testing.T) {
	t.Parallel()
	journal := filepath.Join(t.TempDir(), "journal")
	b := newHubBed(t, map[string]entry{"up": fakeEntry(fakeup.Script{InitNever: true, IgnoreTerm: true, Journal: journal})}, nil)
	r := b.open()
	done := make(chan error, 1)
	go func() {
		_, _, err := r.call("up", "echo", `{}`)
		done <- err
	}()
	eventually(t, "it starts", func() bool { return strings.Contains(journalOf(journal), "initialize") })
	if err := b.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-done; err == nil {
		t.Error("the call succeeded")
	}
	var pid int
	if _, err := fmt.Sscanf(journalOf(journal), "start %d", &pid); err != nil {
		t.Fatal(err)
	}
	if stat := procStat(pid); stat != "" {
		t.Errorf("left: %s", stat)
	}
	_, _, err := r.call("up", "echo", `{}`)
	wantFault(t, err, "", "stopped")
}

func TestHubIdleServersEnd(t *testing.T) {
	t.Parallel()
	b := newHubBed(t, map[string]entry{"up": fakeEntry(fakeup.Script{})}, func(c *HubConfig) { c.Idle = 50 * time.Millisecond })
	r := b.open()
	r.mustCall("up", "echo", `{}`)
	eventually(t, "it ends", func() bool { st := b.statusOf("up"); return st.State == ClientIdle && len(st.PIDs) == 0 })
	r.mustCall("up", "echo", `{}`)
	if st := b.statusOf("up"); st.Starts != 2 {
		t.Errorf("started %d times", st.Starts)
	}
}

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

func TestHubPolicy(t *testing.T) {
	t.Parallel()
	b := newHubBed(t, map[string]entry{"up": fakeEntry(fakeup.Script{}), "hidden": fakeEntry(fakeup.Script{})},
		withPolicy(t, func(c *policy.Config) { c.Deny = []string{"hidden", "up.crash", "destructive"} }))
	r := b.open()
	_, _, err := r.call("hidden", "echo", `{}`)
	wantFault(t, err, guest.ErrDenied, "policy")
	if st := b.statusOf("hidden"); st.Starts != 0 {
		t.Error("a denied server was started")
	}
	_, call, err := r.call("up", "crash", `{}`)
	wantFault(t, err, guest.ErrDenied, "up.crash")
	if call.Outcome != "denied" {
		t.Errorf("outcome %s", call.Outcome)
	}
	_, _, err = r.call("up", "write", `{"path":"x"}`)
	wantFault(t, err, guest.ErrDenied, "destructive")
	r.mustCall("up", "echo", `{}`)
	if tools := r.must(guest.VerbTools, map[string]any{"server": "up"}); strings.Contains(tools, `"write"`) || !strings.Contains(tools, `"echo"`) {
		t.Errorf("shown: %s", tools)
	}
	_, _, err = r.ask(guest.VerbDocs, map[string]any{"server": "up", "tool": "crash"})
	wantFault(t, err, guest.ErrDenied)
	if servers, _ := r.Scope(); len(servers) != 1 {
		t.Errorf("scope %v", servers)
	}
	if s := r.must(guest.VerbCapability, nil); strings.Contains(s, "hidden") {
		t.Error(s)
	}
	if found := r.must(guest.VerbSearch, map[string]any{"query": "crash the server", "limit": 50}); strings.Contains(found, `"crash"`) {
		t.Error(found)
	}
	_, err = b.Open(context.Background(), Request{Servers: []string{"hidden"}})
	wantFault(t, err, guest.ErrDenied)
}

func TestHubDryRunPlansMutations(t *testing.T) {
	t.Parallel()
	b := newHubBed(t, map[string]entry{"up": fakeEntry(fakeup.Script{})},
		withPolicy(t, func(c *policy.Config) { c.DryRunMutations = true }))
	r := b.open()
	value, call, err := r.call("up", "write", `{"path":"`+strings.Repeat("p", 5000)+`"}`)
	if err != nil || call.Outcome != "planned" || call.Planned == nil || !strings.Contains(value, `"planned":true`) {
		t.Fatalf("%s, %+v, %v", value, call, err)
	}
	if p := call.Planned; p.Server != "up" || p.Tool != "write" || !strings.Contains(p.Arguments, `"path":"ppp`) || len(p.Arguments) > 2*maxPlannedArgs {
		t.Errorf("plan %.200v", p)
	}
	_, _, err = r.call("up", "write", `{}`)
	wantFault(t, err, guest.ErrArguments) // a plan that could not be carried out is no plan
	r.mustCall("up", "echo", `{}`)
	if plan := planOf([]InnerCall{call, {}, call}); len(plan) != 2 || plan[0].Tool != "write" {
		t.Errorf("plan %v", plan)
	}
	if st := b.statusOf("up"); st.Calls != 1 {
		t.Errorf("%d calls were made", st.Calls)
	}
}

func TestHubBudget(t *testing.T) {
	t.Parallel()
	b := newHubBed(t, map[string]entry{"up": fakeEntry(fakeup.Script{})}, withPolicy(t, func(c *policy.Config) {
		c.Limits = policy.Limits{Calls: 3, Other: 4, Bytes: 100_000, Parallel: 1}
	}))
	r := b.open()
	_, _, err := r.call("up", "big", `{"bytes":150000}`)
	wantFault(t, err, guest.ErrDenied, "100000 bytes")
	r.mustCall("up", "echo", `{}`)
	r.mustCall("up", "echo", `{}`)
	_, _, err = r.call("up", "echo", `{}`)
	wantFault(t, err, guest.ErrDenied, "3 tool calls")
	for range 4 {
		r.must(guest.VerbServers, nil)
	}
	_, _, err = r.ask(guest.VerbServers, nil)
	wantFault(t, err, guest.ErrDenied, "calls to the host")
	b.open().mustCall("up", "echo", `{}`) // another run has its own
}

func TestHubParallelCallsOfARunAreBounded(t *testing.T) {
	t.Parallel()
	b := newHubBed(t, map[string]entry{"up": fakeEntry(fakeup.Script{})}, withPolicy(t, func(c *policy.Config) { c.Limits.Parallel = 2 }))
	r := b.open()
	r.mustCall("up", "echo", `{}`)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { r.mustCall("up", "busy", `{"ms":20}`) })
	}
	wg.Wait()
	if raw := r.mustCall("up", "busy", `{"ms":1}`); !strings.Contains(raw, `"peak":2`) {
		t.Error(raw)
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

func TestHubChangedDefinitions(t *testing.T) {
	t.Parallel()
	b := newHubBed(t, map[string]entry{"up": fakeEntry(fakeup.Script{Version: "1"}), "gone": fakeEntry(fakeup.Script{})}, nil)
	r := b.open()
	r.mustCall("up", "echo", `{}`)
	r.mustCall("gone", "echo", `{}`)
	before := b.statusOf("up").PIDs[0]
	gone := b.statusOf("gone").PIDs[0]
	b.define(map[string]entry{"up": fakeEntry(fakeup.Script{Version: "2"}), "new": fakeEntry(fakeup.Script{})})
	eventually(t, "the new server is known", func() bool { _, err := b.Snapshot().Resolve("new"); return err == nil })
	eventually(t, "old processes end", func() bool { return procStat(before) == "" && procStat(gone) == "" })
	now := b.open()
	now.mustCall("new", "echo", `{}`)
	now.mustCall("up", "echo", `{}`)
	_, _, err := now.call("gone", "echo", `{}`)
	wantFault(t, err, guest.ErrUnknownServer)
	r.mustCall("gone", "echo", `{}`) // a run that goes on keeps what it began with
	eventually(t, "which ends with its last call", func() bool { return b.statusOf("gone").Instances == 0 })
}

func TestHubKilledServerIsReplaced(t *testing.T) {
	t.Parallel()
	b := newHubBed(t, map[string]entry{"up": fakeEntry(fakeup.Script{})}, nil)
	r := b.open()
	r.mustCall("up", "echo", `{}`)
	pid := b.statusOf("up").PIDs[0]
	done := make(chan error, 1)
	go func() {
		_, _, err := r.call("up", "never", `{}`)
		done <- err
	}()
	eventually(t, "the call is in flight", func() bool { return b.statusOf("up").InFlight == 1 })
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wantFault(t, <-done, "", "SIGKILL")
	r.mustCall("up", "echo", `{}`)
}

func TestHubRestartAndStatus(t *testing.T) {
	t.Parallel()
	b := newHubBed(t, map[string]entry{"up": fakeEntry(fakeup.Script{Stderr: "hello from up\n"})}, nil)
	if st := b.statusOf("up"); st.State != ClientIdle {
		t.Errorf("%+v", st)
	}
	r := b.open()
	r.mustCall("up", "echo", `{}`)
	st := b.statusOf("up")
	if !strings.Contains(st.Stderr, "hello from up") || st.LastUsed == nil || st.MeanMS <= 0 {
		t.Errorf("%+v", st)
	}
	if err := b.Restart("up"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it ends", func() bool { return procStat(st.PIDs[0]) == "" })
	r.mustCall("up", "echo", `{}`)
	if err := b.Restart("nope"); err == nil {
		t.Error("restarted what is not there")
	}
}

func TestHubFailedClientActorRecovers(t *testing.T) {
	t.Parallel()
	b := newHubBed(t, map[string]entry{"up": fakeEntry(fakeup.Script{})}, nil)
	r := b.open()
	r.mustCall("up", "echo", `{}`)
	pid := b.statusOf("up").PIDs[0]
	b.mu.Lock()
	for _, ref := range b.clients {
		b.out.root.Send(ref.pid, acquireConn{ticket: 1 << 60, reply: nilReply()})
	}
	b.mu.Unlock()
	eventually(t, "the actor's connections are ended", func() bool { return procStat(pid) == "" })
	r.mustCall("up", "echo", `{}`)
}

// nilReply is a channel that panics when it is written to.
func nilReply() chan<- grantedConn {
	c := make(chan grantedConn)
	close(c)
	return c
}

func TestReadTools(t *testing.T) {
	t.Parallel()
	b := newHubBed(t, map[string]entry{"up": fakeEntry(fakeup.Script{Name: "n", Version: "2"}), "bad": {"command": "/nonexistent"}}, nil)
	for name, ok := range map[string]bool{"up": true, "bad": false} {
		def, err := b.Snapshot().Resolve(name)
		if err != nil {
			t.Fatal(err)
		}
		l, err := ReadTools(context.Background(), def, "test", b.Hub.log)
		if (err == nil) != ok || ok && (l.Version != "n 2" || len(l.Tools) != len(fakeup.Builtin())) {
			t.Errorf("%s: %v %v", name, l.Version, err)
		}
	}
	if st := b.statusOf("up"); st.Starts != 0 {
		t.Error("it went through the hub")
	}
}
