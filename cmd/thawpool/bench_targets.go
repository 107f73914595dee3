package main

import (
	"context"
	"io"

	"github.com/thawpool/thawpool/cmd/thawpool/bench"
)

// targets measures what no turn does: memory, arrivals at half the sustained rate, idling, the front.
func (b *benchRun) targets(ctx context.Context, all []*contender, r *bench.Report) ([]bench.Target, error) {
	f := bench.Figures{IdleCores: -1, Idle: b.o.idle}
	for i, c := range all {
		row := &r.Rows[i]
		switch {
		case c.served != nil:
			if err := c.served.full(ctx); err != nil {
				return nil, err
			}
			if err := b.frozen(ctx, c.served, row); err != nil {
				return nil, err
			}
		case c.name == nameBare:
			n := max(b.app.cfg.Pool.Size, 1)
			pss, err := c.bare.waiting(n)
			if err != nil {
				return nil, err
			}
			row.FrozenPSS, row.Frozen = pss, n
		}
		switch c.name {
		case nameThawpool:
			f.Thawpool = row
		case nameBare:
			f.Floor = row
		case namePodman:
			f.Podman = row
		}
	}
	if err := b.halfLoad(ctx, all[0], &f); err != nil {
		return nil, err
	}
	if b.o.idle > 0 {
		share, err := b.idling(ctx)
		if err != nil {
			return nil, err
		}
		f.IdleCores = share
	}
	row, err := b.frontRow(ctx)
	f.Front = row.Summary.Throughput
	return bench.Targets(f), err
}

// halfLoad lets calls come at half the rate that the rounds sustained, through the server that made them.
func (b *benchRun) halfLoad(ctx context.Context, c *contender, f *bench.Figures) error {
	rate := f.Thawpool.Rate.Median / 2
	if rate == 0 {
		return nil
	}
	b.say("arrivals at half the sustained rate")
	if err := c.served.full(ctx); err != nil {
		return err
	}
	stop := c.served.herd.watch()
	samples := bench.Run(ctx, bench.Load{Rate: rate, Calls: max(b.o.calls, 1), Seed: b.o.seed}, c.served.sample)
	f.Thawpool.Levels = stop()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s := bench.Summarize(samples)
	f.Thawpool.Summary, f.Thawpool.Samples, f.HalfLoad = s, samples, &s
	b.note("the table of calls is thawpool under %d independent arrivals at %.1f a second, half of what the rounds sustained", s.Calls, rate)
	return nil
}

// idling is how many processors many frozen sandboxes take together, their daemons and server included.
func (b *benchRun) idling(ctx context.Context) (float64, error) {
	b.say("%d frozen ones", b.o.idle)
	many := &benchRun{app: b.app, o: b.o, err: b.err, pass: append(append([]string{}, b.pass...), poolOf(b.o.idle)...)}
	old := b.app.cfg.Pool.Size
	b.app.cfg.Pool.Size = b.o.idle
	defer func() { b.app.cfg.Pool.Size = old }()
	s, err := many.serve(ctx, io.Discard)
	if err != nil {
		return 0, err
	}
	var row bench.Row
	err = many.frozen(ctx, s, &row)
	if closing := s.close(); err == nil {
		err = closing
	}
	return row.IdleCores, err
}
