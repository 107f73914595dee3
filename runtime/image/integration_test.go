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
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/rs/zerolog"

	"github.com/thawpool/thawpool/runtime"
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
		dir, err := os.MkdirTemp("/var/tmp", "tp-")
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

// One test walks through the whole life of the default image, since making it is the slow part.
func TestDefaultImage(t *testing.T) {
	ctx, b := newBench(t)
	var ready image.Ready
	steps := []struct {
		name string
		step func(t *testing.T)
	}{
		{"made once by several at the same time", func(t *testing.T) { ready = b.ensureAtTheSameTime(ctx, t) }},
		{"found again", func(t *testing.T) {
			again, err := image.Ensure(ctx, b.Client, image.Default, b.log)
			if err != nil || fmt.Sprint(again) != fmt.Sprint(ready) {
				t.Errorf("first %v, then %v, %v", ready, again, err)
			}
		}},
		{"runs", func(t *testing.T) { b.checkPython(ctx, t, ready) }},
		{"has the guest", func(t *testing.T) { b.checkGuest(ctx, t, ready, true) }},
		{"is listed", func(t *testing.T) { b.checkList(ctx, t) }},
		{"replaces older ones", func(t *testing.T) { b.checkSuperseded(ctx, t) }},
		{"stays under a sandbox", func(t *testing.T) { b.checkInUse(ctx, t, ready) }},
		{"is mended", func(t *testing.T) {
			b.clear(ctx, t) // as a prune by other tools would
			again, err := image.Ensure(ctx, b.Client, "", b.log)
			if err != nil || fmt.Sprint(again) != fmt.Sprint(ready) {
				t.Errorf("first %v, then %v, %v", ready, again, err)
			}
		}},
		{"goes without a trace", func(t *testing.T) {
			if err := image.Remove(ctx, b.Client, image.Default, b.log); err != nil {
				t.Fatal(err)
			}
			if left := b.left(ctx, t); left != "" {
				t.Errorf("left behind: %s", left)
			}
		}},
	}
	for _, s := range steps {
		if !t.Run(s.name, s.step) {
			return
		}
	}
}

func (b *bench) ensureAtTheSameTime(ctx context.Context, t *testing.T) image.Ready {
	t.Helper()
	var group sync.WaitGroup
	results := make([]image.Ready, 3)
	errs := make([]error, 3)
	for i := range results {
		group.Go(func() { results[i], errs[i] = image.Ensure(ctx, b.Client, "", b.log) })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if results[0].ChainID != results[1].ChainID || results[1].ChainID != results[2].ChainID {
		t.Errorf("results differ: %v", results)
	}
	return results[0]
}

func (b *bench) checkPython(ctx context.Context, t *testing.T, ready image.Ready) {
	t.Helper()
	got := b.python(ctx, t, ready, `
import subprocess, sys, time
from zoneinfo import ZoneInfo
print(sys.executable, sys.version_info[:2], time.tzname[0], ZoneInfo("Europe/Paris"))
print(subprocess.run([sys.executable, "-c", "print(6*7)"], capture_output=True, env={}).stdout)
`)
	if want := "/usr/local/bin/python3 (3, 14) UTC Europe/Paris\nb'42\\n'\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// checkGuest looks for the runner, the mount points and their modes in an image's view.
func (b *bench) checkGuest(ctx context.Context, t *testing.T, ready image.Ready, compiled bool) {
	t.Helper()
	got := b.view(ctx, t, ready, `cd "$R"
stat -c '%n %F %U %a' opt/thawpool/runner.py proc sys tmp workspace run opt/thawpool
ls opt/thawpool/mcp/__pycache__ 2>/dev/null | grep -c . || true
touch workspace/x 2>/dev/null && echo WRITABLE || true`)
	for _, want := range []string{
		"opt/thawpool/runner.py regular file root 644", "proc directory root", "sys directory root", "run directory root",
		"tmp directory root 1777", "workspace directory root 755", "opt/thawpool directory root 755",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("view has no %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "WRITABLE") {
		t.Error("the view can be written to")
	}
	if none := strings.Contains(got, "\n0\n"); none == compiled {
		t.Errorf("guest compiled: %v, want %v:\n%s", !none, compiled, got)
	}
}

// checkSuperseded leaves what an earlier version would have left, and looks what goes.
func (b *bench) checkSuperseded(ctx context.Context, t *testing.T) {
	t.Helper()
	current := b.derived(t)
	made, err := image.DefaultName()
	if err != nil {
		t.Fatal(err)
	}
	for name, labels := range map[string]map[string]string{
		"python:0.1-abc": {image.LabelDefault: "abc"},
		"sandbox:unused": {image.LabelBase: image.Default},
		"sandbox:other":  {image.LabelBase: "docker.io/library/other:latest"},
	} {
		record, err := b.ImageService().Get(ctx, current)
		if err != nil {
			t.Fatal(err)
		}
		record.Name, record.Labels = image.Repository+name, labels
		if err := image.Record(ctx, b.Client, record, b.log); err != nil {
			t.Fatal(err)
		}
	}
	b.removeSuperseded(ctx, t, image.Default, current)
	left := b.left(ctx, t)
	for _, gone := range []string{"python:0.1-abc", "sandbox:unused"} {
		if strings.Contains(left, gone) {
			t.Errorf("%s is still there", gone)
		}
	}
	for _, kept := range []string{"sandbox:other", current, made} {
		if !strings.Contains(left, kept) {
			t.Errorf("%s is gone", kept)
		}
	}
}

func (b *bench) checkInUse(ctx context.Context, t *testing.T, ready image.Ready) {
	t.Helper()
	if _, err := b.snapshots.View(ctx, "sandbox", ready.ChainID, keep); err != nil {
		t.Fatal(err)
	}
	b.removeSuperseded(ctx, t, image.Default, "another version")
	if _, err := b.ImageService().Get(ctx, b.derived(t)); err != nil {
		t.Errorf("the image under a sandbox is gone: %v", err)
	}
	if err := b.snapshots.Remove(ctx, "sandbox"); err != nil {
		t.Fatal(err)
	}
	b.removeSuperseded(ctx, t, image.Default, "another version")
	if _, err := b.ImageService().Get(ctx, b.derived(t)); !errdefs.IsNotFound(err) {
		t.Errorf("the unused image is still there: %v", err)
	}
}

// derived is the name of what is derived from the default image.
func (b *bench) derived(t *testing.T) string {
	t.Helper()
	name, err := image.DerivedName()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// removeSuperseded does what an Ensure with another version does at its end.
func (b *bench) removeSuperseded(ctx context.Context, t *testing.T, ref, current string) {
	t.Helper()
	if err := image.RemoveSuperseded(ctx, b.Client, ref, current, b.log); err != nil {
		t.Fatal(err)
	}
}

func TestMissingImageSaysWhatToDo(t *testing.T) {
	ctx, b := newBench(t)
	_, err := image.Ensure(ctx, b.Client, "no/such:image", b.log)
	var hint *runtime.HintError
	if !errors.Is(err, runtime.ErrImage) || !errors.As(err, &hint) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"thawpool image pull no/such:image", "thawpool image import"} {
		if !strings.Contains(hint.Hint, want) {
			t.Errorf("hint %q has no %q", hint.Hint, want)
		}
	}
}

func (b *bench) checkList(ctx context.Context, t *testing.T) {
	t.Helper()
	infos, err := image.List(ctx, b.Client)
	if err != nil || len(infos) != 1 {
		t.Fatalf("list is %v, %v", infos, err)
	}
	if got := infos[0]; got.Ref != image.Default || got.Python != "/usr/local/bin/python3" || got.Size < 10<<20 || got.Updated.IsZero() {
		t.Errorf("listed as %+v", got)
	}
}

func TestNothingHere(t *testing.T) {
	ctx, b := newBench(t)
	if infos, err := image.List(ctx, b.Client); err != nil || len(infos) != 0 {
		t.Errorf("list is %v, %v", infos, err)
	}
	if err := image.Remove(ctx, b.Client, "docker.io/library/none", b.log); !errors.Is(err, runtime.ErrImage) {
		t.Errorf("removing a missing image: %v", err)
	}
	if err := image.Remove(ctx, b.Client, image.Default, b.log); err != nil {
		t.Errorf("removing the default image before it is made: %v", err)
	}
}

// A dead daemon is not a bad image.
func TestDaemonThatIsGoneIsUnavailable(t *testing.T) {
	c, err := containerd.New(filepath.Join(t.TempDir(), "none.sock"), containerd.WithDefaultNamespace("x"),
		containerd.WithTimeout(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := image.Ensure(t.Context(), c, "", zerolog.Nop()); !errors.Is(err, runtime.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}
