// Package bench is the arithmetic and the load of `thawpool bench`: closed and open loops over any call, percentiles,
// and the reports. It knows nothing of how a call is made.
package bench

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Sample is one call as the client saw it, with what the receipt says of it.
type Sample struct {
	At      time.Duration // when the call was due, from the start of the load
	Latency time.Duration // from when it was due to its answer, so that an open loop counts its own lateness
	Pool    string        // hit, wait or cold
	Queue   time.Duration
	Thaw    time.Duration
	Run     time.Duration
	CPU     time.Duration // of the run in the sandbox
	Ready   int           // frozen sandboxes in the pool after the answer; -1 when not known
	Err     error
}

// Load says how calls arrive. Exactly one of Concurrency and Rate is set.
type Load struct {
	Concurrency int     // closed loop: so many callers, each one call after another
	Rate        float64 // open loop: Poisson arrivals a second, whether or not calls have returned
	Calls       int     // how many are counted
	Warmup      int     // how many go before and are not counted
	Seed        uint64  // of the arrivals, so that a run can be repeated
	Progress    func(done int)
}

// Call makes call number i and fills everything but At and Latency.
type Call func(ctx context.Context, i int) Sample

// Run makes the calls and returns the counted ones in the order they were due. It stops early when ctx ends.
func Run(ctx context.Context, l Load, call Call) []Sample {
	warm := l
	warm.Calls, warm.Progress = l.Warmup, nil
	if l.Warmup > 0 {
		dispatch(ctx, warm, call)
	}
	return dispatch(ctx, l, call)
}

func dispatch(ctx context.Context, l Load, call Call) []Sample {
	samples := make([]Sample, l.Calls)
	start := time.Now()
	var mu sync.Mutex
	done := 0
	one := func(i int, due time.Duration) {
		s := call(ctx, i)
		s.At, s.Latency = due, time.Since(start)-due
		mu.Lock()
		defer mu.Unlock()
		samples[i] = s
		if done++; l.Progress != nil {
			l.Progress(done)
		}
	}
	var n int
	if l.Rate > 0 {
		n = openLoop(ctx, l, start, one)
	} else {
		n = closedLoop(ctx, l, start, one)
	}
	return samples[:n]
}

// closedLoop returns how many calls were made.
func closedLoop(ctx context.Context, l Load, start time.Time, one func(int, time.Duration)) int {
	var mu sync.Mutex
	next := 0
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if next >= l.Calls || ctx.Err() != nil {
			return 0, false
		}
		next++
		return next - 1, true
	}
	var wg sync.WaitGroup
	for range l.Concurrency {
		wg.Go(func() {
			for i, ok := take(); ok; i, ok = take() {
				one(i, time.Since(start))
			}
		})
	}
	wg.Wait()
	return next
}

func openLoop(ctx context.Context, l Load, start time.Time, one func(int, time.Duration)) int {
	var wg sync.WaitGroup
	defer wg.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i, due := range Arrivals(l.Rate, l.Calls, l.Seed) {
		timer.Reset(max(0, due-time.Since(start)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return i
		}
		wg.Go(func() { one(i, due) })
	}
	return l.Calls
}

// Arrivals are the times of n Poisson arrivals of the given rate a second: exponential gaps, as -ln(U)/rate.
func Arrivals(rate float64, n int, seed uint64) []time.Duration {
	rng := rand.New(rand.NewPCG(seed, seed^0x9e3779b97f4a7c15)) //nolint:gosec // arrivals, not secrets
	at := make([]time.Duration, n)
	t := 0.0
	for i := range at {
		t += rng.ExpFloat64() / rate
		at[i] = time.Duration(t * float64(time.Second))
	}
	return at
}
