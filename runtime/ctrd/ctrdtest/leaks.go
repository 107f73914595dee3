package ctrdtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/snapshots"

	"github.com/thawpool/thawpool/runtime/ctrd"
	"github.com/thawpool/thawpool/runtime/daemon"
	"github.com/thawpool/thawpool/runtime/host"
)

// Leaks are the things of one state directory that exist now, by kind. What belongs to the daemon itself (keeper,
// rootlesskit, containerd, image) is not among them.
type Leaks map[string][]string

// The kinds that are counted.
const (
	Processes  = "processes"  // shims, sandboxed and orphaned ones
	Mounts     = "mounts"     // of bundles, in the daemon's namespace
	Cgroups    = "cgroups"    // of sandboxes
	Containers = "containers" // records
	Tasks      = "tasks"
	Shims      = "shims" // records of containerd's Sandbox API
	Snapshots  = "snapshots"
	Leases     = "leases"
	FIFOs      = "fifos"   // directories of them
	Sockets    = "sockets" // of shims, and of servers for operators
	Bundles    = "bundles" // directories of tasks and shims
	Temp       = "temporary files"
	Users      = "users" // registered at the daemon, dead or alive
)

// Minus is what was not there in base.
func (l Leaks) Minus(base Leaks) Leaks {
	more := Leaks{}
	for kind, names := range l {
		names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(base[kind], n) })
		if len(names) > 0 {
			more[kind] = names
		}
	}
	return more
}

func (l Leaks) String() string {
	if len(l) == 0 {
		return "nothing"
	}
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(l)) {
		fmt.Fprintf(&b, "%d %s: %s\n", len(l[kind]), kind, strings.Join(l[kind], ", "))
	}
	return strings.TrimSpace(b.String())
}

func (l Leaks) add(kind string, names ...string) {
	if len(names) > 0 {
		l[kind] = append(l[kind], names...)
	}
}

// RequireNone waits until nothing is there that was not in base, and fails the test if that does not come about.
func (e *Env) RequireNone(t testing.TB, base Leaks) {
	t.Helper()
	Await(t, "nothing is left", func() error {
		l, err := e.Count()
		if err != nil {
			return err
		}
		if l = l.Minus(base); len(l) > 0 {
			return errors.New(l.String())
		}
		return nil
	})
}

// Count looks at everything. Without a running daemon there is nothing that only a daemon can tell.
func (e *Env) Count() (Leaks, error) {
	l := Leaks{}
	for dir, kind := range map[string]string{
		"fifo": FIFOs, "run/s": Sockets, "status": Sockets, "users": Users, "outputs": Temp, "root/tmpmounts": Temp,
	} {
		if err := l.addIn(kind, filepath.Join(e.StateDir, dir)); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(l.addIn(Temp, e.TempDir()), l.addHidden(e.StateDir)); err != nil {
		return nil, err
	}
	if g, ok := e.group(); ok {
		names, err := g.Children()
		if err != nil {
			return nil, err
		}
		l.add(Cgroups, names...)
	}
	containerd, err := e.processes(l)
	if err != nil || containerd == 0 {
		return l, err
	}
	if err := mounts(l, containerd); err != nil {
		return nil, err
	}
	inside := fmt.Sprintf("/proc/%d/root", containerd) // state is a tmpfs of the daemon's own
	for _, dir := range []string{"state", "root"} {
		for _, plugin := range []string{"io.containerd.runtime.v2.task", "io.containerd.sandbox.controller.v1.shim"} {
			if err := l.addIn(Bundles, filepath.Join(inside, daemon.Inside, dir, plugin, ctrd.Namespace)); err != nil {
				return nil, err
			}
		}
	}
	if err := l.addIn(Temp, filepath.Join(inside, daemon.Temp)); err != nil {
		return nil, err
	}
	return l, e.records(l)
}

// TempDir is the directory of temporary files of programs that a test starts on this state, if it says so to them.
func (e *Env) TempDir() string { return filepath.Join(filepath.Dir(e.StateDir), "tmp") }

// addIn adds what is in a directory, if there is one.
func (l Leaks) addIn(kind, dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		l.add(kind, e.Name())
	}
	return err
}

// addHidden adds the files that are being written in a directory, to be renamed then.
func (l Leaks) addHidden(dir string) error {
	hidden, err := filepath.Glob(filepath.Join(dir, ".*"))
	l.add(Temp, hidden...)
	return err
}

// group is where the sandboxes' groups are, if a keeper has ever said so.
func (e *Env) group() (host.Group, bool) {
	r, err := e.record()
	if err != nil || r.HostPath == "" {
		return host.Group{}, false
	}
	return host.OpenGroup(r.Cgroup, r.HostPath), true
}

// Group is the control group of a sandbox.
func (e *Env) Group(id string) host.Group {
	r, err := e.record()
	if err != nil {
		return host.Group{}
	}
	return host.OpenGroup(r.Cgroup, filepath.Join(r.HostPath, id))
}

// processes counts those that are not the daemon's own, and gives containerd's pid if it runs.
func (e *Env) processes(l Leaks) (containerd int, err error) {
	tree, err := e.Tree()
	if err != nil {
		return 0, err
	}
	keeper, alive := e.Keeper()
	rk := "--state-dir=" + filepath.Join(e.StateDir, "rk")
	counted := map[int]bool{}
	for _, p := range tree {
		switch {
		case p.State == 'Z': // its parent's to reap: held by nobody else
		case p.PID == keeper.PID:
		case p.Is("containerd") && alive:
			containerd = p.PID
		case slices.Contains(p.Args, rk) && alive:
		default:
			counted[p.PID] = true
			l.add(Processes, p.String())
		}
	}
	g, ok := e.group()
	if !ok {
		return containerd, nil
	}
	pids, err := g.Procs()
	for _, pid := range pids {
		if !counted[pid] {
			l.add(Processes, strconv.Itoa(pid))
		}
	}
	return containerd, err
}

// mounts counts the mounts in the daemon's namespace that belong to tasks.
func mounts(l Leaks, containerd int) error {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", containerd))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) > 4 && strings.Contains(fields[4], "/io.containerd.runtime.v2.task/") {
			l.add(Mounts, fields[4])
		}
	}
	return nil
}

// records asks containerd what it knows.
func (e *Env) records(l Leaks) error {
	c, err := e.Client()
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	containers, err := c.ContainerService().List(ctx)
	if err != nil {
		return err
	}
	for _, r := range containers {
		l.add(Containers, r.ID)
	}
	running, err := c.TaskService().List(ctx, &tasks.ListTasksRequest{})
	if err != nil {
		return err
	}
	for _, t := range running.GetTasks() {
		l.add(Tasks, t.GetID())
	}
	shims, err := c.SandboxStore().List(ctx)
	if err != nil {
		return err
	}
	for _, s := range shims {
		l.add(Shims, s.ID)
	}
	leases, err := c.LeasesService().List(ctx)
	if err != nil {
		return err
	}
	for _, x := range leases {
		l.add(Leases, x.ID)
	}
	return snapshotsOf(ctx, c, l)
}

// snapshotsOf counts views and writable snapshots. Committed ones are images' layers.
func snapshotsOf(ctx context.Context, c *containerd.Client, l Leaks) error {
	for _, name := range []string{"overlayfs", "native"} {
		err := c.SnapshotService(name).Walk(ctx, func(_ context.Context, info snapshots.Info) error {
			if info.Kind != snapshots.KindCommitted {
				l.add(Snapshots, info.Name)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Client is a containerd client in thawpool's namespace, for the caller to close.
func (e *Env) Client() (*containerd.Client, error) {
	return containerd.New(filepath.Join(e.StateDir, "run", "containerd.sock"), containerd.WithDefaultNamespace(ctrd.Namespace))
}
