package ctrd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	taskapi "github.com/containerd/containerd/api/runtime/task/v3"
	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/ttrpc"
)

// line is a direct connection to a shim of our own, past containerd. A thaw by it takes half the time, and the shim knows
// of it as of any other: only the way is shorter.
type line struct {
	client *ttrpc.Client
	tasks  taskapi.TTRPCTaskService
}

// dialShim connects to a shim's socket. A socket's whole path may be longer than the kernel takes, so it is reached
// through its directory.
func dialShim(path string) (*line, error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	conn, err := net.Dial("unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
	if err != nil {
		return nil, fmt.Errorf("dial shim: %w", err)
	}
	client := ttrpc.NewClient(conn)
	return &line{client: client, tasks: taskapi.NewTTRPCTaskClient(client)}, nil
}

func (l *line) close() {
	if l != nil {
		_ = l.client.Close()
	}
}

// resume thaws a task by the shortest way there is.
func (b *sandbox) resume(ctx context.Context) error {
	if l := b.shim.line; l != nil {
		_, err := l.tasks.Resume(ctx, &taskapi.ResumeRequest{ID: b.id})
		if !errors.Is(err, ttrpc.ErrClosed) {
			return err
		} // the shim has died, or only this connection: containerd can tell
	}
	_, err := b.s.tasks.Resume(ctx, &tasks.ResumeTaskRequest{ContainerID: b.id})
	return err
}
