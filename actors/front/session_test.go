package front

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thawpool/thawpool/actors"
)

// What was read before the end of input is answered.
func TestAnswersAfterEndOfInput(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := dial(t.Context(), t, config(&script{}))
		w.send(hello)
		for i := range 10 {
			w.send(callLine(fmt.Sprint(i+1), "sleep 1"))
		}
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
		seen := map[any]bool{}
		for line := range w.lines {
			var m map[string]any
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				t.Fatal(err)
			}
			if id := m["id"]; id != float64(0) && text(t, m) != "slept 1\n" {
				t.Errorf("answer %v", m)
			}
			seen[m["id"]] = true
		}
		if len(seen) != 11 {
			t.Errorf("answered %v", seen)
		}
	})
}

// A call that outlives the drain is told to end, and what it says then is still written.
func TestEndsCallsAfterDrain(t *testing.T) {
	for name, end := range map[string]func(w *wire, cancel func()){
		"end of input": func(w *wire, _ func()) { _ = w.in.Close() },
		"context":      func(_ *wire, cancel func()) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s := &script{}
				w := dial(ctx, t, config(s)).open()
				w.send(callLine("1", "sleep 60"))
				synctest.Wait()
				began := time.Now()
				end(w, cancel)
				if err := <-w.done; err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took > DrainTime+2*EndTime {
					t.Errorf("took %v of virtual time", took)
				}
				if m := w.recv(); match(map[string]any{"isError": true}, m["result"], "") != "" {
					t.Errorf("answer %v", m)
				}
				if !slices.Equal(s.ended, []string{ErrInputEnded.Error()}) {
					t.Errorf("cause %v", s.ended)
				}
			})
		})
	}
}

// A runner that does not heed its context cannot keep the session.
func TestDeafRunner(t *testing.T) {
	bubble(t, func(t *testing.T) {
		free := make(chan struct{})
		w := dial(t.Context(), t, config(runnerFunc(func(context.Context, actors.Request) actors.Result {
			<-free
			return actors.Result{Status: actors.StatusSuccess}
		}))).open()
		w.send(callLine("1", "x"))
		synctest.Wait()
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
		close(free)
	})
}

type runnerFunc func(context.Context, actors.Request) actors.Result

func (f runnerFunc) Run(ctx context.Context, req actors.Request) actors.Result { return f(ctx, req) }

// Input that is at its end from the start is a session like any other.
func TestEmptyInput(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, err := New(config(&script{}))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Serve(t.Context(), strings.NewReader(""), io.Discard); err != nil {
			t.Fatal(err)
		}
		if err := f.Serve(t.Context(), strings.NewReader("\n\n"), io.Discard); err != nil {
			t.Fatal(err)
		}
	})
}

// A last line without its newline counts.
func TestNoFinalNewline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, err := New(config(&script{}))
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := f.Serve(t.Context(), strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`), &out); err != nil {
			t.Fatal(err)
		}
		if out.String() != `{"jsonrpc":"2.0","id":1,"result":{}}`+"\n" {
			t.Errorf("wrote %q", out.String())
		}
	})
}

// A read error is told; a client that closed its end of the output is not one.
func TestBrokenStreams(t *testing.T) {
	f, err := New(config(&script{}))
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	if err := f.Serve(t.Context(), io.MultiReader(strings.NewReader("\n"), errReader{broken}), io.Discard); !errors.Is(err, broken) {
		t.Errorf("read error: %v", err)
	}
	s := &script{}
	if f, err = New(config(s)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		err  error
		want bool
	}{{syscall.EPIPE, false}, {io.ErrClosedPipe, false}, {broken, true}} {
		ir, iw := io.Pipe()
		done := make(chan error)
		go func() { done <- f.Serve(t.Context(), ir, errWriter{tt.err}) }()
		lines := callLine("1", "sleep 60") + "\n" + `{"jsonrpc":"2.0","id":2,"method":"ping"}` + "\n"
		if _, err := io.WriteString(iw, lines); err != nil {
			t.Fatal(err)
		}
		if err := <-done; (err != nil) != tt.want {
			t.Errorf("%v: %v", tt.err, err)
		}
		_ = iw.Close()
	}
	if len(s.ended) != 3 {
		t.Errorf("calls that nobody can be answered went on: %v", s.ended)
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

type errWriter struct{ err error }

func (w errWriter) Write([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Path: "out", Err: w.err}
}

// Code and results of many MiB pass; beyond the cap the call is refused by its id and the session lives.
func TestBig(t *testing.T) {
	w := dial(t.Context(), t, config(&script{})).open()
	big := strings.Repeat("0123456789abcdef", 5<<20/16)
	w.send(callLine("2", big))
	if got := text(t, w.recv()); got != big+"\n" {
		t.Errorf("got %d bytes, want %d", len(got), len(big)+1)
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	cfg := config(&script{})
	cfg.MaxMessage = 1 << 20
	w = dial(t.Context(), t, cfg).open()
	huge := strings.Repeat("x", 3<<20)
	tests := map[string]struct {
		line string
		id   any
	}{
		"id first":   {`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"arguments":{"code":"` + huge + `"}}}`, 3.0},
		"id last":    {`{"method":"tools/call","params":{"id":1,"arguments":{"id":2,"code":"\"id\":9,` + huge + `"}},"jsonrpc":"2.0","id":"four"}`, "four"},
		"no id":      {`{"method":"notifications/x","params":{"id":5,"x":"` + huge + `"}}`, nil},
		"no message": {huge, nil},
	}
	for name, tt := range tests {
		w.send(tt.line)
		if d := match(map[string]any{"id": tt.id, "error": map[string]any{"code": -32600.0, "message": "~1048576 bytes"}}, any(w.recv()), ""); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	w.send(`{"jsonrpc":"2.0","id":5,"method":"ping"}`)
	if m := w.recv(); m["id"] != 5.0 {
		t.Errorf("after: %v", m)
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
}

// Bursts are all answered, with results or with a refusal, and then the server is as before.
func TestBursts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &script{}
		cfg := config(s)
		cfg.MaxInFlight = 20
		w := dial(t.Context(), t, cfg).open()
		for _, n := range []int{3, 10, 50} {
			for i := range n {
				w.send(callLine(fmt.Sprint(1000+i), "sleep 3"))
			}
			ok, busy := 0, 0
			for range n {
				m := w.recv()
				switch {
				case text(t, m) == "slept 3\n":
					ok++
				case strings.Contains(text(t, m), "[rejected] Busy: 20 calls"):
					busy++
					if d := match(map[string]any{"structuredContent": map[string]any{"receipt": map[string]any{"requestId": "~-"}}}, m["result"], ""); d != "" {
						t.Error(d)
					}
				default:
					t.Errorf("got %v", m)
				}
			}
			if ok != min(n, 20) || ok+busy != n {
				t.Errorf("%d calls: %d done, %d refused", n, ok, busy)
			}
		}
		if s.peak != 20 {
			t.Errorf("%d at once", s.peak)
		}
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
	})
}

// 500 calls in a row, then as many side by side: all right, none crossed, and nothing left behind.
func TestManyCalls(t *testing.T) {
	before := goruntime.NumGoroutine()
	cfg := config(&script{})
	w := dial(t.Context(), t, cfg).open()
	for i := range 500 {
		w.send(callLine(fmt.Sprint(i+1), fmt.Sprintf("print %d", i)))
		if m := w.recv(); m["id"] != float64(i+1) || text(t, m) != fmt.Sprintf("print %d\n", i) {
			t.Fatalf("call %d: %v", i, m)
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 500 {
			w.send(callLine(fmt.Sprintf("%q", fmt.Sprint(i)), fmt.Sprintf("print %d", i)))
		}
	})
	for range 500 {
		m := w.recv()
		if got := text(t, m); got != fmt.Sprintf("print %s\n", m["id"]) && !strings.Contains(got, "Busy") {
			t.Errorf("id %v: %q", m["id"], got)
		}
	}
	wg.Wait()
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	for range w.lines {
	}
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if goruntime.NumGoroutine() <= before { // goroutines that are about to end may need a turn
			return
		}
	}
	t.Errorf("%d goroutines before, %d after", before, goruntime.NumGoroutine())
}

// A client that reads nothing holds up what it sends, not our memory; once it reads, all is there.
func TestSlowClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, err := New(config(&script{}))
		if err != nil {
			t.Fatal(err)
		}
		ir, iw := io.Pipe()
		or, ow := io.Pipe()
		done := make(chan error, 1)
		go func() { done <- f.Serve(t.Context(), ir, ow); _ = ow.Close() }()
		part := strings.Repeat("y", 1<<20)
		sent := make(chan int, 1)
		go func() {
			for i := range 14 {
				if _, err := io.WriteString(iw, callLine(fmt.Sprint(i+1), part)+"\n"); err != nil {
					t.Error(err)
				}
			}
			sent <- 14
			_ = iw.Close()
		}()
		synctest.Wait()
		if len(sent) != 0 {
			t.Error("all was taken in though nothing was read")
		}
		answers := 0
		d := json.NewDecoder(or)
		for d.More() {
			var m map[string]any
			if err := d.Decode(&m); err != nil {
				t.Fatal(err)
			}
			answers++
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if answers != 14 {
			t.Errorf("%d answers", answers)
		}
	})
}

// Two sessions of one front share nothing.
func TestTwoSessions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := config(&script{})
		var servers atomic.Pointer[string]
		set := func(s string) { servers.Store(&s) }
		set("one")
		cfg.Servers = func() string { return *servers.Load() }
		f, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		a, b := f.dialled(t.Context(), t), f.dialled(t.Context(), t)
		a.open()
		b.open()
		a.send(callLine("1", "sleep 5"))
		b.send(callLine("1", "sleep 5"))
		a.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		f.ToolsChanged() // they have not
		set("one, two")
		f.ToolsChanged()
		for _, w := range []*wire{a, b} {
			if m := w.recv(); m["method"] != "notifications/tools/list_changed" {
				t.Errorf("got %v", m)
			}
		}
		if m := b.recv(); text(t, m) != "slept 5\n" {
			t.Errorf("got %v", m)
		}
		for _, w := range []*wire{a, b} {
			if err := w.close(); err != nil {
				t.Fatal(err)
			}
			for line := range w.lines {
				t.Errorf("left over: %s", line)
			}
		}
	})
}
