package audit

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/thawpool/thawpool/actors"
)

type runs func(req actors.Request) actors.Result

func (f runs) Run(_ context.Context, req actors.Request) actors.Result { return f(req) }

func openLog(t *testing.T, c Config) *Log {
	t.Helper()
	c.Log = zerolog.Nop()
	l, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func lines(t *testing.T, path string) (all []Line) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var l Line
		if err := json.Unmarshal(s.Bytes(), &l); err != nil {
			t.Fatalf("%q: %v", s.Text(), err)
		}
		all = append(all, l)
	}
	return all
}

// run makes a call with one inner call that ends and one that does not.
func run(req actors.Request) actors.Result {
	_, done := req.Follow.Inner(context.Background(), "call", []byte(`{"server":"wiki","tool":"read","args":{"key":"hunter2"}}`))
	done(actors.InnerCall{Server: "wiki", Tool: "read", MS: 1, BytesIn: 9, BytesOut: 3, Outcome: "ok"})
	_, _ = req.Follow.Inner(context.Background(), "sleep", []byte(`{}`))
	return actors.Result{Status: actors.StatusError, Stdout: "hunter2", StdoutBytes: 7, Error: &actors.RunError{Type: "ValueError", Message: "hunter2"},
		Receipt: actors.Receipt{Sandbox: "box", Pool: "hit", CPUMS: 4, Plan: []actors.PlannedCall{{Arguments: "hunter2"}}}}
}

// The line is there when the answer is, complete, and holds no secret unless the code is asked for.
func TestLine(t *testing.T) {
	for _, code := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "sub", "audit.jsonl")
		l := openLog(t, Config{File: path, Code: code})
		r := l.Before(runs(run))
		r.Run(t.Context(), actors.Request{ID: "r-1", Trace: "abc", Code: "x = 'hunter2'", Servers: []string{"wiki"}})
		all := lines(t, path)
		if len(all) != 1 {
			t.Fatal(all)
		}
		got := all[0]
		if got.Request != "r-1" || got.Trace != "abc" || got.Status != "error" || got.Error != "ValueError" || got.Sandbox != "box" || got.CPUMS != 4 ||
			len(got.CodeSHA256) != 64 || got.Time.IsZero() || got.InnerCount != 2 || len(got.Inner) != 2 || got.Servers[0] != "wiki" || got.Stdout != 7 {
			t.Errorf("%+v", got)
		}
		if in := got.Inner[0]; in.Server != "wiki" || in.Outcome != "ok" || len(in.ArgsSHA256) != 64 || got.Inner[1].Outcome != "cancelled" {
			t.Errorf("%+v", got.Inner)
		}
		text, err := os.ReadFile(path)
		if err != nil || strings.Contains(string(text), "hunter2") != code {
			t.Errorf("code %v: %s", code, text)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Error(info.Mode(), err)
		}
	}
}

// A full disk is told, counted, and stops runs only where that is asked for; it passes by itself.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.jsonl")
	if err := os.Symlink("/dev/full", path); err != nil {
		t.Fatal(err)
	}
	lost := 0
	l := openLog(t, Config{File: path, Required: true, Failed: func() { lost++ }})
	r := l.Before(runs(run))
	if res := r.Run(t.Context(), actors.Request{ID: "1"}); res.Status != actors.StatusError { // nobody could know
		t.Errorf("%+v", res)
	}
	if err := l.Problem(); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Error(err)
	}
	if res := r.Run(t.Context(), actors.Request{ID: "2"}); res.Status != actors.StatusRejected || !strings.Contains(res.Error.Message, "no space left") {
		t.Errorf("%+v", res)
	}
	if lost != 1 {
		t.Error(lost)
	}
	if err := l.out.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := l.Problem(); err != nil {
		t.Error(err)
	}
	if res := r.Run(t.Context(), actors.Request{ID: "3"}); res.Status != actors.StatusError {
		t.Errorf("%+v", res)
	}
}

// Lines of calls that end at the same time do not mix, and a second process does not share the file.
func TestTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l := openLog(t, Config{File: path})
	other := openLog(t, Config{File: path})
	if other.File() == path || filepath.Ext(other.File()) != ".jsonl" {
		t.Error(other.File())
	}
	r := l.Before(runs(run))
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() { r.Run(t.Context(), actors.Request{ID: "r", Code: strings.Repeat("x", 9000)}) })
	}
	wg.Wait()
	if all := lines(t, path); len(all) != 64 {
		t.Error(len(all))
	}
}

// However many calls the code makes, a line has an end.
func TestInnerIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	l := openLog(t, Config{File: path})
	l.Before(runs(func(req actors.Request) actors.Result {
		for range 10_000 {
			if _, done := req.Follow.Inner(context.Background(), strings.Repeat("v", 1000), nil); done != nil {
				done(actors.InnerCall{Server: strings.Repeat("s", 1000), Tool: strings.Repeat("t", 1000), Outcome: "ok"})
			}
		}
		return actors.Result{Status: actors.StatusSuccess}
	})).Run(t.Context(), actors.Request{ID: "r"})
	info, err := os.Stat(path)
	if err != nil || info.Size() > 1<<18 {
		t.Error(info.Size(), err)
	}
	f, _ := os.ReadFile(path)
	var line Line
	if err := json.Unmarshal(f, &line); err != nil || line.InnerCount != 10_000 || len(line.Inner) != innerMost {
		t.Error(err, line.InnerCount)
	}
}
