package actors

import (
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/thawpool/thawpool/pool"
	"github.com/thawpool/thawpool/runtime/fake"
)

// BenchmarkRun is a call from Run to its answer on sandboxes that answer at once, at concurrency 64: what the actors, the
// pool and the frames cost.
func BenchmarkRun(b *testing.B) {
	cfg := pool.Config{
		Size: 128, Max: 512, Refill: 64, MaxAge: time.Hour, Empty: pool.EmptyWait, Queue: 1024, QueueWait: time.Minute,
	}
	rt := &fake.Runtime{}
	sys, err := Start(Config{Profiles: map[string]Profile{"default": {Runtime: rt, Pool: cfg}}, Log: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	b.SetParallelism(32) // times GOMAXPROCS
	b.ReportAllocs()
	start, cpu := time.Now(), cpuTime(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if r := sys.Run(context.Background(), Request{ID: "r", Code: "1"}); r.Status != StatusSuccess {
				b.Errorf("%+v", r)
			}
		}
	})
	b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "calls/s")
	b.ReportMetric(float64((cpuTime(b)-cpu).Nanoseconds())/float64(b.N), "cpu-ns/op")
	if err := sys.Close(context.Background()); err != nil {
		b.Error(err)
	}
	st := sys.Stats().Profiles["default"]
	b.ReportMetric(float64(st.Hits)/float64(b.N), "hits")
}

// cpuTime is what the process has used so far: on a machine that others use as well it says more than the rate.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
