package ctrd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/errdefs"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/thawpool/thawpool/runtime/host"
)

// labelRuntime tells the Runtimes of one owner apart.
const labelRuntime = "thawpool.runtime"

// SweepConfig says where to look for what dead owners left.
type SweepConfig struct {
	Address string     // containerd's socket
	FIFODir string     // of sandboxes' FIFOs
	PID     int        // containerd's process: a shim of it that hangs is killed
	Group   host.Group // below which sandboxes' groups are
	// Alive tells whether an owner still lives: what it made stays.
	Alive func(host.Owner) bool
}

// Found counts what a sweep has removed.
type Found struct {
	Containers int // records, with their tasks
	Shims      int // of the Sandbox API
	Groups     int // without a record
	FIFOs      int // directories without a record
	Leases     int
}

// Any tells whether there was anything.
func (f Found) Any() bool { return f != Found{} }

// Plus is what was found in two sweeps.
func (f Found) Plus(g Found) Found {
	return Found{f.Containers + g.Containers, f.Shims + g.Shims, f.Groups + g.Groups, f.FIFOs + g.FIFOs, f.Leases + g.Leases}
}

// Kinds is how many of each kind were found, by names for metrics.
func (f Found) Kinds() map[string]int {
	return map[string]int{"containers": f.Containers, "shims": f.Shims, "groups": f.Groups, "fifos": f.FIFOs, "leases": f.Leases}
}

// MarshalZerologObject implements zerolog.LogObjectMarshaler.
func (f Found) MarshalZerologObject(e *zerolog.Event) {
	e.Int("containers", f.Containers).Int("shims", f.Shims).Int("groups", f.Groups).Int("fifos", f.FIFOs).Int("leases", f.Leases)
}

// Sweep removes the sandboxes of dead owners, and control groups and FIFOs that belong to no sandbox. It may run beside
// boots and destroys, and beside another sweep. An error tells what stays; the rest has been removed all the same.
func Sweep(ctx context.Context, c SweepConfig) (Found, error) {
	client, err := containerd.New(c.Address, containerd.WithDefaultNamespace(Namespace))
	if err != nil {
		return Found{}, fmt.Errorf("sweep: %w", kind(err))
	}
	defer func() { _ = client.Close() }()
	s := &sweep{SweepConfig: c, client: client}
	if err := s.run(ctx); err != nil {
		return s.found, fmt.Errorf("sweep: %w", kind(err))
	}
	return s.found, nil
}

type sweep struct {
	SweepConfig
	client *containerd.Client
	found  Found
}

func (s *sweep) run(ctx context.Context) error {
	// A record is made before and deleted after the group and the FIFOs. So what is listed now, and has no record in the
	// list after, belongs to nobody.
	groups, err := s.Group.Children()
	if err != nil {
		return err
	}
	fifos, err := os.ReadDir(s.FIFODir)
	if err != nil {
		return err
	}
	records, err := s.client.ContainerService().List(ctx)
	if err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	known := map[string]bool{}
	var errs []error
	for _, r := range records {
		known[r.ID] = true
		if s.dead(r.Labels) {
			errs = append(errs, s.count(&s.found.Containers, s.remove(ctx, r)))
		}
	}
	for _, name := range groups {
		if !known[name] {
			errs = append(errs, s.count(&s.found.Groups, s.removeGroup(ctx, name)))
		}
	}
	for _, e := range fifos {
		if !known[e.Name()] {
			errs = append(errs, s.count(&s.found.FIFOs, os.RemoveAll(filepath.Join(s.FIFODir, e.Name()))))
		}
	}
	errs = append(errs, s.removeShims(ctx), s.removeLeases(ctx))
	return errors.Join(errs...)
}

func (s *sweep) count(n *int, err error) error {
	if err == nil {
		*n++
	}
	return err
}

// dead tells whether something was made by us and its owner is gone.
func (s *sweep) dead(labels map[string]string) bool {
	text, ours := labels[host.LabelOwner]
	if !ours {
		return false
	}
	owner, err := host.ParseOwner(text)
	return err != nil || !s.Alive(owner)
}

func (s *sweep) removeGroup(ctx context.Context, name string) error {
	g := host.OpenGroup(s.Group.Version(), path.Join(s.Group.Path(), name))
	if err := g.Kill(ctx); err != nil {
		return fmt.Errorf("sandbox %s: %w", name, err)
	}
	return g.Remove()
}

// remove takes one sandbox away, in whatever state it is.
func (s *sweep) remove(ctx context.Context, r containers.Container) error {
	// The group stays until the runtime has let go of the task: it looks at the freezer.
	if err := host.OpenGroup(s.Group.Version(), path.Join(s.Group.Path(), r.ID)).Kill(ctx); err != nil {
		return fmt.Errorf("sandbox %s: %w", r.ID, err)
	}
	ref := shimRef{daemon: s.PID, id: r.SandboxID}
	if ref.id == "" {
		ref.id = r.ID
	}
	if err := removeTask(ctx, s.client.TaskService(), r.ID, ref); err != nil {
		return fmt.Errorf("task %s: %w", r.ID, err)
	}
	if err := s.removeGroup(ctx, r.ID); err != nil { // a process that was not in it yet
		return err
	}
	if err := os.RemoveAll(filepath.Join(s.FIFODir, r.ID)); err != nil {
		return err
	}
	if err := s.client.ContainerService().Delete(ctx, r.ID); err != nil && !absent(err) {
		return fmt.Errorf("container %s: %w", r.ID, err)
	}
	return nil
}

// removeTask kills and deletes a task. One that is not there is no error.
func removeTask(ctx context.Context, service tasks.TasksClient, id string, ref shimRef) error {
	err := ref.ask(ctx, func(ctx context.Context) error {
		_, err := service.Kill(ctx, &tasks.KillRequest{ContainerID: id, Signal: uint32(unix.SIGKILL), All: true})
		return err
	})
	if err != nil && unavailable(err) {
		return err
	}
	deadline := time.Now().Add(shimPatience)
	tick := time.NewTicker(deletePoll)
	defer tick.Stop()
	for {
		err := ref.ask(ctx, func(ctx context.Context) error { return deleteTask(ctx, service, ref.daemon, id) })
		if err == nil || absent(err) {
			return nil
		}
		if unavailable(err) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-tick.C: // its end is not seen yet, or the runtime is still at it
		case <-ctx.Done():
			return fmt.Errorf("it does not end: %w: %w", ctx.Err(), err)
		}
	}
}

func (s *sweep) removeShims(ctx context.Context) error {
	all, err := s.client.SandboxStore().List(ctx)
	if err != nil {
		return fmt.Errorf("list shims: %w", err)
	}
	var errs []error
	for _, sb := range all {
		if s.dead(sb.Labels) {
			errs = append(errs, s.count(&s.found.Shims, removeShim(ctx, s.client, shimRef{s.PID, sb.ID})))
		}
	}
	return errors.Join(errs...)
}

func (s *sweep) removeLeases(ctx context.Context) error {
	manager := s.client.LeasesService()
	all, err := manager.List(ctx)
	if err != nil {
		return fmt.Errorf("list leases: %w", err)
	}
	var errs []error
	for _, l := range all {
		if !s.dead(l.Labels) {
			continue
		}
		err := manager.Delete(ctx, leases.Lease{ID: l.ID}, leases.SynchronousDelete)
		if errdefs.IsNotFound(err) {
			err = nil
		}
		errs = append(errs, s.count(&s.found.Leases, err))
	}
	return errors.Join(errs...)
}

// sweepOwn removes what this same Runtime left in the backend: one that was lost may come back with its records.
func (s *session) sweepOwn(ctx context.Context) error {
	filter := fmt.Sprintf("labels.%q==%q,labels.%q==%q", host.LabelOwner, s.cfg.Owner.String(), labelRuntime, s.label)
	records, err := s.records.List(ctx, filter)
	if err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	w := &sweep{client: s.client, SweepConfig: SweepConfig{
		FIFODir: s.backend.FIFODir, PID: s.backend.PID, Group: host.OpenGroup(s.backend.Cgroup, s.backend.HostPath),
	}}
	for _, r := range records {
		if err := w.remove(ctx, r); err != nil {
			return err
		}
	}
	left, err := s.client.SandboxStore().List(ctx, filter)
	if err != nil {
		return fmt.Errorf("list shims: %w", err)
	}
	for _, sb := range left {
		if err := removeShim(ctx, s.client, shimRef{s.backend.PID, sb.ID}); err != nil {
			return err
		}
	}
	return nil
}
