package actors

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/thawpool/thawpool/actors/policy"
	"github.com/thawpool/thawpool/actors/upstream/fakeup"
	"github.com/thawpool/thawpool/runtime/guest"
)

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
	for _, name := range []string{"crsh", "wrte", "nothing-like-it"} { // suggestions tell of what is shown only
		_, _, called := r.call("up", name, `{}`)
		_, _, asked := r.ask(guest.VerbDocs, map[string]any{"server": "up", "tool": name})
		for _, err := range []error{called, asked} {
			wantFault(t, err, guest.ErrUnknownTool)
			if s := err.Error(); strings.Contains(s, `"crash"`) || strings.Contains(s, `"write"`) || strings.Contains(s, " crash,") || strings.Contains(s, " write,") {
				t.Error(s)
			}
		}
	}
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
	wantFault(t, err, guest.ErrDenied, "100000 bytes", "--run-bytes")
	r.mustCall("up", "echo", `{}`)
	r.mustCall("up", "echo", `{}`)
	_, _, err = r.call("up", "echo", `{}`)
	wantFault(t, err, guest.ErrDenied, "3 tool calls", "--run-calls")
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
