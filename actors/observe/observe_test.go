package observe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/pool"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/blevesearch/bleve_index_api.AnalysisWorker"))
}

// runner answers calls as a System would.
type runner func(ctx context.Context, req actors.Request) actors.Result

func (f runner) Run(ctx context.Context, req actors.Request) actors.Result { return f(ctx, req) }

func inner(req actors.Request, server, outcome string) {
	_, done := req.Follow.Inner(context.Background(), "call", []byte(`{"secret":"hunter2"}`))
	done(actors.InnerCall{Server: server, Tool: "t", MS: 2, BytesIn: 20, BytesOut: 5, Outcome: outcome})
}

func answer(req actors.Request) actors.Result {
	req.Follow.Leased("box", pool.Hit)
	req.Follow.Thawed("box")
	return actors.Result{Status: actors.StatusSuccess, Stdout: strings.Repeat("x", 5000),
		Receipt: actors.Receipt{Pool: "hit", Sandbox: "box", RunMS: 3, CPUMS: 1, PeakBytes: 1 << 20}}
}

// However many calls, servers and invented names there are, what is kept stays within its bounds.
func TestEverythingIsBounded(t *testing.T) {
	m := NewMetrics("v")
	r := NewRecorder(runner(func(_ context.Context, req actors.Request) actors.Result {
		many := 300
		if !strings.HasSuffix(req.ID, "00") {
			many = 2
		}
		for i := range many {
			inner(req, fmt.Sprintf("invented-%s-%d", req.ID, i), "strange-"+req.ID)
		}
		return answer(req)
	}), m, "default", true)
	for i := range 3 * serversMost {
		r.Observe(actors.ServerConnected{Server: fmt.Sprintf("server-%d", i)})
		r.Observe(actors.ServerFailed{Server: fmt.Sprintf("server-%d", i)})
	}
	for i := range 2*Kept + 7 {
		r.Run(t.Context(), actors.Request{ID: fmt.Sprint(i), Code: strings.Repeat("c", 1<<20)})
	}
	last := r.Last(1 << 20)
	if len(last) != Kept || last[0].ID != fmt.Sprint(2*Kept+6) || last[Kept-1].ID != fmt.Sprint(Kept+7) {
		t.Errorf("%d calls, from %s to %s", len(last), last[0].ID, last[len(last)-1].ID)
	}
	for _, c := range last {
		inner, all := 2, 2
		if strings.HasSuffix(c.ID, "00") {
			inner, all = innerKept, 300
		}
		if len(c.Inner) != inner || c.InnerAll != all || len(c.Code) > codeBytes+3 || len(c.Stdout) > tailBytes+3 {
			t.Fatalf("%d inner of %d, code %d, stdout %d", len(c.Inner), c.InnerAll, len(c.Code), len(c.Stdout))
		}
	}
	if n := len(r.Servers()); n != serversMost {
		t.Errorf("%d servers", n)
	}
	if len(r.InFlight()) != 0 || r.Total() != 2*Kept+7 {
		t.Errorf("%d in flight, %d ended", len(r.InFlight()), r.Total())
	}
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if n := len(f.GetMetric()); n > serversMost+2 {
			t.Errorf("%s has %d series", f.GetName(), n)
		}
	}
	if p50, p99 := r.Latency(); p50 <= 0 || p99 < p50 {
		t.Errorf("latency %v %v", p50, p99)
	}
}

// Nothing that code or configuration holds in secret reaches a label or a kept call.
func TestNoSecretIsKept(t *testing.T) {
	m := NewMetrics("v")
	r := NewRecorder(runner(func(_ context.Context, req actors.Request) actors.Result {
		inner(req, "hunter2-server", "ok")
		res := answer(req)
		res.Error = &actors.RunError{Type: "ValueError", Message: "hunter2", Traceback: "hunter2"}
		res.Receipt.Plan = []actors.PlannedCall{{Arguments: "hunter2"}}
		res.Notes = []string{"hunter2"}
		return res
	}), m, "default", false)
	r.Run(t.Context(), actors.Request{ID: "1", Code: "hunter2"})
	r.Observe(actors.SandboxBooted{Profile: "default", Err: errors.New("hunter2")})
	call := r.Last(1)[0]
	call.Inner[0].Server = "" // the name that code called is shown with the call; not so in a label
	if text := fmt.Sprintf("%+v %+v", call, r.Servers()); strings.Contains(text, "hunter2") {
		t.Error(text)
	}
	families, err := m.Registry.Gather()
	if err != nil || strings.Contains(fmt.Sprint(families), "hunter2") {
		t.Error(err, families)
	}
}

func TestCounting(t *testing.T) {
	m := NewMetrics("v1.2")
	m.WatchPools(func() (actors.Stats, bool) {
		st := pool.Stats{Ready: 3, Leased: 1, Waiting: 2, Size: 4, Max: 8, BootError: errors.New("no")}
		return actors.Stats{Profiles: map[string]actors.ProfileStats{"default": {Stats: st}}}, true
	})
	r := NewRecorder(runner(func(_ context.Context, req actors.Request) actors.Result {
		if req.Code == "reject" {
			return actors.Result{Status: actors.StatusRejected}
		}
		inner(req, "wiki", "ok")
		inner(req, "wiki", "error")
		inner(req, "", "ok")
		inner(req, "made up", "error")
		return answer(req)
	}), m, "default", false)
	r.Observe(actors.ServerConnected{Server: "wiki"})
	r.Observe(actors.SandboxBooted{Profile: "default", Took: time.Second})
	r.Observe(actors.SandboxBooted{Profile: "default", Err: errors.New("no")})
	r.Observe(actors.SandboxLost{Profile: "default"})
	r.Observe(actors.SandboxDestroyed{Profile: "default", Took: time.Second})
	r.Observe(actors.SandboxDestroyed{Profile: "default", Err: errors.New("no")})
	r.Observe(actors.ServerFailed{Server: "wiki"})
	r.Observe(actors.ActorRestarted{Part: "pool"})
	r.Observe(actors.ActorHung{Part: "client"})
	m.WatchKeeper(func() (Keeper, bool) {
		return Keeper{Sweeps: 3, Replaced: 1, Removed: map[string]int{"shims": 2}}, true
	})
	m.DaemonConnected()
	m.DaemonLost()
	m.Swept(map[string]int{"containers": 2})
	m.SelfChecked("ok")
	m.SetReady(true)
	r.Run(t.Context(), actors.Request{ID: "1"})
	r.Run(t.Context(), actors.Request{ID: "2", Code: "reject"})
	want := `# HELP thawpool_keeper_removed_total What the keeper's sweeps found and removed.
# TYPE thawpool_keeper_removed_total counter
thawpool_keeper_removed_total{kind="shims"} 2
# HELP thawpool_inner_calls_total Calls that code made through the host, by server and outcome.
# TYPE thawpool_inner_calls_total counter
thawpool_inner_calls_total{outcome="error",server="other"} 1
thawpool_inner_calls_total{outcome="error",server="wiki"} 1
thawpool_inner_calls_total{outcome="ok",server="host"} 1
thawpool_inner_calls_total{outcome="ok",server="wiki"} 1
# HELP thawpool_leases_total Calls by what the pool gave them: hit, wait, cold, or refused.
# TYPE thawpool_leases_total counter
thawpool_leases_total{profile="default",result="hit"} 1
thawpool_leases_total{profile="default",result="refused"} 1
# HELP thawpool_pool_sandboxes Sandboxes by state: booting, ready, leased or destroying.
# TYPE thawpool_pool_sandboxes gauge
thawpool_pool_sandboxes{profile="default",state="booting"} 0
thawpool_pool_sandboxes{profile="default",state="destroying"} 0
thawpool_pool_sandboxes{profile="default",state="leased"} 1
thawpool_pool_sandboxes{profile="default",state="ready"} 3
`
	if err := testutil.GatherAndCompare(m.Registry, strings.NewReader(want),
		"thawpool_keeper_removed_total", "thawpool_inner_calls_total", "thawpool_leases_total", "thawpool_pool_sandboxes"); err != nil {
		t.Error(err)
	}
	for _, d := range m.Definitions() {
		if n, err := testutil.GatherAndCount(m.Registry, d.Name); err != nil || n == 0 && d.Name != "thawpool_audit_errors_total" {
			t.Errorf("%s: %d series, %v", d.Name, n, err)
		}
	}
	if problems, err := testutil.GatherAndLint(m.Registry); err != nil || len(problems) > 0 {
		t.Error(err, problems)
	}
	s := r.Servers()
	if len(s) != 1 || s[0].Calls != 2 || s[0].Errors != 1 || s[0].BytesIn != 40 {
		t.Errorf("%+v", s)
	}
}

func TestKill(t *testing.T) {
	r := NewRecorder(runner(func(ctx context.Context, req actors.Request) actors.Result {
		req.Follow.Leased("box", pool.Wait)
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), ErrKilled) {
			t.Error(context.Cause(ctx))
		}
		return actors.Result{Status: actors.StatusCancelled}
	}), NewMetrics("v"), "default", false)
	done := make(chan actors.Result)
	go func() { done <- r.Run(t.Context(), actors.Request{ID: "a"}) }()
	for len(r.InFlight()) == 0 || r.InFlight()[0].Sandbox == "" {
		if t.Context().Err() != nil {
			t.Fatal("it never began")
		}
	}
	if r.Kill("b") || !r.Kill("a") {
		t.Error("the wrong call, or none")
	}
	if res := <-done; res.Status != actors.StatusCancelled || r.Kill("a") {
		t.Errorf("%+v", res)
	}
}

// Two processes can both be scraped: nothing is in Prometheus' own registry.
func TestOwnRegistry(t *testing.T) {
	NewMetrics("a")
	NewMetrics("b")
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), prefix) {
			t.Error(f.GetName())
		}
	}
}
