// Package realup installs real MCP servers, written by others, for tests: from npm and PyPI, in pinned versions, once into
// the user's cache directory. A machine without npm or Python skips such tests and says so; with CI=true they fail there.
// It also keeps the embedded Python there, unpacked, and a checker of web pages.
package realup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/kluctl/go-embed-python/python"
)

// The servers, with the versions that the tests were written against.
var (
	npm = map[string]string{
		"mcp-server-everything": "@modelcontextprotocol/server-everything@2026.8.31",
		"mcp-server-filesystem": "@modelcontextprotocol/server-filesystem@2026.8.31",
		"mcp-server-memory":     "@modelcontextprotocol/server-memory@2026.8.31",
	}
	pypi = map[string]string{
		"mcp-server-time": "mcp-server-time==2026.10.19",
		"mcp-server-git":  "mcp-server-git==2026.10.19",
	}
)

// installTimeout bounds one installation: a few dozen packages over a slow line.
const installTimeout = 10 * time.Minute

// Command is the path of the server's program; tool is what it is called on PATH, for example "mcp-server-time".
func Command(t testing.TB, tool string) string {
	t.Helper()
	if _, ok := npm[tool]; ok {
		return filepath.Join(install(t, "npm", npm, installNPM), "node_modules", ".bin", tool)
	}
	if _, ok := pypi[tool]; ok {
		return filepath.Join(install(t, "pypi", pypi, installPyPI), "bin", tool)
	}
	t.Fatalf("no real server is called %s", tool)
	return ""
}

// pythonVersion names the embedded interpreter's directory; it follows the module's version in go.mod.
const pythonVersion = "3.14.6-20260610-1"

// Python is the interpreter of the default image, unpacked once: with the race detector that takes minutes.
func Python(t testing.TB) string {
	t.Helper()
	dir := install(t, "python", map[string]string{"python": pythonVersion}, func(_ context.Context, t testing.TB, dir string, _ []string) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := python.NewEmbeddedPythonWithTmpDir(filepath.Join(dir, "python"), false); err != nil {
			t.Fatal(err)
		}
	})
	return filepath.Join(dir, "python", "bin", "python3")
}

// The accessibility checker axe-core, which is under the MPL-2.0 and is no part of what is built, and the sum of its script.
var axe = map[string]string{"axe": "axe-core@4.14.1"}

const axeSum = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"

// Axe is the script of axe-core, which defines axe in a page.
func Axe(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(install(t, "axe", axe, installNPM), "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != axeSum {
		t.Fatalf("axe-core has the sum %x, not %s", sum, axeSum)
	}
	return string(text)
}

// Need makes sure that a program is there, or ends the test.
func Need(t testing.TB, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err == nil {
			continue
		}
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is not installed, and CI=true allows no test to be left out for that", p)
		}
		t.Skipf("%s is not installed: this test needs it", p)
	}
}

// install puts packages into a directory of their own that is named by their versions. Several test processes may want
// them at once.
func install(t testing.TB, kind string, packages map[string]string, do func(context.Context, testing.TB, string, []string)) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	var specs []string
	sum := sha256.New()
	for _, tool := range slices.Sorted(maps.Keys(packages)) {
		specs = append(specs, packages[tool])
		_, _ = fmt.Fprintln(sum, packages[tool])
	}
	dir := filepath.Join(cache, "thawpool-tests", kind+"-"+hex.EncodeToString(sum.Sum(nil)[:6]))
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), installTimeout)
	defer cancel()
	lock := flock.New(dir + ".lock")
	if _, err := lock.TryLockContext(ctx, 100*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock() //nolint:errcheck // ends with the process at the latest
	done := filepath.Join(dir, ".installed")
	if _, err := os.Stat(done); err == nil {
		return dir
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	do(ctx, t, dir, specs)
	if err := os.WriteFile(done, []byte(strings.Join(specs, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func installNPM(ctx context.Context, t testing.TB, dir string, specs []string) {
	Need(t, "node", "npm")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	run(ctx, t, "npm", append([]string{"install", "--prefix", dir, "--no-audit", "--no-fund", "--ignore-scripts", "--save-exact"}, specs...)...)
}

func installPyPI(ctx context.Context, t testing.TB, dir string, specs []string) {
	Need(t, "python3")
	run(ctx, t, "python3", "-m", "venv", dir)
	run(ctx, t, filepath.Join(dir, "bin", "pip"), append([]string{"install", "--quiet"}, specs...)...)
}

func run(ctx context.Context, t testing.TB, name string, args ...string) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out.String())
	}
}
