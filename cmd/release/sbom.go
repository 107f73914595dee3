package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/kluctl/go-embed-python/python"
)

// pythonModule is the Go module with the CPython that makes the default image.
const pythonModule = "github.com/kluctl/go-embed-python"

// addSBOM adds one bill of materials for the whole tarball: the Go modules in each program, and what is in them besides Go.
func (r *release) addSBOM(ctx context.Context) error {
	root := cdx.Component{
		BOMRef: "pkg:generic/thawpool@" + r.version, Type: cdx.ComponentTypeApplication, Name: "thawpool", Version: r.version,
		PackageURL: "pkg:generic/thawpool@" + r.version, Licenses: licence("Apache-2.0"),
	}
	b := &bom{components: map[string]cdx.Component{}, needs: map[string][]string{}}
	modules, err := r.modules(ctx)
	if err != nil {
		return err
	}
	for _, name := range programs() {
		if err := r.addProgram(b, modules, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		b.needs[root.BOMRef] = append(b.needs[root.BOMRef], programRef(name))
	}
	if err := addC(ctx, b); err != nil {
		return err
	}
	if err := addPython(ctx, b); err != nil {
		return fmt.Errorf("embedded CPython: %w", err)
	}
	var text bytes.Buffer
	encoder := cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).SetPretty(true)
	if err := encoder.EncodeVersion(b.whole(root), cdx.SpecVersion1_6); err != nil {
		return err
	}
	r.files["sbom.cdx.json"] = file{text: text.Bytes(), mode: 0o644}
	return nil
}

// bom collects components by their reference, and what each is made of.
type bom struct {
	components map[string]cdx.Component
	needs      map[string][]string
}

// add adds a component that is part of others.
func (b *bom) add(c cdx.Component, of ...string) {
	b.components[c.BOMRef] = c
	for _, ref := range of {
		b.needs[ref] = append(b.needs[ref], c.BOMRef)
	}
}

// whole is the document, in an order that depends on nothing but its content.
func (b *bom) whole(root cdx.Component) *cdx.BOM {
	components, dependencies := []cdx.Component{}, []cdx.Dependency{}
	for _, c := range b.components {
		components = append(components, c)
	}
	slices.SortFunc(components, func(x, y cdx.Component) int { return cmp.Compare(x.BOMRef, y.BOMRef) })
	for ref, needs := range b.needs {
		slices.Sort(needs)
		needs = slices.Compact(needs)
		dependencies = append(dependencies, cdx.Dependency{Ref: ref, Dependencies: &needs})
	}
	slices.SortFunc(dependencies, func(x, y cdx.Dependency) int { return cmp.Compare(x.Ref, y.Ref) })
	doc := cdx.NewBOM()
	doc.Metadata = &cdx.Metadata{Component: &root}
	doc.Components, doc.Dependencies = &components, &dependencies
	return doc
}

// modules asks cyclonedx-gomod once for all modules that programs here can be made of, with the licences that it detects.
// Programs themselves only tell which of them they have.
func (r *release) modules(ctx context.Context) (map[string]cdx.Component, error) {
	text, err := r.output(ctx, "run", r.sbomTool, "mod", "-json", "-licenses", "-assert-licenses", "-noserial", "-notimestamp")
	if err != nil {
		return nil, err
	}
	var found cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(text), cdx.BOMFileFormatJSON).Decode(&found); err != nil {
		return nil, err
	}
	if found.Components == nil {
		return nil, errors.New("the tool found no modules")
	}
	all := map[string]cdx.Component{}
	for _, c := range *found.Components {
		if id, ok := undetected[c.Name]; ok {
			c.Licenses = licence(id)
		}
		if c.Licenses == nil {
			return nil, fmt.Errorf("the tool does not know the licence of %s: add it to the list of undetected ones", c.Name)
		}
		all[c.Name+"@"+c.Version] = c
	}
	return all, nil
}

// undetected are licences that the tool does not recognise.
var undetected = map[string]string{"github.com/twmb/murmur3": "BSD-3-Clause"}

// programRef names a program within the document.
func programRef(name string) string { return "program:" + name }

// addProgram adds a program with its checksum and the Go modules in it.
func (r *release) addProgram(b *bom, modules map[string]cdx.Component, name string) error {
	path := filepath.Join(r.bin, name)
	sum, err := sumOf(path)
	if err != nil {
		return err
	}
	ref := programRef(name)
	c := cdx.Component{
		BOMRef: ref, Type: cdx.ComponentTypeApplication, Name: name, Version: r.version, Licenses: licence("Apache-2.0"),
		Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}},
	}
	if name == "thawpool-delete" { // the one in C
		b.add(c)
		return nil
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return err
	}
	deps := info.Deps
	if info.Main.Version != "" && info.Main.Version != "(devel)" { // a program of somebody else's
		c.Version = info.Main.Version
		deps = append(deps, &info.Main)
	}
	b.add(c)
	std := strings.TrimPrefix(info.GoVersion, "go")
	b.add(cdx.Component{
		BOMRef: "pkg:golang/std@" + std, Type: cdx.ComponentTypeLibrary, Name: "std", Version: std,
		PackageURL: "pkg:golang/std@" + std, Licenses: licence("BSD-3-Clause"),
	}, ref)
	for _, d := range deps {
		module, ok := modules[d.Path+"@"+d.Version]
		if !ok {
			return fmt.Errorf("%s@%s is in it and not among the modules of this checkout: build it anew", d.Path, d.Version)
		}
		b.add(module, ref)
	}
	return nil
}

func sumOf(path string) (string, error) {
	in, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = in.Close() }() // only read
	sum := sha256.New()
	_, err = io.Copy(sum, in)
	return fmt.Sprintf("%x", sum.Sum(nil)), err
}

func licence(id string) *cdx.Licenses { return &cdx.Licenses{{License: &cdx.License{ID: id}}} }

// addC adds the C libraries that the static programs hold, as Debian packages them.
func addC(ctx context.Context, b *bom) error {
	for _, lib := range []struct {
		name, pkg, licence string
		in                 []string
	}{
		{"glibc", "libc6-dev", "LGPL-2.1-or-later", []string{"thawpool-init", "thawpool-delete", "containerd-shim-thawpool-v1", "runc"}},
		{"libseccomp", "libseccomp-dev", "LGPL-2.1-only", []string{"thawpool-init", "containerd-shim-thawpool-v1", "runc"}},
	} {
		version, err := output(ctx, "dpkg-query", "-W", "-f", "${Version}", lib.pkg)
		if err != nil {
			return err
		}
		purl := "pkg:deb/debian/" + lib.name + "@" + strings.ReplaceAll(string(version), "+", "%2B")
		var in []string
		for _, program := range lib.in {
			in = append(in, programRef(program))
		}
		b.add(cdx.Component{
			BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: lib.name, Version: string(version), PackageURL: purl,
			Licenses: licence(lib.licence),
		}, in...)
	}
	return nil
}

// askVersions prints the libraries that are compiled into this CPython, which has no list of them.
const askVersions = `
import platform, ssl, sqlite3, zlib, pyexpat, decimal, curses
from compression import zstd
print('cpython', platform.python_version(), 'Python-2.0.1')
print('openssl', ssl.OPENSSL_VERSION.split()[1], 'Apache-2.0')
print('sqlite', sqlite3.sqlite_version, 'blessing')
print('zlib', zlib.ZLIB_RUNTIME_VERSION, 'Zlib')
print('expat', pyexpat.EXPAT_VERSION.removeprefix('expat_'), 'MIT')
print('mpdecimal', decimal.__libmpdec_version__, 'BSD-2-Clause')
print('ncurses', '%d.%d-%d' % tuple(curses.ncurses_version), 'X11-distribute-modifications-variant')
print('zstd', zstd.zstd_version, 'BSD-3-Clause')
print('bzip2', '-', 'bzip2-1.0.6')
print('xz', '-', '0BSD')
print('libffi', '-', 'MIT')
print('libedit', '-', 'BSD-3-Clause')
print('libuuid', '-', 'BSD-3-Clause')
`

// addPython adds the CPython in thawpool and its libraries.
func addPython(ctx context.Context, b *bom) error {
	dir, err := os.MkdirTemp("", "thawpool-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p, err := python.NewEmbeddedPythonWithTmpDir(filepath.Join(dir, "python"), false)
	if err != nil {
		return err
	}
	exe, err := p.GetExePath()
	if err != nil {
		return err
	}
	ask := exec.CommandContext(ctx, exe, "-I", "-B", "-c", askVersions)
	ask.Env = []string{"TERM=dumb"}
	lines, err := ask.Output()
	if err != nil {
		return err
	}
	cpython := ""
	for line := range strings.Lines(string(lines)) {
		f := strings.Fields(line)
		if len(f) != 3 {
			return fmt.Errorf("it says %q", line)
		}
		c := cdx.Component{Type: cdx.ComponentTypeLibrary, Name: f[0], Licenses: licence(f[2]), PackageURL: "pkg:generic/" + f[0]}
		if f[1] != "-" { // it does not tell
			c.Version, c.PackageURL = f[1], c.PackageURL+"@"+f[1]
		}
		c.BOMRef = c.PackageURL
		if cpython == "" {
			cpython, c.Type = c.BOMRef, cdx.ComponentTypeFramework
			c.Properties = &[]cdx.Property{{Name: "thawpool:embedded", Value: pythonModule + " " + goruntime.GOARCH}}
			b.add(c, programRef("thawpool"))
			continue
		}
		b.add(c, cpython)
	}
	return nil
}
