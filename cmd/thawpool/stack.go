package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/rs/zerolog"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/runtime/ctrd"
	"github.com/thawpool/thawpool/runtime/daemon"
	"github.com/thawpool/thawpool/runtime/host"
	"github.com/thawpool/thawpool/runtime/local"
)

// stack is a running system with the runtime below it.
type stack struct {
	*actors.System
	runtime *ctrd.Runtime
}

// Close implements sandboxes. What it has not done when ctx ends goes on as long as the process lives.
func (s *stack) Close(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- errors.Join(s.System.Close(ctx), s.runtime.Close()) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tryOpen looks whether sandboxes can run here, in less than a second, brings daemon and image up, which takes longer the
// first time, and starts the system.
func (a *app) tryOpen(ctx context.Context) (sandboxes, error) {
	if err := host.FirstFailure(host.PreflightIn(os.Geteuid(), a.cfg.BinDir, a.cfg.StateDir)); err != nil {
		return nil, err
	}
	rt, err := ctrd.New(ctrd.Config{
		Connect:   a.connect,
		Limits:    a.cfg.Limits,
		Preload:   a.cfg.Preload,
		Runtime:   a.runtimeName(),
		BinDir:    a.cfg.BinDir,
		ShimTasks: a.cfg.ShimTasks,
		Profile:   actors.DefaultProfile,
		OnLost:    a.inside.daemonLost,
		Log:       a.log,
	})
	if err != nil {
		return nil, err
	}
	if err := rt.Connect(ctx); err != nil {
		return nil, errors.Join(err, rt.Close())
	}
	sys, err := actors.Start(actors.Config{
		Profiles:       map[string]actors.Profile{actors.DefaultProfile: {Runtime: rt, Pool: a.cfg.Pool, Limits: a.cfg.Limits}},
		DefaultTimeout: a.cfg.Timeout,
		MaxTimeout:     a.cfg.MaxTimeout,
		OutputMax:      int(a.cfg.OutputMax),
		Bridge:         a.bridge(),
		Observer:       a.inside.observer(),
		Log:            a.log,
	})
	if err != nil {
		return nil, errors.Join(err, rt.Close())
	}
	return &stack{System: sys, runtime: rt}, nil
}

// bridge answers what code asks of the host; nil where there is no hub.
func (a *app) bridge() actors.Bridge {
	if a.hub == nil {
		return nil // and not an interface that holds nil
	}
	return a.hub
}

// runtimeAliases are short names for --runtime.
var runtimeAliases = map[string]string{
	"":         ctrd.RuntimeThawpool,
	"thawpool": ctrd.RuntimeThawpool,
	"runc":     ctrd.RuntimeRunc,
	"runsc":    "io.containerd.runsc.v1",
}

func (a *app) runtimeName() string {
	if name, ok := runtimeAliases[a.cfg.Runtime]; ok {
		return name
	}
	return a.cfg.Runtime
}

// local says which containerd and which image.
func (a *app) local() local.Config {
	return local.Config{
		Daemon:  daemon.Config{StateDir: a.cfg.StateDir, BinDir: a.cfg.BinDir, Idle: a.cfg.DaemonIdle, Log: a.log},
		Address: a.cfg.ContainerdAddress,
		Image:   a.cfg.Image,
		Log:     a.log,
	}
}

// connectSlow is after how long somebody who waits is told why.
const connectSlow = 2 * time.Second

// connect gives the runtime a daemon with the image ready in it.
func (a *app) connect(ctx context.Context) (*ctrd.Backend, error) {
	slow := time.AfterFunc(connectSlow, func() {
		a.tell("starting containerd and making the image ready; the first time takes a while")
	})
	defer slow.Stop()
	b, err := local.Connect(a.local())(ctx)
	if err == nil {
		a.inside.daemonConnected()
	}
	if err == nil && a.cfg.ContainerdAddress != "" {
		a.sweepAttached(ctx, b)
	}
	return b, err
}

// sweepAttached removes what dead owners left in a containerd that no keeper of ours watches.
func (a *app) sweepAttached(ctx context.Context, b *ctrd.Backend) {
	found, err := ctrd.Sweep(ctx, ctrd.SweepConfig{
		Address: b.Address, FIFODir: b.FIFODir, Group: host.OpenGroup(b.Cgroup, b.HostPath), Alive: host.Owner.Alive,
	})
	a.inside.swept(found)
	switch {
	case err != nil:
		a.log.Warn().Err(err).Object("removed", found).Msg("not all that dead processes left could be removed")
	case found.Any():
		a.log.Info().Object("removed", found).Msg("removed what dead processes left")
	}
}

// tell says something to whoever started the command: to the log where that is read, else to the terminal.
func (a *app) tell(text string) {
	if a.log.GetLevel() <= zerolog.InfoLevel {
		a.log.Info().Msg(text)
		return
	}
	fmt.Fprintln(os.Stderr, "thawpool: "+text)
}

// openImages connects the image commands.
func (a *app) openImages(ctx context.Context) (*containerd.Client, func() error, error) {
	if err := a.drop(a.files...); err != nil {
		return nil, nil, err
	}
	d, err := local.Daemon(ctx, a.local())
	if err != nil {
		return nil, nil, err
	}
	client, err := local.Client(d)
	if err != nil {
		d.Close()
		return nil, nil, err
	}
	return client, func() error { defer d.Close(); return client.Close() }, nil
}
