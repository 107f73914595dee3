// Package local joins the rooms that make sandboxes on this machine: a containerd, private or given, and an image in it,
// become the backend of a ctrd.Runtime, which comes here again whenever it has lost one.
package local

import (
	"context"
	"errors"
	"fmt"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/rs/zerolog"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/ctrd"
	"github.com/thawpool/thawpool/runtime/daemon"
	"github.com/thawpool/thawpool/runtime/image"
)

// Config says which containerd and which image.
type Config struct {
	Daemon  daemon.Config
	Address string // of an existing rootless containerd in place of the private one; "" for the private one
	Image   string // what image.Ensure takes; "" for the default image
	Log     zerolog.Logger
}

// Connect is what ctrd.Config wants of the same name: it makes sure of daemon and image each time it is called.
func Connect(c Config) func(context.Context) (*ctrd.Backend, error) {
	return func(ctx context.Context) (*ctrd.Backend, error) {
		d, err := Daemon(ctx, c)
		if err != nil {
			return nil, err
		}
		b, err := backend(ctx, d, c)
		if err != nil {
			d.Close()
			return nil, err
		}
		return b, nil
	}
}

// Daemon is the containerd that the configuration asks for. The caller must Close it.
func Daemon(ctx context.Context, c Config) (*daemon.Daemon, error) {
	if c.Address != "" {
		return daemon.Attach(ctx, c.Address, c.Daemon)
	}
	return daemon.Ensure(ctx, c.Daemon)
}

// Client is a containerd client in thawpool's namespace.
func Client(d *daemon.Daemon) (*containerd.Client, error) {
	client, err := containerd.New(d.Address(), containerd.WithDefaultNamespace(ctrd.Namespace))
	if err != nil {
		return nil, fmt.Errorf("%w: connect to containerd: %w", runtime.ErrUnavailable, err)
	}
	return client, nil
}

func backend(ctx context.Context, d *daemon.Daemon, c Config) (_ *ctrd.Backend, err error) {
	client, err := Client(d)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	img, err := image.Ensure(ctx, client, c.Image, c.Log)
	if err != nil {
		return nil, err
	}
	b := &ctrd.Backend{
		Address: d.Address(), PID: d.PID(),
		FIFODir: d.FIFODir(), Inside: d.Inside,
		Image: img,
		Lost:  d.Lost(), Close: d.Close,
	}
	b.Cgroup, b.HostPath, b.SpecPath = d.CgroupBase()
	return b, nil
}
