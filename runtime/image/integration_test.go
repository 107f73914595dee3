//go:build integration

package image_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/errdefs"
	"github.com/rs/zerolog"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/image"
)

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
print(subprocess.run(["sleep", "0.01"]).returncode)
`)
	if want := "/usr/local/bin/python3 (3, 14) UTC Europe/Paris\nb'42\\n'\n0\n"; got != want {
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

// TestSettlingThatWasCutOff: what it held is given back by the next one.
func TestSettlingThatWasCutOff(t *testing.T) {
	ctx, b := newBench(t)
	if _, err := b.LeasesService().Create(ctx, leases.WithID(image.SettleLease)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.snapshots.Prepare(leases.WithLease(ctx, image.SettleLease), "cut-off", ""); err != nil {
		t.Fatal(err)
	}
	if err := image.Settle(ctx, b.Client); err != nil {
		t.Fatal(err)
	}
	if left := b.left(ctx, t); left != "" {
		t.Errorf("left behind: %s", left)
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
