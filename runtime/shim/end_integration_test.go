//go:build integration

package shim_test

import (
	"fmt"
	"testing"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/oci"
	"golang.org/x/sync/errgroup"

	"github.com/thawpool/thawpool/runtime/host"
	"github.com/thawpool/thawpool/runtime/shim"
)

// A killed container can be deleted although its control group, in which it was frozen, has been removed.
func TestDeleteWithoutControlGroup(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	x := b.start("groupless", "import time\nprint('up')\ntime.sleep(3600)")
	b.line(x)
	if err := x.task.Pause(ctx); err != nil {
		t.Fatal(err)
	}
	group := b.e.Group("groupless")
	if err := group.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	if code := b.exit(x); code != 137 {
		t.Errorf("exit status %d, want 137", code)
	}
	if err := group.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := x.task.Delete(ctx); err != nil {
		t.Errorf("delete: %v", err)
	}
}

// A shim answers before it ends, every time, and ends.
func TestEndIsAnswered(t *testing.T) {
	b := newBench(t)
	base, err := b.e.Count()
	if err != nil {
		t.Fatal(err)
	}
	self, err := host.Self()
	if err != nil {
		t.Fatal(err)
	}
	var runs errgroup.Group
	runs.SetLimit(4) // a busy machine delays answers
	for i := range 60 {
		runs.Go(func() error {
			ctx := t.Context()
			sb, err := b.c.NewSandbox(ctx, fmt.Sprintf("end-%d", i),
				containerd.WithSandboxRuntime(shim.Name, nil), containerd.WithSandboxSpec(&oci.Spec{}),
				containerd.WithSandboxLabels(map[string]string{host.LabelOwner: self.String()}))
			if err != nil {
				return err
			}
			if err := sb.Start(ctx); err != nil {
				return err
			}
			if err := sb.Shutdown(ctx); err != nil {
				return fmt.Errorf("run %d: %w", i, err)
			}
			return nil
		})
	}
	if err := runs.Wait(); err != nil {
		t.Error(err)
	}
	b.e.RequireNone(t, base)
}
