package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	bootapi "github.com/containerd/containerd/api/runtime/bootstrap/v1"
	"github.com/containerd/containerd/api/types"
	"github.com/containerd/containerd/api/types/runc/options"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/pkg/shim"
	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/containerd/typeurl/v2"
	"github.com/opencontainers/runc/libcontainer"
	"github.com/opencontainers/runc/libcontainer/capabilities"
	"github.com/opencontainers/runc/libcontainer/seccomp"
	"github.com/opencontainers/runc/libcontainer/specconv"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/opencontainers/runtime-spec/specs-go/features"
	"golang.org/x/sys/unix"
)

// Name is the runtime name that containerd resolves to containerd-shim-thawpool-v1.
const Name = "io.containerd.thawpool.v1"

// bootstrapVersion 3 tells containerd that the shim serves the Sandbox API, so that tasks may join it
// (core/runtime/v2/shim_manager.go, supportSandboxAPIVersion).
const bootstrapVersion = 3

// Run is the whole program: containerd's start and delete actions, or the server.
func Run() {
	// Exits belong to libcontainer, which waits for its own children; every container has a pid namespace whose init
	// reaps the rest.
	shim.RunShim(context.Background(), manager{}, func(c *shim.Config) {
		c.NoReaper = true
		c.NoSubreaper = true
	})
}

type manager struct{}

func (manager) Name() string { return Name }

// Start serves a new shim process on a socket of its own and returns its address.
func (manager) Start(ctx context.Context, params *bootapi.BootstrapParams) (*bootapi.BootstrapResult, error) {
	address, err := shim.CreateSocketAddress(ctx, params.GetSocketDir(), params.GetContainerdGrpcAddress(),
		params.GetInstanceID(), false)
	if err != nil {
		return nil, err
	}
	listener, err := listen(address)
	if err != nil {
		return nil, fmt.Errorf("shim socket: %w", err)
	}
	defer listener.Close()
	file, err := listener.File()
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := serveAside(ctx, params, file); err != nil {
		_ = shim.RemoveSocket(address)
		return nil, err
	}
	return &bootapi.BootstrapResult{Version: bootstrapVersion, Protocol: "ttrpc", Address: address}, nil
}

// listen takes the socket over from a dead shim of the same name.
func listen(address string) (*net.UnixListener, error) {
	l, err := shim.NewSocket(address)
	if err == nil || !shim.SocketEaddrinuse(err) {
		if err == nil {
			l.SetUnlinkOnClose(false)
		}
		return l, err
	}
	if shim.CanConnect(address) {
		return nil, fmt.Errorf("another shim serves %s", address)
	}
	if err := shim.RemoveSocket(address); err != nil {
		return nil, err
	}
	if l, err = shim.NewSocket(address); err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	return l, nil
}

// serveAside starts this binary again as the server, with the listening socket as descriptor 3.
func serveAside(ctx context.Context, params *bootapi.BootstrapParams, socket *os.File) error {
	ns, err := namespaces.NamespaceRequired(ctx)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{"-namespace", ns, "-id", params.GetInstanceID(), "-address", params.GetContainerdGrpcAddress()}
	if params.GetLogLevel() <= bootapi.LogLevel_LOG_LEVEL_DEBUG {
		args = append(args, "-debug")
	}
	cmd := exec.Command(self, args...)
	cmd.ExtraFiles = []*os.File{socket}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	// Raising a score needs no privilege; where even that is refused the shim only loses its small advantage.
	if err := shim.AdjustOOMScore(cmd.Process.Pid); err != nil {
		log.G(ctx).WithError(err).Debug("oom score of the shim stays as it is")
	}
	return cmd.Process.Release()
}

// Stop removes what is left of a container whose shim has gone. containerd runs it with the bundle as working directory.
func (manager) Stop(ctx context.Context, id string) (shim.StopStatus, error) {
	cwd, err := os.Getwd()
	if err != nil {
		return shim.StopStatus{}, err
	}
	bundle := filepath.Join(filepath.Dir(cwd), id)
	status := shim.StopStatus{ExitedAt: time.Now(), ExitStatus: 128 + int(unix.SIGKILL)}
	c, err := libcontainer.Load(stateRoot(bundle), id)
	switch {
	case err == nil:
		if st, err := c.State(); err == nil {
			status.Pid = st.InitProcessPid
		}
		if err := destroyLeft(ctx, c); err != nil {
			return status, err
		}
	case !errors.Is(err, libcontainer.ErrNotExist):
		return status, err
	}
	if err := mount.UnmountRecursive(filepath.Join(bundle, "rootfs"), 0); err != nil {
		log.G(ctx).WithError(err).Warn("rootfs of a lost container stays mounted")
	}
	return status, nil
}

// destroyLeft kills a container that no shim owns any more and removes its cgroup. Signal also thaws a frozen v1 cgroup,
// whose processes would not die before. It fails when somebody else kills the container at the same time: what counts is
// that it has ended.
func destroyLeft(ctx context.Context, c *libcontainer.Container) error {
	signalErr := c.Signal(unix.SIGKILL)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if st, err := c.Status(); err != nil || st == libcontainer.Stopped {
			return c.Destroy()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("container %s does not end: %w", c.ID(), errors.Join(ctx.Err(), signalErr))
		}
	}
}

// Info tells what the runtime can do, and gives runc's options back as it would take them.
func (manager) Info(_ context.Context, stdin io.Reader) (*types.RuntimeInfo, error) {
	info := &types.RuntimeInfo{Name: Name, Version: &types.RuntimeVersion{Version: "1"}}
	opts, err := shim.ReadRuntimeOptions[*options.Options](stdin)
	if err != nil && !errors.Is(err, errdefs.ErrNotFound) {
		return nil, err
	}
	if opts != nil {
		if info.Options, err = typeurl.MarshalAnyToProto(opts); err != nil {
			return nil, err
		}
	}
	info.Features, err = typeurl.MarshalAnyToProto(supported())
	return info, err
}

// supported is what libcontainer does for this shim, in the terms of the OCI runtime specification.
func supported() *features.Features {
	yes := true
	return &features.Features{
		OCIVersionMin: "1.0.0",
		OCIVersionMax: specs.Version,
		MountOptions:  specconv.KnownMountOptions(),
		Linux: &features.Linux{
			Namespaces:      specconv.KnownNamespaces(),
			Capabilities:    capabilities.KnownCapabilities(),
			Cgroup:          &features.Cgroup{V1: &yes, V2: &yes, Systemd: &yes, SystemdUser: &yes, Rdma: &yes},
			Seccomp:         &features.Seccomp{Enabled: &yes, Actions: seccomp.KnownActions(), Operators: seccomp.KnownOperators(), Archs: seccomp.KnownArchs()},
			Apparmor:        &features.Apparmor{Enabled: &yes},
			Selinux:         &features.Selinux{Enabled: &yes},
			MountExtensions: &features.MountExtensions{IDMap: &features.IDMap{Enabled: &yes}},
		},
	}
}

// stateRoot is where libcontainer keeps its state of a bundle's container: in the bundle, which containerd removes.
func stateRoot(bundle string) string { return filepath.Join(bundle, "lc") }
