package main

import (
	"bytes"
	"context"
	_ "embed" // the notices of CPython's libraries
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	goruntime "runtime"
	"strings"
)

// packages are the Go programs of a release, as the Makefile builds them, with the tags of any of them.
var packages = []string{
	"-tags=seccomp,netgo,osusergo", "./cmd/thawpool", "./cmd/thawpool-init", "./cmd/containerd-shim-thawpool-v1",
	"github.com/containerd/containerd/v2/cmd/containerd", "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
	"github.com/opencontainers/runc", "github.com/rootless-containers/rootlesskit/v3/cmd/rootlesskit",
}

// licenceName is what files with licences and the notices that go with them are called.
var licenceName = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying|copyright|notice|patents|authors|contributors)([-._].*)?$`)

//go:embed python-libraries.txt
var pythonLibraries []byte

// addLicences adds the licence of every Go module that is compiled into a program, and of what is in them besides Go.
func (r *release) addLicences(ctx context.Context) error {
	const format = "{{with .Module}}{{if .Version}}{{$.Dir}}\t{{.Path}}@{{.Version}}\t{{.Dir}}{{end}}{{end}}"
	list, err := r.output(ctx, append([]string{"list", "-deps", "-f", format}, packages...)...)
	if err != nil {
		return err
	}
	modules := map[string]bool{} // whether a licence was found
	for line := range strings.Lines(string(list)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if len(f) != 3 {
			continue
		}
		found, err := r.addModuleLicences(f[0], f[1], f[2])
		if err != nil {
			return err
		}
		modules[f[1]] = modules[f[1]] || found
	}
	for module, found := range modules {
		if !found {
			return fmt.Errorf("%s has no file that looks like a licence", module)
		}
	}
	return r.addOtherLicences(ctx)
}

// addModuleLicences takes the licences in the directory of a package and in those above it: parts of a module may have
// their own.
func (r *release) addModuleLicences(pkg, module, root string) (bool, error) {
	found := false
	for dir := pkg; ; dir = filepath.Dir(dir) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return false, err
		}
		rel, err := filepath.Rel(root, dir)
		if err != nil || strings.HasPrefix(rel, "..") {
			return false, fmt.Errorf("%s is outside of %s", dir, root)
		}
		for _, e := range entries {
			if e.Type().IsRegular() && licenceName.MatchString(e.Name()) && filepath.Ext(e.Name()) != ".go" {
				found = true
				r.files[path.Join("licenses", module, rel, e.Name())] = file{from: filepath.Join(dir, e.Name()), mode: 0o644}
			}
		}
		if dir == root {
			return found, nil
		}
	}
}

// addOtherLicences adds those of Go itself, of the C libraries that static programs hold, of the embedded CPython with
// what is compiled into it, and of the page's plots.
func (r *release) addOtherLicences(ctx context.Context) error {
	goroot, err := r.output(ctx, "env", "GOROOT")
	if err != nil {
		return err
	}
	python, err := r.output(ctx, "list", "-m", "-f", "{{.Dir}}", pythonModule)
	if err != nil {
		return err
	}
	data := filepath.Join(strings.TrimSpace(string(python)), "python/internal/data", goruntime.GOOS+"-"+goruntime.GOARCH)
	text, err := filepath.Glob(filepath.Join(data, "lib/python3.*/LICENSE.txt"))
	if err != nil || len(text) != 1 {
		return fmt.Errorf("CPython's licence in %s: found %q, %w", data, text, err)
	}
	from := map[string]string{
		"licenses/go/LICENSE":           filepath.Join(strings.TrimSpace(string(goroot)), "LICENSE"),
		"licenses/cpython/LICENSE.txt":  text[0],
		"licenses/uplot/LICENSE":        "actors/ops/page/uplot.LICENSE",
		"licenses/glibc/copyright":      "/usr/share/doc/libc6-dev/copyright",
		"licenses/libseccomp/copyright": "/usr/share/doc/libseccomp-dev/copyright",
	}
	for name, source := range from {
		r.files[name] = file{from: source, mode: 0o644}
	}
	r.files["licenses/cpython/libraries.txt"] = file{text: pythonLibraries, mode: 0o644}
	return nil
}

// output is what the go command prints.
func (r *release) output(ctx context.Context, args ...string) ([]byte, error) {
	return output(ctx, r.goTool, args...)
}

func output(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var words bytes.Buffer
	cmd.Stderr = &words
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(words.Bytes()))
	}
	return out, nil
}
