package pool

import (
	"math"
	"testing"
	"time"
)

// typical is what one sandbox takes on a small machine: a boot of 200 ms, a short run, a removal.
func typical(a Arrivals) Workload {
	return Workload{Arrivals: a, Boot: 200 * time.Millisecond, Run: 50 * time.Millisecond, Destroy: 30 * time.Millisecond, Spread: 0.2, Seed: 1}
}

func simulate(t *testing.T, cfg Config, w Workload) Report {
	t.Helper()
	r, err := Simulate(cfg, w)
	if err != nil {
		t.Fatal(err)
	}
	if r.Calls != len(w.Arrivals) || r.Hits+r.Waits+r.Colds+r.Rejected != r.Calls {
		t.Fatalf("calls do not add up: %+v", r)
	}
	return r
}

func TestHitRates(t *testing.T) {
	t.Parallel()
	auto, four := Default(), Default()
	four.Size = 4
	auto.Auto, auto.SizeMin, auto.SizeMax, auto.Max = true, 1, 32, 48
	day := 24 * time.Minute // shortened; the holds of Auto are long against it all the same
	for name, c := range map[string]struct {
		cfg     Config
		w       Workload
		least   float64 // hit rate
		longest time.Duration
	}{
		// Two boots side by side in 200 ms make 10 sandboxes a second.
		"steady at half of what the refill makes":  {Default(), typical(Steady(5, 5*time.Minute)), 1, 0},
		"Poisson at half of what the refill makes": {Default(), typical(Poisson(5, 10*time.Minute, 1)), 0.995, time.Second},
		"Poisson at a fifth, size 4":               {four, typical(Poisson(2, 10*time.Minute, 2)), 0.99, time.Second},
		"bursts of 3× the pool":                    {four, typical(Bursts(12, 10*time.Second, 5*time.Minute)), 0.33, 2 * time.Second},
		"night and morning":                        {Default(), typical(Days(5, day, 2*day, 3)), 0.99, time.Second},
		"auto, Poisson at half":                    {auto, typical(Poisson(5, 10*time.Minute, 1)), 0.99, time.Second},
		"auto, bursts: all but the first":          {auto, typical(Bursts(24, 10*time.Second, 5*time.Minute)), 0.97, 2 * time.Second},
		"auto, night and morning":                  {auto, typical(Days(5, day, 2*day, 3)), 0.99, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := simulate(t, c.cfg, c.w)
			t.Logf("hits %.4f of %d, wait p99 %v max %v, ready %.1f, size ≤ %d", r.HitRate, r.Calls, r.WaitP99, r.WaitMax, r.ReadyMean, r.SizeMax)
			if r.HitRate < c.least {
				t.Errorf("hit rate %.4f, want at least %.4f", r.HitRate, c.least)
			}
			if r.WaitMax > c.longest {
				t.Errorf("longest wait %v, want at most %v", r.WaitMax, c.longest)
			}
			if r.Rejected > 0 {
				t.Errorf("%d rejected: %v", r.Rejected, r.Reasons)
			}
		})
	}
}

// An overload is refused by the queue's bounds; what is served keeps its order of magnitude.
func TestOverload(t *testing.T) {
	t.Parallel()
	cfg := Default()
	cfg.QueueWait = 2 * time.Second
	r := simulate(t, cfg, typical(Steady(30, time.Minute)))
	if r.Rejected == 0 || r.WaitMax > cfg.QueueWait {
		t.Errorf("%+v", r)
	}
	if served := r.Calls - r.Rejected; served < 9*60 {
		t.Errorf("%d served in a minute, the refill makes 10 a second", served)
	}
}

// Cold mode bounds the wait by one boot while Max allows.
func TestColdBoundsTheWait(t *testing.T) {
	t.Parallel()
	cfg := Default()
	cfg.Empty, cfg.Max = EmptyCold, 32
	w := typical(Bursts(20, 10*time.Second, time.Minute))
	r := simulate(t, cfg, w)
	if longest := w.Boot * 12 / 10; r.WaitMax > longest {
		t.Errorf("longest wait %v, a boot takes at most %v", r.WaitMax, longest)
	}
	if r.Colds == 0 {
		t.Error("no cold starts")
	}
}

func TestColdStartOfASimulation(t *testing.T) {
	t.Parallel()
	w := typical(Steady(5, time.Minute))
	w.Cold = true
	if r := simulate(t, Default(), w); r.Waits == 0 || r.HitRate < 0.99 {
		t.Errorf("%d waits, hit rate %.3f", r.Waits, r.HitRate)
	}
}

func TestSimulateIsRepeatable(t *testing.T) {
	t.Parallel()
	a := simulate(t, Default(), typical(Poisson(8, time.Minute, 7)))
	b := simulate(t, Default(), typical(Poisson(8, time.Minute, 7)))
	if a.Hits != b.Hits || a.WaitMax != b.WaitMax || a.ReadyMean != b.ReadyMean || len(a.Levels) != len(b.Levels) {
		t.Errorf("%+v\n%+v", a, b)
	}
	if n := len(a.Levels); n < 100 || n > maxLevels {
		t.Errorf("%d levels", n)
	}
	if _, err := Simulate(Config{}, Workload{}); err == nil {
		t.Error("a bad configuration is simulated")
	}
	if r := simulate(t, Default(), typical(nil)); r.HitRate != 1 {
		t.Errorf("no calls: hit rate %v", r.HitRate)
	}
}

func TestArrivals(t *testing.T) {
	t.Parallel()
	span := 1000 * time.Second
	if n := len(Steady(3, span)); n != 3000 {
		t.Errorf("steady: %d", n)
	}
	if n := len(Bursts(7, 10*time.Second, span)); n != 700 {
		t.Errorf("bursts: %d", n)
	}
	poisson := Poisson(3, span, 1)
	if n := float64(len(poisson)); math.Abs(n-3000) > 4*math.Sqrt(3000) {
		t.Errorf("Poisson: %v calls, expected 3000", n)
	}
	var sum, squares float64 // of the gaps, whose mean and deviation are equal
	for i := 1; i < len(poisson); i++ {
		g := (poisson[i] - poisson[i-1]).Seconds()
		sum, squares = sum+g, squares+g*g
	}
	n := float64(len(poisson) - 1)
	mean := sum / n
	if dev := math.Sqrt(squares/n - mean*mean); math.Abs(dev/mean-1) > 0.1 {
		t.Errorf("Poisson gaps: mean %v, deviation %v", mean, dev)
	}
	night, noon := 0, 0
	for _, at := range Days(10, span, span, 1) {
		switch {
		case at < span/4 || at > span*3/4:
			night++
		default:
			noon++
		}
	}
	if night != 0 || math.Abs(float64(noon)-10*1000/math.Pi) > 300 {
		t.Errorf("days: %d at night, %d by day", night, noon)
	}
}

func TestRank(t *testing.T) {
	t.Parallel()
	var d []time.Duration
	for i := 1; i <= 100; i++ {
		d = append(d, time.Duration(i))
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 50, 0.9: 90, 0.99: 99, 1: 100} {
		if got := rank(d, q); got != want {
			t.Errorf("rank %v: %d, want %d", q, got, want)
		}
	}
	if rank(nil, 0.5) != 0 || rank(d[:1], 0.99) != 1 {
		t.Error("edges")
	}
}

func TestSizer(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	s := NewSizer(2, 1, 20, 2)
	if got := s.Size(now); got != 2 {
		t.Errorf("start: %d", got)
	}
	for range 8 {
		s.Arrive(now, time.Second)
	}
	if got := s.Size(now); got != 9 {
		t.Errorf("a burst of 8 asks for %d at once, want 9", got)
	}
	if got := s.Size(now.Add(autoHold - time.Second)); got != 9 {
		t.Errorf("held: %d", got)
	}
	if due := s.Due(); !due.Equal(now.Add(autoHold)) {
		t.Errorf("due %v", due)
	}
	for i, want := range []int{9, 4, 2, 1, 1} {
		if got := s.Size(now.Add(time.Duration(i+1) * autoHold)); got != want {
			t.Errorf("after %d holds: %d, want %d", i+1, got, want)
		}
	}
	if !s.Due().IsZero() {
		t.Error("nothing is left to fall")
	}
	later := now.Add(1000 * time.Hour)
	for range 100 {
		s.Arrive(later, time.Second)
	}
	if got := s.Size(later); got != 20 {
		t.Errorf("bound: %d", got)
	}
	// One call each second, a boot of 3 s, two side by side: three orders are never through; two lanes fall behind.
	s = NewSizer(1, 1, 50, 4)
	for i := range 60 {
		s.Arrive(later.Add(time.Duration(i)*time.Second), 3*time.Second)
	}
	if got := s.Size(later.Add(time.Minute)); got != 4 {
		t.Errorf("rate 1/s, boot 3 s: %d, want 3 and one to spare", got)
	}
}
