package shim

import (
	"context"
	"fmt"

	"github.com/containerd/cgroups/v3"
	"github.com/containerd/cgroups/v3/cgroup1"
	"github.com/containerd/cgroups/v3/cgroup2"
	taskapi "github.com/containerd/containerd/api/runtime/task/v3"
	"github.com/containerd/containerd/api/types/runc/options"
	tasktypes "github.com/containerd/containerd/api/types/task"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"github.com/containerd/typeurl/v2"
)

// Stats reads the container's cgroup in the form that containerd's clients expect.
func (s *service) Stats(_ context.Context, r *taskapi.StatsRequest) (*taskapi.StatsResponse, error) {
	t, err := s.task(r.ID)
	if err != nil {
		return nil, err
	}
	metrics, err := t.metrics()
	if err != nil {
		return nil, errgrpc.ToGRPC(err)
	}
	any, err := typeurl.MarshalAnyToProto(metrics)
	if err != nil {
		return nil, errgrpc.ToGRPC(err)
	}
	return &taskapi.StatsResponse{Stats: any}, nil
}

func (t *task) metrics() (any, error) {
	pid := t.init.status().pid
	if t.init.status().exited {
		return nil, fmt.Errorf("task %s has exited: %w", t.id, errdefs.ErrNotFound)
	}
	if cgroups.Mode() == cgroups.Unified {
		path, err := cgroup2.PidGroupPath(pid)
		if err != nil {
			return nil, err
		}
		cg, err := cgroup2.Load(path)
		if err != nil {
			return nil, err
		}
		return cg.Stat()
	}
	cg, err := cgroup1.Load(cgroup1.PidPath(pid))
	if err != nil {
		return nil, err
	}
	return cg.Stat(cgroup1.IgnoreNotExist)
}

// describe names the exec that a pid belongs to.
func (t *task) describe(pid int) (*tasktypes.ProcessInfo, error) {
	info := &tasktypes.ProcessInfo{Pid: uint32(pid)}
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, p := range t.execs {
		if p.status().pid != pid {
			continue
		}
		any, err := typeurl.MarshalAnyToProto(&options.ProcessDetails{ExecID: id})
		if err != nil {
			return nil, err
		}
		info.Info = any
	}
	return info, nil
}
