package ctrd

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"sync"
	"time"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	apitypes "github.com/containerd/containerd/api/types"
	"github.com/containerd/containerd/api/types/runc/options"
	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/errdefs"
	"github.com/containerd/typeurl/v2"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/guest"
	"github.com/thawpool/thawpool/runtime/host"
)

// closePatience bounds what closing a session asks of the daemon.
const closePatience = 10 * time.Second

// session is one backend as long as it lives. Everything but shims and the wait group is fixed once it is made.
type session struct {
	cfg     Config
	label   string
	backend *Backend
	client  *containerd.Client
	tasks   tasks.TasksClient
	records containers.Store
	facts   runtime.SpecHost

	view    string             // key of the read-only snapshot that all sandboxes stand on
	rootfs  []*apitypes.Mount  // of the view
	lease   string             // holds the view
	options typeurl.Any        // of the runtime
	runtime string             // as it stands in container records
	shims   *shims             // places for sandboxes
	ctx     context.Context    // ends when the backend is lost or the session closed
	end     context.CancelFunc // ends ctx
	work    workers            // goroutines of the session and its sandboxes
	once    sync.Once          // closes
	failure error              // of closing
}

func newSession(ctx context.Context, c Config, label string, b *Backend) (_ *session, err error) {
	client, err := containerd.New(b.Address, containerd.WithDefaultNamespace(Namespace))
	if err != nil {
		return nil, fmt.Errorf("%w: connect to containerd: %w", runtime.ErrUnavailable, err)
	}
	s := &session{cfg: c, label: label, backend: b, client: client, tasks: client.TaskService(), records: client.ContainerService()}
	s.ctx, s.end = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			s.end()
			err = errors.Join(err, client.Close())
		}
	}()
	if s.facts, err = hostFacts(b); err != nil {
		return nil, err
	}
	if s.runtime, s.options, err = runtimeRecord(c); err != nil {
		return nil, err
	}
	if err := s.sweepOwn(ctx); err != nil {
		return nil, err
	}
	if err := s.openView(ctx); err != nil {
		return nil, fmt.Errorf("view of image %s: %w", b.Image.Ref, err)
	}
	s.shims = newShims(s)
	s.work.Go(func() {
		select {
		case <-b.Lost:
			c.Log.Warn().Msg("containerd was lost with its sandboxes")
			if c.OnLost != nil {
				c.OnLost()
			}
			s.end()
		case <-s.ctx.Done():
		}
	})
	return s, nil
}

// runtimeRecord is the runtime's name and options in container records.
func runtimeRecord(c Config) (string, typeurl.Any, error) {
	switch c.Runtime {
	case RuntimeThawpool:
		// Its sandboxes join a running shim; this program is only run when a task is deleted.
		return filepath.Join(c.BinDir, "thawpool-delete"), nil, nil
	case RuntimeRunc:
		o, err := typeurl.MarshalAny(&options.Options{BinaryName: filepath.Join(c.BinDir, "runc")})
		return c.Runtime, o, err
	default:
		return c.Runtime, nil, nil
	}
}

// openView makes sure of the shared view and of a lease that keeps it as long as this session lives.
func (s *session) openView(ctx context.Context) error {
	img := s.backend.Image
	s.view = "thawpool-view-" + img.Digest.Encoded()
	s.lease = fmt.Sprintf("thawpool-%s-%s", s.cfg.Owner, s.label)
	manager := s.client.LeasesService()
	labels := map[string]string{host.LabelOwner: s.cfg.Owner.String()}
	_, err := manager.Create(ctx, leases.WithID(s.lease), leases.WithLabels(labels))
	if err != nil && !errdefs.IsAlreadyExists(err) {
		return err
	}
	ctx = leases.WithLease(ctx, s.lease)
	snapshotter := s.client.SnapshotService(img.Snapshotter)
	resource := leases.Resource{ID: s.view, Type: "snapshots/" + img.Snapshotter}
	// Another session's view may go between being found and being held, hence the second look.
	for {
		_, err := snapshotter.View(ctx, s.view, img.ChainID)
		switch {
		case errdefs.IsAlreadyExists(err):
			if err := manager.AddResource(ctx, leases.Lease{ID: s.lease}, resource); err != nil {
				return err
			}
		case errdefs.IsNotFound(err):
			return fmt.Errorf("%w: its snapshot was removed: %w", runtime.ErrImage, err)
		case err != nil:
			return err
		}
		mounts, err := snapshotter.Mounts(ctx, s.view)
		if errdefs.IsNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		for _, m := range mounts {
			s.rootfs = append(s.rootfs, &apitypes.Mount{Type: m.Type, Source: m.Source, Target: m.Target, Options: m.Options})
		}
		return nil
	}
}

// specOf is a sandbox's OCI spec.
func (s *session) specOf(id string, annotations map[string]string) (typeurl.Any, error) {
	img := s.backend.Image
	return typeurl.MarshalAny(runtime.NewSpec(runtime.SpecConfig{
		Args:        guest.Argv(img.Python, guest.Dir),
		Env:         environment(img.Env, s.cfg.Preload),
		CgroupsPath: path.Join(s.backend.SpecPath, id),
		Limits:      s.cfg.Limits,
		Annotations: annotations,
		Host:        s.facts,
	}))
}

// group is a sandbox's control group.
func (s *session) group(id string) host.Group {
	return host.OpenGroup(s.backend.Cgroup, path.Join(s.backend.HostPath, id))
}

// lost tells whether there is no daemon to ask any more.
func (s *session) lost() bool {
	select {
	case <-s.backend.Lost:
		return true
	default:
		return false
	}
}

// close ends the session. Sandboxes that are left are somebody's mistake and left to the sweep.
func (s *session) close() error {
	s.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closePatience)
		defer cancel()
		var errs []error
		if !s.lost() {
			errs = append(errs, s.shims.close(ctx))
			// Synchronous, so that a view without another user goes now and not with some later collection.
			err := s.client.LeasesService().Delete(ctx, leases.Lease{ID: s.lease}, leases.SynchronousDelete)
			if err != nil && !errdefs.IsNotFound(err) {
				errs = append(errs, fmt.Errorf("release the image: %w", err))
			}
		}
		s.end()
		s.work.Wait() // for empty shims that are just ending, too
		errs = append(errs, s.client.Close())
		s.backend.Close()
		s.failure = errors.Join(errs...)
	})
	return s.failure
}
