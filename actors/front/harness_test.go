package front

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thawpool/thawpool/actors"
)

// script is a runner that does what a call's code says: "sleep N" takes N seconds, "flood N" prints N bytes and has its
// output cut, "panic" panics, "ask" prints what was asked for. Anything else is printed.
type script struct {
	mu      sync.Mutex
	running int
	peak    int
	ended   []string // causes of contexts that ended a sleep
}

func (s *script) Run(ctx context.Context, req actors.Request) actors.Result {
	s.mu.Lock()
	s.running++
	s.peak = max(s.peak, s.running)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.running--
		s.mu.Unlock()
	}()
	res := actors.Result{Status: actors.StatusSuccess, ExitCode: new(int), Receipt: actors.Receipt{RequestID: req.ID, Pool: "hit"}}
	verb, arg, _ := strings.Cut(req.Code, " ")
	n, _ := strconv.ParseFloat(arg, 64)
	switch verb {
	case "sleep":
		t := time.NewTimer(time.Duration(n * float64(time.Second)))
		defer t.Stop()
		select {
		case <-t.C:
			res.Stdout = "slept " + arg + "\n"
		case <-ctx.Done():
			s.mu.Lock()
			s.ended = append(s.ended, context.Cause(ctx).Error())
			s.mu.Unlock()
			res.Status = actors.StatusCancelled
			res.Error = &actors.RunError{Type: "Cancelled", Message: context.Cause(ctx).Error()}
		}
	case "flood":
		all := bytes.Repeat([]byte("0123456789abcdef"), int(n)/16)
		for part := all; len(part) > 0; part = part[min(len(part), 64<<10):] {
			req.Output(1, part[:min(len(part), 64<<10)])
		}
		res.Stdout, res.Truncated, res.StdoutBytes = "0123… cut …cdef", true, int64(len(all))
	case "panic":
		panic("on purpose")
	case "ask":
		res.Stdout = fmt.Sprintf("%v %v %v\n", req.Timeout, req.Servers, req.Servers == nil)
	default:
		res.Stdout = req.Code + "\n"
	}
	return res
}

func config(r Runner) Config {
	return Config{Runner: r, Version: "1.2.3", Timeout: 30 * time.Second, MaxTimeout: 120 * time.Second, MaxInFlight: 64,
		Capabilities: func() string { return "python 3.14" }}
}

// wire is a client's end of a session.
type wire struct {
	t     testing.TB
	in    *io.PipeWriter
	lines chan string // what the server wrote, without newlines; closed at its end
	done  chan error  // what Serve returned
}

func dial(ctx context.Context, t testing.TB, cfg Config) *wire {
	t.Helper()
	f, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return f.dialled(ctx, t)
}

func (f *Front) dialled(ctx context.Context, t testing.TB) *wire {
	ir, iw := io.Pipe()
	or, ow := io.Pipe()
	t.Cleanup(func() { _ = iw.Close() })
	w := &wire{t: t, in: iw, lines: make(chan string, 4096), done: make(chan error, 1)}
	go func() {
		err := f.Serve(ctx, ir, ow)
		_ = ow.Close()
		w.done <- err
	}()
	go func() {
		defer close(w.lines)
		r := bufio.NewReader(or)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			w.lines <- strings.TrimSuffix(line, "\n")
		}
	}()
	return w
}

func (w *wire) send(line string) {
	w.t.Helper()
	if _, err := io.WriteString(w.in, line+"\n"); err != nil {
		w.t.Fatalf("send: %v", err)
	}
}

// recv gives the next message as a map; every line that the server writes must be JSON.
func (w *wire) recv() map[string]any {
	w.t.Helper()
	line, ok := <-w.lines
	if !ok {
		w.t.Fatal("the session ended")
	}
	var m map[string]any
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		w.t.Fatalf("server wrote %q: %v", line, err)
	}
	return m
}

// close ends the input and waits for the session.
func (w *wire) close() error {
	_ = w.in.Close()
	return <-w.done
}

const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},` +
	`"clientInfo":{"name":"t","version":"1"}}}`

// open does the handshake.
func (w *wire) open() *wire {
	w.t.Helper()
	w.send(hello)
	w.recv()
	w.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return w
}

func callLine(id, code string) string {
	c, _ := json.Marshal(code)
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"run_python","arguments":{"code":%s}}}`, id, c)
}

// text is the first content of a tool's result.
func text(t testing.TB, m map[string]any) string {
	t.Helper()
	res, _ := m["result"].(map[string]any)
	content, _ := res["content"].([]any)
	if len(content) == 0 {
		t.Fatalf("no content in %v", m)
	}
	s, _ := content[0].(map[string]any)["text"].(string)
	return s
}

// bubble runs f with a clock of its own, which moves only when everything waits.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// match tells where got differs from want. Of maps only want's keys are compared; a string that starts with ~ must be
// contained.
func match(want, got any, at string) string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s: want an object, got %v", at, got)
		}
		for k, v := range w {
			if d := match(v, g[k], at+"."+k); d != "" {
				return d
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return fmt.Sprintf("%s: want %d elements, got %v", at, len(w), got)
		}
		for i := range w {
			if d := match(w[i], g[i], fmt.Sprintf("%s[%d]", at, i)); d != "" {
				return d
			}
		}
		return ""
	case string:
		g, ok := got.(string)
		if part, contains := strings.CutPrefix(w, "~"); contains && ok && strings.Contains(g, part) {
			return ""
		}
	}
	if !reflect.DeepEqual(want, got) {
		return fmt.Sprintf("%s: want %v, got %v", at, want, got)
	}
	return ""
}
