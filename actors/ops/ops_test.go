package ops

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/actors/observe"
	"github.com/thawpool/thawpool/pool"
	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/fake"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/blevesearch/bleve_index_api.AnalysisWorker"))
}

// bench is an Ops over a System on fake sandboxes.
type bench struct {
	*Ops
	t   *testing.T
	sys *actors.System
	rec *observe.Recorder
	url string
}

// relay gives events to what is made after the System's Config.
type relay struct {
	mu  sync.Mutex
	all []actors.Observer
}

func (r *relay) Observe(e actors.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.all {
		o.Observe(e)
	}
}

func (r *relay) to(o ...actors.Observer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = o
}

type lateRunner struct{ atomic.Pointer[actors.System] }

func (l *lateRunner) Run(ctx context.Context, req actors.Request) actors.Result {
	return l.Load().Run(ctx, req)
}

func open(t *testing.T, rt *fake.Runtime, change func(*Config), l Listen) *bench {
	t.Helper()
	m := observe.NewMetrics("v")
	next, events := &lateRunner{}, &relay{}
	rec := observe.NewRecorder(next, m, "default", false)
	sys, err := actors.Start(actors.Config{
		Profiles: map[string]actors.Profile{"default": {Runtime: rt, Pool: pool.Config{
			Size: 1, Max: 3, Refill: 1, MaxAge: time.Hour, Empty: pool.EmptyWait, Queue: 8, QueueWait: time.Minute}}},
		Observer: events, Log: zerolog.Nop(), Grace: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	next.Store(sys)
	c := Config{System: func() (System, error) { return sys, nil }, Recorder: rec, Metrics: m, Version: "v", Log: zerolog.Nop()}
	if change != nil {
		change(&c)
	}
	b := &bench{Ops: New(c), t: t, sys: sys, rec: rec}
	events.to(rec, b.Ops)
	m.WatchPools(func() (actors.Stats, bool) { return sys.Stats(), true })
	if l.Address == "" {
		l.Address = "127.0.0.1:0"
	}
	at, err := b.Listen(l)
	if err != nil {
		t.Fatal(err)
	}
	b.url = "http://" + at
	t.Cleanup(func() {
		b.Close()
		if err := sys.Close(context.Background()); err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return b
}

func (b *bench) do(method, path, body string, headers ...string) (int, string, http.Header) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return res.StatusCode, string(data), res.Header
}

// until waits for something that other goroutines bring about.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("%s did not come", what)
		}
	}
}

// Everything that is served, with its headers.
func TestServed(t *testing.T) {
	b := open(t, &fake.Runtime{}, nil, Listen{})
	for _, path := range []string{"/api/calls", "/api/history", "/api/checks"} { // the page iterates over them
		if _, text, _ := b.do("GET", path, ""); !strings.HasPrefix(text, "[") {
			t.Errorf("%s: %s before the first call", path, text)
		}
	}
	if res := b.rec.Run(t.Context(), actors.Request{ID: "r-1", Code: "x"}); res.Status != actors.StatusSuccess {
		t.Fatalf("%+v", res)
	}
	for path, want := range map[string]string{
		"/": "<!doctype html>", "/metrics": "thawpool_calls_total{profile=\"default\",status=\"success\"} 1", "/healthz": "ok", "/readyz": "ready",
		"/api/state": `"ended":1`, "/api/calls": `"id":"r-1"`, "/api/calls/r-1": `"status":"success"`, "/api/history": "[", "/api/checks": "[",
	} {
		code, text, h := b.do("GET", path, "")
		if code != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: %d lacks %q in %.300s", path, code, want, text)
		}
		if h.Get("Content-Security-Policy") != policy || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", path, h)
		}
	}
	if code, _, _ := b.do("GET", "/api/calls/none", ""); code != http.StatusNotFound {
		t.Error(code)
	}
}

// readyz is red with the cause in words, and green again once it has gone.
func TestReadyz(t *testing.T) {
	var broken atomic.Bool
	broken.Store(true)
	rt := &fake.Runtime{BootFunc: func(context.Context, string) error {
		if broken.Load() {
			return errors.New("cgroup is out of pids")
		}
		return nil
	}}
	var full atomic.Bool
	b := open(t, rt, func(c *Config) {
		c.Conditions = []Condition{func() error {
			if full.Load() {
				return errors.New("the disk is full")
			}
			return nil
		}}
	}, Listen{})
	red := func(cause string) func() bool {
		return func() bool {
			code, text, _ := b.do("GET", "/readyz", "")
			return code == http.StatusServiceUnavailable && strings.Contains(text, cause)
		}
	}
	green := func() bool { code, _, _ := b.do("GET", "/readyz", ""); return code == http.StatusOK }
	until(t, "red for boots", red("pool default: boots fail: cgroup is out of pids"))
	broken.Store(false)
	until(t, "green", green)
	full.Store(true)
	until(t, "red for the disk", red("the disk is full"))
	full.Store(false)
	until(t, "green", green)
	b.DaemonLost()
	if !red("containerd was lost")() {
		t.Error("the loss of containerd is not told")
	}
	res := b.rec.Run(t.Context(), actors.Request{ID: "1"}) // its sandbox's replacement proves that there is a daemon again
	if res.Status != actors.StatusSuccess {
		t.Errorf("%+v", res)
	}
	until(t, "green", green)
	turns := b.health.history()
	if len(turns) < 4 || !turns[len(turns)-1].Ready || len(turns) > turnsKept {
		t.Errorf("%+v", turns)
	}
}

// A queue that does not move makes the process not ready.
func TestStuckQueue(t *testing.T) {
	sys := &fixed{stats: pool.Stats{Waiting: 3, Counts: pool.Counts{Hits: 5}}}
	h := newHealth(&Config{System: func() (System, error) { return sys, nil }, Log: zerolog.Nop()})
	now := time.Now()
	for _, step := range []struct {
		after time.Duration
		hits  int64
		red   bool
	}{{0, 5, false}, {stuckAfter, 5, false}, {stuckAfter + time.Second, 5, true}, {time.Minute, 6, false}, {2 * time.Minute, 6, true}} {
		sys.stats.Hits = step.hits
		if causes := h.causes(now.Add(step.after)); (len(causes) > 0) != step.red {
			t.Errorf("after %v: %v", step.after, causes)
		}
	}
	none := newHealth(&Config{System: func() (System, error) { return nil, runtime.ErrUnsupported }, Log: zerolog.Nop()})
	if c := none.causes(now); len(c) != 1 || !strings.Contains(c[0], runtime.ErrUnsupported.Error()) {
		t.Error(c)
	}
}

type fixed struct {
	System
	stats pool.Stats
}

func (f *fixed) Stats() actors.Stats {
	return actors.Stats{Profiles: map[string]actors.ProfileStats{"default": {Stats: f.stats}}}
}

// The self-check runs while nothing else does; its failure is told and its success clears it.
func TestSelfCheck(t *testing.T) {
	var fails atomic.Bool
	var runs atomic.Int32
	b := open(t, &fake.Runtime{}, func(c *Config) {
		c.SelfCheck = time.Nanosecond
		c.Probe = func(context.Context) error {
			runs.Add(1)
			if fails.Load() {
				return errors.New("it printed nothing")
			}
			return nil
		}
	}, Listen{})
	until(t, "the first boot", func() bool { return b.Health().Ready })
	fails.Store(true)
	b.health.probeIfIdle(t.Context(), time.Now())
	if h := b.Health(); h.Ready || !strings.Contains(strings.Join(h.Causes, " "), "the self-check failed: it printed nothing") {
		t.Errorf("%+v", h)
	}
	fails.Store(false)
	b.health.probeIfIdle(t.Context(), time.Now())
	if h := b.Health(); !h.Ready {
		t.Errorf("%+v", h)
	}
	b.rec.Run(t.Context(), actors.Request{ID: "1"})
	was := runs.Load()
	b.health.probeIfIdle(t.Context(), time.Now())
	if runs.Load() != was {
		t.Error("it ran although a call had just proved the same")
	}
}

// Who may not ask is not answered, and a page of another origin may do nothing.
func TestSafety(t *testing.T) {
	b := open(t, &fake.Runtime{}, nil, Listen{})
	own := strings.TrimPrefix(b.url, "http://")
	_, port, _ := net.SplitHostPort(own)
	for host, want := range map[string]int{own: 200, "localhost:" + port: 200, "[::1]:" + port: 200, "evil.example": 421, "evil.example:" + port: 421, "127.0.0.1.evil.example": 421} {
		if code, _, _ := b.do("GET", "/healthz", "", "Host", host); code != want {
			t.Errorf("Host %s: %d", host, code)
		}
	}
	for name, tt := range map[string]struct {
		headers []string
		want    int
	}{
		"bare":         {nil, 403},
		"cross site":   {[]string{"Sec-Fetch-Site", "cross-site", "Origin", "http://evil.example"}, 403},
		"same site":    {[]string{"Sec-Fetch-Site", "same-site"}, 403},
		"other port":   {[]string{"Origin", "http://127.0.0.1:1"}, 403},
		"null origin":  {[]string{"Origin", "null"}, 403},
		"false bearer": {[]string{"Authorization", "Bearer "}, 403},
		"own page":     {[]string{"Sec-Fetch-Site", "same-origin", "Origin", b.url}, 404},
		"own origin":   {[]string{"Origin", b.url}, 404},
	} {
		if code, _, _ := b.do("POST", "/api/calls/none/kill", "", tt.headers...); code != tt.want {
			t.Errorf("%s: %d", name, code)
		}
	}
	if code, _, _ := b.do("GET", "/api/calls/x/kill", ""); code == http.StatusNoContent {
		t.Error("a GET acts")
	}
}

func TestToken(t *testing.T) {
	const token = "0123456789abcdef"
	b := open(t, &fake.Runtime{}, nil, Listen{Token: token})
	for _, path := range []string{"/", "/metrics", "/readyz", "/api/state", "/api/events", "/uplot.js"} {
		if code, text, _ := b.do("GET", path, ""); code != 401 || strings.Contains(text, token) {
			t.Errorf("%s: %d", path, code)
		}
	}
	if code, _, _ := b.do("GET", "/healthz", ""); code != 200 {
		t.Error(code)
	}
	if code, _, _ := b.do("GET", "/metrics", "", "Authorization", "Bearer "+token); code != 200 {
		t.Error(code)
	}
	if code, _, _ := b.do("GET", "/", "", "Authorization", "Basic eDowMTIzNDU2Nzg5YWJjZGVm"); code != 200 {
		t.Error(code)
	}
	if code, _, _ := b.do("POST", "/api/calls/none/kill", "", "Authorization", "Bearer "+token); code != 404 {
		t.Error(code)
	}
	// A browser adds the password by itself, so it proves nothing about who acts.
	if code, _, _ := b.do("POST", "/api/calls/none/kill", "", "Authorization", "Basic eDowMTIzNDU2Nzg5YWJjZGVm"); code != 403 {
		t.Error(code)
	}
}

func TestListenValidate(t *testing.T) {
	for _, tt := range []struct {
		l  Listen
		ok bool
	}{
		{Listen{Address: "127.0.0.1:0"}, true}, {Listen{Address: "localhost:1"}, true}, {Listen{Address: "[::1]:1"}, true}, {Listen{Address: "unix:/x"}, true},
		{Listen{Address: "unix:"}, false}, {Listen{Address: "9464"}, false}, {Listen{Address: ""}, false},
		{Listen{Address: ":9464"}, false}, {Listen{Address: "0.0.0.0:9464"}, false}, {Listen{Address: "0.0.0.0:1", Token: "t"}, false},
		{Listen{Address: "0.0.0.0:1", CertFile: "c", KeyFile: "k"}, false}, {Listen{Address: "0.0.0.0:1", Insecure: true}, true},
		{Listen{Address: "0.0.0.0:1", Token: "t", CertFile: "c", KeyFile: "k"}, true}, {Listen{Address: "127.0.0.1:1", CertFile: "c"}, false},
	} {
		if err := tt.l.Validate(); (err == nil) != tt.ok {
			t.Errorf("%+v: %v", tt.l, err)
		}
	}
	file := filepath.Join(t.TempDir(), "token")
	for text, ok := range map[string]bool{"0123456789abcdef\n": true, "short": false, "": false, "two words are not one token": false} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadToken(file); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestActions(t *testing.T) {
	started := make(chan struct{})
	rt := &fake.Runtime{Run: func(g *fake.Guest) {
		if g.Code == "hang" {
			close(started)
			g.Hang()
			return
		}
		_ = g.Done("")
		_ = g.Exit(0)
	}}
	b := open(t, rt, nil, Listen{})
	page := []string{"Sec-Fetch-Site", "same-origin", "Origin", b.url}
	answer := make(chan actors.Result, 1)
	go func() { answer <- b.rec.Run(t.Context(), actors.Request{ID: "h", Code: "hang"}) }()
	<-started
	if code, text, _ := b.do("POST", "/api/calls/h/kill", "", page...); code != http.StatusNoContent {
		t.Fatal(code, text)
	}
	if r := <-answer; r.Status != actors.StatusCancelled {
		t.Errorf("%+v", r)
	}
	for body, want := range map[string]int{`{"size": 2}`: 204, `{"size": 9}`: 400, `{}`: 400, "x": 400, `{"size": -1}`: 400} {
		if code, text, _ := b.do("POST", "/api/pools/default/resize", body, page...); code != want {
			t.Errorf("%s: %d %s", body, code, text)
		}
	}
	until(t, "two ready", func() bool { return b.sys.Stats().Profiles["default"].Ready == 2 })
	if code, _, _ := b.do("POST", "/api/servers/none/restart", "", page...); code != http.StatusNotFound {
		t.Error(code)
	}
	if code, _, _ := b.do("POST", "/api/pools/none/drain", "", page...); code != http.StatusNotFound {
		t.Error(code)
	}
	if code, _, _ := b.do("POST", "/api/pools/default/drain", "", page...); code != http.StatusAccepted {
		t.Error(code)
	}
	until(t, "an empty pool", func() bool { return len(rt.Live()) == 0 })
	if code, text, _ := b.do("GET", "/readyz", ""); code != http.StatusServiceUnavailable || !strings.Contains(text, "pool default: it was drained") {
		t.Error(code, text)
	}
}

// A reader of events that reads nothing holds up no call, and is let go.
func TestSlowReader(t *testing.T) {
	b := open(t, &fake.Runtime{}, nil, Listen{})
	var conns []net.Conn
	for range readersMost {
		c, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	until(t, "all readers", func() bool { return len(b.readers) == readersMost })
	if code, _, _ := b.do("GET", "/api/events", ""); code != http.StatusServiceUnavailable {
		t.Error(code)
	}
	for range 50 {
		if r := b.rec.Run(t.Context(), actors.Request{ID: "1"}); r.Status != actors.StatusSuccess {
			t.Fatalf("%+v", r)
		}
	}
	for _, c := range conns {
		_ = c.Close()
	}
	until(t, "no readers", func() bool { return len(b.readers) == 0 })
}

// Processes find each other by their sockets, whatever the length of the directory's name; what dead ones left is removed.
func TestPublishAndFind(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 40), "status")
	if all, err := Find(t.Context(), dir); err != nil || len(all) != 0 {
		t.Fatal(all, err)
	}
	b := open(t, &fake.Runtime{}, nil, Listen{})
	if err := b.Publish(dir); err != nil {
		t.Fatal(err)
	}
	dead := filepath.Join(dir, "00000000-0000-0000-0000-000000000000.1.1.sock")
	if err := os.WriteFile(dead, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := Find(t.Context(), dir)
	if err != nil || len(all) != 1 || all[0].PID != os.Getpid() || all[0].State == nil || all[0].State.Version != "v" {
		t.Fatalf("%+v %v", all, err)
	}
	if _, err := os.Stat(dead); !errors.Is(err, os.ErrNotExist) {
		t.Error("a dead process's socket stays")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	if info, err := entries[0].Info(); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	b.Close()
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("%v stays", entries)
	}
}

func TestUnixListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ops.sock")
	b := open(t, &fake.Runtime{}, nil, Listen{Address: "unix:" + path})
	if _, err := b.Listen(Listen{Address: "unix:" + path}); err == nil {
		t.Error("two listen on one socket")
	}
	c := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return dialUnix(path) }, DisableKeepAlives: true}}
	req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://any/api/pools/default/resize", strings.NewReader(`{"size":0}`))
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusNoContent {
		t.Error(res.StatusCode)
	}
}

// A condition that hangs, as looking at a broken disk does, is told and holds nobody up for long; once it answers again, that
// counts.
func TestHangingCondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		freed := make(chan struct{})
		var looks atomic.Int32
		h := newHealth(&Config{System: func() (System, error) { return &fixed{}, nil }, Log: zerolog.Nop(),
			Conditions: []Condition{func() error {
				looks.Add(1)
				<-freed
				return nil
			}}})
		for range 5 {
			if c := h.check().Causes; len(c) != 1 || !strings.Contains(c[0], "has not ended") {
				t.Errorf("%q", c)
			}
		}
		if n := looks.Load(); n != 1 {
			t.Errorf("%d look at the same time", n)
		}
		close(freed)
		synctest.Wait()
		if got := h.check(); !got.Ready {
			t.Errorf("%+v", got)
		}
	})
}

// The charts' past and the changes of health have an end.
func TestBounds(t *testing.T) {
	var h history
	for range samplesKept + 10 {
		h.take(actors.Stats{}, nil)
	}
	if n := len(h.list()); n != samplesKept {
		t.Error(n)
	}
	var bad atomic.Bool
	x := newHealth(&Config{System: func() (System, error) { return &fixed{}, nil }, Log: zerolog.Nop(),
		Conditions: []Condition{func() error {
			if bad.Load() {
				return errors.New(strings.Repeat("x", 1<<20))
			}
			return nil
		}}})
	for i := range 3 * turnsKept {
		bad.Store(i%2 == 1)
		x.check()
	}
	if turns := x.history(); len(turns) != turnsKept || len(turns[turnsKept-1].Causes[0]) > causeBytes {
		t.Error(len(turns))
	}
	if _, err := json.Marshal(x.history()); err != nil {
		t.Error(err)
	}
}
