package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/containerd/containerd/api/events"
	sandboxapi "github.com/containerd/containerd/api/runtime/sandbox/v1"
	taskapi "github.com/containerd/containerd/api/runtime/task/v3"
	tasktypes "github.com/containerd/containerd/api/types/task"
	"github.com/containerd/containerd/v2/pkg/protobuf"
	"github.com/containerd/containerd/v2/pkg/protobuf/types"
	"github.com/containerd/containerd/v2/pkg/shim"
	"github.com/containerd/containerd/v2/pkg/shutdown"
	"github.com/containerd/containerd/v2/plugins"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"github.com/containerd/plugin"
	"github.com/containerd/plugin/registry"
	"github.com/containerd/ttrpc"
	"github.com/containerd/typeurl/v2"
	"github.com/opencontainers/runc/libcontainer"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

func init() {
	registry.Register(&plugin.Registration{
		Type:     plugins.TTRPCPlugin,
		ID:       "task",
		Requires: []plugin.Type{plugins.EventPlugin, plugins.InternalPlugin},
		InitFn: func(ic *plugin.InitContext) (any, error) {
			pub, err := ic.GetByID(plugins.EventPlugin, "publisher")
			if err != nil {
				return nil, err
			}
			sd, err := ic.GetByID(plugins.InternalPlugin, "shutdown")
			if err != nil {
				return nil, err
			}
			if err := holdInit(); err != nil {
				return nil, err
			}
			return newService(ic.Context, pub.(shim.Publisher), sd.(shutdown.Service)), nil
		},
	})
}

var empty = &types.Empty{}

// service is the Task API; sandbox.go adds the Sandbox API.
type service struct {
	events *outbox

	mu      sync.Mutex // guards what follows
	tasks   map[string]*task
	sandbox *sandbox // nil until CreateSandbox: then this shim serves the one container it was started for
}

func newService(ctx context.Context, pub shim.Publisher, sd shutdown.Service) *service {
	return &service{events: newOutbox(ctx, pub, sd), tasks: map[string]*task{}}
}

// RegisterTTRPC implements shim.TTRPCService.
func (s *service) RegisterTTRPC(server *ttrpc.Server) error {
	taskapi.RegisterTTRPCTaskService(server, s)
	sandboxapi.RegisterTTRPCSandboxService(server, sandboxService{s})
	return nil
}

func (s *service) task(id string) (*task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.tasks[id]
	if !ok || t == nil {
		return nil, errgrpc.ToGRPCf(errdefs.ErrNotFound, "task %s", id)
	}
	return t, nil
}

func (s *service) process(id, execID string) (*task, *process, error) {
	t, err := s.task(id)
	if err != nil {
		return nil, nil, err
	}
	p, err := t.process(execID)
	return t, p, errgrpc.ToGRPC(err)
}

// reserve takes the id, so that two creates of one id cannot meet.
func (s *service) reserve(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.tasks[id]; ok {
		return errgrpc.ToGRPCf(errdefs.ErrAlreadyExists, "task %s", id)
	}
	s.tasks[id] = nil
	return nil
}

func (s *service) settle(id string, t *task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t == nil {
		delete(s.tasks, id)
		return
	}
	s.tasks[id] = t
}

// Create makes a container and its init, which waits for Start.
func (s *service) Create(ctx context.Context, r *taskapi.CreateTaskRequest) (*taskapi.CreateTaskResponse, error) {
	if r.Checkpoint != "" {
		return nil, errgrpc.ToGRPCf(errdefs.ErrNotImplemented, "checkpoint")
	}
	if err := s.reserve(r.ID); err != nil {
		return nil, err
	}
	t, err := newTask(ctx, r)
	if err == nil && t.abandoned(ctx) {
		err = errors.Join(context.Canceled, t.undo(ctx))
		t = nil
	}
	s.settle(r.ID, t)
	if err != nil {
		return nil, errgrpc.ToGRPC(fmt.Errorf("create %s: %w", r.ID, err))
	}
	t.init.announced.Lock()
	defer t.init.announced.Unlock()
	s.events.send(&events.TaskCreate{
		ContainerID: r.ID, Bundle: r.Bundle, Rootfs: r.Rootfs, Pid: uint32(t.init.pid),
		IO: &events.TaskIO{Stdin: r.Stdin, Stdout: r.Stdout, Stderr: r.Stderr, Terminal: r.Terminal},
	})
	if s.sandbox == nil { // of a sandbox's tasks nobody reads them, and each watch takes a thread and, on v2, an inotify instance
		s.watchOOM(t)
	}
	go s.follow(t, t.init)
	return &taskapi.CreateTaskResponse{Pid: uint32(t.init.pid)}, nil
}

// Start lets the init run the container's program, or starts an added process.
func (s *service) Start(_ context.Context, r *taskapi.StartRequest) (*taskapi.StartResponse, error) {
	t, p, err := s.process(r.ID, r.ExecID)
	if err != nil {
		return nil, err
	}
	p.announced.Lock()
	defer p.announced.Unlock()
	if st := p.status(); st.started || st.exited {
		return nil, errgrpc.ToGRPCf(errdefs.ErrFailedPrecondition, "process has started before")
	}
	if r.ExecID == "" {
		err = t.c.Exec()
	} else {
		err = s.startExec(t, p)
	}
	if err != nil {
		return nil, errgrpc.ToGRPC(fmt.Errorf("start: %w", err))
	}
	p.mu.Lock()
	p.started = true
	p.mu.Unlock()
	if r.ExecID == "" {
		s.events.send(&events.TaskStart{ContainerID: t.id, Pid: uint32(p.pid)})
	} else {
		s.events.send(&events.TaskExecStarted{ContainerID: t.id, ExecID: p.id, Pid: uint32(p.pid)})
	}
	return &taskapi.StartResponse{Pid: uint32(p.pid)}, nil
}

func (s *service) startExec(t *task, p *process) error {
	if t.isPaused() || t.init.status().exited {
		return fmt.Errorf("task %s is not running: %w", t.id, errdefs.ErrFailedPrecondition)
	}
	t.running.Add(1)
	if err := p.spawn(t.c, false); err != nil {
		t.running.Done()
		return err
	}
	go s.follow(t, p)
	return nil
}

// follow waits for a process's end and publishes it: never before its start, and an init's after all others'.
func (s *service) follow(t *task, p *process) {
	p.wait()
	p.announced.Lock()
	defer p.announced.Unlock()
	if p == t.init {
		t.running.Wait()
	} else {
		defer t.running.Done()
	}
	id := p.id
	if p == t.init {
		id = t.id
	}
	close(p.done)
	s.events.send(&events.TaskExit{
		ContainerID: t.id, ID: id, Pid: uint32(p.pid),
		ExitStatus: uint32(p.exit), ExitedAt: protobuf.ToTimestamp(p.exitedAt),
	})
}

// Delete removes an added process, or the container with all that belongs to it.
func (s *service) Delete(_ context.Context, r *taskapi.DeleteRequest) (*taskapi.DeleteResponse, error) {
	t, p, err := s.process(r.ID, r.ExecID)
	if err != nil {
		return nil, err
	}
	st := p.status()
	if r.ExecID != "" {
		if st.started && !st.exited {
			return nil, errgrpc.ToGRPCf(errdefs.ErrFailedPrecondition, "process %s is running", r.ExecID)
		}
		t.dropExec(r.ExecID)
	} else {
		if err := t.destroy(); err != nil {
			return nil, errgrpc.ToGRPC(err)
		}
		s.settle(r.ID, nil)
		s.events.send(&events.TaskDelete{
			ContainerID: t.id, Pid: uint32(st.pid),
			ExitStatus: uint32(st.exit), ExitedAt: protobuf.ToTimestamp(st.exitedAt),
		})
	}
	return &taskapi.DeleteResponse{
		Pid: uint32(st.pid), ExitStatus: uint32(st.exit), ExitedAt: protobuf.ToTimestamp(st.exitedAt),
	}, nil
}

// Exec adds a process to the container; Start starts it.
func (s *service) Exec(_ context.Context, r *taskapi.ExecProcessRequest) (*types.Empty, error) {
	t, err := s.task(r.ID)
	if err != nil {
		return nil, err
	}
	var spec specs.Process
	if err := json.Unmarshal(r.Spec.GetValue(), &spec); err != nil {
		return nil, errgrpc.ToGRPCf(errdefs.ErrInvalidArgument, "process spec: %v", err)
	}
	spec.Terminal = r.Terminal
	if err := t.addExec(newShimProcess(r.ExecID, &spec, streams{r.Stdin, r.Stdout, r.Stderr, r.Terminal})); err != nil {
		return nil, errgrpc.ToGRPC(err)
	}
	s.events.send(&events.TaskExecAdded{ContainerID: t.id, ExecID: r.ExecID})
	return empty, nil
}

// State reports a process.
func (s *service) State(_ context.Context, r *taskapi.StateRequest) (*taskapi.StateResponse, error) {
	t, p, err := s.process(r.ID, r.ExecID)
	if err != nil {
		return nil, err
	}
	st := p.status()
	state := tasktypes.Status_CREATED
	switch {
	case st.exited:
		state = tasktypes.Status_STOPPED
	case st.started && t.isPaused():
		state = tasktypes.Status_PAUSED
	case st.started:
		state = tasktypes.Status_RUNNING
	}
	return &taskapi.StateResponse{
		ID: r.ID, Bundle: t.bundle, Pid: uint32(st.pid), Status: state, ExecID: r.ExecID,
		Stdin: p.streams.stdin, Stdout: p.streams.stdout, Stderr: p.streams.stderr, Terminal: p.streams.terminal,
		ExitStatus: uint32(st.exit), ExitedAt: protobuf.ToTimestamp(st.exitedAt),
	}, nil
}

// Pause freezes the container's cgroup.
func (s *service) Pause(_ context.Context, r *taskapi.PauseRequest) (*types.Empty, error) {
	return s.freeze(r.ID, true, &events.TaskPaused{ContainerID: r.ID})
}

// Resume thaws it.
func (s *service) Resume(_ context.Context, r *taskapi.ResumeRequest) (*types.Empty, error) {
	return s.freeze(r.ID, false, &events.TaskResumed{ContainerID: r.ID})
}

func (s *service) freeze(id string, pause bool, event any) (*types.Empty, error) {
	t, err := s.task(id)
	if err != nil {
		return nil, err
	}
	if err := t.freeze(pause); err != nil {
		return nil, errgrpc.ToGRPC(err)
	}
	s.events.send(event)
	return empty, nil
}

// Kill signals a process, or all of the container's.
func (s *service) Kill(_ context.Context, r *taskapi.KillRequest) (*types.Empty, error) {
	t, p, err := s.process(r.ID, r.ExecID)
	if err != nil {
		return nil, err
	}
	if r.ExecID == "" {
		err = t.kill(unix.Signal(r.Signal), r.All)
	} else {
		err = p.signal(unix.Signal(r.Signal))
	}
	if err != nil {
		return nil, errgrpc.ToGRPC(err)
	}
	return empty, nil
}

// Pids lists every process of the container; for a sandbox there are none of its own.
func (s *service) Pids(_ context.Context, r *taskapi.PidsRequest) (*taskapi.PidsResponse, error) {
	if s.isSandbox(r.ID) {
		return &taskapi.PidsResponse{}, nil
	}
	t, err := s.task(r.ID)
	if err != nil {
		return nil, err
	}
	pids, err := t.c.Processes()
	if err != nil {
		return nil, errgrpc.ToGRPC(err)
	}
	resp := &taskapi.PidsResponse{}
	for _, pid := range pids {
		info, err := t.describe(pid)
		if err != nil {
			return nil, errgrpc.ToGRPC(err)
		}
		resp.Processes = append(resp.Processes, info)
	}
	return resp, nil
}

// CloseIO closes the shim's end of a process's stdin.
func (s *service) CloseIO(_ context.Context, r *taskapi.CloseIORequest) (*types.Empty, error) {
	_, p, err := s.process(r.ID, r.ExecID)
	if err != nil {
		return nil, err
	}
	if r.Stdin {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.io != nil {
			p.io.closeStdin()
		}
	}
	return empty, nil
}

// ResizePty sets a terminal's size.
func (s *service) ResizePty(_ context.Context, r *taskapi.ResizePtyRequest) (*types.Empty, error) {
	_, p, err := s.process(r.ID, r.ExecID)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.tty.resize(r.Width, r.Height); err != nil {
		return nil, errgrpc.ToGRPC(err)
	}
	return empty, nil
}

// Update changes limits of a running container.
func (s *service) Update(_ context.Context, r *taskapi.UpdateTaskRequest) (*types.Empty, error) {
	t, err := s.task(r.ID)
	if err != nil {
		return nil, err
	}
	v, err := typeurl.UnmarshalAny(r.Resources)
	if err != nil {
		return nil, errgrpc.ToGRPC(err)
	}
	res, ok := v.(*specs.LinuxResources)
	if !ok {
		return nil, errgrpc.ToGRPCf(errdefs.ErrInvalidArgument, "resources of type %T", v)
	}
	config := t.c.Config()
	applyResources(config.Cgroups.Resources, res)
	if err := t.c.Set(config); err != nil {
		return nil, errgrpc.ToGRPC(err)
	}
	return empty, nil
}

// Wait answers when the process has exited.
func (s *service) Wait(ctx context.Context, r *taskapi.WaitRequest) (*taskapi.WaitResponse, error) {
	_, p, err := s.process(r.ID, r.ExecID)
	if err != nil {
		return nil, err
	}
	if err := p.awaitDone(ctx); err != nil {
		return nil, errgrpc.ToGRPC(err)
	}
	st := p.status()
	return &taskapi.WaitResponse{ExitStatus: uint32(st.exit), ExitedAt: protobuf.ToTimestamp(st.exitedAt)}, nil
}

// Connect names the shim's process. A sandbox counts as alive while its shim is.
func (s *service) Connect(_ context.Context, r *taskapi.ConnectRequest) (*taskapi.ConnectResponse, error) {
	resp := &taskapi.ConnectResponse{ShimPid: uint32(os.Getpid())}
	if t, err := s.task(r.ID); err == nil {
		resp.TaskPid = uint32(t.init.pid)
	} else if s.isSandbox(r.ID) {
		resp.TaskPid = uint32(os.Getpid())
	}
	return resp, nil
}

// Shutdown ends a shim that serves a container of its own. containerd calls it after every task delete, so one that
// serves a sandbox stays until ShutdownSandbox.
func (s *service) Shutdown(context.Context, *taskapi.ShutdownRequest) (*types.Empty, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sandbox == nil && len(s.tasks) == 0 {
		s.end()
	}
	return empty, nil
}

// Checkpoint is not served.
func (s *service) Checkpoint(context.Context, *taskapi.CheckpointTaskRequest) (*types.Empty, error) {
	return nil, errgrpc.ToGRPCf(errdefs.ErrNotImplemented, "checkpoint")
}

// watchOOM publishes each OOM kill that the kernel reports for the container. The channel ends with the cgroup.
func (s *service) watchOOM(t *task) {
	oom, err := t.c.NotifyOOM()
	if err != nil {
		if !errors.Is(err, libcontainer.ErrCgroupNotExist) {
			s.events.log.WithError(err).WithField("id", t.id).Warn("no OOM events for this container")
		}
		return
	}
	go func() {
		for range oom {
			s.events.send(&events.TaskOOM{ContainerID: t.id})
		}
	}()
}
