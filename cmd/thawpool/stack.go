package main

import (
	"context"
	"errors"
	"os"

	containerd "github.com/containerd/containerd/v2/client"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/runtime/ctrd"
	"github.com/thawpool/thawpool/runtime/daemon"
	"github.com/thawpool/thawpool/runtime/host"
	"github.com/thawpool/thawpool/runtime/image"
)

// stack is a running system with the runtime below it.
type stack struct {
	*actors.System
	runtime *ctrd.Runtime
}

// Close implements sandboxes.
func (s *stack) Close(ctx context.Context) error {
	return errors.Join(s.System.Close(ctx), s.runtime.Close())
}

// tryOpen looks whether sandboxes can run here, in less than a second, and starts the system. The daemon and the image
// come up with the first boot.
func (a *app) tryOpen(context.Context) (sandboxes, error) {
	if err := host.FirstFailure(host.Preflight(os.Geteuid(), a.cfg.BinDir)); err != nil {
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
		Log:       a.log,
	})
	if err != nil {
		return nil, err
	}
	sys, err := actors.Start(actors.Config{
		Profiles:       map[string]actors.Profile{actors.DefaultProfile: {Runtime: rt, Pool: a.cfg.Pool, Limits: a.cfg.Limits}},
		DefaultTimeout: a.cfg.Timeout,
		MaxTimeout:     a.cfg.MaxTimeout,
		OutputMax:      int(a.cfg.OutputMax),
		Log:            a.log,
	})
	if err != nil {
		return nil, errors.Join(err, rt.Close())
	}
	return &stack{System: sys, runtime: rt}, nil
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

// daemon gives the private containerd, started if need be, or the one that was named.
func (a *app) daemon(ctx context.Context) (*daemon.Daemon, error) {
	c := daemon.Config{StateDir: a.cfg.StateDir, BinDir: a.cfg.BinDir, Idle: a.cfg.DaemonIdle, Log: a.log}
	if a.cfg.ContainerdAddress == "" {
		return daemon.Ensure(ctx, c)
	}
	d, err := daemon.Attach(ctx, a.cfg.ContainerdAddress, c)
	if err != nil {
		return nil, err
	}
	a.sweepAttached(ctx, d)
	return d, nil
}

// sweepAttached removes what dead owners left in a containerd that no keeper of ours watches.
func (a *app) sweepAttached(ctx context.Context, d *daemon.Daemon) {
	version, path, _ := d.CgroupBase()
	found, err := ctrd.Sweep(ctx, ctrd.SweepConfig{
		Address: d.Address(), FIFODir: d.FIFODir(), Group: host.OpenGroup(version, path), Alive: host.Owner.Alive,
	})
	switch {
	case err != nil:
		a.log.Warn().Err(err).Object("removed", found).Msg("not all that dead processes left could be removed")
	case found.Any():
		a.log.Info().Object("removed", found).Msg("removed what dead processes left")
	}
}

// connect gives the runtime a daemon with the image ready in it.
func (a *app) connect(ctx context.Context) (*ctrd.Backend, error) {
	d, err := a.daemon(ctx)
	if err != nil {
		return nil, err
	}
	ready, err := a.readyImage(ctx, d)
	if err != nil {
		d.Close()
		return nil, err
	}
	version, hostPath, specPath := d.CgroupBase()
	return &ctrd.Backend{
		Address: d.Address(), PID: d.PID(), FIFODir: d.FIFODir(), Inside: d.Inside,
		Cgroup: version, HostPath: hostPath, SpecPath: specPath,
		Image: ready, Lost: d.Lost(), Close: d.Close,
	}, nil
}

func (a *app) readyImage(ctx context.Context, d *daemon.Daemon) (image.Ready, error) {
	client, err := containerd.New(d.Address(), containerd.WithDefaultNamespace(ctrd.Namespace))
	if err != nil {
		return image.Ready{}, err
	}
	ready, err := image.Ensure(ctx, client, a.cfg.Image, a.log)
	return ready, errors.Join(err, client.Close())
}

// openImages connects the image commands.
func (a *app) openImages(ctx context.Context) (*containerd.Client, func() error, error) {
	if err := a.drop(a.files...); err != nil {
		return nil, nil, err
	}
	d, err := a.daemon(ctx)
	if err != nil {
		return nil, nil, err
	}
	client, err := containerd.New(d.Address(), containerd.WithDefaultNamespace(ctrd.Namespace))
	if err != nil {
		d.Close()
		return nil, nil, err
	}
	return client, func() error { defer d.Close(); return client.Close() }, nil
}
