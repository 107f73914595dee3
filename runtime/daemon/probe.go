package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// process is a running process, named by a descriptor so that it cannot be taken for a later one with the same pid.
type process struct {
	pid int
	fd  *os.File
}

// openProcess names a running process.
func openProcess(pid int) (*process, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", pid, err)
	}
	return &process{pid: pid, fd: os.NewFile(uintptr(fd), "pidfd")}, nil
}

// wait returns when the process has ended, or with an error when close is called. It holds no thread meanwhile.
func (p *process) wait() error {
	conn, err := p.fd.SyscallConn()
	if err != nil {
		return err
	}
	return conn.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
	})
}

// kill sends SIGKILL. A process that has ended is no error.
func (p *process) kill() error {
	err := unix.PidfdSendSignal(int(p.fd.Fd()), unix.SIGKILL, nil, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

func (p *process) close() { _ = p.fd.Close() }

// listener is the process that listens on a unix socket.
func listener(ctx context.Context, socket string) (*process, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return nil, err
	}
	if credErr != nil {
		return nil, fmt.Errorf("ask who listens on %s: %w", socket, credErr)
	}
	if cred.Pid == 0 {
		return nil, fmt.Errorf("the process that listens on %s is in another pid namespace", socket)
	}
	return openProcess(int(cred.Pid))
}

// dial prepares questions to containerd. It connects with the first one.
func dial(socket string) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// serving asks containerd whether it serves. It answers within the context's time also when the daemon hangs.
func serving(ctx context.Context, conn *grpc.ClientConn) error {
	resp, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		return fmt.Errorf("containerd's health: %w", err)
	}
	if resp.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		return fmt.Errorf("containerd's health: %s", resp.GetStatus())
	}
	return nil
}

// probe finds a daemon that serves now.
func probe(ctx context.Context, socket string, patience time.Duration) (*process, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := dial(socket)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	p, err := listener(ctx, socket)
	if err != nil {
		return nil, err
	}
	if err := serving(ctx, conn); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}
