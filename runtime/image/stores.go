package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/defaults"
	"github.com/containerd/containerd/v2/plugins"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/gofrs/flock"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/rs/zerolog"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/host"
)

// stores are containerd's services as this package uses them, for the length of one call.
type stores struct {
	client      *containerd.Client
	images      images.Store
	content     content.Store
	snapshots   snapshots.Snapshotter
	snapshotter string
	platform    platforms.MatchComparer
	log         zerolog.Logger
}

func newStores(ctx context.Context, c *containerd.Client, log zerolog.Logger) (*stores, error) {
	name, err := snapshotterOf(ctx, c)
	if err != nil {
		return nil, kind(fmt.Errorf("choose a snapshotter: %w", err))
	}
	return &stores{
		client:      c,
		images:      c.ImageService(),
		content:     c.ContentStore(),
		snapshots:   c.SnapshotService(name),
		snapshotter: name,
		platform:    platforms.Only(platforms.DefaultSpec()),
		log:         log,
	}, nil
}

// fallbackSnapshotter keeps whole copies of directories. It works everywhere and costs disk, no time: sandboxes only
// read, and a read-only view of it is a bind mount.
const fallbackSnapshotter = "native"

// snapshotterOf picks the daemon's snapshotter: the one that the namespace's label asks for, else overlayfs, else, where
// a kernel has no overlayfs for user namespaces, native.
func snapshotterOf(ctx context.Context, c *containerd.Client) (string, error) {
	label, err := c.GetLabel(ctx, defaults.DefaultSnapshotterNSLabel)
	if err != nil && !errdefs.IsNotFound(err) {
		return "", err
	}
	if label != "" {
		return label, nil
	}
	answer, err := c.IntrospectionService().Plugins(ctx, "type=="+plugins.SnapshotPlugin.String())
	if err != nil {
		return "", err
	}
	works := map[string]bool{}
	for _, plugin := range answer.Plugins {
		works[plugin.ID] = plugin.InitErr == nil
	}
	for _, name := range []string{defaults.DefaultSnapshotter, fallbackSnapshotter} {
		if works[name] {
			return name, nil
		}
	}
	return "", runtime.WithHint(fmt.Errorf("%w: containerd has neither overlayfs nor native", runtime.ErrUnsupported),
		"enable the overlayfs or the native snapshotter in containerd's configuration")
}

// leaseExpiry frees what a call leaves when the process dies in the middle of it and no keeper sweeps after it.
const leaseExpiry = time.Hour

// withLease protects everything that is written under the returned context from the garbage collector until release is
// called. With success false the collector has run when release returns, so that a failed call leaves nothing.
func (s *stores) withLease(ctx context.Context) (_ context.Context, release func(success bool), _ error) {
	if _, held := leases.FromContext(ctx); held {
		return ctx, func(bool) {}, nil // whoever took it gives it back
	}
	self, err := host.Self()
	if err != nil {
		return nil, nil, err
	}
	leased, _, err := s.client.WithLease(ctx, leases.WithRandomID(), leases.WithExpiration(leaseExpiry),
		leases.WithLabel(host.LabelOwner, self.String()))
	if err != nil {
		return nil, nil, fmt.Errorf("take a lease: %w", err)
	}
	id, _ := leases.FromContext(leased)
	return leased, func(success bool) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		var opts []leases.DeleteOpt
		if !success {
			opts = append(opts, leases.SynchronousDelete)
		}
		if err := s.client.LeasesService().Delete(ctx, leases.Lease{ID: id}, opts...); err != nil {
			s.log.Warn().Err(err).Msg("an image lease stays until it expires")
		}
	}, nil
}

// manifestOf reads the manifest and config of the image for this machine.
func (s *stores) manifestOf(ctx context.Context, target ocispec.Descriptor) (ocispec.Manifest, ocispec.Image, error) {
	var config ocispec.Image
	documents := smallBlobs{s.content}
	manifest, err := images.Manifest(ctx, documents, target, s.platform)
	if err != nil {
		return manifest, config, fmt.Errorf("read manifest for %s: %w", platforms.DefaultString(), err)
	}
	data, err := content.ReadBlob(ctx, documents, manifest.Config)
	if err != nil {
		return manifest, config, fmt.Errorf("read config: %w", err)
	}
	if err := json.Unmarshal(data, &config); err != nil {
		return manifest, config, fmt.Errorf("read config: %w", err)
	}
	return manifest, config, nil
}

// maxDocument bounds an index, manifest or config in bytes: they are read into memory. Registries refuse more than 4 MiB.
const maxDocument = 8 << 20

// smallBlobs gives access to JSON documents and refuses what is too big to be one.
type smallBlobs struct{ content.Provider }

func (b smallBlobs) ReaderAt(ctx context.Context, desc ocispec.Descriptor) (content.ReaderAt, error) {
	ra, err := b.Provider.ReaderAt(ctx, desc)
	if err != nil {
		return nil, err
	}
	if ra.Size() > maxDocument {
		return nil, errors.Join(fmt.Errorf("%w: a document of %d bytes", errTooBig, ra.Size()), ra.Close())
	}
	return ra, nil
}

// lookup tells whether a derived image is there, whole and unpacked. What has been damaged counts as absent.
func (s *stores) lookup(ctx context.Context, ref, name string) (Ready, bool, error) {
	absent := func(err error) (Ready, bool, error) {
		if errdefs.IsNotFound(err) {
			err = nil
		}
		return Ready{}, false, err
	}
	record, err := s.images.Get(ctx, name)
	if err != nil {
		return absent(err)
	}
	_, config, err := s.manifestOf(ctx, record.Target)
	if err != nil {
		return absent(err)
	}
	chain := identity.ChainID(config.RootFS.DiffIDs).String()
	if _, err := s.snapshots.Stat(ctx, chain); err != nil {
		return absent(err)
	}
	return Ready{
		Ref:         ref,
		Digest:      record.Target.Digest,
		ChainID:     chain,
		Snapshotter: s.snapshotter,
		Env:         config.Config.Env,
		Python:      record.Labels[labelPython],
	}, true, nil
}

// workDir is where the embedded Python is extracted for the time of a build: the user's cache, which unlike /tmp is
// seldom mounted noexec.
func workDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "thawpool")
	return dir, os.MkdirAll(dir, 0o700)
}

const (
	// lockPoll is how often a waiting process looks whether the other one is done. A build takes seconds.
	lockPoll = 50 * time.Millisecond
	// lockPatience is how long it waits: the other one may be stopped, or have a tenth of a processor.
	lockPatience = time.Minute
)

// lockWork makes processes of one user build one after the other. It only saves double work: without the lock both
// write the same content. So it gives up where there is no place for a lock file, and after some patience.
func lockWork(ctx context.Context, log zerolog.Logger, patience time.Duration) (unlock func()) {
	dir, err := workDir()
	if err != nil {
		log.Debug().Err(err).Msg("no place for an image lock")
		return func() {}
	}
	lock := flock.New(filepath.Join(dir, "image.lock"))
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := lock.TryLockContext(ctx, lockPoll); err != nil {
		log.Info().Err(err).Str("lock", lock.Path()).Msg("images are made without waiting for the process that makes some")
	}
	return func() { _ = lock.Close() } // closing unlocks; the file stays for the next
}

// isKind tells whether an error already says which of the runtime's kinds it is.
func isKind(err error) bool {
	for _, kind := range []error{runtime.ErrImage, runtime.ErrUnavailable, runtime.ErrUnsupported, runtime.ErrLost} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}
