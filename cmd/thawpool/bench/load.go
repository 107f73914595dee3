// Package bench is the arithmetic and the load of `thawpool bench`: closed and open loops over any call, percentiles,
// medians over rounds, the advice on pool sizes, and the reports. It knows nothing of how a call is made.
package bench

import (
	"cmp"
	"context"
	"iter"
	"math/rand/v2"
	"slices"
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
	Err     error
}

// Load says how calls arrive. Exactly one of Concurrency and Rate is set, and at least one of Calls and Duration.
type Load struct {
	Concurrency int           // closed loop: so many callers, each one call after another
	Rate        float64       // open loop: Poisson arrivals a second, whether or not calls have returned
	Calls       int           // how many are counted at most; 0 means no bound
	Duration    time.Duration // for how long counted calls begin; 0 means no bound
	Warmup      int           // how many go before and are not counted
	Seed        uint64        // of the arrivals, so that a run can be repeated
	Progress    func(done int)
	Begin       func() // called between warm-up and counted calls; may be nil
}

// Call makes call number i and fills everything but At and Latency.
type Call func(ctx context.Context, i int) Sample

// Run makes the calls and returns the counted ones in the order they were due. It stops early when ctx ends.
func Run(ctx context.Context, l Load, call Call) []Sample {
	warm := l
	warm.Calls, warm.Duration, warm.Progress = l.Warmup, 0, nil
	warm.Seed++ // a rehearsal of the very arrivals would prove less
	if l.Warmup > 0 {
		dispatch(ctx, warm, call)
	}
	if l.Begin != nil {
		l.Begin()
	}
	return dispatch(ctx, l, call)
}

// due tells whether counted call number i may begin at that time after the start.
func (l Load) due(i int, at time.Duration) bool {
	return (l.Calls == 0 || i < l.Calls) && (l.Duration == 0 || at < l.Duration)
}

func dispatch(ctx context.Context, l Load, call Call) []Sample {
	var samples []Sample
	start := time.Now()
	var mu sync.Mutex
	one := func(i int, due time.Duration) {
		s := call(ctx, i)
		s.At, s.Latency = due, time.Since(start)-due
		mu.Lock()
		defer mu.Unlock()
		samples = append(samples, s)
		if l.Progress != nil {
			l.Progress(len(samples))
		}
	}
	if l.Rate > 0 {
		openLoop(ctx, l, start, one)
	} else {
		closedLoop(ctx, l, start, one)
	}
	slices.SortStableFunc(samples, func(a, b Sample) int { return cmp.Compare(a.At, b.At) })
	return samples
}

func closedLoop(ctx context.Context, l Load, start time.Time, one func(int, time.Duration)) {
	var mu sync.Mutex
	next := 0
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil || !l.due(next, time.Since(start)) {
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
}

func openLoop(ctx context.Context, l Load, start time.Time, one func(int, time.Duration)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	i := 0
	for due := range arrivals(l.Rate, l.Seed) {
		if !l.due(i, due) {
			return
		}
		timer.Reset(max(0, due-time.Since(start)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		n := i
		wg.Go(func() { one(n, due) })
		i++
	}
}

// arrivals are the times of Poisson arrivals of the given rate a second, without end: exponential gaps, as -ln(U)/rate.
func arrivals(rate float64, seed uint64) iter.Seq[time.Duration] {
	rng := rand.New(rand.NewPCG(seed, seed^0x9e3779b97f4a7c15))
	return func(yield func(time.Duration) bool) {
		for t := rng.ExpFloat64() / rate; yield(time.Duration(t * float64(time.Second))); t += rng.ExpFloat64() / rate {
		}
	}
}
