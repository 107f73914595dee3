//go:build integration

package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
	"github.com/thawpool/thawpool/runtime/host"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 6 && os.Args[1] == "inside" {
		if err := runInside(os.Args[2], os.Args[3], os.Args[4], os.Args[5]); err != nil {
			fmt.Fprintln(os.Stderr, "conformance:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	ctrdtest.Main(m)
}

// leftOut are tests of the suite that say nothing about this shim, and why.
var leftOut = []struct{ tests, why string }{
	{"Image|Import|Export|Content|Convert|PullFetch|Lease|Migration|Snapshotter|Transfer|Client|NewClient|DefaultRuntime|MountManager",
		"of containerd's own parts: no runtime takes part in them"},
	{"NewTaskWithRuntimeOption|ContainerRuntimeOptionsv2|DaemonRuntimeRoot", "name runc's shim in their code"},
	{"KillContainerDeletedByRunc|Issue9103|Issue10589", "put a failing program in the place of runc, which this shim does not start"},
	{"ShimInCgroup|ShimOOMScore", "a control group for the shim itself is an option of runc's shim"},
	{"Checkpoint", "checkpoints are not served"},
	{"UserNamespaces", "map ids beyond those that an account has"},
	{"DaemonCustomCgroup", "of containerd's own control group"},
	{"BindLowPortNonOpt", "its nc is the first process of its namespace, and Debian's busybox has none that then ends by SIGTERM"},
	{"MountAtRuntime", "mounts xfs from a loop device, which an account may not"},
}

var (
	anyTest = regexp.MustCompile(`(?m)^Test\w+$`)
	verdict = regexp.MustCompile(`(?m)^--- (PASS|FAIL|SKIP): (\w+)`)
)

// names are the tests of the suite that apply.
func names(t *testing.T, suite string) []string {
	t.Helper()
	list, err := exec.Command(suite, "-test.short", "-test.list", ".").Output()
	if err != nil {
		t.Fatalf("run the suite, which `make suite` builds: %v", err)
	}
	var patterns []string
	for _, l := range leftOut {
		patterns = append(patterns, l.tests)
	}
	out := regexp.MustCompile("^Test(" + strings.Join(patterns, "|") + ")")
	all := anyTest.FindAllString(string(list), -1)
	return slices.DeleteFunc(all, out.MatchString)
}

// TestSuite runs the suite in the namespaces of a private daemon, as root of an ordinary account's user namespace: where
// the shim runs in earnest. The suite starts a containerd of its own there.
func TestSuite(t *testing.T) {
	suite := filepath.Join(ctrdtest.BinDir(), "thawpool-conformance")
	want := names(t, suite)
	out, err := runSuite(t, suite, "^("+strings.Join(want, "|")+")$")
	passed := map[string]bool{}
	for _, m := range verdict.FindAllStringSubmatch(out, -1) {
		passed[m[2]] = m[1] == "PASS"
	}
	for _, name := range want {
		if !passed[name] {
			t.Errorf("%s: not passed", name)
		}
	}
	if t.Failed() || err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%d tests of the suite passed", len(want))
}

// runSuite gives what the suite printed.
func runSuite(t *testing.T, suite, pattern string) (string, error) {
	t.Helper()
	e := ctrdtest.NewEnv(t)
	d := e.Ensure(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	spaces := []string{"--user", "--mount", "--net", "--pid"}
	version, group, _ := d.CgroupBase()
	if version == host.V2 {
		group, spaces = "", append(spaces, "--cgroup")
	} else {
		group += "-suite" // beside the daemon's, in which it would sweep
		t.Cleanup(func() {
			g := host.OpenGroup(version, group)
			if err := errors.Join(g.Kill(context.Background()), g.Remove()); err != nil {
				t.Errorf("remove the suite's control group: %v", err)
			}
		})
	}
	args := append([]string{"--preserve-credentials", "--target", fmt.Sprint(d.PID())}, spaces...)
	args = append(args, "sh", "-c", enter, "sh", group, self, "inside", t.TempDir(), ctrdtest.BinDir(), suite, pattern)
	cmd := exec.Command("nsenter", args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err = cmd.Run()
	return out.String(), err
}
