package ctrd

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"golang.org/x/sys/unix"
)

// removerPatience is how long the program may take that containerd runs at each task's end. It takes a millisecond, or as
// long as a runtime needs to kill; what it would do after that is done here as well.
const removerPatience = shimPatience / 2

// deleteTask asks containerd to delete a task. The program that it runs for that is killed when it hangs: containerd would
// wait for it much longer than anybody for containerd, and the shim would be blamed.
func deleteTask(ctx context.Context, service tasks.TasksClient, daemon int, id string) error {
	t := time.AfterFunc(removerPatience, func() { killRemover(daemon, id) })
	defer t.Stop()
	_, err := service.Delete(ctx, &tasks.DeleteTaskRequest{ContainerID: id})
	return err
}

// killRemover kills what containerd runs in a task's directory: of a task that is being deleted that is one program. It has
// whatever name its runtime gives it.
func killRemover(daemon int, id string) {
	for _, pid := range processesThat(func(dir string) bool {
		cwd, err := os.Readlink(filepath.Join(dir, "cwd"))
		return err == nil && filepath.Base(cwd) == id && parent(dir) == daemon
	}) {
		_ = unix.Kill(pid, unix.SIGKILL) // one that has ended meanwhile is as good
	}
}

// parent is that of a process whose directory in /proc this is; 0 when it has gone.
func parent(dir string) int {
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "PPid:"); ok {
			pid, _ := strconv.Atoi(strings.TrimSpace(text))
			return pid
		}
	}
	return 0
}
