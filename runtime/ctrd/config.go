package ctrd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/host"
	"github.com/thawpool/thawpool/runtime/image"
)

// Namespace is containerd's namespace for everything of thawpool's.
const Namespace = "thawpool"

// LabelProfile on a sandbox's record names the profile of the runtime that booted it. host.LabelOwner names its process.
const LabelProfile = "thawpool.profile"

// Names of runtimes that get more than containerd's ordinary treatment.
const (
	RuntimeRunc     = "io.containerd.runc.v2"
	RuntimeThawpool = "io.containerd.thawpool.v1" // our own shim: sandboxes join one through containerd's Sandbox API
)

// Defaults of a Config.
const (
	// DefaultShimTasks is how many sandboxes one shim serves: few are lost with one shim, many share its memory.
	DefaultShimTasks = 16
	// DefaultBootTimeout is for an image whose Python starts slowly on a busy machine. A boot takes 0.2 s on an idle one.
	DefaultBootTimeout = 60 * time.Second
	// foreignBootTimeout is for runtimes that do not come with us. One that cannot work here may well hang, and who waits
	// for a sandbox should be told so before the wait is over.
	foreignBootTimeout = 20 * time.Second
)

// Backend is a running containerd with an image that sandboxes can stand on.
type Backend struct {
	Address string // containerd's socket
	PID     int    // containerd's process: its limits bound those of sandboxes
	FIFODir string // for sandboxes' FIFOs, closed to other users
	// Inside is the path that the daemon has for one below FIFODir.
	Inside func(string) string
	// Where control groups of sandboxes go: HostPath as seen from here, SpecPath as seen by the daemon.
	Cgroup             host.Version
	HostPath, SpecPath string
	Image              image.Ready
	Lost               <-chan struct{} // closed when the daemon has ended and all sandboxes with it
	Close              func()          // releases it; called exactly once
}

// Config says how sandboxes are to be made. Connect and Limits are needed; the zero value of others is their default.
type Config struct {
	// Connect gives a running backend. It is called at the first boot, and again by the first boot after one was lost,
	// never twice at a time.
	Connect func(context.Context) (*Backend, error)
	Limits  runtime.Limits
	Preload []string // modules that the runner imports before it is frozen

	Runtime     string        // containerd's name of the runtime; default RuntimeRunc
	BinDir      string        // has runc, thawpool-delete and our shim; needed for RuntimeRunc and RuntimeThawpool
	ShimTasks   int           // sandboxes one shim serves at most; default DefaultShimTasks
	BootTimeout time.Duration // of one boot, whatever its context allows; default DefaultBootTimeout

	Owner   host.Owner // default this process
	Profile string     // for the label
	OnLost  func()     // called when a backend was lost, with all its sandboxes; it must not block; may be nil
	Log     zerolog.Logger
}

func (c Config) complete() (Config, error) {
	var errs []error
	need := func(ok bool, what string) {
		if !ok {
			errs = append(errs, errors.New(what))
		}
	}
	if c.Runtime == "" {
		c.Runtime = RuntimeRunc
	}
	if c.ShimTasks == 0 {
		c.ShimTasks = DefaultShimTasks
	}
	if c.BootTimeout == 0 {
		c.BootTimeout = DefaultBootTimeout
		if c.Runtime != RuntimeThawpool && c.Runtime != RuntimeRunc {
			c.BootTimeout = foreignBootTimeout
		}
	}
	if c.Owner == (host.Owner{}) {
		self, err := host.Self()
		if err != nil {
			return c, err
		}
		c.Owner = self
	}
	l := c.Limits
	need(c.Connect != nil, "no way to connect")
	need(l.Memory > 0 && l.PIDs > 0 && l.Tmp > 0 && l.Shm > 0 && l.OpenFiles > 0, fmt.Sprintf("a limit that does not limit: %+v", l))
	need(c.ShimTasks > 0, "shim tasks below one")
	need(c.BootTimeout > 0, "boot timeout below zero")
	need(c.BinDir != "" || c.Runtime != RuntimeRunc && c.Runtime != RuntimeThawpool, "no directory of programs")
	if len(errs) > 0 {
		return c, fmt.Errorf("sandbox runtime: %w", errors.Join(errs...))
	}
	return c, nil
}
