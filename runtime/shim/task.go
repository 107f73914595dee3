package shim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	taskapi "github.com/containerd/containerd/api/runtime/task/v3"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/runc/libcontainer"
	"golang.org/x/sys/unix"
)

// task is one container.
type task struct {
	id, bundle string
	c          *libcontainer.Container
	init       *process
	mounted    bool // the rootfs is mounted and has to be unmounted

	mu    sync.Mutex // guards execs
	execs map[string]*process

	running sync.WaitGroup // execs whose exit is not published yet
}

// newTask mounts the rootfs and starts the container's init, which waits for Start. On an error nothing is left.
func newTask(ctx context.Context, r *taskapi.CreateTaskRequest) (_ *task, retErr error) {
	opts, err := decodeOptions(r.Options)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errdefs.ErrInvalidArgument, err)
	}
	t := &task{id: r.ID, bundle: r.Bundle, execs: map[string]*process{}}
	defer func() {
		if retErr != nil {
			_ = t.unmount()
		}
	}()
	if err := t.mount(r); err != nil {
		return nil, err
	}
	spec, err := readSpec(r.Bundle)
	if err != nil {
		return nil, err
	}
	config, err := newConfig(r.ID, spec, opts)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errdefs.ErrInvalidArgument, err)
	}
	// Not MkdirAll: a bundle that containerd has given up meanwhile must not come back.
	if err := os.Mkdir(stateRoot(r.Bundle), 0o711); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if t.c, err = libcontainer.Create(stateRoot(r.Bundle), r.ID, config); err != nil {
		return nil, err
	}
	t.init = newShimProcess("", spec.Process, streams{r.Stdin, r.Stdout, r.Stderr, r.Terminal})
	if err := t.init.spawn(t.c, true); err != nil {
		// destroyLeft also covers an init that got far enough to live.
		return nil, errors.Join(err, destroyLeft(context.WithoutCancel(ctx), t.c))
	}
	return t, nil
}

// abandoned tells whether nobody waits for the task any more: containerd closes the connection of a create that was
// cancelled, and removes the bundle.
func (t *task) abandoned(ctx context.Context) bool {
	_, err := os.Stat(filepath.Join(t.bundle, "config.json"))
	return ctx.Err() != nil || errors.Is(err, fs.ErrNotExist)
}

// undo takes a task back that was created and not announced.
func (t *task) undo(ctx context.Context) error {
	err := errors.Join(destroyLeft(context.WithoutCancel(ctx), t.c), t.unmount())
	t.init.wait()
	return err
}

func (t *task) mount(r *taskapi.CreateTaskRequest) error {
	if len(r.Rootfs) == 0 {
		return nil
	}
	rootfs := filepath.Join(r.Bundle, "rootfs")
	if err := os.Mkdir(rootfs, 0o711); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	t.mounted = true
	if err := mount.All(mount.FromProto(r.Rootfs), rootfs); err != nil {
		return fmt.Errorf("mount rootfs: %w", err)
	}
	return nil
}

func (t *task) unmount() error {
	if !t.mounted {
		return nil
	}
	return mount.UnmountAll(filepath.Join(t.bundle, "rootfs"), unix.MNT_DETACH)
}

// process finds the init or an exec.
func (t *task) process(execID string) (*process, error) {
	if execID == "" {
		return t.init, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.execs[execID]
	if !ok {
		return nil, fmt.Errorf("exec %s: %w", execID, errdefs.ErrNotFound)
	}
	return p, nil
}

func (t *task) addExec(p *process) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.execs[p.id]; ok {
		return fmt.Errorf("exec %s: %w", p.id, errdefs.ErrAlreadyExists)
	}
	t.execs[p.id] = p
	return nil
}

func (t *task) dropExec(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.execs, id)
}

// isPaused asks the kernel: whoever owns the cgroup may freeze and thaw it without the shim.
func (t *task) isPaused() bool {
	st, err := t.c.Status()
	return err == nil && st == libcontainer.Paused
}

// freeze pauses or resumes the whole container.
func (t *task) freeze(pause bool) error {
	st := t.init.status()
	switch {
	case !st.started || st.exited:
		return fmt.Errorf("task %s is not running: %w", t.id, errdefs.ErrFailedPrecondition)
	case t.isPaused() == pause:
		return fmt.Errorf("task %s is in that state already: %w", t.id, errdefs.ErrFailedPrecondition)
	case pause:
		return t.c.Pause()
	}
	return t.c.Resume()
}

// kill signals the init, or every process of the container. A killed container is no longer paused: libcontainer thaws
// it so that the signal acts.
func (t *task) kill(sig unix.Signal, all bool) error {
	if t.init.status().exited {
		return errProcessGone
	}
	if all && sig != unix.SIGKILL {
		pids, err := t.c.Processes()
		if err != nil {
			return err
		}
		for _, pid := range pids {
			_ = unix.Kill(pid, sig) // one that has just gone is no error
		}
		return nil
	}
	if err := t.c.Signal(sig); err != nil {
		if errors.Is(err, libcontainer.ErrNotRunning) || errors.Is(err, os.ErrProcessDone) || errors.Is(err, unix.ESRCH) {
			return errProcessGone
		}
		return err
	}
	return nil
}

// destroy removes cgroup, state and mounts of a container whose init has exited.
func (t *task) destroy() error {
	if !t.init.status().exited {
		return fmt.Errorf("task %s is still running: %w", t.id, errdefs.ErrFailedPrecondition)
	}
	// A container that libcontainer remembers as frozen it would thaw first, which fails when its control group has been
	// removed meanwhile. Status makes it look again.
	if _, err := t.c.Status(); err != nil {
		return err
	}
	if err := t.c.Destroy(); err != nil {
		return err
	}
	return t.unmount()
}
