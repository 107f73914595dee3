package shim

import (
	"context"
	"os"
	goruntime "runtime"
	"time"

	sandboxapi "github.com/containerd/containerd/api/runtime/sandbox/v1"
	"github.com/containerd/containerd/api/types"
	"github.com/containerd/containerd/v2/pkg/protobuf"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"golang.org/x/sys/unix"
)

// sandbox is what the Sandbox API calls one: here no process of its own, only this shim, which tasks join.
type sandbox struct {
	id      string
	created time.Time
	stopped chan struct{} // closed by StopSandbox
	ended   time.Time     // valid after stopped
}

func (s *service) isSandbox(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sandbox != nil && s.sandbox.id == id
}

// sandboxService is the Sandbox API. Its own type, for both APIs have methods of one name.
type sandboxService struct{ s *service }

func (a sandboxService) get(id string) (*sandbox, error) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if a.s.sandbox == nil || a.s.sandbox.id != id {
		return nil, errgrpc.ToGRPCf(errdefs.ErrNotFound, "sandbox %s", id)
	}
	return a.s.sandbox, nil
}

func (a sandboxService) CreateSandbox(_ context.Context, r *sandboxapi.CreateSandboxRequest) (*sandboxapi.CreateSandboxResponse, error) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if a.s.sandbox != nil {
		return nil, errgrpc.ToGRPCf(errdefs.ErrAlreadyExists, "sandbox %s", a.s.sandbox.id)
	}
	a.s.sandbox = &sandbox{id: r.SandboxID, created: time.Now(), stopped: make(chan struct{})}
	return &sandboxapi.CreateSandboxResponse{}, nil
}

func (a sandboxService) StartSandbox(_ context.Context, r *sandboxapi.StartSandboxRequest) (*sandboxapi.StartSandboxResponse, error) {
	sb, err := a.get(r.SandboxID)
	if err != nil {
		return nil, err
	}
	return &sandboxapi.StartSandboxResponse{Pid: uint32(os.Getpid()), CreatedAt: protobuf.ToTimestamp(sb.created)}, nil
}

func (a sandboxService) Platform(context.Context, *sandboxapi.PlatformRequest) (*sandboxapi.PlatformResponse, error) {
	return &sandboxapi.PlatformResponse{Platform: &types.Platform{OS: goruntime.GOOS, Architecture: goruntime.GOARCH}}, nil
}

// StopSandbox kills the tasks that are left. Their owners still have to delete them.
func (a sandboxService) StopSandbox(_ context.Context, r *sandboxapi.StopSandboxRequest) (*sandboxapi.StopSandboxResponse, error) {
	sb, err := a.get(r.SandboxID)
	if err != nil {
		return nil, err
	}
	a.s.mu.Lock()
	var left []*task
	for _, t := range a.s.tasks {
		if t != nil {
			left = append(left, t)
		}
	}
	select {
	case <-sb.stopped:
	default:
		sb.ended = time.Now()
		close(sb.stopped)
	}
	a.s.mu.Unlock()
	for _, t := range left {
		_ = t.kill(unix.SIGKILL, true) // one that has gone is what we want
	}
	return &sandboxapi.StopSandboxResponse{}, nil
}

func (a sandboxService) WaitSandbox(ctx context.Context, r *sandboxapi.WaitSandboxRequest) (*sandboxapi.WaitSandboxResponse, error) {
	sb, err := a.get(r.SandboxID)
	if err != nil {
		return nil, err
	}
	select {
	case <-sb.stopped:
		return &sandboxapi.WaitSandboxResponse{ExitedAt: protobuf.ToTimestamp(sb.ended)}, nil
	case <-ctx.Done():
		return nil, errgrpc.ToGRPC(ctx.Err())
	}
}

func (a sandboxService) SandboxStatus(_ context.Context, r *sandboxapi.SandboxStatusRequest) (*sandboxapi.SandboxStatusResponse, error) {
	sb, err := a.get(r.SandboxID)
	if err != nil {
		return nil, err
	}
	resp := &sandboxapi.SandboxStatusResponse{
		SandboxID: sb.id, Pid: uint32(os.Getpid()), State: "SANDBOX_READY", CreatedAt: protobuf.ToTimestamp(sb.created),
	}
	select {
	case <-sb.stopped:
		resp.State, resp.ExitedAt = "SANDBOX_NOTREADY", protobuf.ToTimestamp(sb.ended)
	default:
	}
	return resp, nil
}

func (a sandboxService) PingSandbox(_ context.Context, r *sandboxapi.PingRequest) (*sandboxapi.PingResponse, error) {
	_, err := a.get(r.SandboxID)
	return &sandboxapi.PingResponse{}, err
}

// ShutdownSandbox ends this shim.
func (a sandboxService) ShutdownSandbox(_ context.Context, r *sandboxapi.ShutdownSandboxRequest) (*sandboxapi.ShutdownSandboxResponse, error) {
	if _, err := a.get(r.SandboxID); err != nil {
		return nil, err
	}
	a.s.end()
	return &sandboxapi.ShutdownSandboxResponse{}, nil
}

func (a sandboxService) SandboxMetrics(context.Context, *sandboxapi.SandboxMetricsRequest) (*sandboxapi.SandboxMetricsResponse, error) {
	return &sandboxapi.SandboxMetricsResponse{}, nil
}

func (a sandboxService) UpdateSandbox(context.Context, *sandboxapi.UpdateSandboxRequest) (*sandboxapi.UpdateSandboxResponse, error) {
	return nil, errgrpc.ToGRPCf(errdefs.ErrNotImplemented, "a sandbox has no resources of its own")
}
