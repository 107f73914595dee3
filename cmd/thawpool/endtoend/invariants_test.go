//go:build integration

package endtoend

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
)

// TestInvariantsCanFail breaks each invariant of the fault suite on purpose, and sees that it is noticed.
func TestInvariantsCanFail(t *testing.T) {
	e, base := env(t)
	sc := newScene(t, e, "--pool-size", "1")
	sc.s.open()
	sc.warm(1)
	broken := func(what string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s is not noticed", what)
		}
		t.Logf("%s: %v", what, err)
	}
	const soon = 300 * time.Millisecond

	sc.stage[7] = "never sent"
	_, err := sc.answers(soon)
	broken("a call without an answer", err)
	reply := answer{ID: 7.0}
	reply.Result.Structured = actors.Result{Status: actors.StatusSuccess, Stdout: "another's"}
	broken("another call's answer", sc.take(reply))
	reply.Result.Structured.Stdout = ""
	if err := sc.take(reply); err != nil {
		t.Error(err)
	}
	broken("a second answer", sc.take(reply))

	broken("a next call that never works", inTime(time.Now(), sc.worked))
	broken("a next call that works too late", inTime(time.Now().Add(-2*recovery), time.Now()))

	for what, less := range map[string]func(*gauge){
		"a descriptor more":    func(g *gauge) { g.descriptors = -slack.descriptors },
		"goroutines more":      func(g *gauge) { g.goroutines = -slack.goroutines },
		"a control group more": func(g *gauge) { g.things[ctrdtest.Cgroups] = -slack.things[ctrdtest.Cgroups] },
	} {
		g, err := sc.now()
		if err != nil {
			t.Fatal(err)
		}
		less(&g)
		broken(what, sc.calm(g, soon))
	}
	_, err = clean(e, base, soon)
	broken("a server that still has its sandboxes", err)
	sc.s.close()
	e.RequireNone(t, base)
	e.PlantOrphans(t, "invariant")
	_, err = clean(e, base, 0)
	broken("an orphan", err)
	e.RequireNone(t, base)

	for _, dir := range []string{e.TempDir(), filepath.Join(e.StateDir, "outputs")} {
		path := filepath.Join(dir, "forgotten")
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		_, err = clean(e, base, 0)
		broken("a temporary directory", err)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}

	dir := filepath.Join(e.StateDir, "kept", "memory")
	if _, stderr, status := shell(t, e, "save_memory('big', '1' * 300_000)", "run", "-"); status != 0 {
		t.Fatal(stderr)
	}
	if err := wholeMemory(t, e); err != nil {
		t.Error(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "m-big-*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	if err := os.Truncate(files[0], 1000); err != nil {
		t.Fatal(err)
	}
	broken("half a memory", wholeMemory(t, e))
	if _, stderr, status := shell(t, e, "save_memory('big', '1' * 300_000)", "run", "-"); status != 0 {
		t.Errorf("over half a memory none can be saved: %s", stderr)
	}
}
