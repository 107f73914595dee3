package image

import (
	"archive/zip"
	"bytes"
	"context"
	_ "embed" // time zones, sleep
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/thawpool/thawpool/runtime"
)

// zoneinfo is the time zone database as the Go distribution carries it, in the public domain. It is here because
// zoneinfo.ZoneInfo must work in a sandbox also where the host has no tzdata package.
//
//go:generate sh -c "cp $(go env GOROOT)/lib/time/zoneinfo.zip zoneinfo.zip"
//go:embed zoneinfo.zip
var zoneinfo []byte

// sleepScript stands in for coreutils' sleep. Everything else that code can want is a module of Python's.
//
//go:embed sleep.py
var sleepScript []byte

// libDir holds the C library in the default image. Every directory that some distribution's dynamic linker has built in
// is a name for it: see libraryEntries.
const libDir = "usr/lib"

// etcFiles are the few files of /etc that the C library and Python read. The sandbox has no network: localhost, and its
// own name for that, is all there is to resolve. Without /etc/localtime the zone is UTC.
var etcFiles = map[string]string{
	"etc/passwd":        "root:x:0:0:root:/root:/sbin/nologin\nnobody:x:65534:65534:nobody:/workspace:/sbin/nologin\n",
	"etc/group":         "root:x:0:\nnogroup:x:65534:\n",
	"etc/hosts":         "127.0.0.1\tlocalhost " + runtime.Hostname + "\n::1\tlocalhost\n",
	"etc/resolv.conf":   "",
	"etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
	"etc/os-release":    "ID=thawpool\nNAME=\"thawpool sandbox\"\nPRETTY_NAME=\"thawpool sandbox\"\n",
}

// rootEntries lists the whole default image: interpreter, compiled standard library, C library, time zones, /etc.
func rootEntries(ctx context.Context, p *interpreter, finder *libcFinder) ([]entry, error) {
	entries, err := p.entries()
	if err != nil {
		return nil, err
	}
	compiled, err := p.compile(ctx, sourcesOf(entries))
	if err != nil {
		return nil, err
	}
	libs, err := libraryEntries(p, entries, finder)
	if err != nil {
		return nil, err
	}
	zones, err := zoneEntries()
	if err != nil {
		return nil, err
	}
	entries = slices.Concat(entries, compiled, libs, zones)
	for _, name := range slices.Sorted(maps.Keys(etcFiles)) {
		entries = append(entries, dataEntry(name, []byte(etcFiles[name])))
	}
	entries = append(entries, linkEntry("bin", "usr/bin"), entry{path: "usr/bin/sleep", mode: 0o755, data: sleepScript},
		dirEntry("root", 0o700), dirEntry("var/tmp", 0o777|fs.ModeSticky))
	return append(entries, mountPoints()...), nil
}

// sourcesOf picks the Python sources among entries.
func sourcesOf(entries []entry) []source {
	var sources []source
	for _, e := range entries {
		if strings.HasSuffix(e.path, ".py") {
			sources = append(sources, source{file: e.from, display: "/" + e.path})
		}
	}
	return sources
}

// libraryEntries brings the host's dynamic linker and the libraries that the interpreter and its modules need. Linkers
// search directories that their distribution chose, so all go into one directory and the others are names for it:
// Fedora's lib64, Debian's multiarch one, whatever directory holds the interpreter named in the executable.
func libraryEntries(p *interpreter, files []entry, finder *libcFinder) ([]entry, error) {
	linker, err := interpreterOf(p.exe())
	if err != nil {
		return nil, err
	}
	objects := []string{p.exe()}
	for _, e := range files {
		if strings.HasSuffix(e.path, ".so") {
			objects = append(objects, e.from)
		}
	}
	libs, err := finder.closure(objects, map[string]bool{path.Base(linker): true})
	if err != nil {
		return nil, err
	}
	known, err := finder.known()
	if err != nil {
		return nil, err
	}
	dynamic, err := finder.find(path.Base(linker))
	if err != nil {
		return nil, noLibc(err)
	}
	byName := map[string]library{dynamic.name: dynamic}
	dirs := map[string]bool{path.Dir(strings.TrimPrefix(linker, "/")): true}
	for _, lib := range slices.Concat(libs, known) {
		byName[lib.name] = lib
	}
	entries := []entry{}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		lib := byName[name]
		if triplet := path.Base(path.Dir(lib.path)); strings.Contains(triplet, "-linux-gnu") {
			dirs[path.Join("usr/lib", triplet)] = true
		}
		entries = append(entries, entry{path: path.Join(libDir, name), mode: 0o755, from: lib.path})
	}
	return append(entries, libraryNames(dirs)...), nil
}

// libraryNames makes every given directory, and lib, lib64 and usr/lib64, a name for libDir.
func libraryNames(dirs map[string]bool) []entry {
	dirs["lib"], dirs["lib64"], dirs["usr/lib64"] = true, true, true
	var links []entry
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		if dir == libDir || strings.HasPrefix(dir, "lib/") {
			continue // lib itself is a name for libDir already
		}
		target, err := filepath.Rel(path.Dir(dir), libDir)
		if err == nil {
			links = append(links, linkEntry(dir, target))
		}
	}
	return links
}

// zoneEntries unpacks the time zone database to where zoneinfo.TZPATH begins.
func zoneEntries() ([]entry, error) {
	archive, err := zip.NewReader(bytes.NewReader(zoneinfo), int64(len(zoneinfo)))
	if err != nil {
		return nil, fmt.Errorf("read the time zone database: %w", err)
	}
	var entries []entry
	for _, file := range archive.File {
		if strings.HasSuffix(file.Name, "/") {
			continue
		}
		data, err := readZipped(file)
		if err != nil {
			return nil, fmt.Errorf("read time zone %s: %w", file.Name, err)
		}
		entries = append(entries, dataEntry(path.Join("usr/share/zoneinfo", file.Name), data))
	}
	return entries, nil
}

func readZipped(file *zip.File) ([]byte, error) {
	r, err := file.Open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	return io.ReadAll(r)
}
