package actors

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/thawpool/thawpool/pool"
	"github.com/thawpool/thawpool/runtime/fake"
	"github.com/thawpool/thawpool/runtime/guest"
)

// seen gathers what an Observer and a Follower are told.
type seen struct {
	mu     sync.Mutex
	events []Event
	calls  []string
}

func (s *seen) Observe(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

func (s *seen) note(word string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, word)
}

func (s *seen) Leased(_ string, how pool.How) { s.note("leased " + string(how)) }
func (s *seen) Thawed(string)                 { s.note("thawed") }
func (s *seen) Inner(ctx context.Context, verb string, args json.RawMessage) (context.Context, func(InnerCall)) {
	s.note(verb + " " + string(args))
	return ctx, func(c InnerCall) { s.note("inner " + c.Outcome) }
}

func TestObserverAndFollower(t *testing.T) {
	s := &seen{}
	rt := &fake.Runtime{Run: func(g *fake.Guest) {
		_, _ = g.Call("echo", map[string]int{"n": 1})
		_ = g.Done("")
		_ = g.Exit(0)
	}}
	sys, err := Start(Config{Profiles: map[string]Profile{"p": {Runtime: rt, Pool: testPool()}}, Observer: s,
		Bridge: refusing{}, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	r := sys.Run(t.Context(), Request{ID: "r1", Code: "x", Follow: s})
	if r.Status != StatusSuccess {
		t.Fatalf("%+v", r)
	}
	for _, b := range sys.Sandboxes() {
		if b.ID == "" || b.State == "" || b.Profile != "p" || b.Since.IsZero() {
			t.Errorf("%+v", b)
		}
	}
	if err := sys.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.calls) != 4 || s.calls[1] != "thawed" || s.calls[2] != `echo {"n":1}` || s.calls[3] != "inner error" {
		t.Errorf("calls: %q", s.calls)
	}
	booted := slices.ContainsFunc(s.events, func(e Event) bool { b, ok := e.(SandboxBooted); return ok && b.Err == nil && b.Profile == "p" })
	gone := slices.ContainsFunc(s.events, func(e Event) bool { d, ok := e.(SandboxDestroyed); return ok && d.Err == nil })
	if !booted || !gone {
		t.Errorf("events: %+v", s.events)
	}
}

// refusing is a bridge whose every call fails.
type refusing struct{}

func (refusing) Open(context.Context, Request) (BridgeRun, error) { return refusingRun{}, nil }

type refusingRun struct{}

func (refusingRun) Scope() ([]guest.Server, []string) { return nil, nil }
func (refusingRun) Call(context.Context, string, json.RawMessage) (json.RawMessage, InnerCall, error) {
	return nil, InnerCall{}, errors.New("no")
}
