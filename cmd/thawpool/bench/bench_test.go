package bench

import (
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestSummarizeKnownValues(t *testing.T) {
	t.Parallel()
	samples := make([]Sample, 0, 101)
	for i := 1; i <= 100; i++ {
		pool := "hit"
		if i > 90 {
			pool = "wait"
		}
		samples = append(samples, Sample{At: time.Duration(i) * time.Millisecond, Latency: time.Duration(i) * time.Millisecond,
			Pool: pool, CPU: 2 * time.Millisecond})
	}
	samples = append(samples, Sample{At: 101 * time.Millisecond, Latency: time.Hour, Err: errors.New("lost")})
	s := Summarize(samples)
	near := func(name string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > want*0.002 {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	near("p50", s.Latency.P50, 50)
	near("p90", s.Latency.P90, 90)
	near("p99", s.Latency.P99, 99)
	near("max", s.Latency.Max, 100)
	near("hit rate", s.HitRate, 0.9)
	near("cpu", s.RunCPU, 2)
	if s.Calls != 101 || s.Errors != 1 || s.FirstError != "lost" || s.Pool["wait"] != 10 {
		t.Errorf("counts: %+v", s)
	}
}

func TestSummarizeNothingGood(t *testing.T) {
	t.Parallel()
	if s := Summarize([]Sample{{Err: errors.New("x")}}); s.Errors != 1 || s.Throughput != 0 || math.IsNaN(s.HitRate) {
		t.Errorf("%+v", s)
	}
	if s := Summarize(nil); s.Calls != 0 {
		t.Errorf("%+v", s)
	}
}

// The gaps of Poisson arrivals are exponential: mean 1/rate, and as wide as their mean.
func TestArrivalsArePoisson(t *testing.T) {
	t.Parallel()
	const rate, n = 200.0, 100000
	var at []time.Duration
	var sum, squares, last float64
	for a := range arrivals(rate, 7) {
		if len(at) == n {
			break
		}
		at = append(at, a)
		gap := a.Seconds() - last
		if gap < 0 {
			t.Fatal("arrivals go back in time")
		}
		last = a.Seconds()
		sum += gap
		squares += gap * gap
	}
	mean := sum / n
	deviation := math.Sqrt(squares/n - mean*mean)
	if math.Abs(mean*rate-1) > 0.02 || math.Abs(deviation*rate-1) > 0.03 {
		t.Errorf("mean %v, deviation %v, want %v", mean, deviation, 1/rate)
	}
	i := 0
	for again := range arrivals(rate, 7) {
		if again != at[i] {
			t.Fatal("the same seed gave other arrivals")
		}
		if i++; i == 100 {
			break
		}
	}
	if other := slices.Collect(first(arrivals(rate, 8), 1)); other[0] == at[0] {
		t.Error("another seed gave the same arrivals")
	}
}

func first[T any](all iter.Seq[T], n int) iter.Seq[T] {
	return func(yield func(T) bool) {
		for x := range all {
			if n--; n < 0 || !yield(x) {
				return
			}
		}
	}
}

// A load that is bounded by time ends with it, and its calls keep their order.
func TestLoadsEndWithTheirTime(t *testing.T) {
	for name, l := range map[string]Load{
		"closed": {Concurrency: 2, Duration: time.Second, Warmup: 3},
		"open":   {Rate: 20, Duration: time.Second, Warmup: 3, Seed: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := false
				l.Begin = func() { began = true }
				samples := Run(t.Context(), l, func(context.Context, int) Sample {
					time.Sleep(100 * time.Millisecond)
					return Sample{}
				})
				if len(samples) < 10 || len(samples) > 40 || !began || l.Rate == 0 && len(samples) != 20 {
					t.Errorf("%d samples, begun %v", len(samples), began)
				}
				for i, s := range samples {
					if s.At >= time.Second || i > 0 && s.At < samples[i-1].At {
						t.Errorf("call %d was due at %v", i, s.At)
					}
				}
			})
		})
	}
}

func TestClosedLoopKeepsItsConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		samples := Run(t.Context(), Load{Concurrency: 4, Calls: 40, Warmup: 8}, func(context.Context, int) Sample {
			n := now.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(10 * time.Millisecond) // the bubble's clock
			now.Add(-1)
			return Sample{Pool: "hit"}
		})
		s := Summarize(samples)
		if most.Load() != 4 || s.Calls != 40 {
			t.Errorf("most at once %d, calls %d", most.Load(), s.Calls)
		}
		if math.Abs(s.Throughput-400) > 1 {
			t.Errorf("throughput %v, want 400", s.Throughput)
		}
	})
}

// A slow answer must not hold back the arrivals behind it, and its lateness counts (no coordinated omission).
func TestOpenLoopCountsLateness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		samples := Run(t.Context(), Load{Rate: 100, Calls: 50, Seed: 3}, func(_ context.Context, i int) Sample {
			if i == 0 {
				time.Sleep(5 * time.Second)
			}
			return Sample{Pool: "hit"}
		})
		s := Summarize(samples)
		if s.Latency.P99 < 4900 || s.Latency.P50 > 1 {
			t.Errorf("latency %+v", s.Latency)
		}
	})
}

func TestRunStopsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	samples := Run(ctx, Load{Concurrency: 1, Calls: 1000}, func(context.Context, int) Sample {
		if n++; n == 5 {
			cancel()
		}
		return Sample{}
	})
	if len(samples) != 5 {
		t.Errorf("%d samples, want 5", len(samples))
	}
}
