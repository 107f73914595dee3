package actors

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/thawpool/thawpool/actors/catalog/config"
	"github.com/thawpool/thawpool/actors/policy"
	"github.com/thawpool/thawpool/actors/store"
	"github.com/thawpool/thawpool/actors/upstream/fakeup"
	"github.com/thawpool/thawpool/runtime/guest"
)

// hubPatience bounds every wait of the hub's tests; none waits it out unless it fails.
const hubPatience = 60 * time.Second

// entry is one server in a definitions file.
type entry map[string]any

// fakeEntry is a definition of the scripted server.
func fakeEntry(s fakeup.Script) entry {
	command, env := fakeup.Command(s)
	return entry{"command": command, "env": env}
}

// with adds fields to an entry.
func (e entry) with(kv ...any) entry {
	for i := 0; i < len(kv); i += 2 {
		e[kv[i].(string)] = kv[i+1]
	}
	return e
}

// hubBed is a Hub with definitions in a file of its own.
type hubBed struct {
	*Hub
	t    testing.TB
	file string
	log  *logBuffer
}

func newHubBed(t testing.TB, servers map[string]entry, change func(*HubConfig)) *hubBed {
	t.Helper()
	dir := t.TempDir()
	b := &hubBed{t: t, file: filepath.Join(dir, "servers.json"), log: &logBuffer{}}
	b.define(servers)
	p, err := policy.New(policy.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(filepath.Join(dir, "state"), store.DefaultLimits(), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	cfg := HubConfig{
		Sources: config.Sources{Files: []string{b.file}, Home: dir, Lookup: func(string) (string, bool) { return "", false }},
		Policy:  p, Store: st, Version: "test", Log: zerolog.New(b.log).Level(zerolog.DebugLevel),
		StartTimeout: hubPatience, CallTimeout: hubPatience,
	}
	if change != nil {
		change(&cfg)
	}
	if b.Hub, err = NewHub(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	return b
}

// define writes the definitions.
func (b *hubBed) define(servers map[string]entry) {
	b.t.Helper()
	raw, err := json.Marshal(map[string]any{"mcpServers": servers})
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(b.file+".new", raw, 0o600); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Rename(b.file+".new", b.file); err != nil {
		b.t.Fatal(err)
	}
}

// close ends the hub and checks that no process of its servers is left.
func (b *hubBed) close() {
	b.t.Helper()
	ctx, end := context.WithTimeout(context.Background(), hubPatience)
	defer end()
	var pids []int
	for _, st := range b.Status() {
		pids = append(pids, st.PIDs...)
	}
	if err := b.Close(ctx); err != nil {
		b.t.Errorf("close: %v", err)
	}
	for _, pid := range pids {
		if stat := procStat(pid); stat != "" {
			b.t.Errorf("process %d is left: %s", pid, stat)
		}
	}
}

func withPolicy(t *testing.T, change func(*policy.Config)) func(*HubConfig) {
	t.Helper()
	pc := policy.DefaultConfig()
	change(&pc)
	p, err := policy.New(pc)
	if err != nil {
		t.Fatal(err)
	}
	return func(c *HubConfig) { c.Policy = p }
}

// runBed is one run.
type runBed struct {
	BridgeRun
	t testing.TB
}

func (b *hubBed) open(servers ...string) *runBed {
	b.t.Helper()
	r, err := b.Open(context.Background(), Request{ID: "r", Servers: servers})
	if err != nil {
		b.t.Fatal(err)
	}
	return &runBed{r, b.t}
}

func (r *runBed) ask(verb string, args any) (json.RawMessage, InnerCall, error) {
	r.t.Helper()
	raw, ok := args.(json.RawMessage)
	if !ok {
		var err error
		if raw, err = json.Marshal(args); err != nil {
			r.t.Fatal(err)
		}
	}
	ctx, end := context.WithTimeout(context.Background(), hubPatience)
	defer end()
	value, call, err := r.Call(ctx, verb, raw)
	if errors.Is(err, context.DeadlineExceeded) {
		r.t.Fatalf("%s %s was not answered", verb, raw)
	}
	return value, call, err
}

func (r *runBed) must(verb string, args any) string {
	r.t.Helper()
	value, _, err := r.ask(verb, args)
	if err != nil {
		r.t.Fatalf("%s %v: %v", verb, args, err)
	}
	return string(value)
}

func (r *runBed) call(server, tool, args string) (string, InnerCall, error) {
	r.t.Helper()
	value, call, err := r.ask(guest.VerbCall, map[string]any{"server": server, "tool": tool, "args": json.RawMessage(args)})
	return string(value), call, err
}

func (r *runBed) mustCall(server, tool, args string) string {
	r.t.Helper()
	value, _, err := r.call(server, tool, args)
	if err != nil {
		r.t.Fatalf("%s.%s: %v", server, tool, err)
	}
	return value
}

// wantFault checks that err is a CallError of the class with all these words in it.
func wantFault(t *testing.T, err error, class string, words ...string) {
	t.Helper()
	var fault *guest.CallError
	if !errors.As(err, &fault) {
		t.Errorf("got %v, want a CallError", err)
		return
	}
	if fault.Type != class {
		t.Errorf("class %q of %q, want %q", fault.Type, fault.Message, class)
	}
	wantWords(t, fault.Message, words...)
}

func wantWords(t *testing.T, s string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(strings.ToLower(s), strings.ToLower(w)) {
			t.Errorf("no %q in %q", w, s)
		}
	}
}

// eventually waits for a condition that some other goroutine or process brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(hubPatience); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// procStat is a process's state, empty when it is gone or dead and only waits for its parent.
func procStat(pid int) string {
	raw, err := os.ReadFile(filepath.Join("/proc", itoa(pid), "stat"))
	if err != nil || strings.Contains(string(raw), ") Z ") {
		return ""
	}
	return string(raw)
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }

func (b *hubBed) statusOf(name string) ClientStatus {
	for _, st := range b.Status() {
		if st.Name == name {
			return st
		}
	}
	return ClientStatus{}
}

func journalOf(path string) string { raw, _ := os.ReadFile(path); return string(raw) }
