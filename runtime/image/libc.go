package image

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/thawpool/thawpool/runtime"
)

// libcNames are the shared objects that the embedded CPython and its extension modules name as needed, besides the
// ELF interpreter. Since glibc 2.34 all but the first two are empty shells, still named by the binary.
var libcNames = []string{"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1"}

// libcExtras are objects that glibc itself opens by name at run time. Not every host has them and none is needed to
// start: libgcc_s serves pthread_exit and pthread_cancel, libnss_files the look-ups in /etc/passwd before glibc 2.34.
var libcExtras = []string{"libgcc_s.so.1", "libnss_files.so.2"}

// A library is one shared object of the host.
type library struct {
	name string // as programs ask for it, for example "libc.so.6"
	path string // where the host has it, symlinks resolved
}

// A libcFinder resolves library names to files of one machine type, as the host's dynamic linker would.
type libcFinder struct {
	root    string // "/" but in tests
	machine elf.Machine
	class   elf.Class
	cache   map[string][]string // name to paths, from ld.so.cache
}

// newLibcFinder makes a finder for objects that match the running program.
func newLibcFinder(root string) *libcFinder {
	f := &libcFinder{root: root, machine: hostMachine(), class: elf.ELFCLASS64}
	if data, err := os.ReadFile(filepath.Join(root, "etc/ld.so.cache")); err == nil {
		f.cache = parseLDCache(data)
	}
	return f
}

// hostMachine is read from the running binary, so that no table of architectures is needed.
func hostMachine() elf.Machine {
	self, err := elf.Open("/proc/self/exe")
	if err != nil {
		return elf.EM_NONE
	}
	defer func() { _ = self.Close() }()
	return self.Machine
}

// find returns the host's file for a library, or an error that wraps fs.ErrNotExist.
func (f *libcFinder) find(name string) (library, error) {
	for _, candidate := range f.candidates(name) {
		path, err := filepath.EvalSymlinks(filepath.Join(f.root, candidate))
		if err != nil || !f.fits(path) {
			continue
		}
		return library{name: name, path: path}, nil
	}
	return library{}, fmt.Errorf("library %s of the host: %w", name, fs.ErrNotExist)
}

// candidates lists where a library may be: where the linker's cache says, then the directories that the linkers of the
// distributions have built in, with Debian's multiarch ones.
func (f *libcFinder) candidates(name string) []string {
	paths := slices.Clone(f.cache[name])
	for _, pattern := range []string{"lib64", "usr/lib64", "lib/*-linux-gnu*", "usr/lib/*-linux-gnu*", "lib", "usr/lib"} {
		dirs, _ := filepath.Glob(filepath.Join(f.root, pattern)) // the patterns are constant and well-formed
		for _, dir := range dirs {
			rel, err := filepath.Rel(f.root, dir)
			if err == nil {
				paths = append(paths, filepath.Join(rel, name))
			}
		}
	}
	return paths
}

// fits tells whether a file is a shared object for this machine: a host may have libraries of several.
func (f *libcFinder) fits(path string) bool {
	obj, err := elf.Open(path)
	if err != nil {
		return false // also GNU ld scripts, which carry the names of libraries
	}
	defer func() { _ = obj.Close() }()
	return obj.Type == elf.ET_DYN && obj.Machine == f.machine && obj.Class == f.class
}

// known finds the libraries that the embedded CPython is known to need. It reads no Python, so it is quick enough for
// every start.
func (f *libcFinder) known() ([]library, error) {
	var libs []library
	for _, name := range libcNames {
		lib, err := f.find(name)
		if err != nil {
			return nil, noLibc(err)
		}
		libs = append(libs, lib)
	}
	for _, name := range libcExtras {
		lib, err := f.find(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		libs = append(libs, lib)
	}
	return libs, nil
}

// closure finds every library that the given ELF files need, and those that these need in turn. provided are the names
// that come with the files themselves.
func (f *libcFinder) closure(files []string, provided map[string]bool) ([]library, error) {
	seen := map[string]library{}
	queue := slices.Clone(files)
	for len(queue) > 0 {
		file := queue[0]
		queue = queue[1:]
		needed, err := neededBy(file)
		if err != nil {
			return nil, err
		}
		for _, name := range needed {
			base := filepath.Base(name) // a name with a slash, as $ORIGIN/../lib/x.so, is one of the files' own
			if _, ok := seen[base]; ok || provided[base] {
				continue
			}
			lib, err := f.find(base)
			if err != nil {
				return nil, noLibc(fmt.Errorf("%s needs it: %w", filepath.Base(file), err))
			}
			seen[base] = lib
			queue = append(queue, lib.path)
		}
	}
	libs := make([]library, 0, len(seen))
	for _, lib := range seen {
		libs = append(libs, lib)
	}
	slices.SortFunc(libs, func(a, b library) int { return strings.Compare(a.name, b.name) })
	return libs, nil
}

func neededBy(path string) ([]string, error) {
	obj, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read ELF file %s: %w", path, err)
	}
	defer func() { _ = obj.Close() }()
	needed, err := obj.ImportedLibraries()
	if err != nil {
		return nil, fmt.Errorf("read needed libraries of %s: %w", path, err)
	}
	return needed, nil
}

// interpreterOf returns the path of the dynamic linker that an executable asks the kernel for.
func interpreterOf(path string) (string, error) {
	obj, err := elf.Open(path)
	if err != nil {
		return "", fmt.Errorf("read ELF file %s: %w", path, err)
	}
	defer func() { _ = obj.Close() }()
	for _, prog := range obj.Progs {
		if prog.Type != elf.PT_INTERP {
			continue
		}
		data := make([]byte, prog.Filesz)
		if _, err := prog.ReadAt(data, 0); err != nil {
			return "", fmt.Errorf("read the interpreter of %s: %w", path, err)
		}
		return string(bytes.TrimRight(data, "\x00")), nil
	}
	return "", fmt.Errorf("%s is linked statically: it names no interpreter", path)
}

func noLibc(err error) error {
	return runtime.WithHint(fmt.Errorf("make the default image: %w: %w", runtime.ErrImage, err),
		"the default image needs the host's GNU C library (Debian: libc6); on another C library give --image")
}

// ldCacheMagic begins the cache format that every glibc since 2.2 writes. Up to glibc 2.31 an older table may stand
// before it, so it is searched for.
var ldCacheMagic = []byte("glibc-ld.so.cache1.1")

// Sizes of that format, from glibc's sysdeps/generic/dl-cache.h: struct cache_file_new and struct file_entry_new.
const (
	ldCacheHeader = 48
	ldCacheEntry  = 24
)

// parseLDCache reads the names and paths in ld.so.cache. A cache that makes no sense gives fewer entries, never an
// error: the standard directories are searched as well.
func parseLDCache(data []byte) map[string][]string {
	start := bytes.Index(data, ldCacheMagic)
	if start < 0 || len(data)-start < ldCacheHeader {
		return nil
	}
	data = data[start:]
	found := map[string][]string{}
	count := int(binary.NativeEndian.Uint32(data[len(ldCacheMagic):]))
	for i := range count {
		at := ldCacheHeader + i*ldCacheEntry
		if at+ldCacheEntry > len(data) {
			break
		}
		if binary.NativeEndian.Uint64(data[at+16:]) != 0 {
			continue // built for a newer processor of the family; the plain one always works
		}
		name, ok1 := cString(data, binary.NativeEndian.Uint32(data[at+4:]))
		path, ok2 := cString(data, binary.NativeEndian.Uint32(data[at+8:]))
		if ok1 && ok2 {
			found[name] = append(found[name], path)
		}
	}
	return found
}

// cString reads the NUL-ended string at an offset.
func cString(data []byte, offset uint32) (string, bool) {
	if int64(offset) >= int64(len(data)) {
		return "", false
	}
	text, _, ok := bytes.Cut(data[offset:], []byte{0})
	return string(text), ok
}
