//go:build integration

package image_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/rs/zerolog"

	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
	"github.com/thawpool/thawpool/runtime/image"
)

// shared is the daemon of all tests of this package, each of which has a containerd namespace of its own in it.
var shared struct {
	once sync.Once
	dir  string
}

func TestMain(m *testing.M) {
	if err := installMmdebstrap(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	ctrdtest.Main(m, image.RemoveTestRoot, func() error {
		if shared.dir == "" {
			return nil
		}
		return ctrdtest.RemoveState(shared.dir)
	})
}

// connect returns a client of the daemon, and its process.
func connect(t *testing.T) (*containerd.Client, int) {
	t.Helper()
	shared.once.Do(func() {
		dir, err := os.MkdirTemp("/var/tmp", "tp-") //nolint:usetesting // other tests use it after this one
		if err != nil {
			t.Fatal(err)
		}
		shared.dir = filepath.Join(dir, "s")
	})
	d := ctrdtest.OpenEnv(t, shared.dir).Ensure(t)
	c, err := containerd.New(d.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, d.PID()
}

// inNamespace is a context for a containerd namespace, also for what runs after the test.
func inNamespace(t *testing.T, name string) context.Context {
	return namespaces.WithNamespace(context.WithoutCancel(t.Context()), name)
}

// A bench is a containerd namespace of one test's own, with nothing in it at the start and nothing left at the end.
type bench struct {
	*containerd.Client
	snapshots snapshots.Snapshotter
	pid       int // a process in the daemon's namespaces
	log       zerolog.Logger
}

// newBench gives a test its own namespace, which the context names.
func newBench(t *testing.T) (context.Context, *bench) {
	t.Helper()
	client, pid := connect(t)
	name := "image-" + strings.ToLower(t.Name())
	ctx := inNamespace(t, name)
	snapshotter, err := image.Snapshotter(ctx, client)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{client, client.SnapshotService(snapshotter), pid, zerolog.New(zerolog.NewTestWriter(t))}
	t.Cleanup(func() {
		ctx := inNamespace(t, name)
		b.clear(ctx, t)
		if err := client.NamespaceService().Delete(ctx, name); err != nil && !errdefs.IsNotFound(err) {
			t.Error(err)
		}
	})
	return ctx, b
}

// clear removes every image and checks that the collector then finds nothing that is still held.
func (b *bench) clear(ctx context.Context, t *testing.T) {
	t.Helper()
	records, err := b.ImageService().List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range records {
		if err := b.ImageService().Delete(ctx, record.Name, images.SynchronousDelete()); err != nil {
			t.Error(err)
		}
	}
	if left := b.left(ctx, t); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

// left runs the garbage collector and names the images, blobs, snapshots, unfinished writes and leases that remain.
func (b *bench) left(ctx context.Context, t *testing.T) string {
	t.Helper()
	manager := b.LeasesService()
	lease, err := manager.Create(ctx, leases.WithRandomID())
	if err != nil {
		t.Fatal(err)
	}
	if err := manager.Delete(ctx, lease, leases.SynchronousDelete); err != nil {
		t.Fatal(err)
	}
	var left []string
	records, err := b.ImageService().List(ctx)
	for _, record := range records {
		left = append(left, "image "+record.Name)
	}
	err = errors.Join(err, b.ContentStore().Walk(ctx, func(info content.Info) error {
		left = append(left, "blob "+info.Digest.String())
		return nil
	}))
	err = errors.Join(err, b.snapshots.Walk(ctx, func(_ context.Context, info snapshots.Info) error {
		left = append(left, "snapshot "+info.Name)
		return nil
	}))
	writes, werr := b.ContentStore().ListStatuses(ctx)
	for _, write := range writes {
		left = append(left, "write "+write.Ref)
	}
	held, lerr := manager.List(ctx)
	for _, lease := range held {
		left = append(left, "lease "+lease.ID)
	}
	if err := errors.Join(err, werr, lerr); err != nil {
		t.Fatal(err)
	}
	return strings.Join(left, ", ")
}

// keep holds a snapshot against the garbage collector, as a container record does in real life.
var keep = snapshots.WithLabels(map[string]string{"containerd.io/gc.root": "test"})

// view mounts a read-only view of an image in the daemon's namespaces and runs a shell script there, with the mount
// point in $R. The view is removed afterwards.
func (b *bench) view(ctx context.Context, t *testing.T, ready image.Ready, script string) string {
	t.Helper()
	key := "view-of-" + t.Name()
	mounts, err := b.SnapshotService(ready.Snapshotter).View(ctx, key, ready.ChainID, keep)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.snapshots.Remove(ctx, key); err != nil {
			t.Error(err)
		}
	}()
	out, err := b.inside(ctx, mountScript(t, mounts)+script).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// mountScript mounts what a snapshotter says on $R, in a mount namespace that ends with the script.
func mountScript(t *testing.T, mounts []mount.Mount) string {
	t.Helper()
	if len(mounts) != 1 {
		t.Fatalf("a read-only view is one mount, not %v", mounts)
	}
	m := mounts[0]
	options := strings.Join(m.Options, ",")
	for _, option := range m.Options {
		if strings.HasPrefix(option, "upperdir=") || option == "rw" {
			t.Errorf("the view can be written to: %s", options)
		}
	}
	kind := "-t " + m.Type
	if m.Type == "bind" {
		kind = "--bind"
	}
	return fmt.Sprintf("set -e; R='%s'; mount %s -o '%s' '%s' \"$R\"\n", t.TempDir(), kind, options, m.Source)
}

// inside runs a shell script in a mount namespace below the daemon's.
func (b *bench) inside(ctx context.Context, script string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", "-U", "--preserve-credentials", "-m", "-t", strconv.Itoa(b.pid),
		"unshare", "-m", "sh", "-c", script)
}

// python runs code with the image's Python, chrooted into its view.
func (b *bench) python(ctx context.Context, t *testing.T, ready image.Ready, code string) string {
	t.Helper()
	return b.view(ctx, t, ready, fmt.Sprintf("mount --rbind /dev \"$R/dev\"; exec env -i %s /usr/sbin/chroot \"$R\" %s -c '%s'",
		strings.Join(ready.Env, " "), ready.Python, code))
}
