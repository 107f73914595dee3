package bench

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/thawpool/thawpool/pool"
)

func TestSpread(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   []float64
		want Spread
		text string
	}{
		{nil, Spread{}, "-"},
		{[]float64{3}, Spread{3, 3, 3, 1}, "3.00"},
		{[]float64{4, 2}, Spread{3, 2, 4, 2}, "3.00 [2.00–4.00]"},
		{[]float64{150, 9, 70}, Spread{70, 9, 150, 3}, "70.0 [9.00–150]"},
	} {
		if got := SpreadOf(c.in); got != c.want || got.String() != c.text {
			t.Errorf("%v: %+v %s", c.in, got, got)
		}
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	v := []float64{50, 10, 40, 20, 30}
	for q, want := range map[float64]float64{0: 10, 0.2: 10, 0.21: 20, 0.5: 30, 0.9: 50, 1: 50} {
		if got := Quantile(v, q); got != want {
			t.Errorf("%v: %v, want %v", q, got, want)
		}
	}
	if v[0] != 50 || Quantile(nil, 0.5) != 0 {
		t.Error("the values were changed, or none gave one")
	}
}

// The quantiles are those of R's qpois.
func TestPoissonQuantile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mean, q float64
		want    int
	}{
		{0, 0.99, 0}, {0.1, 0.99, 1}, {1, 0.5, 1}, {1, 0.99, 4}, {2, 0.99, 6}, {4, 0.95, 8}, {10, 0.99, 18}, {100, 0.99, 124}, {1000, 0.99, 1074},
	} {
		if got := PoissonQuantile(c.mean, c.q); got != c.want {
			t.Errorf("mean %v, q %v: %d, want %d", c.mean, c.q, got, c.want)
		}
	}
}

func TestRecommend(t *testing.T) {
	t.Parallel()
	cfg := pool.Default()
	d := Demand{Rate: 5, Boot: 200 * time.Millisecond, Run: 20 * time.Millisecond, Destroy: 30 * time.Millisecond, Seed: 1}
	a, err := Recommend(cfg, d)
	if err != nil {
		t.Fatal(err)
	}
	if !a.Possible || a.Booting != 1 || a.Size < 4 || a.Size > 8 || a.Margin != 3 || a.HitRate < 0.99 {
		t.Errorf("%+v", a)
	}
	for _, want := range []string{"1.0 boots in flight", "at most 4 calls", "--pool-size "} {
		if !strings.Contains(a.Text, want) {
			t.Errorf("no %q in %s", want, a.Text)
		}
	}
	d.Rate = 10 // what two boots side by side can make, and no more
	if a, err = Recommend(cfg, d); err != nil || a.Possible || !strings.Contains(a.Text, "No size suffices") {
		t.Errorf("%+v %v", a, err)
	}
	d.Rate = 9 // near it: more than one boot time's arrivals are needed
	if a, err = Recommend(cfg, d); err != nil || !a.Possible || a.Size <= PoissonQuantile(1.8, 0.99) {
		t.Errorf("%+v %v", a, err)
	}
}

func TestTargets(t *testing.T) {
	t.Parallel()
	one := func(v float64) Spread { return SpreadOf([]float64{v}) }
	floor := Row{WarmP50: one(0.5), LifeCPU: one(100), Rate: one(10), FrozenPSS: 10 << 20}
	thaw := Row{WarmP50: one(2), Warm: Percentiles{P99: 5}, LifeCPU: one(150), Rate: one(5), FrozenPSS: 11 << 20}
	podman := Row{Rate: one(1)}
	got := Targets(Figures{Floor: &floor, Thawpool: &thaw, Podman: &podman, HalfLoad: &Summary{HitRate: 0.995}, IdleCores: 0.02, Idle: 100, Front: 6000})
	for i, want := range []struct {
		measured float64
		met      bool
	}{{4, false}, {10, true}, {1.5, true}, {0.5, false}, {5, true}, {99.5, true}, {1.1, true}, {2, false}, {6000, true}} {
		if math.Abs(got[i].Measured-want.measured) > 1e-9 || got[i].Met != want.met || got[i].Missing != "" {
			t.Errorf("%d: %+v, want %+v", i, got[i], want)
		}
	}
	for _, tg := range Targets(Figures{IdleCores: -1}) {
		if tg.Missing == "" || tg.Met {
			t.Errorf("nothing was measured: %+v", tg)
		}
	}
}

func TestParseProcess(t *testing.T) {
	t.Parallel()
	line := "1234 (a) b (c) S 77 1234 1234 0 -1 4194304 100 200 0 0 11 22 33 44 20 0 1 0 500 1 1"
	p, err := parseProcess([]byte(line))
	if err != nil || p != (Process{1234, 77, "a) b (c", 1100 * time.Millisecond}) {
		t.Errorf("%+v %v", p, err)
	}
	for _, bad := range []string{"", "1 (x", "1 (x) S 2", "x (y) " + strings.Repeat("1 ", 20)} {
		if _, err := parseProcess([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestTrees(t *testing.T) {
	t.Parallel()
	all := Processes{}
	for _, p := range []Process{{10, 1, "sh", 1}, {20, 10, "bench", 2}, {30, 20, "serve", 4}, {40, 30, "keeper", 8}, {41, 40, "shim", 16}, {50, 1, "keeper", 32}, {51, 50, "x", 64}} {
		all[p.PID] = p
	}
	if got := all.TreeCPU(30, 41, 50); got != 4+8+16+32+64 {
		t.Error(got)
	}
	if got := all.Top(41, 20); got != 30 {
		t.Error(got)
	}
	if got := all.Top(51, 20); got != 50 {
		t.Error(got)
	}
}

func TestParseBusyAndPSS(t *testing.T) {
	t.Parallel()
	busy, err := parseBusy("cpu  100 20 30 4000 500 6 7 800 90 10\ncpu0 1 1 1 1 1 1 1 1 0 0\n")
	if err != nil || busy != 1630*time.Millisecond {
		t.Error(busy, err)
	}
	if _, err := parseBusy("intr 1"); err == nil {
		t.Error("no cpu line was read")
	}
	n, err := parsePSS("00400000-7fff ---p 00000000 00:00 0 [rollup]\nRss:  9999 kB\nPss:  1234 kB\nPss_Anon: 5 kB\n")
	if err != nil || n != 1234<<10 {
		t.Error(n, err)
	}
	if _, err := parsePSS("Rss: 1 kB\n"); err == nil {
		t.Error("no Pss line was read")
	}
}

// What the running machine says can be read.
func TestReadsThisMachine(t *testing.T) {
	t.Parallel()
	all, err := ReadProcesses()
	if err != nil || all[os.Getpid()].Parent != os.Getppid() {
		t.Errorf("%+v %v", all[os.Getpid()], err)
	}
	if n, err := PSS(os.Getpid()); err != nil || n < 1<<20 {
		t.Error(n, err)
	}
	if busy, err := MachineBusy(); err != nil || busy <= 0 {
		t.Error(busy, err)
	}
}
