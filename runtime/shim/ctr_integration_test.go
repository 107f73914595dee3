//go:build integration

package shim_test

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/thawpool/thawpool/runtime/ctrd"
	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
	"github.com/thawpool/thawpool/runtime/daemon"
	"github.com/thawpool/thawpool/runtime/host"
	"github.com/thawpool/thawpool/runtime/shim"
)

// containerd's own client runs a container by the shim's name alone, and leaves nothing.
func TestCtrRun(t *testing.T) {
	b := newBench(t)
	base, err := b.e.Count()
	if err != nil {
		t.Fatal(err)
	}
	self, err := host.Self()
	if err != nil {
		t.Fatal(err)
	}
	images, err := b.c.ListImages(t.Context(), "target.digest=="+b.ready.Digest.String())
	if err != nil || len(images) == 0 {
		t.Fatalf("the image's name: %v, %v", images, err)
	}
	const id = "ctr-run"
	// In the daemon's namespaces, where both see the FIFOs by one name.
	cmd := exec.Command("nsenter", "--preserve-credentials", "--target", fmt.Sprint(b.d.PID()),
		"--user", "--mount", "--net", "--pid",
		filepath.Join(ctrdtest.BinDir(), "ctr"), "--address", daemon.Inside+"/run/containerd.sock", "--namespace", ctrd.Namespace,
		"run", "--rm", "--runtime", shim.Name, "--snapshotter", b.ready.Snapshotter, "--read-only",
		"--cgroup", filepath.Join(b.spec, id), "--label", host.LabelOwner+"="+self.String(),
		images[0].Name(), id, b.ready.Python, "-I", "-c", "import sys; print(6*7); sys.exit(3)")
	out, err := cmd.Output()
	var exit *exec.ExitError
	if string(out) != "42\n" || !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("printed %q, %v", out, err)
		if exit != nil {
			t.Errorf("%s", exit.Stderr)
		}
	}
	b.e.RequireNone(t, base)
}
