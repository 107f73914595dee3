//go:build integration

package endtoend

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thawpool/thawpool/cmd/thawpool/bench"
)

// benched runs bench with its report as JSON.
func benched(t *testing.T, args ...string) bench.Report {
	t.Helper()
	e, base := env(t)
	cmd := command(t, e.StateDir, "bench", append(args, "--json")...)
	var out, errOut strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run() // as long as it takes: the test binary's own limit ends one that hangs
	var r bench.Report
	if bad := json.Unmarshal([]byte(out.String()), &r); err != nil || bad != nil {
		t.Fatalf("%v, %v\n%s\n%s", err, bad, out.String(), errOut.String())
	}
	e.RequireNone(t, base)
	return r
}

// A short bench of both loops counts its calls, and its report holds what was measured.
func TestBench(t *testing.T) {
	page := filepath.Join(t.TempDir(), "b.html")
	for name, load := range map[string][]string{
		"closed": {"--concurrency", "2"},
		"open":   {"--rate", "4", "--seed", "3"},
	} {
		r := benched(t, append(load, "--pool-size", "3", "--calls", "10", "--warmup", "2", "--upstream", "2", "--output-bytes", "5000", "--html", page)...)
		if len(r.Rows) != 1 {
			t.Fatalf("%s: %d rows", name, len(r.Rows))
		}
		row := r.Rows[0]
		s := row.Summary
		if s.Calls != 10 || s.Errors != 0 || s.Pool["hit"]+s.Pool["wait"]+s.Pool["cold"] != 10 || s.Throughput <= 0 || s.Run.P50 <= 0 {
			t.Errorf("%s: %+v", name, s)
		}
		if row.LifeCPU.Median <= 0 || row.Boot.P50 <= 0 || row.FrozenPSS <= 1<<20 || row.Frozen != 3 || len(row.Levels) == 0 {
			t.Errorf("%s: life cpu %v, boot %v, pss %d of %d, %d levels", name, row.LifeCPU, row.Boot, row.FrozenPSS, row.Frozen, len(row.Levels))
		}
		if r.Advice == nil || r.Advice.Text == "" || r.Advice.Booting <= 0 || !strings.Contains(r.Command, "--calls 10") {
			t.Errorf("%s: %+v %q", name, r.Advice, r.Command)
		}
	}
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(html), "<svg"); n < 2 {
		t.Errorf("%d charts", n)
	}
	for _, outside := range []string{"<script", "src=", "@import", "<link", "url("} {
		if strings.Contains(string(html), outside) {
			t.Errorf("the page has %q in it", outside)
		}
	}
}

// The floor takes its turns beside it, and the targets are judged.
func TestBenchAgainst(t *testing.T) {
	r := benched(t, "--against", "bare", "--rounds", "2", "--warm-calls", "2", "--life", "1s", "--idle", "4", "--calls", "4",
		"--pool-size", "2", "--concurrency", "2")
	if len(r.Rows) != 2 || r.Rows[0].Name != "thawpool" || r.Rows[1].Name != "bare" {
		t.Fatalf("%+v", r.Rows)
	}
	for _, row := range r.Rows {
		if row.WarmCalls != 4 || row.WarmP50.Rounds != 2 || row.Rate.Rounds != 2 || row.LifeCPU.Median <= 0 || row.FrozenPSS < 1<<20 {
			t.Errorf("%s: %d warm, %v, rate %v, cpu %v, pss %d", row.Name, row.WarmCalls, row.WarmP50, row.Rate, row.LifeCPU, row.FrozenPSS)
		}
	}
	if len(r.Targets) != 9 {
		t.Errorf("%d targets", len(r.Targets))
	}
	for _, tg := range r.Targets {
		if podman := strings.Contains(tg.What, "podman"); podman != (tg.Missing != "") || !podman && tg.Limit <= 0 {
			t.Errorf("%+v", tg)
		}
	}
}

// What being watched costs is told.
func TestBenchWatched(t *testing.T) {
	r := benched(t, "--against", "watched", "--rounds", "1", "--warm-calls", "2", "--life", "1s", "--idle", "0", "--calls", "4",
		"--pool-size", "2", "--concurrency", "2")
	if len(r.Rows) != 2 || r.Rows[1].Name != "watched" || r.Rows[1].LifeCPU.Median <= 0 {
		t.Fatalf("%+v", r.Rows)
	}
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "more CPU a life than without") {
		t.Error(notes)
	}
}

// Bad flags are told with what would be right, and nothing is started.
func TestBenchRefuses(t *testing.T) {
	e, base := env(t)
	if _, stderr, status := shell(t, e, "", "bench", "--against", "docker"); status != 1 || !strings.Contains(stderr, "bare, bwrap, podman, stock, watched") {
		t.Errorf("status %d, %q", status, stderr)
	}
	if _, stderr, status := shell(t, e, "", "bench", "--calls", "2", "--warmup", "0", "--code", "1 / 0"); status != 1 || !strings.Contains(stderr, "ZeroDivisionError") {
		t.Errorf("status %d, %q", status, stderr)
	}
	e.RequireNone(t, base)
}
