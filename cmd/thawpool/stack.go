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
	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/ctrd"
	"github.com/thawpool/thawpool/runtime/daemon"
	"github.com/thawpool/thawpool/runtime/host"
	"github.com/thawpool/thawpool/runtime/local"
)

// stack is a running system with the runtimes below it, one a profile.
type stack struct {
	*actors.System
	runtimes runtimes
}

// Close implements sandboxes. What it has not done when ctx ends goes on as long as the process lives.
func (s *stack) Close(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- errors.Join(s.System.Close(ctx), s.runtimes.Close()) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// runtimes boot the sandboxes of profiles, by their names.
type runtimes map[string]*ctrd.Runtime

// Close closes them all.
func (r runtimes) Close() error {
	var errs []error
	for _, rt := range r {
		errs = append(errs, rt.Close())
	}
	return errors.Join(errs...)
}

// tryOpen looks whether sandboxes can run here, in less than a second, brings daemon and image up, which takes longer the
// first time, and starts the system.
func (a *app) tryOpen(ctx context.Context) (sandboxes, error) {
	if err := host.FirstFailure(host.PreflightIn(os.Geteuid(), a.cfg.BinDir, a.cfg.StateDir)); err != nil {
		return nil, err
	}
	rts := runtimes{}
	sys, err := a.startSystem(ctx, rts)
	if err != nil {
		return nil, errors.Join(err, rts.Close())
	}
	return &stack{System: sys, runtimes: rts}, nil
}

// startSystem starts a system with all profiles. Their runtimes are in rts for the caller to close, also when it fails.
func (a *app) startSystem(ctx context.Context, rts runtimes) (*actors.System, error) {
	c, err := a.systemConfig(rts)
	if err != nil {
		return nil, err
	}
	if err := a.connectAny(ctx, rts); err != nil {
		return nil, err
	}
	return actors.Start(c)
}

// systemConfig makes the runtimes of all profiles, which are in rts also when it fails, and what a system needs besides.
func (a *app) systemConfig(rts runtimes) (actors.Config, error) {
	profiles := map[string]actors.Profile{}
	for name, p := range a.cfg.profiles() {
		rt, err := ctrd.New(a.runtimeConfig(name, p))
		if err != nil {
			return actors.Config{}, err
		}
		rts[name] = rt
		profiles[name] = actors.Profile{Runtime: rt, Pool: p.Pool, Limits: p.Limits}
	}
	return actors.Config{
		Profiles:       profiles,
		DefaultProfile: a.cfg.Profile,
		DefaultTimeout: a.cfg.Timeout,
		MaxTimeout:     a.cfg.MaxTimeout,
		OutputMax:      int(a.cfg.OutputMax),
		Bridge:         a.bridge(),
		Observer:       a.inside.observer(),
		Log:            a.log,
	}, nil
}

func (a *app) runtimeConfig(name string, p Profile) ctrd.Config {
	c := ctrd.Config{
		Connect:   func(ctx context.Context) (*ctrd.Backend, error) { return a.connect(ctx, name, p.Image) },
		Limits:    p.Limits,
		Preload:   p.Preload,
		Runtime:   a.runtimeName(),
		BinDir:    a.cfg.BinDir,
		ShimTasks: a.cfg.ShimTasks,
		Profile:   name,
		Log:       a.log.With().Str("profile", name).Logger(),
	}
	if name == a.cfg.Profile { // all share one daemon, whose loss is to be counted once
		c.OnLost = a.inside.daemonLost
	}
	return c
}

// connectAny makes sure that there is a profile whose sandboxes can be had, the default one if possible. Every other
// connects at its own first boot, so that neither the making of its image nor the lack of one delays anybody else's calls.
func (a *app) connectAny(ctx context.Context, rts runtimes) error {
	var errs []error
	for _, name := range a.cfg.profileNames() {
		err := rts[name].Connect(ctx)
		if err == nil {
			for _, err := range errs {
				a.log.Error().Err(err).Msg("sandboxes of this profile cannot be had")
			}
			return nil
		}
		if len(rts) > 1 {
			err = fmt.Errorf("profile %s: %w", name, err)
		}
		errs = append(errs, err)
		if !errors.Is(err, runtime.ErrImage) {
			break // the machine's fault, which the others would meet, too
		}
	}
	return errors.Join(errs...)
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

// local says which containerd, and the default profile's image.
func (a *app) local() local.Config {
	return local.Config{
		Daemon:  daemon.Config{StateDir: a.cfg.StateDir, BinDir: a.cfg.BinDir, Idle: a.cfg.DaemonIdle, Log: a.log},
		Address: a.cfg.ContainerdAddress,
		Image:   a.cfg.chosen().Image,
		Log:     a.log,
	}
}

// connectSlow is after how long somebody who waits is told why.
const connectSlow = 2 * time.Second

// connect gives the runtime of a profile a daemon with the image ready in it.
func (a *app) connect(ctx context.Context, profile, image string) (*ctrd.Backend, error) {
	slow := time.AfterFunc(connectSlow, func() {
		a.tell("starting containerd and making the image ready; the first time takes a while")
	})
	defer slow.Stop()
	c := a.local()
	c.Image = image
	b, err := local.Connect(c)(ctx)
	if err == nil && profile == a.cfg.Profile {
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
		Address: b.Address, PID: b.PID, FIFODir: b.FIFODir, Group: host.OpenGroup(b.Cgroup, b.HostPath), Alive: host.Owner.Alive,
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
	if err := a.drop(); err != nil {
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
