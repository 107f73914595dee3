//go:build integration

package endtoend

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
	"github.com/thawpool/thawpool/runtime/host"
)

// newVersion is what the second build calls itself.
const newVersion = "v99.0.0-new"

// buildNew builds the program as another version, beside the first one, so that the service account gets both.
func buildNew(bin string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-X main.version="+newVersion, "-o", filepath.Join(bin, newProgramName), "..")
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

// installNew is the directory of a second version with programs of its own; the big ones are links.
func installNew(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "tp-new-") //nolint:usetesting // the daemon uses it until the state directory goes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	copies := []string{programName, "containerd-shim-thawpool-v1", "thawpool-init", "thawpool-delete"}
	for _, name := range append(slices.Clone(host.Binaries), programName) {
		from, to := filepath.Join(ctrdtest.BinDir(), name), filepath.Join(dir, name)
		switch {
		case name == programName:
			err = copyFile(filepath.Join(ctrdtest.BinDir(), newProgramName), to)
		case slices.Contains(copies, name):
			err = copyFile(from, to)
		default:
			err = os.Symlink(from, to)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}

// serveNew starts the second version's server in the same state directory.
func serveNew(t testing.TB, e *ctrdtest.Env, dir string, args ...string) *server {
	t.Helper()
	cmd := command(t, e.StateDir, "serve", append([]string{"--log-level", "debug", "--log-format", "json"}, args...)...)
	cmd.Path = filepath.Join(dir, programName)
	cmd.Args[0] = cmd.Path
	cmd.Args[slices.Index(cmd.Args, ctrdtest.BinDir())] = dir
	return start(t, cmd)
}

// A new version is started while the old one's daemon and server run. Both go on, each with its own shim; neither takes
// the other's sandboxes; and once nobody uses the old daemon it ends, and the new version starts its own.
func TestUpgradeOverARunningDaemon(t *testing.T) {
	e := ctrdtest.NewEnv(t)
	dir := installNew(t)
	if out, err := exec.Command(filepath.Join(dir, programName), "version").Output(); err != nil || !strings.Contains(string(out), newVersion) {
		t.Fatalf("version %q, %v", out, err)
	}
	old := serve(t, e, "--pool-size", "2", "--daemon-idle", "1s").open()
	said(t, old, 1, "old")
	keeper, ok := e.Keeper()
	if !ok {
		t.Fatal("no keeper runs")
	}
	fresh := serveNew(t, e, dir, "--pool-size", "2", "--daemon-idle", "1s").open()
	said(t, fresh, 1, "new")
	said(t, old, 2, "old goes on")
	if now, ok := e.Keeper(); !ok || now != keeper {
		t.Errorf("the old version's daemon was replaced under its server: %v, was %v", now, keeper)
	}
	shims := shimDirs(t, e)
	if want := []string{ctrdtest.BinDir(), dir}; !sameElements(shims, want) {
		t.Errorf("shims run from %q, want %q", shims, want)
	}

	// The old one's end takes nothing from the new one, which now is the old daemon's last user.
	old.close()
	for i := range 5 {
		said(t, fresh, 10+i, fmt.Sprintf("new alone %d", i))
	}
	fresh.close()
	ctrdtest.Await(t, "the unused daemon ends", func() error {
		if k, ok := e.Keeper(); ok {
			return fmt.Errorf("keeper %v runs", k)
		}
		return nil
	})

	again := serveNew(t, e, dir, "--pool-size", "1", "--daemon-idle", "1s").open()
	said(t, again, 1, "new on its own")
	keeper, ok = e.Keeper()
	if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", keeper.PID)); !ok || err != nil || filepath.Dir(exe) != dir {
		t.Errorf("the next keeper is %s, %v, want one of %s", exe, err, dir)
	}
	// And back: the old version works on the new one's daemon and state.
	back := serve(t, e, "--pool-size", "1", "--daemon-idle", "1s").open()
	said(t, back, 1, "old again")
	said(t, again, 2, "new goes on")
	back.close()
	again.close()
}

// said makes a call that prints the text, and checks the answer.
func said(t testing.TB, s *server, id int, text string) {
	t.Helper()
	if r := s.do(id, fmt.Sprintf("print(%q)", text)); r.Status != actors.StatusSuccess || strings.TrimSpace(r.Stdout) != text {
		t.Fatalf("%s: %+v", text, r)
	}
}

// shimDirs are the directories that running shims were started from.
func shimDirs(t testing.TB, e *ctrdtest.Env) []string {
	t.Helper()
	tree, err := e.Tree()
	if err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for _, p := range tree {
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.PID))
		if filepath.Dir(exe) == "/" { // a container's init on its way: it runs the shim from a mount of its own
			continue
		}
		if err == nil && filepath.Base(exe) == "containerd-shim-thawpool-v1" && !slices.Contains(dirs, filepath.Dir(exe)) {
			dirs = append(dirs, filepath.Dir(exe))
		}
	}
	return dirs
}

func sameElements(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}
