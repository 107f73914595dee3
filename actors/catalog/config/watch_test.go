package config

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// patienceOfTest bounds each wait; it is only reached when something is wrong.
const patienceOfTest = 30 * time.Second

func TestWatch(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	results := make(chan Result, 100)
	ctx, cancel := context.WithCancel(t.Context())
	wait := Watch(ctx, h.src, zerolog.Nop(), func(r Result) { results <- r })
	defer wait()
	defer cancel()
	expect := func(what string, ok func(Result) bool) {
		t.Helper()
		timeout := time.After(patienceOfTest)
		for {
			select {
			case r := <-results:
				if ok(r) {
					return
				}
			case <-timeout:
				t.Fatalf("%s is never seen", what)
			}
		}
	}
	command := func(want string) func(Result) bool {
		return func(r Result) bool {
			return want == "" && len(r.Servers) == 0 || len(r.Servers) == 1 && r.Servers[0].Command == want
		}
	}
	expect("the empty start", command(""))
	path := h.write("MCPs/a.json", `{"mcpServers":{"a":{"command":"one"}}}`) // the directory is new as well
	expect("a new file", command("one"))
	h.write("MCPs/a.json", `{"mcpServers":{"a":{"command":"two"}}}`)
	expect("a file written in place", command("two"))
	if err := os.Rename(h.write("elsewhere.json", `{"mcpServers":{"a":{"command":"three"}}}`), path); err != nil {
		t.Fatal(err)
	}
	expect("a replaced file", command("three"))
	h.write("MCPs/a.json", `{"mcpServers":`)
	expect("a broken file", func(r Result) bool { return len(r.Problems) == 1 && r.Problems[0].Fatal })
	h.write("MCPs/a.json", `{"mcpServers":{"a":{"command":"four"}}}`)
	expect("a mended file", command("four"))
	if err := os.RemoveAll(filepath.Join(h.dir, "MCPs")); err != nil {
		t.Fatal(err)
	}
	expect("a removed directory", command(""))
	h.write("MCPs/b.json", `{"mcpServers":{"a":{"command":"five"}}}`)
	expect("a directory made anew", command("five"))
}

func TestWatchTellsOnlyChanges(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write("MCPs/a.json", `{"mcpServers":{"a":{"command":"one"}}}`)
	w := &watcher{src: h.src, log: zerolog.Nop()}
	told := 0
	w.take = func(Result) { told++ }
	w.load()
	h.write("MCPs/a.json", `{"mcpServers":{"a":{"command":"one"}}}   `)
	w.again()
	if told != 1 {
		t.Errorf("told %d times", told)
	}
	h.write("MCPs/a.json", `{"mcpServers":{"a":{"command":"one", "description":"d"}}}`)
	w.again()
	if told != 2 {
		t.Errorf("told %d times after a change", told)
	}
}
