package image

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/containerd/v2/pkg/archive"
)

// testRoot is one build of the default image that the tests share.
var testRoot struct {
	sync.Mutex
	dir         string // removed at the end
	interpreter *interpreter
	entries     []entry
	archive     []byte
	unpacked    string
}

func removeTestRoot() error {
	testRoot.Lock()
	defer testRoot.Unlock()
	if testRoot.dir == "" {
		return nil
	}
	return os.RemoveAll(testRoot.dir)
}

// buildRoot builds the default root filesystem once and returns its entries and archive.
func buildRoot(t *testing.T) ([]entry, []byte) {
	t.Helper()
	testRoot.Lock()
	defer testRoot.Unlock()
	if testRoot.archive != nil {
		return testRoot.entries, testRoot.archive
	}
	dir, err := os.MkdirTemp("", "thawpool-image-test-") //nolint:usetesting // other tests use it after this one
	if err != nil {
		t.Fatal(err)
	}
	testRoot.dir = dir
	if testRoot.interpreter, err = extractPython(dir); err != nil {
		t.Fatal(err)
	}
	if testRoot.entries, err = rootEntries(context.Background(), testRoot.interpreter, newLibcFinder("/")); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := writeLayer(&out, testRoot.entries); err != nil {
		t.Fatal(err)
	}
	testRoot.archive = out.Bytes()
	return testRoot.entries, testRoot.archive
}

func TestDefaultRootIsTheSameEachTime(t *testing.T) {
	_, first := buildRoot(t)
	// Elsewhere, and with other times on the files.
	p := &interpreter{dir: t.TempDir(), name: testRoot.interpreter.name}
	if err := os.CopyFS(p.tree(), os.DirFS(testRoot.interpreter.tree())); err != nil {
		t.Fatal(err)
	}
	entries, err := rootEntries(t.Context(), p, newLibcFinder("/"))
	if err != nil {
		t.Fatal(err)
	}
	var second bytes.Buffer
	if err := writeLayer(&second, entries); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second.Bytes()) {
		t.Error("two builds of the default image differ")
	}
}

func TestDefaultRootHoldsWhatItShould(t *testing.T) {
	_, data := buildRoot(t)
	names := namesIn(t, data)
	for _, want := range []string{
		"usr/local/bin/python3", "usr/local/bin/python", "usr/bin/sleep", "usr/local/lib/python3.14/json/__init__.py",
		"usr/local/lib/python3.14/json/__pycache__/__init__.cpython-314.pyc", "usr/lib/libc.so.6", "etc/passwd",
		"usr/share/zoneinfo/Europe/Paris", "proc/", "dev/", "tmp/", "workspace/", "opt/thawpool/", "run/", "bin",
	} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is missing", want)
		}
	}
	for _, name := range names {
		for _, unwanted := range []string{"tkinter", "idlelib", "ensurepip", "libtcl", "libpython", "/test/", "include/", "/pip", "_testcapi"} {
			if strings.Contains(name, unwanted) {
				t.Errorf("%s should have been left out", name)
			}
		}
	}
}

func TestEverySourceIsCompiled(t *testing.T) {
	entries, _ := buildRoot(t)
	have := map[string]bool{}
	for _, e := range entries {
		have[e.path] = true
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.path, ".py") {
			continue
		}
		dir, name := path.Split(e.path)
		if want := dir + "__pycache__/" + strings.TrimSuffix(name, ".py") + ".cpython-314.pyc"; !have[want] {
			t.Errorf("%s is missing", want)
		}
	}
}

// A test that the quick key sees every library that goes into the image.
func TestKnownLibrariesCoverTheClosure(t *testing.T) {
	entries, _ := buildRoot(t)
	linker, err := interpreterOf(testRoot.interpreter.exe())
	if err != nil {
		t.Fatal(err)
	}
	known := append(slices.Concat(libcNames, libcExtras), path.Base(linker))
	for _, e := range entries {
		if path.Dir(e.path) == libDir && strings.Contains(e.path, ".so") && !slices.Contains(known, path.Base(e.path)) {
			t.Errorf("%s goes into the image and not into its key", e.path)
		}
	}
}

// unpackRoot unpacks the default root filesystem once, for tests that only read it.
func unpackRoot(t *testing.T) string {
	t.Helper()
	_, data := buildRoot(t)
	testRoot.Lock()
	defer testRoot.Unlock()
	if testRoot.unpacked != "" {
		return testRoot.unpacked
	}
	root := filepath.Join(testRoot.dir, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.Apply(t.Context(), root, bytes.NewReader(data), archive.WithNoSameOwner()); err != nil {
		t.Fatal(err)
	}
	testRoot.unpacked = root
	return root
}

// runIn starts the root filesystem's Python with its own dynamic linker and libraries, which takes no privileges.
func runIn(t *testing.T, root, code string) string {
	t.Helper()
	exe := filepath.Join(root, pythonPrefix, "bin/python3.14")
	linker, err := interpreterOf(exe)
	if err != nil {
		t.Fatal(err)
	}
	lib := filepath.Join(root, libDir)
	cmd := exec.CommandContext(t.Context(), filepath.Join(lib, path.Base(linker)), "--inhibit-cache",
		"--library-path", lib, exe, "-B", "-P", "-c", code)
	cmd.Env = []string{"PYTHONTZPATH=" + filepath.Join(root, "usr/share/zoneinfo"), "LANG=C.UTF-8"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// Zones work on a machine without tzdata, and the zone is UTC.
func TestZones(t *testing.T) {
	got := runIn(t, unpackRoot(t), `
from datetime import datetime, timezone
from zoneinfo import ZoneInfo, available_timezones
print(datetime(2024, 7, 1, 12, tzinfo=timezone.utc).astimezone(ZoneInfo("Europe/Paris")).isoformat())
print(len(available_timezones()) > 400)
`)
	if want := "2024-07-01T14:00:00+02:00\nTrue\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSleep(t *testing.T) {
	got := runIn(t, unpackRoot(t), `
import runpy, sys, time
slept = []
time.sleep = slept.append
for words in ["600"], ["0.5"], ["1m", "2s"], ["soon"], [""]:
    sys.argv = ["sleep", *words]
    try:
        runpy.run_path("`+filepath.Join(testRoot.unpacked, "usr/bin/sleep")+`")
    except SystemExit as e:
        slept.append(e.code)
print(slept)
`)
	if want := "[600.0, 0.5, 62.0, 'sleep: invalid time interval', 'sleep: invalid time interval']\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Every module must load what it was compiled from, and from the image alone.
func TestStandardLibraryLoads(t *testing.T) {
	root := unpackRoot(t)
	out := runIn(t, root, `
import json, os, sys, importlib, pkgutil
skip = {"antigravity", "this", "idlelib", "__main__", "tkinter", "turtle", "turtledemo", "ensurepip",
        "msvcrt", "winreg", "winsound", "nt", "_ios_support", "_winapi", "_overlapped", "_scproxy"}
failed, loaded, stale = [], 0, []
for info in pkgutil.iter_modules():
    if info.name in skip:
        continue
    try:
        module = importlib.import_module(info.name)
    except ImportError as e:
        failed.append(f"{info.name}: {e}")
        continue
    loaded += 1
    cached = getattr(module.__spec__, "cached", None)
    if cached and not os.path.exists(cached):
        stale.append(info.name)
maps = sorted({line.split()[-1] for line in open("/proc/self/maps") if ".so" in line and line.split()[-1].startswith("/")})
print(json.dumps({"failed": failed, "loaded": loaded, "stale": stale, "maps": maps}))
`)
	var got struct {
		Failed, Stale, Maps []string
		Loaded              int
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	if len(got.Failed) > 0 || len(got.Stale) > 0 || got.Loaded < 150 {
		t.Errorf("%d modules loaded; failed %q; not compiled %q", got.Loaded, got.Failed, got.Stale)
	}
	for _, name := range got.Maps {
		if !strings.HasPrefix(name, root) {
			t.Errorf("%s is loaded from outside the image", name)
		}
	}
}

// Tracebacks must show where a module is inside the sandbox, not where it was compiled.
func TestCompiledFilesNameTheirPlaceInside(t *testing.T) {
	root := unpackRoot(t)
	got := runIn(t, root, "import json; print(json.loads.__code__.co_filename)")
	if want := "/usr/local/lib/python3.14/json/__init__.py\n"; got != want && got != root+want {
		t.Errorf("got %q", got)
	}
	data, err := os.ReadFile(filepath.Join(root, "usr/local/lib/python3.14/json/__pycache__/__init__.cpython-314.pyc"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(data, []byte("/usr/local/lib/python3.14/json/__init__.py")) || bytes.Contains(data, []byte(testRoot.dir)) {
		t.Error("the compiled file names another place")
	}
	// PEP 552: flags 1 are "hash-based, not checked".
	if flags := data[4:8]; !bytes.Equal(flags, []byte{1, 0, 0, 0}) {
		t.Errorf("flags of the compiled file are %v", flags)
	}
}

// The bundle holds what the runner needs, and its code names the places inside as well.
func TestBundleNamesItsPlaceInside(t *testing.T) {
	buildRoot(t)
	p := testRoot.interpreter
	dir, err := p.layGuest()
	if err != nil {
		t.Fatal(err)
	}
	e, err := p.bundle(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if e.path != "opt/thawpool/modules.cpython-314" {
		t.Errorf("it is %s", e.path)
	}
	out := runIn(t, unpackRoot(t), fmt.Sprintf(`
import marshal, types
def codes(code):
    yield code
    for c in code.co_consts:
        if isinstance(c, types.CodeType): yield from codes(c)
modules = marshal.load(open(%q, "rb"))
print("asyncio.base_events" in modules, "thawpool_runner.child" in modules, "thawpool_runner.boot" in modules, "ssl" in modules)
print({c.co_filename == file for file, _, _, code in modules.values() for c in codes(code)})
print({file.split("/")[2] for file, *_ in modules.values()})
`, e.from))
	if want := "True True False False\n{True}\n"; !strings.HasPrefix(out, want) || !strings.Contains(out, "'thawpool'") || !strings.Contains(out, "'local'") {
		t.Errorf("got %s", out)
	}
}
