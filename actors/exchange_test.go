package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thawpool/thawpool/runtime/fake"
	"github.com/thawpool/thawpool/runtime/guest"
)

// testBridge answers calls with a function.
type testBridge struct {
	call func(ctx context.Context, verb string, args json.RawMessage) (json.RawMessage, InnerCall, error)

	mu        sync.Mutex
	opened    int
	now, most int
}

func (b *testBridge) Open(_ context.Context, req Request) (BridgeRun, error) {
	if len(req.Servers) > 0 && req.Servers[0] == "nope" {
		return nil, &guest.CallError{Type: guest.ErrUnknownServer, Message: `there is no server "nope"; did you mean "note"?`}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opened++
	return &testBridgeRun{b: b}, nil
}

func (b *testBridge) counts() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Sprintf("opened %d, %d calls under way", b.opened, b.now)
}

type testBridgeRun struct{ b *testBridge }

func (r *testBridgeRun) Scope() ([]guest.Server, []string) {
	return []guest.Server{{Name: "note", Alias: "note"}}, []string{"saved"}
}

func (r *testBridgeRun) Call(ctx context.Context, verb string, args json.RawMessage) (json.RawMessage, InnerCall, error) {
	r.b.mu.Lock()
	r.b.now++
	r.b.most = max(r.b.most, r.b.now)
	r.b.mu.Unlock()
	defer func() { r.b.mu.Lock(); r.b.now--; r.b.mu.Unlock() }()
	return r.b.call(ctx, verb, args)
}

func echo(_ context.Context, _ string, args json.RawMessage) (json.RawMessage, InnerCall, error) {
	return args, InnerCall{}, nil
}

func slowEcho(ctx context.Context, verb string, args json.RawMessage) (json.RawMessage, InnerCall, error) {
	time.Sleep(time.Millisecond)
	return echo(ctx, verb, args)
}

func TestInnerCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		br := &testBridge{call: func(_ context.Context, verb string, args json.RawMessage) (json.RawMessage, InnerCall, error) {
			time.Sleep(20 * time.Millisecond)
			var a struct{ Tool string }
			_ = json.Unmarshal(args, &a)
			switch a.Tool {
			case "bad":
				return nil, InnerCall{}, &guest.CallError{Type: guest.ErrUnknownTool, Message: `no tool "bad"`}
			case "bug":
				panic("in the bridge")
			case "own":
				return json.RawMessage(`1`), InnerCall{Server: "s", Tool: "t", MS: 3, BytesIn: 4, BytesOut: 5, Outcome: "planned"}, nil
			}
			return json.RawMessage(`{"big":12345678901234567890}`), InnerCall{}, nil
		}}
		var got []string
		b := start(t, &fake.Runtime{Run: func(g *fake.Guest) {
			got = append(got, fmt.Sprint(g.Servers, g.Saved))
			for _, tool := range []string{"ok", "bad", "bug", "own"} {
				v, err := g.Call(guest.VerbCall, map[string]string{"server": "note", "tool": tool})
				got = append(got, fmt.Sprint(string(v), err))
			}
			_ = g.Exit(0)
		}}, func(c *Config) { c.Bridge = br })
		defer b.close()
		r := b.run("x")
		want(t, "status", r.Status, StatusSuccess)
		want(t, "seen by the code", strings.Join(got, "; "), `[note] [saved]; {"big":12345678901234567890}<nil>; `+
			`UnknownToolError: no tool "bad"; : internal error: in the bridge; 1<nil>`)
		rc := r.Receipt
		want(t, "count", rc.CallCount, 4)
		want(t, "kept out", rc.KeptOut, int64(len(`{"big":12345678901234567890}`)+1))
		want(t, "first", rc.Calls[0], InnerCall{Server: "note", Tool: "ok", MS: 20, BytesIn: 29, BytesOut: 28, Outcome: "ok"})
		want(t, "error", rc.Calls[1].Outcome, "error")
		want(t, "bridge's own words", rc.Calls[3], InnerCall{Server: "s", Tool: "t", MS: 3, BytesIn: 4, BytesOut: 5, Outcome: "planned"})
		synctest.Wait()
		want(t, "bridge", br.counts(), "opened 1, 0 calls under way")
	})
}

func TestC21TimeoutOfARunTellsWhatItWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		br := &testBridge{call: func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, InnerCall, error) {
			<-ctx.Done()
			return nil, InnerCall{}, ctx.Err()
		}}
		b := start(t, &fake.Runtime{Run: func(g *fake.Guest) {
			id, _ := g.Ask(guest.VerbCall, map[string]string{"server": "given-up", "tool": "never"})
			_ = g.Forget(id)
			time.Sleep(100 * time.Millisecond)
			for range map[string]int{"one": 1, "two": 2}[g.Code] {
				_, _ = g.Ask(guest.VerbCall, map[string]string{"server": "up", "tool": "never"})
				time.Sleep(time.Second)
			}
			g.Hang()
		}}, func(c *Config) { c.Bridge = br })
		defer b.close()
		for code, words := range map[string]string{
			"one": `; it was waiting for server "up", tool "never", for 4.9 s`,
			"two": `; it was waiting for server "up", tool "never", for 4.9 s, and for 1 more`,
		} {
			r := b.runAs(Request{Code: code, Timeout: 5 * time.Second})
			wantError(t, r, StatusTimeout, "Timeout", "5 s")
			if !strings.HasSuffix(r.Error.Message, words) {
				t.Errorf("%s: %s", code, r.Error.Message)
			}
		}
		if r := b.runAs(Request{Code: "none", Timeout: 5 * time.Second}); strings.Contains(r.Error.Message, "waiting") {
			t.Error(r.Error.Message)
		}
	})
}

func TestNoBridge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, &fake.Runtime{Run: func(g *fake.Guest) {
			_, err := g.Call(guest.VerbServers, struct{}{})
			_ = g.Print(1, err.Error())
			_ = g.Exit(0)
		}}, nil)
		defer b.close()
		if r := b.run("x"); !strings.Contains(r.Stdout, "no upstream servers are configured") {
			t.Errorf("%q", r.Stdout)
		}
	})
}

func TestUnknownServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, &fake.Runtime{}, func(c *Config) { c.Bridge = &testBridge{} })
		defer b.close()
		r := b.runAs(Request{Code: "x", Servers: []string{"nope"}})
		wantError(t, r, StatusRejected, "UnknownServerError", `did you mean "note"`)
		synctest.Wait()
		want(t, "sandboxes used", b.stats().Hits, 0)
	})
}

// Inner calls end with their run, and with the code's own cancel.
func TestInnerCallsAreCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 10)
		br := &testBridge{call: func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, InnerCall, error) {
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return nil, InnerCall{}, ctx.Err()
		}}
		b := start(t, &fake.Runtime{Run: func(g *fake.Guest) {
			id, _ := g.Ask(guest.VerbCall, map[string]string{"server": "a", "tool": "one"})
			time.Sleep(time.Second)
			_ = g.Forget(id)
			_ = g.Forget(id + 100)
			_, _ = g.Ask(guest.VerbCall, map[string]string{"server": "a", "tool": "two"})
			g.Hang()
		}}, func(c *Config) { c.Bridge = br })
		defer b.close()
		synctest.Wait()
		ctx, cancel := context.WithCancel(context.Background())
		reply := b.goRun(ctx, Request{Code: "x"})
		time.Sleep(2 * time.Second)
		want(t, "ended by the code", len(ended), 1)
		cancel()
		r := <-reply
		synctest.Wait()
		want(t, "ended by the run", len(ended), 2)
		want(t, "first", r.Receipt.Calls[0].Outcome, "cancelled")
		want(t, "second", r.Receipt.Calls[1], InnerCall{Server: "a", Tool: "two", MS: 1000, BytesIn: 27, Outcome: "cancelled"})
		want(t, "bridge", br.counts(), "opened 1, 0 calls under way")
	})
}

// Many calls at once are made a few at a time; all are answered.
func TestManyInnerCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		br := &testBridge{call: slowEcho}
		b := start(t, &fake.Runtime{Run: func(g *fake.Guest) {
			answers := make(chan int)
			go func() { // a runner reads while it writes
				wrong := 0
				for range n {
					if r, err := g.Read(); err != nil || string(r.Value) != fmt.Sprint(r.ID) {
						wrong++
					}
				}
				answers <- wrong
			}()
			for i := range n {
				_, _ = g.Ask(guest.VerbCall, i+1)
			}
			_ = g.Done(fmt.Sprint(<-answers))
			_ = g.Exit(0)
		}}, func(c *Config) { c.Bridge = br })
		defer b.close()
		r := b.run("x")
		want(t, "wrong answers", *r.Value, "0")
		want(t, "at once", br.most, callsAtOnce)
		want(t, "count", r.Receipt.CallCount, n)
		want(t, "shown", len(r.Receipt.Calls), receiptCalls)
	})
}

// The backlog is bounded in number and in bytes, and so is the number of calls of one run.
func TestBacklogIsBounded(t *testing.T) {
	t.Parallel()
	ask := func(x *exchange, n int, args string) {
		t.Helper()
		for range n {
			if err := x.ask(uint64(x.count+1), guest.VerbCall, json.RawMessage(args)); err != nil {
				t.Fatal(err)
			}
		}
	}
	full := func() *exchange { // every place is taken
		x := &exchange{busy: callsAtOnce}
		x.begin(t.Context(), &call{bridge: &testBridgeRun{}}, outside{}, &sync.WaitGroup{})
		return x
	}
	x := full()
	ask(x, backlogMax+10, "1")
	want(t, "by number", len(x.backlog), backlogMax)
	want(t, "refused", len(x.answers), 10)
	x = full()
	ask(x, 10, strings.Repeat("1", backlogBytes/8))
	want(t, "by bytes", len(x.backlog), 8)
	x = full()
	x.count = callsMax - 1
	ask(x, 2, "1")
	want(t, "of one run", x.answers[0].fault.Message, "this run has made 10000 calls, the most there may be in one")
	x.answers = make([]answer, unreadMax)
	if err := x.ask(1, guest.VerbCall, nil); err == nil || !strings.Contains(err.Error(), "unread") {
		t.Errorf("a run that reads no answers goes on: %v", err)
	}
	x.cancel(callsMax)
	x.leave()
	want(t, "a cancelled one makes way", len(x.backlog)+len(x.open), 0)
}

func TestLargeAnswersAreBounded(t *testing.T) {
	t.Parallel()
	var x exchange
	x.begin(context.Background(), &call{bridge: &testBridgeRun{}}, outside{}, &sync.WaitGroup{})
	big := json.RawMessage(strings.Repeat("1", 60<<20))
	for id := uint64(1); id <= 3; id++ {
		x.end(&inner{id: id, verb: guest.VerbCall}, big, InnerCall{}, nil)
	}
	if x.answers[1].fault != nil || x.answers[2].fault == nil || x.unsent > answerBytes {
		t.Errorf("%d bytes are held", x.unsent)
	}
	a, _ := x.pop()
	x.busy = 3
	x.written(a)
	want(t, "held", x.unsent, 60<<20)
	want(t, "places", x.busy, 2)
}

func TestFaultOf(t *testing.T) {
	t.Parallel()
	fault := faultOf(fmt.Errorf("outer: %w", &guest.CallError{Type: "KeyError", Message: "'x'"}))
	want(t, "typed", *fault, guest.CallError{Type: "KeyError", Message: "'x'"})
	want(t, "plain", *faultOf(errors.New("x")), guest.CallError{Message: "x"})
}
