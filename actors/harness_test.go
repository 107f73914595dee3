package actors

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/thawpool/thawpool/pool"
	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/fake"
)

// bed is a System on fake sandboxes.
type bed struct {
	t   *testing.T
	rt  *fake.Runtime
	sys *System
	log *logBuffer

	real      bool // not in a bubble
	closeTook time.Duration
}

// logBuffer gathers log lines from any goroutine.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// lines is every log line so far, decoded.
func (l *logBuffer) lines(t *testing.T) []map[string]any {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []map[string]any
	for line := range strings.Lines(l.b.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("log line %q: %v", line, err)
		}
		all = append(all, m)
	}
	return all
}

func testPool() pool.Config {
	return pool.Config{
		Size: 2, Max: 6, Refill: 1, MaxAge: time.Hour, Empty: pool.EmptyWait, Queue: 16, QueueWait: 10 * time.Second,
	}
}

// start makes a bed; change may alter its Config. It must be closed, inside a bubble before the bubble ends.
func start(t *testing.T, rt *fake.Runtime, change func(*Config)) *bed {
	t.Helper()
	b := &bed{t: t, rt: rt, log: &logBuffer{}}
	cfg := Config{
		Profiles: map[string]Profile{"default": {Runtime: rt, Pool: testPool(), Limits: runtime.DefaultLimits()}},
		Log:      zerolog.New(b.log).Level(zerolog.DebugLevel),
	}
	if change != nil {
		change(&cfg)
	}
	sys, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b.sys = sys
	return b
}

// withPool changes the pool of a bed.
func withPool(change func(*pool.Config)) func(*Config) {
	return func(c *Config) {
		p := c.Profiles["default"]
		change(&p.Pool)
		c.Profiles["default"] = p
	}
}

// close ends the bed and checks that nothing is left of it.
func (b *bed) close() {
	b.t.Helper()
	ctx, end := context.WithTimeout(context.Background(), 20*time.Second)
	defer end()
	began := time.Now()
	if err := b.sys.Close(ctx); err != nil {
		b.t.Errorf("close: %v", err)
	}
	b.closeTook = time.Since(began)
	if !b.real {
		time.Sleep(2 * time.Second) // protoactor's throttle of dead letters keeps a goroutine for one
	}
	if live := b.rt.Live(); len(live) > 0 {
		b.t.Errorf("%d sandboxes are left", len(live))
	}
}

// run runs code to its answer.
func (b *bed) run(code string) Result { return b.runAs(Request{ID: "r1", Code: code}) }

func (b *bed) runAs(req Request) Result { return b.sys.Run(context.Background(), req) }

// goRun runs code beside the test.
func (b *bed) goRun(ctx context.Context, req Request) <-chan Result {
	c := make(chan Result, 1)
	go func() { c <- b.sys.Run(ctx, req) }()
	return c
}

func (b *bed) stats() pool.Stats { return b.sys.Stats().Profiles["default"].Stats }

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// wantError checks an answer's status and that its error says each of the parts.
func wantError(t *testing.T, r Result, st Status, parts ...string) {
	t.Helper()
	if r.Status != st || r.Error == nil {
		t.Fatalf("status %s, error %+v, want %s", r.Status, r.Error, st)
	}
	text := r.Error.Type + ": " + r.Error.Message
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("error %q does not say %q", text, p)
		}
	}
}
