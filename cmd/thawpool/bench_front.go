package main

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/actors/front"
	"github.com/thawpool/thawpool/cmd/thawpool/bench"
	"github.com/thawpool/thawpool/pool"
	"github.com/thawpool/thawpool/runtime/fake"
)

const (
	frontCallers = 64    // as the target says
	frontCalls   = 20000 // some seconds
	frontWarmup  = 2000
)

// newBenchFrontCommand serves MCP with sandboxes that are none and answer at once: all that is left is the front, the
// actors, the pool and the frames.
func newBenchFrontCommand() *cobra.Command {
	return &cobra.Command{
		Use:         benchFrontName,
		Hidden:      true,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{unconfigured: "true"},
		RunE:        func(cmd *cobra.Command, _ []string) error { return serveFake(cmd) },
	}
}

func serveFake(cmd *cobra.Command) error {
	cfg := pool.Config{
		Size: 4 * frontCallers, Max: 16 * frontCallers, Refill: frontCallers, MaxAge: time.Hour,
		Empty: pool.EmptyWait, Queue: 16 * frontCallers, QueueWait: time.Minute,
	}
	sys, err := actors.Start(actors.Config{
		Profiles: map[string]actors.Profile{actors.DefaultProfile: {Runtime: &fake.Runtime{}, Pool: cfg}}, Log: zerolog.Nop(),
	})
	if err != nil {
		return err
	}
	f, err := front.New(front.Config{
		Runner: sys, Version: versionText(), Timeout: actors.DefaultTimeout, MaxTimeout: actors.DefaultMaxTimeout, MaxInFlight: 4 * frontCallers, Log: zerolog.Nop(),
	})
	if err == nil {
		err = f.Serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
	}
	return errors.Join(err, sys.Close(context.WithoutCancel(cmd.Context())))
}

// front measures that over stdio.
func (b *benchRun) front(ctx context.Context) (bench.Report, error) {
	row, err := b.frontRow(ctx)
	if err != nil {
		return bench.Report{}, err
	}
	b.note("the front alone: no sandbox. Client and server share the machine's processors.")
	return bench.Report{
		Rows: []bench.Row{row}, Targets: frontTarget(row), Notes: b.notes,
	}, nil
}

func frontTarget(row bench.Row) []bench.Target {
	all := bench.Targets(bench.Figures{IdleCores: -1, Front: row.Summary.Throughput})
	return all[len(all)-1:]
}
