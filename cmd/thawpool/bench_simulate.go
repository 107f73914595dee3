package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/thawpool/thawpool/cmd/thawpool/bench"
	"github.com/thawpool/thawpool/pool"
)

const (
	simulatedSpan  = 10 * time.Minute
	simulatedDay   = 24 * time.Minute // an hour as a minute: Auto's times are short against that too
	simulatedBurst = 30 * time.Second
)

// poolOf are the flags of a pool that keeps n frozen.
func poolOf(n int) []string {
	return []string{fmt.Sprintf("--pool-size=%d", n), fmt.Sprintf("--pool-max=%d", n+8)}
}

// benchSimulate shows how the configured pool does under several patterns of arrivals, in simulated time.
func (a *app) benchSimulate(w io.Writer, o *benchOptions) error {
	cfg := a.cfg.Pool
	capacity := float64(cfg.Refill) / o.boot.Seconds()
	rate := o.rate
	if rate == 0 {
		rate = capacity / 2
	}
	patterns := []struct {
		name string
		at   pool.Arrivals
	}{
		{"steady", pool.Steady(rate, simulatedSpan)},
		{"Poisson", pool.Poisson(rate, simulatedSpan, o.seed)},
		{fmt.Sprintf("bursts of %d", 3*max(cfg.Size, 1)), pool.Bursts(3*max(cfg.Size, 1), simulatedBurst, simulatedSpan)},
		{"night and morning", pool.Days(rate, simulatedDay, 2*simulatedDay, o.seed)},
	}
	size := fmt.Sprint(cfg.Size)
	if cfg.Auto {
		size = fmt.Sprintf("auto (%d to %d)", cfg.SizeMin, cfg.SizeMax)
	}
	fmt.Fprintf(w, "pool size %s, max %d, refill %d, when empty %s; boot %v, run %v; %.1f calls a second of at most %.1f\n\n",
		size, cfg.Max, cfg.Refill, cfg.Empty, o.boot, o.run, rate, capacity)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "arrivals\tcalls\thit\twait p50 ms\tp99 ms\tmax ms\trejected\tboots\tready on average\tgreatest size\t")
	for _, p := range patterns {
		r, err := pool.Simulate(cfg, pool.Workload{Arrivals: p.at, Boot: o.boot, Run: o.run, Destroy: destroyTime, Spread: 0.2, Seed: o.seed})
		if err != nil {
			return fmt.Errorf("simulate %s: %w", p.name, err)
		}
		fmt.Fprintf(tw, "%s\t%d\t%.2f %%\t%d\t%d\t%d\t%d\t%d\t%.1f\t%d\t\n", p.name, r.Calls, 100*r.HitRate,
			r.WaitP50.Milliseconds(), r.WaitP99.Milliseconds(), r.WaitMax.Milliseconds(), r.Rejected, r.Boots, r.ReadyMean, r.SizeMax)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	advice, err := bench.Recommend(cfg, bench.Demand{Rate: rate, Boot: o.boot, Run: o.run, Destroy: destroyTime, Seed: o.seed})
	if err == nil {
		_, err = fmt.Fprintf(w, "\n%s\n", advice.Text)
	}
	return err
}
