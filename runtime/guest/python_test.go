package guest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kluctl/go-embed-python/python"
)

// suiteLimit ends a suite that hangs; one that works needs a small part of it.
const suiteLimit = 15 * time.Minute

// scratch lives as long as the test program: unpacking the interpreter once is enough.
var scratch string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "guest-test-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		scratch = dir
		return m.Run()
	}())
}

var unpacked = sync.OnceValues(func() (string, error) {
	embedded, err := python.NewEmbeddedPythonWithTmpDir(filepath.Join(scratch, "python"), false)
	if err != nil {
		return "", err
	}
	return embedded.GetExePath()
})

// embeddedPython is the interpreter of the default image.
func embeddedPython(tb testing.TB) string {
	tb.Helper()
	exe, err := unpacked()
	if err != nil {
		tb.Fatal(err)
	}
	return exe
}

// TestGuestEmbedded runs the Python tests with the interpreter of the default image.
func TestGuestEmbedded(t *testing.T) {
	t.Parallel()
	runSuite(t, embeddedPython(t))
}

// TestGuestHost runs them with the python3 of this machine, which is another version as a rule.
func TestGuestHost(t *testing.T) {
	t.Parallel()
	exe, err := exec.LookPath("python3")
	if err != nil {
		t.Log("this machine has no python3; the embedded one was tested")
		return
	}
	check := exec.CommandContext(t.Context(), exe, "-c", "import sys; sys.exit(sys.version_info < (3, 9))")
	if err := check.Run(); err != nil {
		t.Logf("%s is older than 3.9 or does not start (%v); the embedded one was tested", exe, err)
		return
	}
	runSuite(t, exe)
}

func runSuite(t *testing.T, exe string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), suiteLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe, "-B", "-m", "unittest", "discover", "-t", "python", "-s", "python/tests")
	cmd.Env = append(os.Environ(), "PYTHONPATH=", "PYTHONHOME=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", exe, err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	t.Log(exe, strings.Join(lines[max(0, len(lines)-3):], " "))
}
