package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/thawpool/thawpool/actors/catalog"
	"github.com/thawpool/thawpool/actors/front"
)

const (
	// endTime is how long the process may live after its input has ended, running calls and the destroying of sandboxes
	// included: clients kill after two seconds.
	endTime = 1800 * time.Millisecond
	// stopTime is how long destroying may take where nobody counts seconds.
	stopTime = 10 * time.Second
	// spareInFlight are calls taken in beyond what pool and queue hold: the pool's refusal says more than the front's.
	spareInFlight = 64
	// outputKeep is how long the whole of an output that was cut can be read.
	outputKeep = 10 * time.Minute
	// outputsMost bounds all that is kept of outputs, bytes on disk.
	outputsMost = 256 << 20
)

func newServeCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Serve MCP over stdin and stdout: what to put into a client's config",
		Long: `Serve MCP over stdin and stdout, with the one tool run_python. Logs go to stderr. It answers at once; calls wait
until the pool has a sandbox for them. It ends with its input, or with a signal; a second signal ends it at once.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd) },
	}
}

func (a *app) serve(cmd *cobra.Command) error {
	if err := a.drop(); err != nil {
		return err
	}
	defer a.freeLog()()
	ctx := a.log.WithContext(cmd.Context())
	outputs, err := front.NewSpool(filepath.Join(a.cfg.StateDir, "outputs"), outputsMost, outputKeep)
	if err != nil {
		return err
	}
	defer outputs.Close()
	var face atomic.Pointer[front.Front]
	if a.inside, err = a.openInside(); err != nil {
		return err
	}
	defer a.inside.Close()
	a.hub, err = a.openHub(func(*catalog.Snapshot) {
		if f := face.Load(); f != nil {
			f.ToolsChanged()
		}
	})
	if err != nil {
		return err
	}
	o := newOpener(ctx, a.cfg.Pool.QueueWait, a.openChecked)
	ended := time.Now()
	runner, err := a.inside.start(a, o)
	var f *front.Front
	if err == nil {
		f, err = front.New(a.frontConfig(runner, outputs, func() { ended = time.Now() }))
	}
	if err == nil {
		face.Store(f)
		err = f.Serve(ctx, cmd.InOrStdin(), cmd.OutOrStdout())
	}
	within := stopTime // after a signal
	if ctx.Err() == nil {
		within = endTime - time.Since(ended)
	}
	return errors.Join(err, a.closeAll(ctx, o, within))
}

func (a *app) frontConfig(r front.Runner, outputs *front.Spool, onEnd func()) front.Config {
	c := front.Config{
		Runner:       r,
		Version:      versionText(),
		Timeout:      a.cfg.Timeout,
		MaxTimeout:   a.cfg.MaxTimeout,
		Profiles:     a.cfg.profileNames(),
		MaxInFlight:  spareInFlight,
		Mode:         front.Mode(a.cfg.OutputMode),
		Servers:      func() string { return a.hub.Snapshot().Description(front.MaxSummary) },
		Capabilities: a.capabilities,
		Outputs:      outputs,
		OnEnd:        onEnd,
		Log:          a.log,
	}
	for _, p := range a.cfg.profiles() {
		c.MaxInFlight += p.Pool.Max + p.Pool.Queue
	}
	if a.cfg.Servers.Manage {
		c.Manager = a.hub
	}
	return c
}

// closeAll destroys what is left and stops the servers that were called, in the time there is.
func (a *app) closeAll(ctx context.Context, s sandboxes, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	err := s.Close(ctx)
	if a.hub != nil {
		err = errors.Join(err, a.hub.Close(ctx))
	}
	if errors.Is(err, context.DeadlineExceeded) {
		// The daemon's keeper removes what is left once this process has gone.
		a.log.Warn().Dur("within_ms", within).Msg("not everything was destroyed in time")
		return nil
	}
	return err
}

// openChecked brings sandboxes up, or tells what the machine lacks in doctor's words.
func (a *app) openChecked(ctx context.Context) (sandboxes, error) {
	began := time.Now()
	s, err := a.tryOpen(ctx)
	switch {
	case err == nil:
		a.log.Info().Dur("took_ms", time.Since(began)).Msg("sandboxes are coming up")
	case ctx.Err() == nil:
		a.log.Error().Err(err).Msg("sandboxes cannot be had")
	}
	return s, err
}

// capabilities is the text of the resource that tells what code can do here.
func (a *app) capabilities() string {
	l := a.cfg.chosen().Limits
	return fmt.Sprintf(`Python runs in a sandbox of its own for each call, which is destroyed after it.
No network. uid 65534. The system is read-only; /tmp and /workspace are in memory, noexec, %s each.
Memory %s, %d processes and threads, %v for a call (at most %v), %s each of stdout and stderr in an answer.
Top-level await works, and so does asyncio.run. The repr of a last expression comes back as value.
Output that was cut can be read whole as the resource named in the answer, for %v.
%s%s
`, sizeText(l.Tmp), sizeText(l.Memory), l.PIDs, a.cfg.Timeout, a.cfg.MaxTimeout, sizeText(a.cfg.OutputMax), outputKeep,
		a.cfg.describeProfiles(), a.hub.Snapshot().CapabilitySummary())
}
