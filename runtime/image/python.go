package image

import (
	"bytes"
	"context"
	_ "embed" // scripts
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	goruntime "runtime"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/kluctl/go-embed-python/python"
	"golang.org/x/sync/errgroup"
)

// pythonModule holds the embedded CPython. Its version names the CPython release and the day of the build.
const pythonModule = "github.com/kluctl/go-embed-python"

// pythonVersion is the version of pythonModule in this program without its leading zeros, for example
// "3.14.6-20260610-1". Test binaries do not know it.
var pythonVersion = sync.OnceValue(func() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path != pythonModule {
				continue
			}
			if module.Replace != nil {
				module = module.Replace
			}
			return strings.TrimPrefix(module.Version, "v0.0.0-")
		}
	}
	return "unknown"
})

// pythonPrefix is where the interpreter stands in the default image, below the root: where the images that people
// know, "python:3" first of them, have it.
const pythonPrefix = "usr/local"

// What the interpreter does for the image that it goes into.
var (
	//go:embed compile.py
	compileScript string
	//go:embed bundle.py
	bundleScript string
)

// An interpreter is the embedded CPython, extracted on the host. It is used twice: its files go into the default image,
// and it compiles Python sources for that image.
type interpreter struct {
	dir  string // owned by the interpreter; tree/bin and tree/lib below it
	name string // of the executable, with its version: "python3.14"
}

// extractPython writes the embedded CPython (about 140 MiB) into a new directory below parent. The caller must close it.
func extractPython(parent string) (*interpreter, error) {
	dir, err := os.MkdirTemp(parent, "python-")
	if err != nil {
		return nil, fmt.Errorf("extract the embedded Python: %w", err)
	}
	p := &interpreter{dir: dir}
	if _, err := python.NewEmbeddedPythonWithTmpDir(p.tree(), false); err != nil {
		return nil, errors.Join(fmt.Errorf("extract the embedded Python below %s: %w", parent, err), p.close())
	}
	if p.name, err = executable(filepath.Join(p.tree(), "bin")); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// executableName is the file name of an interpreter with its version.
var executableName = regexp.MustCompile(`^python3\.\d+$`)

func executable(bin string) (string, error) {
	files, err := os.ReadDir(bin)
	if err != nil {
		return "", fmt.Errorf("find the embedded Python's executable: %w", err)
	}
	for _, file := range files {
		if executableName.MatchString(file.Name()) {
			return file.Name(), nil
		}
	}
	return "", fmt.Errorf("the embedded Python has no executable python3.N in %s", bin)
}

func (p *interpreter) close() error { return os.RemoveAll(p.dir) }

// tree is the directory that holds bin/ and lib/.
func (p *interpreter) tree() string { return filepath.Join(p.dir, "tree") }

// exe is the interpreter itself.
func (p *interpreter) exe() string { return filepath.Join(p.tree(), "bin", p.name) }

// droppedDirs and droppedFiles are what a sandbox has no use for: Tcl/Tk and what draws with it, installers, what only
// builds C extensions, CPython's own test helpers, and libpython, which the executable already holds. Patterns of
// path.Match, below the interpreter's tree.
var (
	droppedDirs = []string{
		"include", "share", "lib/pkgconfig", "lib/itcl*", "lib/tcl*", "lib/tk*", "lib/thread*",
		"lib/python3*/config-*", "lib/python3*/ensurepip", "lib/python3*/idlelib", "lib/python3*/site-packages",
		"lib/python3*/test", "lib/python3*/tkinter", "lib/python3*/turtledemo", "lib/python3*/*/test",
		"lib/python3*/*/tests", "lib/python3*/__pycache__", "lib/python3*/*/__pycache__",
	}
	droppedFiles = []string{
		"bin/idle*", "bin/pip*", "bin/pydoc*", "bin/2to3*", "bin/python*-config", "lib/*.so", "lib/*.so.*", "lib/*.a",
		"lib/python3*/turtle.py", "lib/python3*/lib-dynload/_test*", "lib/python3*/lib-dynload/_ctypes_test*",
		"lib/python3*/lib-dynload/xx*", "lib/python3*/lib-dynload/_tkinter*",
	}
)

// entries lists the files of the interpreter that go into the image. The executable's other names become symlinks: the
// extraction makes copies of them.
func (p *interpreter) entries() ([]entry, error) {
	var found []entry
	err := filepath.WalkDir(p.tree(), func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(p.tree(), file)
		if err != nil || rel == "." {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if matches(droppedDirs, rel) {
				return fs.SkipDir
			}
			return nil
		}
		if !matches(droppedFiles, rel) {
			found = append(found, p.entry(file, rel, d))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the embedded Python: %w", err)
	}
	return found, nil
}

// entry turns one extracted file into its place in the image.
func (p *interpreter) entry(file, rel string, d fs.DirEntry) entry {
	e := entry{path: path.Join(pythonPrefix, rel), mode: 0o644, from: file}
	if path.Dir(rel) != "bin" {
		return e
	}
	if d.Name() != p.name {
		return linkEntry(e.path, p.name)
	}
	e.mode = 0o755
	return e
}

func matches(patterns []string, name string) bool {
	for _, pattern := range patterns {
		if ok, _ := path.Match(pattern, name); ok { // the patterns are constant and well-formed
			return true
		}
	}
	return false
}

// A source is one Python file to compile.
type source struct {
	file    string // on the host
	display string // absolute path in the image, which tracebacks show
}

// compile compiles sources and returns the .pyc files as entries beside each display path. They are of the unchecked
// kind, which Python loads without a look at the source's time. Equal sources give equal bytes, in any order.
func (p *interpreter) compile(ctx context.Context, sources []source) ([]entry, error) {
	out, err := os.MkdirTemp(p.dir, "pyc-")
	if err != nil {
		return nil, fmt.Errorf("compile Python: %w", err)
	}
	workers := max(1, min(4, goruntime.NumCPU(), len(sources)))
	entries := make([]entry, len(sources))
	inputs := make([]bytes.Buffer, workers)
	for i, s := range sources {
		name := fmt.Sprintf("%d.pyc", i)
		fmt.Fprintf(&inputs[i%workers], "%s\t%s\t%s\n", s.file, s.display, filepath.Join(out, name))
		entries[i] = entry{path: p.cachePath(s.display), mode: 0o644, from: filepath.Join(out, name)}
	}
	group, ctx := errgroup.WithContext(ctx)
	for i := range inputs {
		group.Go(func() error { return p.run(ctx, &inputs[i]) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return entries, nil
}

// run compiles the files that one list names.
func (p *interpreter) run(ctx context.Context, list *bytes.Buffer) error {
	if err := p.script(ctx, list, compileScript); err != nil {
		return fmt.Errorf("compile with the embedded Python: %w", err)
	}
	return nil
}

// script runs a program of ours.
func (p *interpreter) script(ctx context.Context, stdin io.Reader, code string, args ...string) error {
	cmd := exec.CommandContext(ctx, p.exe(), append([]string{"-I", "-B", "-S", "-X", "utf8", "-c", code}, args...)...)
	cmd.Env = []string{} // nothing of the caller's may change what is made
	cmd.Stdin = stdin
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, lastLine(text))
	}
	return nil
}

// cachePath is where Python looks for the compiled form of a source file, as importlib.util.cache_from_source says.
func (p *interpreter) cachePath(display string) string {
	dir, name := path.Split(strings.TrimPrefix(display, "/"))
	return path.Join(dir, "__pycache__", strings.TrimSuffix(name, ".py")+"."+p.tag()+".pyc")
}

// tag is sys.implementation.cache_tag.
func (p *interpreter) tag() string {
	return "cpython-" + strings.ReplaceAll(strings.TrimPrefix(p.name, "python"), ".", "")
}

// lastLine is where Python puts the exception.
func lastLine(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}
